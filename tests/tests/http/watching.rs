//! Streams as server-sent events (S2.4).

use sayso_tests::{Bundle, Case, Options, Shape, both, on_runtime};
use sayso_wire::v1::RunStatus;

use super::{WORLD, gated};
use crate::caller::Caller;

const TURNS: usize = 4;
const CALLS: usize = 12;

/// A script of more than 100 steps: three for each call.
fn long_script() -> String {
    let mut script = String::from("turns:\n");
    for turn in 0..TURNS {
        let call = |call| {
            format!(
                "{{tool: ledger.append, args: {{n: {}}}}}",
                turn * CALLS + call
            )
        };
        let calls: Vec<_> = (0..CALLS).map(call).collect();
        script.push_str(&format!(
            "  - calls: [{}]\n    delay: 50ms\n",
            calls.join(", ")
        ));
    }
    script.push_str("  - text: done\n");
    script
}

/// The steps of a stream behind `last`, at most `limit`; whether the stream said that it has ended.
async fn read(caller: &Caller, run: &str, last: Option<u64>, limit: usize) -> (Vec<u64>, bool) {
    let mut events = caller.watch(&format!("/v1/runs/{run}:watch"), last).await;
    let mut seen = Vec::new();
    while seen.len() < limit {
        let event = events.next().await.expect("a stream says its end");
        match event.kind.as_str() {
            "step" => {
                let sequence = event.data["step"]["sequence"].as_str().unwrap();
                assert_eq!(event.id, sequence.parse().ok());
                seen.extend(event.id);
            }
            "end" => {
                assert_eq!(events.next().await, None);
                return (seen, true);
            }
            other => assert!(["delta", "withdrawn"].contains(&other), "{event:?}"),
        }
    }
    (seen, false)
}

/// B52: a watcher over HTTP that is cut off again and again while the run works, and comes back with
/// the id of the last event, sees each step once and in order.
fn cut_off(shape: Shape) {
    on_runtime(async {
        let case = Case::alone(shape, Options::new().script("b52h", &long_script())).await;
        let bundle = Bundle::new("b52h").ledger("ledger", "append").allow("*");
        let run = case.begin(&bundle).await;
        let caller = Caller::of(&case, "app");
        let mut seen: Vec<u64> = Vec::new();
        for limit in [1, 7, 2, 19, 3, 11, 5] {
            let (steps, ended) = read(&caller, &run, seen.last().copied(), limit).await;
            seen.extend(steps);
            assert!(!ended || case.app.run(&run).await.status() == RunStatus::Completed);
        }
        let (rest, ended) = read(&caller, &run, seen.last().copied(), usize::MAX).await;
        assert!(ended);
        seen.extend(rest);
        let last = case.app.run(&run).await.last_sequence;
        assert!(last > 100, "{last} steps");
        assert_eq!(seen, (1..=last).collect::<Vec<_>>());

        // Finished: whoever saw everything is told the end at once.
        assert_eq!(read(&caller, &run, Some(last), 1).await, (vec![], true));
        // A position that it does not have gives a marked fresh start.
        let path = format!("/v1/runs/{run}:watch");
        let first = caller.watch(&path, Some(last + 1000)).await.next().await;
        assert_eq!(first.unwrap().kind, "freshStart");
    });
}

#[test]
fn b52_a_watcher_over_http_sees_each_step_once_embedded() {
    cut_off(Shape::Embedded);
}

#[test]
fn b52_a_watcher_over_http_sees_each_step_once_apart() {
    cut_off(Shape::APART);
}

both! {
    /// S2.4: whoever watches approvals over HTTP is told of each as it is asked for and decided.
    async fn s2_4_approvals_are_told_as_events(case: Case) {
        case.deploy(&gated("told")).await;
        let caller = Caller::of(&case, "app");
        let mut events = caller.watch("/v1/approvals:watch?agent=told&snapshot=true", None).await;
        assert_eq!(events.next().await.unwrap().kind, "snapshotComplete");
        let run = case.sub.start("told", "go").await;
        let requested = events.next().await.unwrap();
        assert_eq!(requested.kind, "requested");
        assert_eq!(requested.id, None);
        assert_eq!(requested.data["requested"]["runId"], run);
        let approval = requested.data["requested"]["id"].as_str().unwrap();
        caller.decide(approval, "VERDICT_DENY").await.ok();
        // A change may be seen twice.
        let decided = loop {
            let event = events.next().await.unwrap();
            if event.kind == "decided" {
                break event;
            }
        };
        assert_eq!(decided.data["decided"]["status"], "APPROVAL_STATUS_DENIED");
        case.completed(&run).await;
    }

    /// S6.11: a stream ends with its token, and says why.
    async fn s6_11_a_stream_ends_with_its_token(case: Case) {
        let secret = case.admin.create_token("watcher", "", &[sayso_wire::v1::Scope::Read]).await;
        let caller = Caller::with(&case, &secret);
        let mut events = caller.watch("/v1/approvals:watch?agent=nobody&snapshot=true", None).await;
        assert_eq!(events.next().await.unwrap().kind, "snapshotComplete");
        let admin = Caller::of(&case, "admin");
        admin.post("/v1/tokens:revoke", &serde_json::json!({"name": "watcher"})).await.ok();
        let last = events.next().await.unwrap();
        assert_eq!((last.kind.as_str(), &last.data["code"]), ("problem", &"token.revoked".into()));
        assert_eq!(events.next().await, None);
    }
}
