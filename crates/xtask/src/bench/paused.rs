//! What runs cost that wait for a person: the memory of each process, and how fast one of them goes on,
//! before and while they wait, in the same processes.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::MANY;
use super::crowd::Crowd;
use super::drive::{Door, Held, Took};
use super::house::{House, Memory};
use super::phases;
use super::quantile::Latencies;

/// How many runs go on, one at a time, before and after.
const RESUMED: usize = 200;
/// Runs that are started and cancelled before memory is read for the first time, in the way in which
/// those that stay are started: connections, caches, statements and what a burst needs are there.
const WARM: usize = 8192;
/// How long the services may rest before their memory is read: what they free late, they have
/// freed by then.
const REST: Duration = Duration::from_secs(3);
/// How long all of them may take to come to rest after the last was started.
const SETTLE: Duration = Duration::from_secs(600);
/// How long a look at them may be old.
const LOOK: Duration = Duration::from_millis(200);

/// Runs that waited.
pub(super) struct Paused {
    pub(super) runs: usize,
    /// From the first start to the last run at rest.
    pub(super) took: Duration,
    /// Memory of each process before they were started.
    pub(super) before: Memory,
    /// Memory while they wait.
    pub(super) after: Memory,
    /// Going on with a run that waits, before, from asking for the decision to the completion.
    pub(super) resume_before: Latencies,
    /// The same while they wait, with some of them.
    pub(super) resume_after: Latencies,
}

/// Measures with so many runs that wait.
pub(super) fn measure(crowd: &Crowd, house: &House, runs: usize) -> Result<Paused> {
    eprintln!("bench: warming up");
    crowd.gated_runs(RESUMED.min(runs), MANY)?;
    let (_, warm) = crowd.each(WARM.min(runs), MANY, async |door| door.begin().await)?;
    crowd.one(async |door| all_rest(door).await)?;
    let (count, warm) = (warm.len(), Rc::new(RefCell::new(warm)));
    let cancel = async move |door: &mut Door| {
        let run = warm.borrow_mut().pop();
        door.cancel(&run.context("there is one a cancel")?).await
    };
    crowd.each(count, MANY, cancel)?;
    let (_, held) = crowd.each(RESUMED.min(runs), MANY, async |door| door.pause().await)?;
    let resume_before = resume(crowd, held)?;
    let before = rested(crowd, house)?;
    eprintln!("bench: {runs} runs that wait for a decision");
    let (started, begun) = crowd.each(runs, MANY, async |door| door.begin().await)?;
    let settled = crowd.one(async |door| all_rest(door).await)?;
    let after = rested(crowd, house)?;
    let some = spread(begun, RESUMED);
    eprintln!("bench: {} of them go on, 1 in flight", some.len());
    let mut held = Vec::new();
    for run in some {
        held.push(crowd.one(async |door| door.find_held(run).await)?);
    }
    let resume_after = resume(crowd, held)?;
    Ok(Paused {
        runs,
        took: started + settled,
        before,
        after,
        resume_before: phases::all(&resume_before),
        resume_after: phases::all(&resume_after),
    })
}

fn rested(crowd: &Crowd, house: &House) -> Result<Memory> {
    std::thread::sleep(REST);
    crowd.processes.go_on()?;
    house.memory()
}

/// Waits until no run is to be worked on; how long that took.
pub(super) async fn all_rest(door: &mut Door) -> Result<Duration> {
    let began = std::time::Instant::now();
    while door.any_at_work().await? {
        ensure!(
            began.elapsed() < SETTLE,
            "runs are still worked on after {} s",
            SETTLE.as_secs()
        );
        tokio::time::sleep(LOOK).await;
    }
    Ok(began.elapsed())
}

/// So many from all over the line: neither the oldest nor the newest alone.
fn spread(all: Vec<String>, count: usize) -> Vec<String> {
    let step = (all.len() / count).max(1);
    all.into_iter().step_by(step).take(count).collect()
}

fn resume(crowd: &Crowd, held: Vec<Held>) -> Result<Vec<Took>> {
    let mut took = Vec::new();
    for one in held {
        crowd.processes.go_on()?;
        let resumed = crowd.one(async |door| door.resume(one).await);
        took.push(resumed.context("a run that waited does not go on")?);
    }
    Ok(took)
}
