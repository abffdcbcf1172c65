//! Pause and resume (S10.6): nothing starts, nothing acts, nothing is lost.

use std::time::Duration;

use sayso_tests::{Bundle, Case, Options, Shape, code, on_runtime, until};
use sayso_wire::v1::{
    ApprovalStatus, ListAuditEntriesRequest, ListRunsRequest, PauseRequest, PauseResponse,
    ResumeRequest, Run, RunStatus,
};
use serde_json::json;
use tonic::Status;

const GATED: &str = "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done";

fn options() -> Options {
    Options::new().script("gated", GATED)
}

const SEVERAL: Shape = Shape::Apart {
    executors: 2,
    gateways: 2,
};

fn on_both(scenario: impl AsyncFn(Case)) {
    for shape in [Shape::Embedded, SEVERAL] {
        on_runtime(async { scenario(Case::alone(shape, options()).await).await });
    }
}

fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("gated")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

fn ungated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("gated")
        .ledger("ledger", "append")
        .allow("ledger.append")
}

async fn pause(case: &Case, agent: &str, reason: &str) -> Result<PauseResponse, Status> {
    let request = PauseRequest {
        agent: agent.into(),
        reason: reason.into(),
    };
    let paused = case.admin.pauses().pause(request).await?;
    Ok(paused.into_inner())
}

async fn resume(case: &Case, agent: &str) -> Result<(), Status> {
    let request = ResumeRequest {
        agent: agent.into(),
    };
    case.admin.pauses().resume(request).await.map(|_| ())
}

/// Waits until another agent's run, started now, has gone through all of it.
async fn something_else_runs(case: &Case) {
    case.deploy(&ungated("bystander")).await;
    let run = case.sub.start("bystander", "go").await;
    case.completed(&run).await;
}

/// S10.6: starts are taken and stay pending, an approved call is not sent, and all goes on within a
/// second of the resume.
#[test]
fn s10_6_a_paused_agent_starts_nothing_and_does_nothing_until_it_is_resumed() {
    on_both(async |case: Case| {
        case.deploy(&gated("clerk")).await;
        let held = case.sub.start("clerk", "go").await;
        let approval = case.app.held(&held, 1).await.remove(0);
        pause(&case, "clerk", "an incident").await.expect("paused");

        let new = case.sub.start("clerk", "go").await;
        case.app.approve(&approval).await;
        something_else_runs(&case).await;

        let shown = case.sub.run(&new).await;
        assert_eq!(
            (shown.status(), shown.last_sequence),
            (RunStatus::Pending, 1)
        );
        let why = shown.pause.expect("the run says why it stands still");
        assert_eq!(
            (why.agent.as_str(), why.reason.as_str()),
            ("clerk", "an incident")
        );
        assert_eq!(why.paused_by, "admin");
        let shown = case.sub.run(&held).await;
        assert_eq!(shown.status(), RunStatus::Running);
        assert!(shown.pause.is_some());
        assert_eq!(case.sub.timeline(&held).await.count("tool_started"), 0);
        let printed = case
            .sayso_as("sub", ["runs", "show", &new])
            .expect_success();
        assert!(printed.stdout.contains("an incident"), "{}", printed.stdout);

        resume(&case, "clerk").await.expect("resumed");
        case.completed(&held).await;
        let approval = case.app.held(&new, 1).await.remove(0);
        case.app.approve(&approval).await;
        let done = case.completed(&new).await;
        assert!(done.pause.is_none());
        assert_eq!(
            (case.ledger.numbers(&held), case.ledger.numbers(&new)),
            (vec![1], vec![1])
        );
    });
}

/// S10.6: a paused namespace holds every agent of it, and no other namespace; an agent's own pause
/// outlasts it.
#[test]
fn s10_6_a_paused_namespace_holds_all_its_agents() {
    on_both(async |case: Case| {
        case.deploy(&ungated("one")).await;
        case.deploy(&ungated("two")).await;
        let foreign = case.bundle(&ungated("one"));
        case.foreigner.try_deploy(&foreign).await.expect("deployed");
        pause(&case, "", "").await.expect("paused");
        pause(&case, "two", "").await.expect("paused");
        let runs = [
            case.sub.start("one", "go").await,
            case.sub.start("two", "go").await,
        ];
        let theirs = case.foreigner.start("one", "go").await;
        case.foreigner.until(&theirs, RunStatus::Completed).await;
        for run in &runs {
            assert_eq!(case.sub.run(run).await.status(), RunStatus::Pending);
        }
        resume(&case, "").await.expect("resumed");
        case.completed(&runs[0]).await;
        assert_eq!(case.sub.run(&runs[1]).await.status(), RunStatus::Pending);
        resume(&case, "two").await.expect("resumed");
        case.completed(&runs[1]).await;
    });
}

/// S10.6: a pause outlasts the restart of every process, and nothing is lost in it; the reaper and
/// the sweeps leave it alone, also right after it (S4.5).
#[test]
fn s10_6_a_pause_survives_restarts_and_nothing_is_reaped_in_it() {
    on_both(async |case: Case| {
        let slow = ungated("clerk").tool("ledger.append", json!({"idempotent": true}));
        case.deploy(&slow).await;
        case.deploy(&gated("held")).await;
        let held = case.sub.start("held", "go").await;
        let approval = case.app.held(&held, 1).await.remove(0);
        pause(&case, "", "").await.expect("paused");
        let pending = case.sub.start("clerk", "go").await;
        case.app.approve(&approval).await;
        case.kill_all();
        case.advance(Duration::from_secs(2 * 60 * 60)).await;
        case.start_all().await;
        let paused = case
            .admin
            .pauses()
            .list_pauses(sayso_wire::v1::ListPausesRequest {})
            .await;
        assert_eq!(paused.expect("listed").into_inner().pauses.len(), 1);
        assert_eq!(case.sub.run(&pending).await.status(), RunStatus::Pending);
        assert_eq!(case.sub.run(&held).await.status(), RunStatus::Running);
        resume(&case, "").await.expect("resumed");
        case.completed(&pending).await;
        case.completed(&held).await;
        assert_eq!(
            (case.ledger.numbers(&held), case.ledger.numbers(&pending)),
            (vec![1], vec![1])
        );
    });
}

/// S10.6, S4.5: a run whose worker is lost is not reaped however long it is paused, also right after
/// the pause, and is taken over then.
#[test]
fn s10_6_a_run_without_a_worker_is_not_reaped_in_a_pause_and_is_taken_over_after_it() {
    const ONCE: &str = "turns:
  - calls: [{tool: ledger.append_once, args: {n: 1}}]
  - text: done";
    on_runtime(async {
        let options = Options::new()
            .script("once", ONCE)
            .script("gated", GATED)
            .hooks("driver.after_send=kill");
        let case = Case::alone(Shape::APART, options).await;
        let clerk = Bundle::new("clerk")
            .tier("once")
            .ledger("ledger", "append_once")
            .allow("ledger.append_once")
            .tool("ledger.append_once", json!({"idempotent": true}));
        let run = case.begin(&clerk).await;
        until("the worker to be lost", async || {
            (!case.executor(0).is_running()).then_some(())
        })
        .await;
        pause(&case, "clerk", "").await.expect("paused");
        // A new start of the same name ends the lease of the one before.
        case.start_all().await;
        something_else_runs(&case).await;
        case.advance(Duration::from_secs(2 * 60 * 60)).await;
        something_else_runs(&case).await;
        let shown = case.sub.run(&run).await;
        assert_eq!(shown.status(), RunStatus::Running);
        assert_eq!(case.sub.timeline(&run).await.count("taken_over"), 0);
        resume(&case, "clerk").await.expect("resumed");
        case.completed(&run).await;
        assert_eq!(case.sub.timeline(&run).await.count("taken_over"), 1);
        assert_eq!(case.ledger.numbers(&run), [1]);
    });
}

/// S10.6: what is under way when the pause comes is finished and recorded; nothing follows it.
#[test]
fn s10_6_what_was_sent_before_the_pause_is_finished_and_nothing_follows() {
    const TWO: &str = "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
    delay: 1500ms
  - text: done";
    for shape in [Shape::Embedded, Shape::APART] {
        on_runtime(async {
            let case = Case::alone(shape, options().script("two", TWO)).await;
            case.deploy(&ungated("clerk").tier("two")).await;
            let run = case.sub.start("clerk", "go").await;
            until("the model to be asked", async || {
                let timeline = case.sub.timeline(&run).await;
                (timeline.count("tools_listed") == 1).then_some(())
            })
            .await;
            pause(&case, "clerk", "").await.expect("paused");
            until("the answer", async || {
                let timeline = case.sub.timeline(&run).await;
                (timeline.count("assistant_message") == 1).then_some(())
            })
            .await;
            something_else_runs(&case).await;
            let timeline = case.sub.timeline(&run).await;
            assert_eq!(timeline.count("tool_started"), 0, "{timeline:#?}");
            assert_eq!(case.sub.run(&run).await.status(), RunStatus::Running);
            resume(&case, "clerk").await.expect("resumed");
            case.completed(&run).await;
            let timeline = case.sub.timeline(&run).await;
            assert_eq!(
                timeline.count("assistant_message"),
                2,
                "no answer is paid for twice"
            );
            assert_eq!(case.ledger.numbers(&run), [1]);
        });
    }
}

/// S10.6, S8.5: a schedule that was due while its agent was paused is caught up once; approvals
/// expire as ever (S6.8).
#[test]
fn s10_6_a_schedule_of_a_paused_agent_is_caught_up_once() {
    on_both(async |case: Case| {
        let triggers = json!([{"cron": "* * * * *", "input": "tick"}]);
        case.deploy(&gated("clerk").field("triggers", triggers.clone()))
            .await;
        let other = ungated("other").field("triggers", triggers);
        pause(&case, "clerk", "").await.expect("paused");
        case.deploy(&other).await;
        case.advance(Duration::from_secs(10 * 60)).await;
        listed(&case, "other", 1).await;
        assert_eq!(runs_of(&case, "clerk").await, []);
        resume(&case, "clerk").await.expect("resumed");
        let run = listed(&case, "clerk", 1).await.remove(0);
        let timeline = case.sub.timeline(&run.id).await;
        let skipped = timeline.0[0].content["tick"]["skipped"].as_u64();
        assert!(skipped >= Some(8), "{skipped:?}");

        let approval = case.app.held(&run.id, 1).await.remove(0);
        pause(&case, "clerk", "").await.expect("paused");
        case.advance(Duration::from_secs(2 * 60 * 60)).await;
        until("the approval to expire", async || {
            let now = case.app.approval(&approval.id).await.ok()?;
            (now.status() == ApprovalStatus::Expired).then_some(())
        })
        .await;
        resume(&case, "clerk").await.expect("resumed");
        case.completed(&run.id).await;
    });
}

/// S10.6, S6.11, S10.8: who may pause, what is said, and what is written down.
#[test]
fn s10_6_pausing_is_for_operators_and_is_written_down() {
    on_both(async |case: Case| {
        case.deploy(&gated("clerk")).await;
        let refused = case
            .sub
            .pauses()
            .pause(PauseRequest::default())
            .await
            .unwrap_err();
        assert_eq!(code(&refused), "token.scope_missing");
        assert_eq!(
            code(&pause(&case, "nobody", "").await.unwrap_err()),
            "agent.not_found"
        );
        assert_eq!(
            code(&resume(&case, "clerk").await.unwrap_err()),
            "pause.not_found"
        );
        let first = pause(&case, "clerk", "one").await.expect("paused");
        let again = pause(&case, "clerk", "two").await.expect("paused");
        assert_eq!((first.already_paused, again.already_paused), (false, true));
        assert_eq!(again.pause.expect("a pause").reason, "one");
        let listed = case.sayso_as("app", ["pause", "--list"]).expect_success();
        assert!(listed.stdout.contains("clerk") && listed.stdout.contains("one"));
        case.sayso_as("admin", ["resume", "--agent", "clerk"])
            .expect_success();
        case.sayso_as("admin", ["pause", "--agent", "clerk", "--reason", "again"])
            .expect_success();
        let request = ListAuditEntriesRequest {
            subject: "clerk".into(),
            ..ListAuditEntriesRequest::default()
        };
        let audit = case
            .admin
            .audit()
            .list_audit_entries(request)
            .await
            .expect("listed");
        let actions: Vec<String> = audit
            .into_inner()
            .entries
            .into_iter()
            .map(|e| e.action)
            .filter(|action| action.starts_with("pause."))
            .collect();
        assert_eq!(actions, ["pause.begin", "pause.end", "pause.begin"]);
    });
}

async fn runs_of(case: &Case, agent: &str) -> Vec<Run> {
    let request = ListRunsRequest {
        agent: agent.into(),
        ..ListRunsRequest::default()
    };
    let listed = case.admin.runs().list_runs(request).await;
    listed.expect("runs can be listed").into_inner().runs
}

async fn listed(case: &Case, agent: &str, count: usize) -> Vec<Run> {
    until(&format!("{count} runs of {agent}"), async || {
        let runs = runs_of(case, agent).await;
        (runs.len() == count).then_some(runs)
    })
    .await
}
