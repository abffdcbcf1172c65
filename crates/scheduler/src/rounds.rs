//! The rounds of this scheduler: every sweep, then due schedules and budgets.

use std::fmt::Display;
use std::time::Instant;

use sayso_engine::Sweeper;

use crate::{Scheduler, budgets, ticks};

/// Sweeps for ever.
pub(crate) async fn sweep(scheduler: &Scheduler) {
    let (store, herald, key) = scheduler.pen();
    let mut sweeper = Sweeper::new(store, herald, key, &scheduler.config);
    let mut ticks = tokio::time::interval(scheduler.config.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let start = Instant::now();
    loop {
        ticks.tick().await;
        sweeper.round(|| start.elapsed()).await;
        report("due schedules", ticks::start_due(scheduler).await);
        report("budgets", budgets::announce(scheduler).await);
    }
}

fn report<E: Display>(what: &str, swept: Result<(), E>) {
    if let Err(error) = swept {
        tracing::warn!(%error, "the sweep for {what} failed; it comes again");
    }
}
