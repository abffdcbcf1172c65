//! Six processes and a second executor on real NATS and Postgres, executors killed without warning
//! while runs are approved and tools act, and every window that the driver's hooks name.
//!
//! What must hold, whatever is killed when: no call stands twice in the ledger and none unapproved; no
//! approval is lost; every run ends completed, or failed naming the calls in flight at the kill, and
//! completes after a retry. With an idempotent tool every run completes by itself.
//!
//! 5 kills with 8 or more calls in flight, or as many as `SAYSO_TEST_CHAOS_KILLS` says, in waves of 200
//! runs, or as many as `SAYSO_TEST_CHAOS_WAVE` says; `cargo xtask chaos` runs 40.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use sayso_tests::{Bundle, Case, Options, Shape, Timeline, on_runtime, until};
use sayso_wire::v1::{ApprovalStatus, Run, RunStatus};
use serde_json::json;
use tokio::time::Instant;

const SHAPE: Shape = Shape::Apart {
    executors: 2,
    gateways: 1,
};

const SCRIPTS: [(&str, &str); 2] = [
    (
        "careful",
        "turns:
  - calls: [{tool: ledger.append, args: {n: 1, sleep_ms: 20}}]
  - text: done",
    ),
    (
        "idempotent",
        "turns:
  - calls: [{tool: ledger.append_once, args: {n: 1, sleep_ms: 20}}]
  - text: done",
    ),
];

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn options() -> Options {
    SCRIPTS
        .iter()
        .fold(Options::new(), |options, (name, script)| {
            options.script(name, script)
        })
}

fn careful() -> Bundle {
    Bundle::new("careful")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

fn idempotent() -> Bundle {
    Bundle::new("idempotent")
        .ledger("ledger", "append_once")
        .ask("ledger.append_once")
        .tool("ledger.append_once", json!({"idempotent": true}))
}

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
async fn settle(case: &Case, run: &str, may_fail: bool) {
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
async fn check(case: &Case, runs: &[String]) {
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
        let wanted = number("SAYSO_TEST_CHAOS_KILLS", 5);
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

/// The windows that the driver names.
const WINDOWS: [&str; 5] = [
    "driver.before_append",
    "driver.before_flush",
    "driver.before_send",
    "driver.after_send",
    "driver.before_park",
];

/// One run through a forced fault at a window: the first executor has the hook and takes the run, the
/// second one comes when the first is gone.
async fn through(case: &Case, agent: &str, hook: &str) {
    let (first, second) = (case.executor(0), case.executor(1));
    first.kill();
    second.kill();
    first.set("SAYSO_HOOKS", Some(hook));
    first.start();
    let run = case.sub.start(agent, "go").await;
    let mut approved = false;
    let mut resumed = false;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline, "{hook}: {run} does not end");
        let now = case.sub.run(&run).await;
        if now.ended_at.is_some() {
            break;
        }
        if !approved && let Some(approval) = case.app.pending(&run).await.pop() {
            case.app.approve(&approval).await;
            approved = true;
        }
        let gone = !first.is_running() || first.is_frozen();
        if gone && !resumed {
            second.start();
            resumed = true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    settle(case, &run, agent == "careful").await;
    assert!(resumed, "{hook} is passed");
    if first.is_running() {
        first.thaw();
    }
    let next = case.sub.start(agent, "again").await;
    let held = case.app.held(&next, 1).await.remove(0);
    case.app.approve(&held).await;
    settle(case, &next, true).await;
    case.ready().await;
    check(case, &[run, next]).await;
    first.set("SAYSO_HOOKS", None);
}

fn windows(agent: &'static str, action: &'static str) {
    on_runtime(async {
        let case = Case::alone(SHAPE, options()).await;
        let bundle = if agent == "careful" {
            careful()
        } else {
            idempotent()
        };
        case.deploy(&bundle).await;
        for window in WINDOWS {
            through(&case, agent, &format!("{window}={action}@1")).await;
        }
    });
}

/// B24: a kill at every window: nothing runs twice, and the run ends as it should.
#[test]
fn a_kill_at_every_window() {
    windows("careful", "kill");
}

/// The same with a tool that may be sent again: every run completes by itself.
#[test]
fn a_kill_at_every_window_with_an_idempotent_tool() {
    windows("idempotent", "kill");
}

/// A worker that is stopped at a window, replaced, and goes on afterwards.
#[test]
fn a_freeze_at_every_window() {
    windows("careful", "stop");
}

/// The list of windows is the one in the driver's sources.
#[test]
fn every_window_of_the_driver_is_forced() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/driver/src");
    let mut named = Vec::new();
    for file in std::fs::read_dir(sources).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let names = text.split('"').filter(|word| {
            word.strip_prefix("driver.").is_some_and(|rest| {
                !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
            })
        });
        named.extend(names.map(str::to_owned));
    }
    named.sort();
    named.dedup();
    let mut forced = WINDOWS.map(str::to_owned).to_vec();
    forced.sort();
    assert_eq!(named, forced);
}
