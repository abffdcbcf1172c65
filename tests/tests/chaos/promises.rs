//! What holds when the storm is over.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::stream;
use sayso_tests::{Case, Timeline, until};
use sayso_wire::v1::{
    ListRunsRequest, Run, RunStatus, VerifyAuditRequest, verify_audit_response, verify_run_response,
};

use crate::load::goes_on_alone;

/// How many runs are read at once.
const READERS: usize = 16;

/// Executions by run and call.
type Written = BTreeMap<String, usize>;

/// What happened, in numbers.
#[derive(Debug, Default)]
struct Tally {
    runs: usize,
    approved: usize,
    executed: usize,
    unknown: usize,
    cancelled: usize,
    taken_over: usize,
}

/// The ledger shows each approved call at most once and none that was not approved; what is missing
/// belongs to a run that says so; what may be sent again ran once; nothing is left unowned; chains hold.
///
/// # Panics
///
/// If any of it does not hold.
pub(crate) async fn hold(case: &Case, runs: &[Run]) {
    let mut written = Written::new();
    for entry in case.ledger.entries() {
        let append = entry.tool.starts_with("append");
        *written.entry(entry.key).or_default() += usize::from(append);
    }
    let timelines: Vec<(&Run, Timeline)> = stream::iter(runs)
        .map(async |run| {
            until("no call is under way", async || {
                (!case.app.run(&run.id).await.has_open_calls).then_some(())
            })
            .await;
            (run, case.app.timeline(&run.id).await)
        })
        .buffer_unordered(READERS)
        .collect()
        .await;
    let mut tally = Tally::default();
    for (run, timeline) in &timelines {
        tally.runs += 1;
        of_one(run, timeline, &written, &mut tally);
    }
    println!("{tally:?}");
    verified(case, runs).await;
    nothing_is_left(case).await;
    for process in case.processes() {
        let log = process.log();
        assert!(!log.contains("panicked at"), "{}:\n{log}", process.name());
    }
}

/// One run's calls, against the ledger.
fn of_one(run: &Run, timeline: &Timeline, written: &Written, tally: &mut Tally) {
    let calls_of = |kind: &str| -> BTreeSet<&str> {
        timeline.of(kind).iter().map(|step| step.call()).collect()
    };
    let (approved, denied) = (calls_of("tool_approved"), calls_of("tool_denied"));
    let (started, answered) = (calls_of("tool_started"), calls_of("tool_result"));
    let errors = timeline.of("error");
    let unknown: BTreeSet<&str> = errors
        .iter()
        .flat_map(|step| step.content["unknown"].as_array().into_iter().flatten())
        .filter_map(|call| call.as_str())
        .collect();
    let cancelled = timeline.count("cancelled") > 0;
    tally.cancelled += usize::from(cancelled);
    tally.taken_over += timeline.count("taken_over");
    tally.unknown += unknown.len();
    if goes_on_alone(&run.agent) && !cancelled {
        assert_eq!(unknown, BTreeSet::new(), "{timeline:#?}");
        assert_eq!(run.status(), RunStatus::Completed, "{timeline:#?}");
    }
    for step in timeline.of("tool_call") {
        let call = step.call();
        let Some(tool) = step.content["tool"]
            .as_str()
            .filter(|tool| tool.contains("append"))
        else {
            continue;
        };
        let times = written
            .get(&format!("{}:{call}", run.id))
            .copied()
            .unwrap_or(0);
        let what = || {
            format!(
                "{tool} {call} of {} ran {times} times: {timeline:#?}",
                run.id
            )
        };
        assert!(times <= 1, "{}", what());
        tally.executed += times;
        tally.approved += usize::from(approved.contains(call));
        if !approved.contains(call) {
            assert!(times == 0 && !started.contains(call), "{}", what());
            continue;
        }
        let results = timeline.of("tool_result");
        let came = |outcome: &str| {
            let mut results = results.iter();
            results.any(|step| step.call() == call && step.content["outcome"] == outcome)
        };
        let told = unknown.contains(call) || came("unknown") || came("unreachable");
        let closed = denied.contains(call) && !started.contains(call);
        if times == 0 {
            assert!(told || closed, "{}", what());
        }
        if started.contains(call) && !answered.contains(call) {
            assert!(told, "{}", what());
        }
        assert!(!came("ok") || times == 1, "{}", what());
        let before = |kind: &str| {
            let steps = timeline.of(kind);
            let first = steps.iter().find(|step| step.call() == call);
            first.map(|step| step.sequence)
        };
        if let Some(at) = before("tool_started") {
            assert!(before("tool_approved") < Some(at), "{}", what());
        }
    }
}

/// Every run's chain and the audit log's.
async fn verified(case: &Case, runs: &[Run]) {
    stream::iter(runs)
        .for_each_concurrent(READERS, async |run| {
            let verified = case.app.verify(&run.id).await.result;
            assert!(
                matches!(verified, Some(verify_run_response::Result::Verified(_))),
                "{}: {verified:?}",
                run.id
            );
        })
        .await;
    let audit = case
        .admin
        .audit()
        .verify_audit(VerifyAuditRequest::default())
        .await;
    let audit = audit
        .expect("the audit log can be checked")
        .into_inner()
        .result;
    assert!(
        matches!(audit, Some(verify_audit_response::Result::Verified(_))),
        "{audit:?}"
    );
}

/// Everybody has seen their runs end, so no other run is live: none that was started and lost, none
/// that is `running` and nobody's.
async fn nothing_is_left(case: &Case) {
    let live = [
        RunStatus::Pending,
        RunStatus::Running,
        RunStatus::AwaitingApproval,
        RunStatus::AwaitingInput,
    ];
    let request = ListRunsRequest {
        statuses: live.map(Into::into).into(),
        page_size: 500,
        ..ListRunsRequest::default()
    };
    let listed = case.app.runs().list_runs(request).await;
    let listed = listed.expect("runs can be listed").into_inner().runs;
    assert!(listed.is_empty(), "{listed:#?}");
}
