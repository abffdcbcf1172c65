//! How long runs stand still when their worker is killed: until another worker goes on with them, and
//! until the worker's own next start does.
//!
//! Each round has one executor with some runs, all in the middle of a model's answer. It is killed, and
//! each run is watched until it shows that a worker has taken it over.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::drive::{Door, Principals};
use super::house::{EXECUTORS, House};
use super::quantile::Latencies;
use crate::process::Processes;

/// Runs that an executor holds when it is killed.
const HELD: usize = 8;

/// How long runs stood still, each of each kill.
pub(super) struct Kills {
    pub(super) kills: usize,
    pub(super) runs_a_kill: usize,
    /// Another worker was there.
    pub(super) elsewhere: Latencies,
    /// The worker was started again at once.
    pub(super) restarted: Latencies,
}

/// Kills so often each way.
pub(super) fn measure(processes: &Processes, house: &mut House, kills: usize) -> Result<Kills> {
    let watching = Watching::begin(house)?;
    let [first, second] = EXECUTORS;
    let mut elsewhere = Vec::new();
    for round in 0..kills {
        let (victim, heir) = if round % 2 == 0 {
            (first, second)
        } else {
            (second, first)
        };
        eprintln!(
            "bench: kill {} of {kills}; another worker goes on",
            round + 1
        );
        let held = watching.hold()?;
        house.start_again(processes, heir)?;
        let killed = Instant::now();
        house.kill(victim)?;
        elsewhere.extend(watching.gone_on(held, killed)?);
    }
    if kills % 2 == 1 {
        house.start_again(processes, first)?;
        house.kill(second)?;
    }
    let mut restarted = Vec::new();
    for round in 0..kills {
        eprintln!(
            "bench: kill {} of {kills}; its own next start goes on",
            round + 1
        );
        let held = watching.hold()?;
        let killed = Instant::now();
        house.kill(first)?;
        house.start_again(processes, first)?;
        restarted.extend(watching.gone_on(held, killed)?);
    }
    Ok(Kills {
        kills,
        runs_a_kill: HELD,
        elsewhere: Latencies::of(elsewhere),
        restarted: Latencies::of(restarted),
    })
}

/// Runs that a worker holds, each watched; when a takeover was seen.
struct Held {
    runs: Vec<String>,
    watches: JoinSet<Result<Instant>>,
}

/// Watches on a thread of their own: killing and starting takes this one's time.
struct Watching {
    runtime: Runtime,
    door: Door,
}

impl Watching {
    fn begin(house: &House) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start the driver")?;
        let door = runtime.block_on(async {
            let principals =
                Principals::set_up(&house.address, &house.admin, &house.bundles).await?;
            principals.connect(&house.address).await
        })?;
        Ok(Self { runtime, door })
    }

    /// Starts runs and waits until a worker has them.
    fn hold(&self) -> Result<Held> {
        self.runtime.block_on(async {
            let mut held = Held {
                runs: Vec::new(),
                watches: JoinSet::new(),
            };
            for _ in 0..HELD {
                let (run, watch) = self.door.clone().start_slow().await?;
                held.runs.push(run);
                held.watches.spawn(watch.taken_over());
            }
            Ok(held)
        })
    }

    /// Waits until all were taken over, and cancels them.
    fn gone_on(&self, mut held: Held, killed: Instant) -> Result<Vec<Duration>> {
        self.runtime.block_on(async {
            let mut stood = Vec::new();
            while let Some(seen) = held.watches.join_next().await {
                stood.push(seen.context("a watch broke")??.duration_since(killed));
            }
            for run in held.runs {
                self.door.clone().cancel(&run).await?;
            }
            Ok(stood)
        })
    }
}
