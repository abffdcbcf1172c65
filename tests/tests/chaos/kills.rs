//! Executors are killed in waves of runs whose calls are in flight.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::stream;
use sayso_tests::{Case, Timeline, on_runtime, until};
use sayso_wire::v1::{ApprovalStatus, Run, RunStatus};
use serde_json::json;
use tokio::time::Instant;

use crate::{SHAPE, careful, idempotent, number, options};

/// A kill counts if so many calls were in flight.
const ENOUGH: usize = 8;

/// How many calls were in flight when a worker died: those that a takeover found without a result.
async fn in_flight(case: &Case, runs: &[String]) -> usize {
    let timelines = stream::iter(runs)
        .map(|run| case.app.timeline(run))
        .buffer_unordered(16)
        .collect::<Vec<_>>()
        .await;
    timelines.iter().map(interrupted).sum()
}

fn interrupted(timeline: &Timeline) -> usize {
    let Some(taken_over) = timeline.of("taken_over").first().map(|step| step.sequence) else {
        return 0;
    };
    let before = |kind: &str| {
        let steps = timeline.of(kind);
        steps
            .iter()
            .filter(|step| step.sequence < taken_over)
            .count()
    };
    before("tool_started") - before("tool_result")
}

/// Waits for a run's end, whichever it is.
async fn ended(case: &Case, run: &str) -> Run {
    until(&format!("{run} to end"), async || {
        let now = case.sub.try_run(run).await.ok()?;
        now.ended_at.is_some().then_some(now)
    })
    .await
}

/// Waits for a run's end; a failed one must name what was in flight, and is retried.
pub(crate) async fn settle(case: &Case, run: &str, may_fail: bool) {
    loop {
        let ended = ended(case, run).await;
        if ended.status() == RunStatus::Completed {
            return;
        }
        let timeline = case.app.timeline(run).await;
        assert!(may_fail, "{run} has to complete by itself: {timeline:#?}");
        assert_eq!(ended.status(), RunStatus::Failed);
        assert_eq!(ended.failure.unwrap().code, "run.interrupted");
        let unknown = &timeline.0.last().unwrap().content["unknown"];
        assert_eq!(*unknown, json!(["call_1_1"]), "{timeline:#?}");
        case.sub
            .retry(run)
            .await
            .expect("a failed run can be retried");
    }
}

/// The invariants of one wave.
pub(crate) async fn check(case: &Case, runs: &[String]) {
    let mut written = BTreeMap::<String, usize>::new();
    for entry in case.ledger.entries() {
        *written.entry(entry.key).or_default() += 1;
    }
    for run in runs {
        let timeline = case.app.timeline(run).await;
        let times = written
            .get(&format!("{run}:call_1_1"))
            .copied()
            .unwrap_or(0);
        assert!(
            times <= 1,
            "{run} ran its call {times} times: {timeline:#?}"
        );
        let approved = timeline.of("tool_approved");
        assert_eq!(approved.len(), 1, "{run}: {timeline:#?}");
        let started = timeline.of("tool_started");
        assert!(
            started
                .iter()
                .all(|step| step.sequence > approved[0].sequence)
        );
        let id = approved[0].content["approval"].as_str().unwrap();
        assert_eq!(
            case.app.approval(id).await.unwrap().status(),
            ApprovalStatus::Approved
        );
        let verified = case.app.verify(run).await.result.unwrap();
        assert!(
            matches!(
                verified,
                sayso_wire::v1::verify_run_response::Result::Verified(_)
            ),
            "{verified:?}"
        );
    }
}

/// One wave: start, wait until all are held, approve all while an executor is killed; how many calls
/// were in flight then.
async fn wave(case: &Case, agent: &str, size: usize, victim: usize) -> usize {
    let runs: Vec<String> = stream::iter(0..size)
        .map(|_| case.sub.start(agent, "go"))
        .buffered(16)
        .collect()
        .await;
    let held: Vec<_> = stream::iter(&runs)
        .map(async |run| case.app.held(run, 1).await.remove(0))
        .buffer_unordered(16)
        .collect()
        .await;
    let before = case.ledger.entries().len();
    let approve = async {
        stream::iter(&held)
            .map(|approval| case.app.approve(approval))
            .buffer_unordered(size)
            .collect::<Vec<()>>()
            .await;
    };
    let kill = async {
        until("calls to run", async || {
            (case.ledger.entries().len() > before + size / 8).then_some(())
        })
        .await;
        case.executor(victim).kill();
        Instant::now()
    };
    let ((), killed) = tokio::join!(approve, kill);
    let all = stream::iter(&runs)
        .map(|run| ended(case, run))
        .buffer_unordered(16)
        .collect::<Vec<_>>()
        .await;
    let waited = killed.elapsed();
    case.executor(victim).start();
    case.ready().await;
    let failed = all
        .iter()
        .filter(|run| run.status() == RunStatus::Failed)
        .count();
    let open = in_flight(case, &runs).await;
    println!(
        "{agent}: an executor was killed with {open} calls in flight; every run had gone on and ended \
         after {waited:?}, {failed} of {size} as interrupted"
    );
    let may_fail = agent == "careful";
    stream::iter(&runs)
        .map(|run| settle(case, run, may_fail))
        .buffer_unordered(16)
        .collect::<Vec<()>>()
        .await;
    check(case, &runs).await;
    open
}

/// Executors are killed while they act, until enough of them have died with calls in flight.
#[test]
fn killed_executors_run_nothing_twice_and_lose_nothing() {
    on_runtime(async {
        let case = Case::alone(SHAPE, options()).await;
        case.deploy(&careful()).await;
        case.deploy(&idempotent()).await;
        let wanted = number("SAYSO_TEST_CHAOS_KILLS", 3);
        let size = number("SAYSO_TEST_CHAOS_WAVE", 200);
        let mut kills = 0;
        let mut agents = ["careful", "careful", "idempotent"].into_iter().cycle();
        while kills < wanted {
            let agent = agents.next().expect("a cycle has no end");
            let open = wave(&case, agent, size, kills % 2).await;
            kills += usize::from(open >= ENOUGH);
        }
        println!("{kills} kills with {ENOUGH} or more calls in flight");
    });
}
