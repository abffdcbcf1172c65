//! What a full inbox costs: reading a page of it, and deciding, while few and while many wait.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::MANY;
use super::crowd::Crowd;
use super::drive::Took;
use super::floor::Floor;
use super::house::House;
use super::paused::all_rest;
use super::phases;
use super::quantile::Latencies;

/// Approvals that wait where few do.
const FEW: usize = 10;
/// Rounds of gated runs in which the spread of their latency is taken.
const ROUNDS: usize = 5;
/// Gated runs of a round.
const RUNS: usize = 200;
/// Times that a page is read.
const PAGES: usize = 400;
/// Seconds for each of the floor's two rates.
const FLOOR_SECONDS: u32 = 3;

/// What was measured.
pub(super) struct Inbox {
    pub(super) floor: Floor,
    /// Approvals that wait in the end.
    pub(super) waiting: usize,
    /// 99th percentile of approve-to-done over its median, one in flight: the median of the rounds.
    pub(super) spread: f64,
    /// One decision, from asking to the answer, while few wait.
    pub(super) decide_among_few: Latencies,
    /// The same while many do.
    pub(super) decide_among_many: Latencies,
    /// One page of the list, while many wait.
    pub(super) page: Latencies,
}

/// Measures with so many approvals that wait.
pub(super) fn measure(crowd: &Crowd, house: &House, waiting: usize) -> Result<Inbox> {
    let floor = house.floor(&crowd.processes, FLOOR_SECONDS)?;
    eprintln!("bench: {ROUNDS} rounds, {FEW} approvals wait");
    wait(crowd, FEW)?;
    crowd.gated_runs(RUNS, 1)?;
    let mut rounds = Vec::new();
    let mut few = Vec::new();
    for _ in 0..ROUNDS {
        let (_, round) = crowd.gated_runs(RUNS, 1)?;
        let took = phases::all(&round);
        rounds.push(took.quantile(0.99) / took.quantile(0.5));
        few.extend(round);
    }
    rounds.sort_by(f64::total_cmp);
    eprintln!("bench: {waiting} approvals wait");
    wait(crowd, waiting.saturating_sub(FEW))?;
    crowd.gated_runs(RUNS, 1)?;
    let (_, many) = crowd.gated_runs(RUNS * ROUNDS, 1)?;
    eprintln!("bench: {PAGES} pages are read");
    let page = pages(crowd)?;
    Ok(Inbox {
        floor,
        waiting,
        spread: rounds[ROUNDS / 2],
        decide_among_few: decided(&few),
        decide_among_many: decided(&many),
        page,
    })
}

/// Starts runs and leaves them where they wait.
fn wait(crowd: &Crowd, runs: usize) -> Result<()> {
    crowd.each(runs, MANY, async |door| door.begin().await)?;
    crowd.one(async |door| all_rest(door).await)?;
    Ok(())
}

fn decided(each: &[Took]) -> Latencies {
    Latencies::of(each.iter().map(|took| took.decided).collect())
}

/// One page after the other, from the front again at the end.
fn pages(crowd: &Crowd) -> Result<Latencies> {
    crowd.one(async |door| {
        let (mut took, mut after): (Vec<Duration>, String) = (Vec::new(), String::new());
        for read in 0..=PAGES {
            let asked = Instant::now();
            let (approvals, next) = door.page(after).await?;
            // The first one prepares statements.
            if read > 0 {
                took.push(asked.elapsed());
            }
            ensure!(approvals > 0, "a page has something on it");
            after = next;
        }
        Ok(Latencies::of(took))
    })
}
