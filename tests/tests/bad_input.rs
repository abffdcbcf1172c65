//! Bad input and dependencies that are away: a clear error with a stable code, nothing changed, and
//! recovery by itself.

use sayso_tests::{Bundle, Case, Deployment, Options, Shape, World, both, code, on_runtime, until};
use sayso_wire::v1::{
    ListApprovalsRequest, ListRunStepsRequest, ListRunsRequest, StartRunRequest, Verdict,
};
use tonic::Code;
use tonic_types::StatusExt;

static WORLD: World = World::new(
    &[(
        "one",
        "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
    )],
    Shape::APART,
);

fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

/// Bundles with one mistake each, and the code and key that name it.
const BUNDLES: &[(&str, &str, &str)] = &[
    ("name: bad\ncolour: red", "bundle.unknown_field", "colour"),
    (
        "name: bad\ninteraction: maybe",
        "bundle.wrong_type",
        "interaction",
    ),
    (
        "name: bad\npermissions: {rules: [{tool: 'a b', action: ask}]}",
        "bundle.bad_glob",
        "permissions.rules[0].tool",
    ),
    (
        "name: bad\npermissions: {approvalTimeout: soon}",
        "bundle.bad_duration",
        "permissions.approvalTimeout",
    ),
    ("name: bad\ndocs: []", "bundle.unsupported", "docs"),
];

both! {
    /// S5.11: a bundle with a mistake is refused with the code and the key, and no agent comes of it.
    async fn a_bad_bundle_changes_nothing(case: Case) {
        for (bundle, expected, key) in BUNDLES {
            let refused = case.admin.try_deploy(bundle).await.unwrap_err();
            assert_eq!((refused.code(), code(&refused).as_str()), (Code::InvalidArgument, "bundle.invalid"));
            let violations = refused.get_details_bad_request().unwrap().field_violations;
            let found = violations.iter().any(|violation| {
                violation.field == *key
                    && (violation.reason == *expected || violation.description.contains(expected))
            });
            assert!(found, "{expected} at {key} in {violations:#?}");
        }
        let started = case.sub.try_start("bad", "go").await.unwrap_err();
        assert_eq!(code(&started), "agent.not_found");
    }

    /// S10.5: what does not exist is not found, under the code of its kind.
    async fn an_unknown_id_is_not_found(case: Case) {
        for id in ["run_00000000000000000000000000000000", "x", "", "run_\u{202e}"] {
            for refused in [
                case.sub.try_run(id).await.unwrap_err(),
                case.sub.cancel(id).await.unwrap_err(),
                case.sub.retry(id).await.unwrap_err(),
                case.sub.reply(id, "hello").await.unwrap_err(),
            ] {
                let found = code(&refused);
                assert!(["run.not_found", "request.invalid"].contains(&found.as_str()), "{id}: {refused:?}");
            }
        }
        let refused = case.app.decide("apr_none", Verdict::Approve, "").await.unwrap_err();
        assert!(["approval.not_found", "request.invalid"].contains(&code(&refused).as_str()), "{refused:?}");
        let watched = match case.app.watch("run_none", 1).await {
            Err(refused) => refused,
            Ok(mut stream) => stream.message().await.unwrap_err(),
        };
        assert!(["run.not_found", "request.invalid"].contains(&code(&watched).as_str()), "{watched:?}");
    }

    /// S6.11: without a token, or with one that is none, nothing is answered.
    async fn a_bad_token_is_refused(case: Case) {
        let malformed = case.client_with("nonsense");
        assert_eq!(code(&malformed.try_run("x").await.unwrap_err()), "token.invalid");
        let unknown = case.client_with(&format!("sayso_{}", "0".repeat(64)));
        let refused = unknown.try_run("x").await.unwrap_err();
        assert_eq!((refused.code(), code(&refused).as_str()), (Code::Unauthenticated, "token.invalid"));
        let lacking = case.app.try_start("any", "go").await.unwrap_err();
        assert_eq!((lacking.code(), code(&lacking).as_str()), (Code::PermissionDenied, "token.scope_missing"));
    }

    /// S10.5: too much is refused as too large and starts nothing; so is text that no database holds.
    async fn oversized_input_starts_nothing(case: Case) {
        case.deploy(&gated("sized")).await;
        let large = "x".repeat((1 << 20) + 1);
        let refused = case.sub.try_start("sized", &large).await.unwrap_err();
        assert_eq!((refused.code(), code(&refused).as_str()), (Code::OutOfRange, "request.too_large"));
        let nul = case.sub.try_start("sized", "a\0b").await.unwrap_err();
        assert_eq!(code(&nul), "request.invalid_text");
        let huge = "x".repeat(16 << 20);
        let refused = case.sub.try_start("sized", &huge).await.unwrap_err();
        assert!([Code::OutOfRange, Code::ResourceExhausted].contains(&refused.code()), "{refused:?}");
        let request = ListRunsRequest { agent: "sized".into(), ..ListRunsRequest::default() };
        let runs = case.sub.runs().list_runs(request).await.unwrap().into_inner().runs;
        assert_eq!(runs, []);
    }

    /// S10.5: a page token that was not given out for this list is refused.
    async fn a_malformed_page_token_is_refused(case: Case) {
        let run = case.begin(&gated("paged")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        for page_token in ["nonsense", "AAAA", "\u{1f980}"] {
            let request = ListRunsRequest { page_token: page_token.into(), ..ListRunsRequest::default() };
            let runs = case.app.runs().list_runs(request).await.unwrap_err();
            let request = ListApprovalsRequest { page_token: page_token.into(), ..ListApprovalsRequest::default() };
            let approvals = case.app.approvals().list_approvals(request).await.unwrap_err();
            let request = ListRunStepsRequest {
                run_id: run.clone(),
                page_token: page_token.into(),
                ..ListRunStepsRequest::default()
            };
            let steps = case.app.runs().list_run_steps(request).await.unwrap_err();
            for refused in [runs, approvals, steps] {
                assert_eq!((refused.code(), code(&refused).as_str()), (Code::InvalidArgument, "page.malformed"));
            }
        }
        case.app.deny(&held, "").await;
        case.completed(&run).await;
    }

    /// S6.4: a decision that is none, and one on what was decided, change nothing.
    async fn a_bad_decision_changes_nothing(case: Case) {
        let run = case.begin(&gated("decided")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let none = case.app.decide(&held.id, Verdict::Unspecified, "").await.unwrap_err();
        assert_eq!((none.code(), code(&none).as_str()), (Code::InvalidArgument, "request.invalid"));
        let empty = case.app.respond(&run, vec![], "").await.unwrap_err();
        assert_eq!(code(&empty), "request.empty");
        let long = "x".repeat((1 << 20) + 1);
        let large = case.app.decide(&held.id, Verdict::Approve, &long).await.unwrap_err();
        assert_eq!(code(&large), "request.too_large");
        assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&held));
        case.app.approve(&held).await;
        case.completed(&run).await;
        let late = case.app2.decide(&held.id, Verdict::Deny, "").await.unwrap_err();
        assert!(["approval.already_decided", "run.ended"].contains(&code(&late).as_str()), "{late:?}");
        assert_eq!(case.ledger.numbers(&run), [1]);
    }

    /// S1.1: a key that is used again with other content is refused and starts nothing.
    async fn a_key_with_other_content_is_refused(case: Case) {
        case.deploy(&gated("keyed")).await;
        let start = async |input: &str| {
            let request = StartRunRequest {
                agent: "keyed".into(),
                input: input.into(),
                idempotency_key: "k".into(),
            };
            case.sub.runs().start_run(request).await.map(tonic::Response::into_inner)
        };
        let first = start("go").await.unwrap();
        let again = start("go").await.unwrap();
        assert!(again.already_started && !first.already_started);
        let run = first.run.unwrap().id;
        assert_eq!(again.run.unwrap().id, run);
        assert_eq!(code(&start("stop").await.unwrap_err()), "request.key_reused");
        case.sub.cancel(&run).await.unwrap();
    }
}

/// S6.8: a decision after the deadline is refused as expired, and nothing ran.
#[test]
fn a_decision_on_an_expired_approval_is_refused() {
    on_runtime(async {
        for shape in [Shape::Embedded, Shape::APART] {
            let case = Case::alone(shape, WORLD.options()).await;
            let run = case.begin(&gated("late")).await;
            let held = case.app.held(&run, 1).await.remove(0);
            case.advance(std::time::Duration::from_secs(60 * 60 + 1))
                .await;
            let late = case
                .app
                .decide(&held.id, Verdict::Approve, "")
                .await
                .unwrap_err();
            assert!(
                ["approval.expired", "run.ended"].contains(&code(&late).as_str()),
                "{late:?}"
            );
            case.completed(&run).await;
            assert_eq!(case.ledger.of(&run), []);
            let denied = case.app.timeline(&run).await;
            assert_eq!(
                denied.one("tool_denied", "call_1_1").content["cause"],
                "timeout"
            );
            assert_eq!(case.app.feedback(&run).await, []);
        }
    });
}

/// Configuration: every mistake is reported at once, by key.
#[test]
fn a_bad_configuration_is_reported_whole() {
    on_runtime(async {
        let deployment = Deployment::prepare(Shape::Embedded, &Options::new()).await;
        let path = deployment.folder().join("bad.yaml");
        std::fs::write(
            &path,
            "executor: {concurrency: many}\ngrace: soon\ncolour: red\n",
        )
        .unwrap();
        let path = path.to_str().unwrap();
        let ran = deployment.sayso(["serve", "executor", "--config", path]);
        assert_ne!(ran.code, Some(0));
        for key in ["executor.concurrency", "grace", "colour"] {
            assert!(ran.text().contains(key), "{key} in {}", ran.text());
        }
        assert!(!ran.text().contains("panicked"), "{}", ran.text());
    });
}

/// The broker is away when the services start, or goes away: runs that are accepted meanwhile go on
/// when it is back, and nothing has to be restarted.
#[test]
fn the_broker_goes_away_and_comes_back() {
    on_runtime(async {
        let case = Case::alone(Shape::APART, WORLD.options()).await;
        case.deploy(&gated("brokered")).await;
        case.nats().kill();
        for process in case.processes() {
            process.kill();
        }
        for process in case.processes() {
            process.start();
        }
        case.nats().start();
        case.nats_accepts().await;
        case.start_all().await;
        let run = case.sub.start("brokered", "go").await;
        let held = case.app.held(&run, 1).await.remove(0);
        case.nats().kill();
        case.app.approve(&held).await;
        case.nats().start();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    });
}

/// The database goes away: requests are refused as such, the services say that they are not ready,
/// and all goes on when it is back, without a restart; away at the start, it is waited for.
#[test]
fn the_database_goes_away_and_comes_back() {
    on_runtime(async {
        let case = Case::alone(Shape::APART, WORLD.options().proxied()).await;
        let run = case.begin(&gated("stored")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        case.proxy().cut();
        let refused = until("a request to be refused", async || {
            case.app.decide(&held.id, Verdict::Approve, "").await.err()
        })
        .await;
        assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
        let codes = [
            "database.unavailable",
            "token.unverifiable",
            "service.unavailable",
        ];
        assert!(codes.contains(&code(&refused).as_str()), "{refused:?}");
        until("the gateway to say so", async || {
            let (status, _) = case.readiness("gateway-0").await?;
            (status == 503).then_some(())
        })
        .await;

        case.proxy().restore();
        case.ready().await;
        assert_eq!(case.ledger.of(&run), []);
        until("the approval to be taken", async || {
            case.app.decide(&held.id, Verdict::Approve, "").await.ok()
        })
        .await;
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);

        case.kill_all();
        case.proxy().cut();
        for process in case.processes() {
            process.start();
        }
        let executor = case.executor(0);
        until("the executor to wait", async || {
            executor
                .log()
                .contains("database.unavailable")
                .then_some(())
        })
        .await;
        case.proxy().restore();
        case.ready().await;
        let next = case.sub.start("stored", "again").await;
        let held = case.app.held(&next, 1).await.remove(0);
        case.app.approve(&held).await;
        case.completed(&next).await;
    });
}

/// A script with a mistake stops the start, with the code, the file and the place.
#[test]
fn a_script_with_a_mistake_is_refused_at_the_start() {
    on_runtime(async {
        let options = Options::new().script("wrong", "turns: [{text: a, colour: red}]");
        let deployment = Deployment::prepare(Shape::Embedded, &options).await;
        let process = deployment.executor(0);
        process.start();
        until("sayso to end", async || {
            (!process.is_running()).then_some(())
        })
        .await;
        let log = process.log();
        assert!(log.contains("config.invalid"), "{log}");
        assert!(log.contains("turns[0]"), "{log}");
        assert!(!log.contains("panicked"), "{log}");
    });
}
