//! The clients of a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::MANY;
use super::drive::{Door, Principals, Took};
use super::house::House;
use crate::process::Processes;

/// Runs that share a connection.
const RUNS_A_CONNECTION: usize = 16;

/// The clients, and what they run on: one thread, so that they leave the cores to what is measured.
pub(super) struct Crowd {
    pub(super) processes: Processes,
    runtime: Runtime,
    doors: Vec<Door>,
}

impl Crowd {
    /// Makes the principals, deploys the agents and connects.
    pub(super) fn meet(processes: &Processes, house: &House) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the driver")?;
        let doors = runtime.block_on(async {
            let principals =
                Principals::set_up(&house.address, &house.admin, &house.bundles).await?;
            let mut doors = Vec::new();
            for _ in 0..MANY / RUNS_A_CONNECTION {
                doors.push(principals.connect(&house.address).await?);
            }
            anyhow::Ok(doors)
        })?;
        Ok(Self {
            processes: processes.clone(),
            runtime,
            doors,
        })
    }

    /// Gated runs: how long they took in all, and each.
    pub(super) fn gated_runs(
        &self,
        runs: usize,
        in_flight: usize,
    ) -> Result<(Duration, Vec<Took>)> {
        self.each(runs, in_flight, async |door| door.gated_run().await)
    }

    /// Does something `count` times, `in_flight` at once. The time is from the first beginning to
    /// the last end.
    pub(super) fn each<T, F>(
        &self,
        count: usize,
        in_flight: usize,
        act: F,
    ) -> Result<(Duration, Vec<T>)>
    where
        T: 'static,
        F: AsyncFn(&mut Door) -> Result<T> + Clone + 'static,
    {
        let taken = Arc::new(AtomicUsize::new(0));
        let local = tokio::task::LocalSet::new();
        let work = async {
            let began = Instant::now();
            let mut clients = JoinSet::new();
            for client in 0..in_flight {
                let mut door = self.doors[client / RUNS_A_CONNECTION].clone();
                let (taken, act) = (Arc::clone(&taken), act.clone());
                clients.spawn_local(async move {
                    let mut done = Vec::new();
                    while taken.fetch_add(1, Ordering::Relaxed) < count {
                        done.push(act(&mut door).await?);
                    }
                    anyhow::Ok(done)
                });
            }
            let mut all = Vec::with_capacity(count);
            let mut look = tokio::time::interval(Duration::from_millis(200));
            loop {
                tokio::select! {
                    client = clients.join_next() => match client {
                        Some(done) => all.extend(done.context("a client broke")??),
                        None => break,
                    },
                    _ = look.tick() => self.processes.go_on()?,
                }
            }
            Ok((began.elapsed(), all))
        };
        local.block_on(&self.runtime, work)
    }

    /// Does something through the first connection.
    pub(super) fn one<T>(&self, act: impl AsyncFnOnce(&mut Door) -> Result<T>) -> Result<T> {
        let mut door = self.doors.first().context("there is a door")?.clone();
        self.runtime.block_on(act(&mut door))
    }
}
