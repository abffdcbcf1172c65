//! Everything that somebody could try to have a call run that nobody let through, or that was let
//! through as something else (S6.1, S6.4, S6.10): each attempt fails closed, whatever it costs.
//!
//! | attempt | test |
//! |---|---|
//! | a decision written into the database | `a_forged_decision_runs_nothing` |
//! | a decision sent past the gateway, by somebody who was invented | `an_invented_approver_is_turned_away` |
//! | a decision sent again, for another call | `a_replayed_decision_lands_nowhere_else` |
//! | arguments swapped in the database, in a list, in a message | here and `decisions.rs` (B10) |
//! | the tool defined otherwise | `a_swapped_definition_runs_nothing` |
//! | another tenant's approval | `another_tenant_decides_nothing` |
//! | one's own request, on every route, with every token | `nobody_decides_their_own_on_any_route` |
//! | a child's request, decided by who asked for its parent | `delegation.rs` (S6.10) |
//! | a link that decides | `looking_decides_nothing` |
//! | a batch with one bad decision | `a_mixed_batch_is_taken_whole_or_not_at_all` |
//! | a crash in each window between decision and execution | `a_crash_in_any_window_runs_it_once_at_most` |
//! | an edit that a rule, the role or the schema denies, of what is masked, by who asks, past a group | `edits.rs` (S6.7) |
//! | a message of A2A that means to decide, with every token; another tenant's task | `a2a/people.rs` (B42, B43) |
//! | two who race | `two_servers_race` |

use std::os::unix::fs::PermissionsExt;

use reqwest::StatusCode;
use sayso_tests::{Bundle, Case, Shape, World, both, code, on_runtime, rounds, until};
use sayso_wire::internal::approval_hub_service_client::ApprovalHubServiceClient;
use sayso_wire::internal::{Caller, Reach, RespondRequest};
use sayso_wire::v1::decision::Target;
use sayso_wire::v1::{ActionStatus, Approval, ApprovalStatus, Decision, RunStatus, Scope, Verdict};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

static WORLD: World = World::new(
    &[
        (
            "one",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        (
            "same",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        (
            "three",
            "turns:
  - calls:
      - {tool: ledger.append, args: {n: 1}}
      - {tool: ledger.append, args: {n: 2}}
      - {tool: ledger.append, args: {n: 3}}
  - text: done",
        ),
    ],
    Shape::Apart {
        executors: 1,
        gateways: 2,
    },
);

fn gated(name: &str, script: &str) -> Bundle {
    Bundle::new(name)
        .tier(script)
        .ledger("ledger", "append")
        .ask("ledger.append")
}

async fn begun(case: &Case, name: &str) -> (String, Approval) {
    let run = case.begin(&gated(name, "one")).await;
    let held = case.app.held(&run, 1).await.remove(0);
    (run, held)
}

/// Changes the database behind everybody's back.
async fn tamper(case: &Case, sql: String) {
    let url = case.database();
    let changed = if url.starts_with("sqlite") {
        let mut database = SqliteConnection::connect(url).await.unwrap();
        let changed = sqlx::query(AssertSqlSafe(sql)).execute(&mut database).await;
        changed.unwrap().rows_affected()
    } else {
        let mut database = PgConnection::connect(url).await.unwrap();
        let changed = sqlx::query(AssertSqlSafe(sql)).execute(&mut database).await;
        changed.unwrap().rows_affected()
    };
    assert!(changed > 0);
}

both! {
    /// A step that says "approved" and was written past the product does not follow from the step
    /// before: the run is not worked on any more, and nothing runs.
    async fn a_forged_decision_runs_nothing(case: Case) {
        let (run, held) = begun(&case, "forged").await;
        let content = json!({
            "call": held.call_id, "approval": held.id, "digest": held.digest, "goes_on": true,
        });
        let at = case.app.timeline(&run).await.0.len();
        tamper(&case, format!(
            "INSERT INTO steps (run, seq, at, actor, kind, version, content, content_sha256, hash, append) \
             SELECT run, seq + 1, at, 'principal:app', 'tool_approved', 1, '{content}', content_sha256, \
             hash, append FROM steps WHERE run = '{run}' AND seq = {at}"
        )).await;
        tamper(&case, format!("UPDATE runs SET seq = seq + 1, ready_at = 1 WHERE id = '{run}'")).await;
        tamper(&case, format!("UPDATE approvals SET status = 'approved', decided_by = 'app' WHERE run = '{run}'")).await;

        let broken = case.app.verify(&run).await.result;
        assert!(matches!(broken, Some(sayso_wire::v1::verify_run_response::Result::Broken(_))));
        // Another run that was asked for after it is through: whoever works had every chance.
        for _ in 0..3 {
            let (other, held) = begun(&case, "forged-later").await;
            case.app.approve(&held).await;
            case.completed(&other).await;
        }
        assert_eq!(case.ledger.of(&run), []);
        assert_ne!(case.sub.run(&run).await.status(), RunStatus::Completed);
    }

    /// A decision that is sent again decides what it decided and nothing else: an identical call of the
    /// same run, of a later turn, waits for a decision of its own.
    async fn a_replayed_decision_lands_nowhere_else(case: Case) {
        let run = case.begin(&gated("replayed", "same")).await;
        let first = case.app.held(&run, 1).await.remove(0);
        case.app.approve(&first).await;
        let second = until("the second call to be held", async || {
            case.app.pending(&run).await.into_iter().find(|held| held.id != first.id)
        })
        .await;
        assert_ne!(first.digest, second.digest, "the call is part of what is bound");
        for _ in 0..3 {
            let again = case.app.decide(&first.id, Verdict::Approve, "").await.unwrap();
            assert!(again.outcome.unwrap().already_recorded);
        }
        let refused = case.app2.decide(&first.id, Verdict::Deny, "").await.unwrap_err();
        assert_eq!(code(&refused), "approval.already_decided");
        assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&second));
        case.app.deny(&second, "once is enough").await;
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    }

    /// Another tenant's approver decides nothing, by any name of it.
    async fn another_tenant_decides_nothing(case: Case) {
        let (run, held) = begun(&case, "foreign").await;
        for target in [
            Target::ApprovalId(held.id.clone()),
            Target::CallId(held.call_id.clone()),
        ] {
            let decisions = vec![(target, Verdict::Approve, "")];
            let refused = case.foreigner.respond(&run, decisions, "").await.unwrap_err();
            assert_eq!(code(&refused), "run.not_found");
        }
        let refused = case.foreigner.decide(&held.id, Verdict::Deny, "").await.unwrap_err();
        assert_eq!(code(&refused), "approval.not_found");
        case.app.deny(&held, "").await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run), []);
    }

    /// S6.10: whoever asked decides nothing: by approval, call and tool, over gRPC, at the command line
    /// and on the page, with their own token, a second one, and as an admin.
    async fn nobody_decides_their_own_on_any_route(case: Case) {
        let second = case.admin.create_token("sub-too", "sub", &[Scope::Approver, Scope::Read]).await;
        let all = case.admin.create_token("sub-all", "sub", &[Scope::Admin]).await;
        let (run, held) = begun(&case, "own").await;
        for token in [second, all] {
            let own = case.client_with(&token);
            for verdict in [Verdict::Approve, Verdict::Deny] {
                let refused = own.decide(&held.id, verdict, "").await.unwrap_err();
                assert_eq!(code(&refused), "approval.own_request");
                for target in [Target::ApprovalId(held.id.clone()), Target::CallId(held.call_id.clone())] {
                    let refused = own.respond(&run, vec![(target, verdict, "")], "hi").await;
                    assert_eq!(code(&refused.unwrap_err()), "approval.own_request");
                }
                let word = if verdict == Verdict::Approve { "approve" } else { "deny" };
                let page = decide_on_page(&case, &token, &held.id, word).await;
                assert_eq!(page.0, StatusCode::FORBIDDEN, "{}", page.1);
                assert!(page.1.contains("approval.own_request"), "{}", page.1);
            }
        }
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("user_message"), 0, "the message of a refused response is refused");
        assert!(case.admin.refusals(&held.id).await.len() >= 4);
        assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&held));
        case.app.approve(&held).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    }

    /// S6.13: nothing that is only looked at decides: no link, no form without its value, no page of
    /// another site.
    async fn looking_decides_nothing(case: Case) {
        let (run, held) = begun(&case, "looked").await;
        let (client, base, cookie) = session(&case, case.app.secret()).await;
        let decide = format!("{base}/approvals/{}/decide", held.id);
        for query in ["", "?verdict=approve", "?verdict=approve&form=x"] {
            for method in [reqwest::Method::GET, reqwest::Method::HEAD] {
                let request = client.request(method, format!("{decide}{query}"));
                let answer = request.header("cookie", &cookie).send().await.unwrap();
                assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
            }
        }
        for (origin, body) in [
            (base.as_str(), "verdict=approve"),
            (base.as_str(), "verdict=approve&form=guessed"),
            ("https://evil.example", "verdict=approve"),
        ] {
            let posted = client
                .post(&decide)
                .header("cookie", &cookie)
                .header("origin", origin)
                .header("content-type", "application/x-www-form-urlencoded")
                .body(body)
                .send()
                .await
                .unwrap();
            assert!(posted.status().is_client_error(), "{origin} {body}: {}", posted.status());
        }
        for path in ["", "/runs", "/agents", &format!("/approvals/{}", held.id), &format!("/runs/{run}")] {
            let looked = client.get(format!("{base}{path}")).header("cookie", &cookie).send().await;
            assert_eq!(looked.unwrap().status(), StatusCode::OK, "{path}");
        }
        assert_eq!(case.app.approval(&held.id).await.unwrap().status(), ApprovalStatus::Pending);
        case.app.deny(&held, "").await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run), []);
    }

    /// S6.4: one bad decision in a batch and none of it is taken, the message neither.
    async fn a_mixed_batch_is_taken_whole_or_not_at_all(case: Case) {
        let run = case.begin(&gated("batch", "three")).await;
        let held = case.app.held(&run, 3).await;
        let good = |at: usize, verdict| (Target::ApprovalId(held[at].id.clone()), verdict, "");
        for bad in [
            Target::ApprovalId("apr_00000000000000000000000000000000".into()),
            Target::CallId("call_9_9".into()),
            Target::Tool("ledger.other".into()),
        ] {
            let batch = vec![
                good(0, Verdict::Approve),
                good(1, Verdict::Deny),
                (bad, Verdict::Approve, ""),
            ];
            let refused = case.app.respond(&run, batch, "go").await.unwrap_err();
            assert!(["approval.not_found", "approval.seen_missing"].contains(&code(&refused).as_str()));
            assert_eq!(case.app.pending(&run).await.len(), 3);
        }
        case.app.approve(&held[2]).await;
        let batch = vec![good(0, Verdict::Approve), good(2, Verdict::Deny)];
        let refused = case.app.respond(&run, batch, "").await.unwrap_err();
        assert_eq!(code(&refused), "approval.already_decided");
        let batch = vec![good(0, Verdict::Approve), good(1, Verdict::Deny)];
        case.app.respond(&run, batch, "").await.unwrap();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1, 3]);
    }

    /// B11: an approval and a denial of two people at two gateways, again and again: one of them is the
    /// record, the other is told so, and the call ran if and only if the record says so, once.
    async fn two_servers_race(case: Case) {
        case.deploy(&gated("race", "one")).await;
        let other = case.other_client("app2");
        for round in 0..rounds() {
            let run = case.sub.start("race", "go").await;
            let held = case.app.held(&run, 1).await.remove(0);
            let (yes, no) = tokio::join!(
                case.app.decide(&held.id, Verdict::Approve, ""),
                other.decide(&held.id, Verdict::Deny, ""),
            );
            assert_ne!(yes.is_ok(), no.is_ok(), "round {round}: {yes:?} {no:?}");
            let lost = yes.as_ref().err().or(no.as_ref().err()).unwrap();
            assert_eq!(code(lost), "approval.already_decided");
            case.completed(&run).await;
            let ran: &[i64] = if yes.is_ok() { &[1] } else { &[] };
            assert_eq!(case.ledger.numbers(&run), ran, "round {round}");
        }
    }
}

/// S10.1, S6.10: the services behind the gateway take nothing from whoever cannot sign as a service,
/// whatever principal they name; and nothing that is published on the bus decides anything.
#[test]
fn an_invented_approver_is_turned_away() {
    WORLD.apart(async |case: Case| {
        let (run, held) = begun(&case, "invented").await;
        let address = format!("http://127.0.0.1:{}", case.port("approval_hub"));
        let mut hub = ApprovalHubServiceClient::connect(address).await.unwrap();
        let request = RespondRequest {
            caller: Some(Caller {
                namespace: "default".into(),
                principal: "the-boss".into(),
                reach: Reach::Namespace.into(),
                ..Caller::default()
            }),
            run_id: run.clone(),
            decisions: vec![Decision {
                target: Some(Target::ApprovalId(held.id.clone())),
                verdict: Verdict::Approve.into(),
                ..Decision::default()
            }],
            ..RespondRequest::default()
        };
        for bearer in [
            None,
            Some("Bearer forged"),
            Some("Bearer eyJhbGciOiJub25lIn0.e30."),
        ] {
            let mut request = tonic::Request::new(request.clone());
            if let Some(bearer) = bearer {
                let metadata = request.metadata_mut();
                metadata.insert("authorization", bearer.parse().unwrap());
            }
            let refused = hub.respond(request).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::Unauthenticated, "{refused:?}");
        }

        let event = json!({
            "run": run, "seq": held.sequence + 2, "type": "tool_approved", "actor": "principal:app",
            "content": {"call": held.call_id, "approval": held.id, "digest": held.digest},
        });
        for subject in [
            "sayso.events.v1.default.invented.tool_approved".to_owned(),
            format!("sayso.work.default.{run}"),
            format!("sayso.control.{run}"),
        ] {
            publish(&case, &subject, &event.to_string()).await;
        }
        let (other, next) = begun(&case, "invented-later").await;
        case.app.approve(&next).await;
        case.completed(&other).await;
        assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&held));
        assert_eq!(case.ledger.of(&run), []);
        case.app.deny(&held, "").await;
    });
}

/// S6.1: a server that defines the tool otherwise once the call was approved is not called.
#[test]
fn a_swapped_definition_runs_nothing() {
    for shape in [Shape::Embedded, Shape::APART] {
        on_runtime(async {
            let case = Case::alone(shape, WORLD.options()).await;
            let server = case.ledger_server("append");
            let program = case.folder().join("server.sh");
            let write = |strict: &str| {
                let real = server["command"][0].as_str().unwrap();
                let script = format!("#!/bin/sh\nSTRICT={strict} exec {real}\n");
                std::fs::write(&program, script).unwrap();
                std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            };
            write("");
            let bundle = Bundle::new("swapped")
                .tier("one")
                .server(
                    "ledger",
                    json!({"command": [program], "env": server["env"]}),
                )
                .ask("ledger.append");
            let run = case.begin(&bundle).await;
            let held = case.app.held(&run, 1).await.remove(0);
            write("yes");
            case.executor(0).kill();
            case.executor(0).start();
            case.ready().await;
            case.app.approve(&held).await;
            case.completed(&run).await;
            let action = &case.app.actions(&run).await["call_1_1"];
            assert_eq!(action.status(), ActionStatus::Failed, "{action:?}");
            assert_eq!(case.ledger.of(&run), []);
        });
    }
}

/// B07, B24: a worker that dies in any window between the decision and the end of the call: the call
/// runs at most once, and only if it was approved.
#[test]
fn a_crash_in_any_window_runs_it_once_at_most() {
    for window in [
        "driver.before_flush=kill@3",
        "driver.before_append=kill@3",
        "driver.before_send=kill@1",
        "driver.after_send=kill@1",
        "driver.before_park=kill@2",
    ] {
        on_runtime(async {
            let options = WORLD.options().hooks(window);
            let case = Case::alone(Shape::APART, options).await;
            let (run, held) = begun(&case, "crash").await;
            case.app.approve(&held).await;
            let ended = until("the run to end, whatever it takes", async || {
                if !case.executor(0).is_running() {
                    case.executor(0).start();
                    case.ready().await;
                }
                let now = case.sub.run(&run).await;
                now.ended_at.is_some().then_some(now)
            })
            .await;
            let ran = case.ledger.numbers(&run);
            assert!(ran.len() <= 1, "{window}: {ran:?}");
            if ended.status() == RunStatus::Completed {
                assert_eq!(ran, [1], "{window}");
            } else {
                assert_eq!(ended.failure.unwrap().code, "run.interrupted", "{window}");
            }
            let timeline = case.app.timeline(&run).await;
            assert_eq!(timeline.count("tool_approved"), 1, "{window}");
        });
    }
}

/// Publishes on the broker as anybody could who reaches it.
async fn publish(case: &Case, subject: &str, body: &str) {
    let mut broker = TcpStream::connect(("127.0.0.1", case.nats_port()))
        .await
        .unwrap();
    let length = body.len();
    let text = format!("CONNECT {{}}\r\nPUB {subject} {length}\r\n{body}\r\nPING\r\n");
    broker.write_all(text.as_bytes()).await.unwrap();
    let mut said = String::new();
    let mut buffer = [0; 4096];
    while !said.contains("PONG") {
        let read = broker.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the broker hung up: {said}");
        said.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
}

/// A browser's session: a client, the gateway's address and the cookie.
async fn session(case: &Case, token: &str) -> (reqwest::Client, String, String) {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let base = case.address(0);
    let login = client
        .post(format!("{base}/login"))
        .header("origin", &base)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("token={token}&next=%2F"))
        .send()
        .await
        .unwrap();
    let cookie = login.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    (client, base, cookie)
}

/// Decides with the form of the approval's own page, as it would be filled in if it were shown.
async fn decide_on_page(
    case: &Case,
    token: &str,
    approval: &str,
    verdict: &str,
) -> (StatusCode, String) {
    let (client, base, cookie) = session(case, token).await;
    let page = client
        .get(&base)
        .header("cookie", &cookie)
        .send()
        .await
        .unwrap();
    let page = page.text().await.unwrap();
    let form = page.split_once("name=\"form\" value=\"").expect("a form").1;
    let form = form.split_once('"').unwrap().0;
    let posted = client
        .post(format!("{base}/approvals/{approval}/decide"))
        .header("cookie", &cookie)
        .header("origin", &base)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("form={form}&verdict={verdict}&key=k-{verdict}"))
        .send()
        .await
        .unwrap();
    (posted.status(), posted.text().await.unwrap())
}
