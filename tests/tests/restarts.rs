//! Restarts, redelivery, takeovers (S4.5, S6.9). These tests kill, freeze and move the clock, so each
//! has a deployment of its own.

use std::time::Duration;

use sayso_tests::{Bundle, Case, Shape, World, alone, code, on_runtime, until};
use sayso_wire::v1::{ActionStatus, DecideApprovalRequest, RunStatus, Verdict};
use serde_json::json;
use tokio::time::Instant;

static WORLD: World = World::new(
    &[
        (
            "b05",
            "turns:
  - calls: [{tool: create_artifact, args: {name: a.txt, mime_type: text/plain, content: hello}}]
  - when: {result_contains: denied by user}
    text: was denied
  - text: was not",
        ),
        (
            "b07",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - when: {message_contains: by the way, result_contains: append ran}
    text: heard
  - text: not heard",
        ),
        (
            "b14",
            "turns:
  - calls: [{tool: ledger.read, args: {}}, {tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        (
            "b22",
            "turns:
  - calls:
      - {tool: ledger.append, args: {n: 1}}
      - {tool: ledger.append, args: {n: 2, linger_ms: 1000}}
      - {tool: ledger.append, args: {n: 3, linger_ms: 2000}}
  - text: done",
        ),
        (
            "one",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        (
            "b27",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - calls: [{tool: ledger.append, args: {n: 2}}]
  - text: done",
        ),
        (
            "b60d",
            "turns:
  - calls: [{tool: poll.check, args: {a: 1}}]
  - calls: [{tool: poll.check, args: {a: 1}}]
  - calls: [{tool: poll.check, args: {a: 1}}]
    delay: 1s
  - text: done",
        ),
    ],
    Shape::APART,
);

fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .ledger("ledger", "append,read")
        .ask("ledger.append")
        .allow("*")
}

fn free(name: &str) -> Bundle {
    Bundle::new(name).ledger("ledger", "append,read").allow("*")
}

alone! {
    /// B05: review that only the agent's bundle asks for is still known after a restart: a denied
    /// call does not run.
    async fn b05_a_denied_call_does_not_run_after_a_restart(case: Case) {
        let bundle = Bundle::new("b05")
            .field("builtins", json!(["create_artifact"]))
            .tool("create_artifact", json!({"review": "required"}));
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 1).await.remove(0);
        assert_eq!(held.rule, "review");
        case.kill_all();
        case.start_all().await;
        case.app.deny(&held, "").await;
        let done = case.completed(&run).await;
        assert_eq!(done.output.as_deref(), Some("was denied"));
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.one("tool_denied", "call_1_1").content["cause"], "person");
        assert_eq!(timeline.count("tool_started"), 0);
        assert_eq!(case.app.actions(&run).await["call_1_1"].status(), ActionStatus::Rejected);
    }

    /// B07: an approval with a message and a key, after a restart of the worker, runs the call once
    /// and asks for nothing again; the model reads the message after the result.
    async fn b07_an_approval_with_a_message_asks_for_nothing_again(case: Case) {
        let run = case.begin(&gated("b07")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        case.executor(0).kill();
        case.start_all().await;
        let request = DecideApprovalRequest {
            approval_id: held.id.clone(),
            verdict: Verdict::Approve.into(),
            reason: "looks right".into(),
            message: "by the way, thanks".into(),
            idempotency_key: "once".into(),
            ..DecideApprovalRequest::default()
        };
        case.app.approvals().decide_approval(request).await.unwrap();
        let done = case.completed(&run).await;
        assert_eq!(done.output.as_deref(), Some("heard"));
        assert_eq!(case.ledger.numbers(&run), [1]);
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("tool_blocked"), 1);
        assert_eq!(timeline.count("user_message"), 1);
    }

    /// B25: an approval outlives a crash of everything: same id, same arguments, same deadline.
    async fn b25_an_approval_outlives_every_process(case: Case) {
        let bundle = gated("one").permission("approvalTimeout", json!("30m"));
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 1).await.remove(0);
        case.kill_all();
        case.advance(Duration::from_secs(10 * 60)).await;
        case.start_all().await;
        let again = case.app.pending(&run).await;
        assert_eq!(again, std::slice::from_ref(&held));
        case.app.approve(&held).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    }

    /// B34: nothing moves a completed run any more: not a cancel, not a retry, not a message.
    async fn b34_a_completed_run_stays_completed(case: Case) {
        let run = case.begin(&free("one")).await;
        let done = case.completed(&run).await;
        assert_eq!(code(&case.sub.cancel(&run).await.unwrap_err()), "run.ended");
        assert_eq!(code(&case.sub.retry(&run).await.unwrap_err()), "run.not_failed");
        assert_eq!(code(&case.sub.reply(&run, "more").await.unwrap_err()), "run.ended");
        case.executor(0).kill();
        case.start_all().await;
        assert_eq!(case.sub.run(&run).await, done);
    }

    /// B60 (d): the loop breaker's count survives a restart of the worker.
    async fn b60_s4_3_the_count_of_a_loop_survives_a_restart(case: Case) {
        let bundle = Bundle::new("b60d").ledger("poll", "check").allow("*");
        let run = case.begin(&bundle).await;
        until("two calls to have answered", async || {
            (case.app.timeline(&run).await.count("tool_result") == 2).then_some(())
        }).await;
        case.executor(0).kill();
        case.start_all().await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run).len(), 2);
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.one("repeat_loop", "call_3_1").content["count"], 3);
    }
}

/// B14: an approval that comes after the call was listed and before the worker has parked the run is
/// not lost: the run goes on as soon as the worker does.
#[test]
fn b14_a_decision_before_the_run_is_parked_is_not_lost() {
    for shape in [Shape::Embedded, Shape::APART] {
        on_runtime(async {
            let options = WORLD.options().hooks("driver.before_park=delay:1500@1");
            let case = Case::alone(shape, options).await;
            let run = case.begin(&gated("b14")).await;
            let held = until("the approval to be listed", async || {
                case.app.pending(&run).await.pop()
            })
            .await;
            case.app.approve(&held).await;
            let decided = Instant::now();
            case.completed(&run).await;
            // The hook holds the worker for at most 1.5 s of this.
            assert!(
                decided.elapsed() < Duration::from_millis(1500 + 2000),
                "{:?}",
                decided.elapsed()
            );
            assert_eq!(case.ledger.numbers_of("append", &run), [1]);
            assert_eq!(case.app.timeline(&run).await.count("tool_started"), 2);
        });
    }
}

trait NumbersOf {
    fn numbers_of(&self, tool: &str, run: &str) -> Vec<i64>;
}

impl NumbersOf for sayso_tests::Ledger {
    fn numbers_of(&self, tool: &str, run: &str) -> Vec<i64> {
        let mut entries = self.of(run);
        entries.retain(|entry| entry.tool == tool);
        let mut numbers: Vec<_> = entries.iter().map(sayso_tests::Entry::n).collect();
        numbers.sort_unstable();
        numbers
    }
}

const TWO_EXECUTORS: Shape = Shape::Apart {
    executors: 2,
    gateways: 1,
};

/// B22: a worker that dies after the first of three results was stored loses none of the others: each
/// call ends with a result or as interrupted, none runs twice, and after a retry the run completes.
#[test]
fn b22_no_call_of_a_turn_is_forgotten() {
    for shape in [Shape::Embedded, TWO_EXECUTORS] {
        on_runtime(async {
            // The first answer is back at once, the second a second later.
            let options = WORLD.options().hooks("driver.after_send=kill@2");
            let case = Case::alone(shape, options).await;
            if shape == TWO_EXECUTORS {
                // The one with the hook takes the run.
                case.executor(1).kill();
            }
            let run = case.begin(&free("b22")).await;
            until("the worker to die", async || {
                (!case.executor(0).is_running()).then_some(())
            })
            .await;
            case.executor(if shape == TWO_EXECUTORS { 1 } else { 0 })
                .start();
            case.ready().await;
            let failed = case.sub.until(&run, RunStatus::Failed).await;
            let failure = failed.failure.unwrap();
            assert_eq!(failure.code, "run.interrupted", "{failure:?}");
            let timeline = case.app.timeline(&run).await;
            let last = timeline.0.last().unwrap();
            assert_eq!(last.content["unknown"], json!(["call_1_2", "call_1_3"]));
            assert!(timeline.has("tool_result", "call_1_1"));

            case.sub.retry(&run).await.unwrap();
            case.completed(&run).await;
            let numbers = case.ledger.numbers(&run);
            assert_eq!(numbers, [1, 2, 3]);
        });
    }
}

/// B27: a worker that was frozen for longer than it is waited for, while another took its run over and
/// finished it, changes nothing when it thaws: one result a call, one history, nothing run by both.
#[test]
fn b27_a_thawed_worker_changes_nothing() {
    on_runtime(async {
        let options = WORLD.options().hooks("driver.after_send=stop@1");
        let case = Case::alone(TWO_EXECUTORS, options).await;
        case.executor(1).kill();
        let run = case.begin(&free("b27")).await;
        until("the worker to freeze", async || {
            case.executor(0).is_frozen().then_some(())
        })
        .await;
        case.executor(1).start();
        let failed = case.sub.until(&run, RunStatus::Failed).await;
        assert_eq!(failed.failure.unwrap().code, "run.interrupted");
        case.sub.retry(&run).await.unwrap();
        let done = case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1, 2]);

        case.executor(0).thaw();
        // It is itself again once it takes new work: what it had in hand is settled before.
        case.executor(1).kill();
        let next = case.sub.start("b27", "again").await;
        case.completed(&next).await;

        let timeline = case.app.timeline(&run).await;
        let after = case.sub.run(&run).await;
        assert_eq!(after.status(), RunStatus::Completed);
        assert_eq!(after.output, done.output);
        assert_eq!(case.ledger.numbers(&run), [1, 2]);
        assert_eq!(timeline.count("assistant_message"), 3);
        for call in ["call_1_1", "call_2_1"] {
            assert_eq!(
                timeline
                    .of("tool_started")
                    .iter()
                    .filter(|step| step.call() == call)
                    .count(),
                1
            );
            assert!(
                timeline
                    .of("tool_result")
                    .iter()
                    .filter(|step| step.call() == call)
                    .count()
                    <= 1
            );
        }
    });
}

/// S4.5, S1.4: a run that is cancelled just while another worker takes it over from one that was lost
/// does not keep the lost one's call under way for ever: its outcome is unknown, and says so.
#[test]
fn s4_5_a_run_cancelled_while_it_is_taken_over_gives_its_calls_up() {
    on_runtime(async {
        let options = WORLD.options().hooks("driver.after_send=kill@1");
        let case = Case::alone(Shape::APART, options).await;
        let run = case.begin(&free("b27")).await;
        let executor = case.executor(0);
        until("the worker to die", async || {
            (!executor.is_running()).then_some(())
        })
        .await;
        executor.set("SAYSO_HOOKS", Some("driver.before_append=stop@1"));
        executor.start();
        until("the takeover to be about to be appended", async || {
            executor.is_frozen().then_some(())
        })
        .await;
        case.sub.cancel(&run).await.unwrap();
        executor.thaw();
        until("no call to be under way", async || {
            (!case.sub.run(&run).await.has_open_calls).then_some(())
        })
        .await;
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("taken_over"), 0);
        assert_eq!(timeline.of("tool_result")[0].content["outcome"], "unknown");
        assert!(case.app.is_verified(&run).await);
    });
}

/// B31: a wake-up that is delivered twice, because the claim took longer than it is waited for, makes
/// one execution.
#[test]
fn b31_a_wake_up_that_comes_twice_makes_one_execution() {
    on_runtime(async {
        let options = WORLD.options().hooks("driver.before_append=delay:6000@1");
        let case = Case::alone(TWO_EXECUTORS, options).await;
        case.executor(1).kill();
        let run = case.begin(&free("one")).await;
        // The first worker holds the wake-up; the second gets it again.
        case.executor(1).start();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
        let next = case.sub.start("one", "again").await;
        case.completed(&next).await;
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("tool_started"), 1);
        assert_eq!(timeline.count("assistant_message"), 2);
    });
}

/// B31, second form: the second worker dies after it has taken the run, and the first one, whose late
/// claim is refused, is there to take it over.
#[test]
fn b31_the_run_is_not_lost_when_the_second_worker_dies() {
    on_runtime(async {
        let options = WORLD.options().hooks("driver.before_append=delay:6000@1");
        let case = Case::alone(TWO_EXECUTORS, options).await;
        case.executor(1).kill();
        let run = case.begin(&free("one")).await;
        case.executor(1)
            .set("SAYSO_HOOKS", Some("driver.after_send=kill@1"));
        case.executor(1).start();
        until("the second worker to die", async || {
            (!case.executor(1).is_running()).then_some(())
        })
        .await;
        let ended = until("the run to end", async || {
            let now = case.sub.run(&run).await;
            now.ended_at.is_some().then_some(now)
        })
        .await;
        if ended.status() == RunStatus::Failed {
            case.sub.retry(&run).await.unwrap();
        }
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    });
}

/// What an idle worker does after the broker was away: five runs started and one waiting approval
/// decided are taken up, each once.
async fn picked_up(case: &Case, waiting: &str) {
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(case.sub.start("free", "go").await);
    }
    let held = case.app.held(waiting, 1).await.remove(0);
    case.app.approve(&held).await;
    runs.push(waiting.to_owned());
    for run in runs {
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    }
}

/// B80: an idle worker takes up work within seconds of the broker's return, without a restart of its
/// own: after a restart of the broker, after one that lost the consumer, and after a pause (of 8 s
/// here). While the broker is away the worker says that it is not ready.
#[test]
fn b80_work_is_taken_up_when_the_broker_is_back() {
    on_runtime(async {
        let case = Case::alone(Shape::APART, WORLD.options()).await;
        case.deploy(&gated("gated").tier("one")).await;
        case.deploy(&free("free").tier("one")).await;
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let run = case.sub.start("gated", "go").await;
            case.app.held(&run, 1).await;
            waiting.push(run);
        }
        let not_ready = async || {
            until("the worker to say that the broker is away", async || {
                let (status, text) = case.readiness("executor-0").await?;
                (status == 503 && text.contains("bus")).then_some(())
            })
            .await;
        };

        case.nats().kill();
        not_ready().await;
        case.nats().start();
        case.nats_accepts().await;
        picked_up(&case, &waiting[0]).await;

        case.nats().kill();
        let consumer = case
            .nats_store()
            .join("jetstream/$G/streams/SAYSO_WORK/obs/executors");
        std::fs::remove_dir_all(&consumer).expect("the consumer is stored there");
        case.nats().start();
        case.nats_accepts().await;
        picked_up(&case, &waiting[1]).await;

        case.nats().freeze();
        let frozen = Instant::now();
        not_ready().await;
        until("8 s to have passed", async || {
            (frozen.elapsed() > Duration::from_secs(8)).then_some(())
        })
        .await;
        case.nats().thaw();
        picked_up(&case, &waiting[2]).await;
        case.ready().await;
    });
}
