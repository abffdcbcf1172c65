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

use std::time::Duration;

use anyhow::Result;

use super::MANY;
use super::crowd::Crowd;
use super::database::Statements;
use super::drive::{STAGES, Took};
use super::floor::Floor;
use super::house::{Counts, Cpu, House};
use super::paused::{self, Paused};
use super::quantile::Latencies;
use super::read::{self, Reads};
use crate::process::Processes;

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

/// Runs all phases.
pub(super) fn measure(processes: &Processes, house: &House, plan: &Plan) -> Result<Measured> {
    eprintln!("bench: the floor");
    let floor = house.floor(processes, plan.floor_seconds)?;
    let idle_mib = house.resident_mib()?;
    let crowd = Crowd::meet(processes, house)?;
    eprintln!("bench: warming up");
    crowd.gated_runs(plan.runs / 8, MANY)?;
    eprintln!("bench: {} runs, 1 in flight", plan.runs / 8);
    let one = phase(&crowd, house, plan.runs / 8, 1)?;
    eprintln!("bench: {} runs, {MANY} in flight", plan.runs);
    let many = phase(&crowd, house, plan.runs, MANY)?;
    let counted = counted(&crowd, house, plan.runs / 8)?;
    eprintln!("bench: {} reads over gRPC and over HTTP/JSON", plan.runs);
    let reads = read::measure(house, &crowd, plan.runs)?;
    let paused = (plan.paused > 0)
        .then(|| paused::measure(&crowd, house, plan.paused))
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

fn phase(crowd: &Crowd, house: &House, runs: usize, in_flight: usize) -> Result<Phase> {
    let counted = house.counts()?;
    let before = house.cpu()?;
    let (took, each) = crowd.gated_runs(runs, in_flight)?;
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

fn counted(crowd: &Crowd, house: &House, runs: usize) -> Result<Option<Counted>> {
    let Some(bookkeeper) = house.bookkeeper() else {
        return Ok(None);
    };
    if !bookkeeper.count_statements()? {
        eprintln!("bench: pg_stat_statements is not there: statements are not counted");
        return Ok(None);
    }
    eprintln!("bench: {runs} runs, {MANY} in flight, statements counted");
    crowd.gated_runs(runs, MANY)?;
    let statements = bookkeeper.statements()?;
    Ok(Some(Counted { runs, statements }))
}

pub(super) fn all(each: &[Took]) -> Latencies {
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
