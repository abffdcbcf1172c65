//! Work that nobody can do at the moment, and work that cannot be done at all (S4.5, S1.1). These tests
//! kill and move the clock, so each has a deployment of its own.

use std::time::Duration;

use sayso_tests::{Bundle, Case, Options, Shape, on_runtime, until};
use sayso_wire::v1::{ApprovalStatus, ListRunsRequest, Run, RunStatus};
use serde_json::json;
use sqlx::{Connection, PgConnection};

const MINUTE: Duration = Duration::from_secs(60);

async fn ended(case: &Case, run: &str) -> Run {
    until(&format!("{run} to end"), async || {
        let now = case.sub.try_run(run).await.ok()?;
        now.ended_at.is_some().then_some(now)
    })
    .await
}

/// Waits until the database knows that no worker is alive.
async fn nobody_works(case: &Case) {
    let mut database = PgConnection::connect(case.database()).await.unwrap();
    until("the workers to be marked dead", async || {
        let alive = "SELECT COUNT(*) FROM workers WHERE ended_at IS NULL";
        let alive: i64 = sqlx::query_scalar(alive)
            .fetch_one(&mut database)
            .await
            .unwrap();
        (alive == 0).then_some(())
    })
    .await;
}

/// B26: of a run that waits for a person's decision, one that waits for a person's words, one that no
/// worker has begun and one whose worker died, only the last is failed, after 30 minutes, as
/// interrupted; and the others go on when there is a worker and a person again.
#[test]
fn b26_waiting_is_never_mistaken_for_stuck() {
    on_runtime(async {
        let options = Options::new()
            .script(
                "asks",
                "turns:
  - calls: [{tool: ask_person, args: {question: Which one?}}]
  - text: done",
            )
            .script(
                "gated",
                "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
            )
            .script(
                "slow",
                "turns:
  - calls: [{tool: ledger.read, args: {linger_ms: 600000}}]
  - text: done",
            );
        let case = Case::alone(Shape::APART, options).await;
        let input = case
            .begin(&Bundle::new("asks").field("interaction", json!(true)))
            .await;
        case.sub.until(&input, RunStatus::AwaitingInput).await;
        // It will have waited for 3 hours when the others have waited for 45 minutes.
        case.advance(135 * MINUTE).await;
        // The worker takes its time from the database once a second: a new one knows it from the start.
        case.executor(0).terminate();
        case.start_all().await;

        let gated = |name: &str, timeout: &str| {
            Bundle::new(name)
                .tier("gated")
                .ledger("ledger", "append,read")
                .ask("ledger.append")
                .permission("approvalTimeout", json!(timeout))
        };
        let approval = case.begin(&gated("gated", "1h")).await;
        let held = case.app.held(&approval, 1).await.remove(0);
        // What they wait for runs out, which shows that the sweeps have come by.
        let (ten, twenty) = (gated("ten", "10m"), gated("twenty", "20m"));
        let (ten, twenty) = (case.begin(&ten).await, case.begin(&twenty).await);
        let ten = case.app.held(&ten, 1).await.remove(0);
        let twenty = case.app.held(&twenty, 1).await.remove(0);
        let slow = Bundle::new("slow")
            .ledger("ledger", "append,read")
            .allow("*");
        let running = case.begin(&slow).await;
        until("the tool to run", async || {
            (!case.ledger.of(&running).is_empty()).then_some(())
        })
        .await;
        case.executor(0).kill();
        let pending = case.sub.start("gated", "go").await;
        nobody_works(&case).await;

        for (minutes, canary) in [(12, ten), (25, twenty)] {
            case.advance((135 + minutes) * MINUTE).await;
            until("the sweeps to come by", async || {
                let now = case.app.approval(&canary.id).await.ok()?;
                (now.status() == ApprovalStatus::Expired).then_some(())
            })
            .await;
            assert_eq!(case.sub.run(&running).await.status(), RunStatus::Running);
        }
        case.advance((135 + 45) * MINUTE).await;
        let failed = case.sub.until(&running, RunStatus::Failed).await;
        let failure = failed.failure.unwrap();
        assert_eq!(failure.code, "run.interrupted");
        assert!(failure.message.contains("interrupted"), "{failure:?}");
        let last = case.sub.timeline(&running).await.0.pop().unwrap();
        assert_eq!(last.content["unknown"], json!(["call_1_1"]));
        for (run, status) in [
            (&input, RunStatus::AwaitingInput),
            (&approval, RunStatus::AwaitingApproval),
            (&pending, RunStatus::Pending),
        ] {
            assert_eq!(case.sub.run(run).await.status(), status, "{run}");
        }

        case.start_all().await;
        case.sub.reply(&input, "the left one").await.unwrap();
        case.app.approve(&held).await;
        case.completed(&input).await;
        case.completed(&approval).await;
        case.app.held(&pending, 1).await;
        assert_eq!(case.sub.run(&running).await.status(), RunStatus::Failed);
    });
}

/// Runs of an agent that are live.
async fn live(case: &Case, agent: &str) -> Vec<Run> {
    let live = [RunStatus::Pending, RunStatus::Running];
    let request = ListRunsRequest {
        agent: agent.into(),
        statuses: live.map(Into::into).into(),
        page_size: 500,
        ..ListRunsRequest::default()
    };
    let listed = case.sub.runs().list_runs(request).await;
    listed.expect("runs can be listed").into_inner().runs
}

/// B28: a worker dies with 20 runs in flight, and the database while another worker takes them over:
/// every run goes on, or fails naming its call; none is left behind; and schedules fire again.
#[test]
fn b28_an_outage_of_the_database_during_recovery_loses_no_run() {
    on_runtime(async {
        let script = "turns:
  - calls: [{tool: ledger.append, args: {n: 1, linger_ms: 1000}}]
  - calls: [{tool: ledger.append, args: {n: 2}}]
  - text: done";
        let options = Options::new()
            .script("many", script)
            .script("clerk", "turns: [{text: done}]")
            .own_server();
        let shape = Shape::Apart {
            executors: 2,
            gateways: 1,
        };
        let case = Case::alone(shape, options).await;
        let hourly = json!([{"cron": "0 * * * *", "input": "x"}]);
        case.deploy(&Bundle::new("clerk").field("triggers", hourly))
            .await;
        case.deploy(&Bundle::new("many").ledger("ledger", "append").allow("*"))
            .await;
        case.executor(1).kill();
        let mut runs = Vec::new();
        for _ in 0..20 {
            runs.push(case.sub.start("many", "go").await);
        }
        until("all of them to be in flight", async || {
            (case.ledger.entries().len() >= runs.len()).then_some(())
        })
        .await;
        case.executor(0).kill();
        case.executor(1).start();
        until("the first of them to be taken over", async || {
            for run in &runs {
                if case.sub.timeline(run).await.count("taken_over") > 0 {
                    return Some(());
                }
            }
            None
        })
        .await;
        case.own_server().expect("it has one").kill();
        case.database_up().await;

        let mut interrupted = 0;
        for run in &runs {
            let mut now = ended(&case, run).await;
            while now.status() == RunStatus::Failed {
                interrupted += 1;
                assert_eq!(now.failure.unwrap().code, "run.interrupted");
                let timeline = case.sub.timeline(run).await;
                let unknown = timeline.0.last().unwrap().content["unknown"].clone();
                assert!(!unknown.as_array().unwrap().is_empty(), "{timeline:#?}");
                case.sub.retry(run).await.unwrap();
                now = ended(&case, run).await;
            }
            assert_eq!(now.status(), RunStatus::Completed);
            assert_eq!(case.ledger.numbers(run), [1, 2]);
        }
        assert!(interrupted > 0, "the worker died with calls in flight");
        assert_eq!(live(&case, "many").await, []);

        case.executor(0).start();
        case.ready().await;
        case.advance(60 * MINUTE).await;
        until("the schedule to fire", async || {
            let request = ListRunsRequest {
                agent: "clerk".into(),
                ..ListRunsRequest::default()
            };
            let listed = case.admin.runs().list_runs(request).await.ok()?;
            listed.into_inner().runs.pop()
        })
        .await;
    });
}

/// B32: a run whose call kills its worker each time is failed, saying so, after a few takeovers; 50
/// runs that were queued with it complete, though they were in flight when the worker died; and no
/// message is left behind in the work queue.
fn crashing_run(shape: Shape) {
    on_runtime(async {
        let options = Options::new()
            .script(
                "crash",
                "turns: [{calls: [{tool: ledger.crash, args: {}}]}, {text: done}]",
            )
            .script(
                "fine",
                "turns:
  - calls: [{tool: ledger.append_once, args: {n: 1, sleep_ms: 20}}]
  - text: done",
            );
        let case = Case::alone(shape, options).await;
        for (agent, tools) in [("crash", "crash"), ("fine", "append_once")] {
            let bundle = Bundle::new(agent)
                .ledger("ledger", tools)
                .allow("*")
                .tool("ledger.*", json!({"idempotent": true}));
            case.deploy(&bundle).await;
        }
        if shape != Shape::Embedded {
            // Queued before there is a worker.
            case.executor(0).kill();
        }
        let start = async |agent: &str| {
            until(&format!("{agent} to start"), async || {
                if shape == Shape::Embedded {
                    case.executor(0).start();
                }
                case.sub.try_start(agent, "go").await.ok()
            })
            .await
            .id
        };
        let crash = start("crash").await;
        let mut others = Vec::new();
        for _ in 0..50 {
            others.push(start("fine").await);
        }
        let failed = until("the run to end", async || {
            // What a supervisor does.
            case.executor(0).start();
            let now = case.sub.try_run(&crash).await.ok()?;
            now.ended_at.is_some().then_some(now)
        })
        .await;
        case.start_all().await;
        assert_eq!(failed.status(), RunStatus::Failed);
        let failure = failed.failure.unwrap();
        assert_eq!(failure.code, "run.interrupted");
        let timeline = case.sub.timeline(&crash).await;
        assert!(timeline.count("taken_over") > 5, "{timeline:#?}");
        for run in &others {
            let now = ended(&case, run).await;
            let timeline = case.sub.timeline(run).await;
            assert_eq!(now.status(), RunStatus::Completed, "{timeline:#?}");
            assert_eq!(case.ledger.numbers(run), [1]);
        }
        if shape != Shape::Embedded {
            until("the work queue to be empty", async || {
                (case.queued_wake_ups().await.ok()? == 0).then_some(())
            })
            .await;
        }
    });
}

#[test]
fn b32_a_run_that_kills_its_worker_fails_and_starves_nobody_embedded() {
    crashing_run(Shape::Embedded);
}

#[test]
fn b32_a_run_that_kills_its_worker_fails_and_starves_nobody_apart() {
    crashing_run(Shape::APART);
}
