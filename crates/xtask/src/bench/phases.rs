//! The phases of a measurement, in their order.
//!
//! 1. The floor, while nothing else runs.
//! 2. A few runs that are not measured: connections, caches, statements.
//! 3. One run in flight.
//! 4. 64 in flight; CPU time, commits and messages are counted over this phase.
//! 5. 64 in flight while statements are counted, which is slower.
//! 6. Reading one run over gRPC and over HTTP/JSON, in turns.
//! 7. Memory; then many runs that wait for a decision; memory again; then some of them go on, one
//!    at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::MANY;
use super::database::Statements;
use super::drive::{Door, Held, Principals, STAGES, Took};
use super::floor::Floor;
use super::house::{Counts, Cpu, House};
use super::quantile::Latencies;
use super::read::{self, Reads};
use crate::process::Processes;

/// Runs that share a connection.
const RUNS_A_CONNECTION: usize = 16;
/// How many of the waiting runs go on, one at a time.
const RESUMED: usize = 50;
/// How long the services may rest before their memory is read: what they free late, they have
/// freed by then.
const REST: Duration = Duration::from_secs(3);

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Runs with 64 in flight.
    pub(super) runs: usize,
    /// Runs that wait while memory is read; 0 leaves that out.
    pub(super) paused: usize,
    /// Seconds for each of the floor's two rates.
    pub(super) floor_seconds: u32,
}

/// Everything that was measured.
pub(super) struct Measured {
    pub(super) floor: Floor,
    /// Memory before the first run, in MiB.
    pub(super) idle_mib: f64,
    pub(super) one: Phase,
    pub(super) many: Phase,
    pub(super) counted: Option<Counted>,
    pub(super) reads: Reads,
    pub(super) paused: Option<Paused>,
}

/// Gated runs with so many in flight.
pub(super) struct Phase {
    pub(super) runs: usize,
    pub(super) took: Duration,
    /// From asking for the decision to seeing the completion.
    pub(super) approved_to_done: Latencies,
    /// From asking for the decision to seeing each step on the way.
    pub(super) stages: Vec<(&'static str, Latencies)>,
    /// CPU seconds by who used them.
    pub(super) cpu: Cpu,
    /// What database and bus counted before and after.
    pub(super) counts: Option<(Counts, Counts)>,
}

/// Statements of so many runs.
pub(super) struct Counted {
    pub(super) runs: usize,
    pub(super) statements: Statements,
}

/// Runs that waited.
pub(super) struct Paused {
    pub(super) runs: usize,
    /// Memory before they were started, in MiB.
    pub(super) before_mib: f64,
    /// Memory while they wait, in MiB.
    pub(super) after_mib: f64,
    /// Going on with one of them, as [`Phase::approved_to_done`].
    pub(super) resume: Latencies,
}

/// Runs all phases.
pub(super) fn measure(processes: &Processes, house: &House, plan: &Plan) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the driver")?;
    eprintln!("bench: the floor");
    let floor = house.floor(processes, plan.floor_seconds)?;
    let idle_mib = house.resident_mib()?;
    let crowd = Crowd::meet(processes, house, runtime)?;
    eprintln!("bench: warming up");
    crowd.gated_runs(plan.runs / 8, MANY)?;
    eprintln!("bench: {} runs, 1 in flight", plan.runs / 8);
    let one = crowd.phase(house, plan.runs / 8, 1)?;
    eprintln!("bench: {} runs, {MANY} in flight", plan.runs);
    let many = crowd.phase(house, plan.runs, MANY)?;
    let counted = crowd.counted(house, plan.runs / 8)?;
    eprintln!("bench: {} reads over gRPC and over HTTP/JSON", plan.runs);
    let door = crowd.doors.first().context("there is a door")?;
    let reads = read::measure(house, &crowd.runtime, door, plan.runs)?;
    let paused = (plan.paused > 0)
        .then(|| crowd.paused(house, plan.paused))
        .transpose()?;
    Ok(Measured {
        floor,
        idle_mib,
        one,
        many,
        counted,
        reads,
        paused,
    })
}

/// The clients, and what they run on: one thread, so that they leave the cores to what is measured.
struct Crowd {
    processes: Processes,
    runtime: Runtime,
    doors: Vec<Door>,
}

impl Crowd {
    fn meet(processes: &Processes, house: &House, runtime: Runtime) -> Result<Self> {
        let doors = runtime.block_on(async {
            let principals =
                Principals::set_up(&house.address, &house.admin, &house.bundle).await?;
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

    fn phase(&self, house: &House, runs: usize, in_flight: usize) -> Result<Phase> {
        let counted = house.counts()?;
        let before = house.cpu()?;
        let (took, each) = self.gated_runs(runs, in_flight)?;
        let after = house.cpu()?;
        let counts = match (counted, house.counts()?) {
            (Some(before), Some(after)) => Some((before, after)),
            (Some(_), None) | (None, _) => None,
        };
        let cpu = before
            .iter()
            .zip(after)
            .map(|((who, before), (_, after))| (*who, after - before))
            .collect();
        Ok(Phase {
            runs,
            took,
            approved_to_done: all(&each),
            stages: stages(&each),
            cpu,
            counts,
        })
    }

    fn counted(&self, house: &House, runs: usize) -> Result<Option<Counted>> {
        let Some(bookkeeper) = house.bookkeeper() else {
            return Ok(None);
        };
        if !bookkeeper.count_statements()? {
            eprintln!("bench: pg_stat_statements is not there: statements are not counted");
            return Ok(None);
        }
        eprintln!("bench: {runs} runs, {MANY} in flight, statements counted");
        self.gated_runs(runs, MANY)?;
        let statements = bookkeeper.statements()?;
        Ok(Some(Counted { runs, statements }))
    }

    fn paused(&self, house: &House, runs: usize) -> Result<Paused> {
        let before_mib = self.rested(house)?;
        eprintln!("bench: {runs} runs that wait for a decision");
        let (_, held) = self.each(runs, MANY, async |door| door.pause().await)?;
        let after_mib = self.rested(house)?;
        eprintln!("bench: {} of them go on, 1 in flight", RESUMED.min(runs));
        let resume = self.resume(held)?;
        Ok(Paused {
            runs,
            before_mib,
            after_mib,
            resume: all(&resume),
        })
    }

    fn rested(&self, house: &House) -> Result<f64> {
        std::thread::sleep(REST);
        self.processes.go_on()?;
        house.resident_mib()
    }

    /// Takes them from all over the line: neither the oldest nor the newest alone.
    fn resume(&self, mut held: Vec<Held>) -> Result<Vec<Took>> {
        let mut door = self.doors.first().context("there is a door")?.clone();
        let mut took = Vec::new();
        let step = (held.len() / RESUMED).max(1);
        for at in (0..held.len()).rev().step_by(step).take(RESUMED) {
            self.processes.go_on()?;
            let one = held.swap_remove(at);
            took.push(self.runtime.block_on(door.resume(one))?);
        }
        Ok(took)
    }

    fn gated_runs(&self, runs: usize, in_flight: usize) -> Result<(Duration, Vec<Took>)> {
        self.each(runs, in_flight, async |door| door.gated_run().await)
    }

    /// Does something `count` times, `in_flight` at once. The time is from the first beginning to
    /// the last end.
    fn each<T, F>(&self, count: usize, in_flight: usize, act: F) -> Result<(Duration, Vec<T>)>
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
}

fn all(each: &[Took]) -> Latencies {
    Latencies::of(each.iter().map(|took| took.all).collect())
}

fn stages(each: &[Took]) -> Vec<(&'static str, Latencies)> {
    STAGES
        .into_iter()
        .enumerate()
        .map(|(at, stage)| {
            let reached = each.iter().map(|took| took.stages[at]).collect();
            (stage, Latencies::of(reached))
        })
        .collect()
}
