//! What a wake-up makes a worker do.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use sayso_driver::{Driven, Driver, Herald, Journal, Models, Policy, Tools};
use sayso_run::RunId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::holds::Holds;

/// Drives a run that was entered into `holds`, until nobody has written to it since its hold looked
/// for the last time. `answer` is called once, as soon as it is clear what becomes of the wake-up:
/// when the claim is durable, or when there is nothing to claim. `beside` is given what is to
/// be done while the run waits.
pub async fn attend<J: Journal, M: Models, T: Tools, P: Policy, H: Herald>(
    driver: &Arc<Driver<J, M, T, P, H>>,
    holds: &Holds,
    run: &RunId,
    mut nudges: mpsc::Receiver<()>,
    answer: impl FnOnce(&Driven) + Send + 'static,
    beside: impl Fn(BoxFuture<'static, ()>) + Sync,
    drain: CancellationToken,
) {
    let answer = Mutex::new(Some(answer));
    let tell = |driven: &Driven| {
        let untold = answer
            .lock()
            .expect("no code panics while it holds the answer")
            .take();
        if let Some(answer) = untold {
            answer(driven);
        }
    };
    loop {
        let claimed = || tell(&Driven::Parked);
        let driving = driver.drive(run, &mut nudges, holds.lane(), claimed, drain.clone());
        let driven = driving.await;
        match &driven {
            Driven::LeftAlone(why) => tracing::error!(%run, why, "the run is left alone"),
            Driven::Unavailable(why) => tracing::warn!(%run, why, "the run is tried again later"),
            Driven::Parked
            | Driven::Held
            | Driven::NothingOwed
            | Driven::Paused
            | Driven::NotFound
            | Driven::HeldElsewhere
            | Driven::Lost => {
                tracing::debug!(%run, ?driven, "driven");
            }
        }
        tell(&driven);
        if driven == Driven::Held {
            beside(Arc::clone(driver).write_summaries(run.clone()).boxed());
        }
        if holds.leave(run, &mut nudges) || drain.is_cancelled() {
            return;
        }
    }
}
