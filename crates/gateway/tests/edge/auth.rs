//! Tokens and scopes (S6.11), and what namespaces see of each other (B43).

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use sayso_gateway::auth::access::METHODS;
use sayso_gateway::auth::{Scope, Scopes};
use sayso_service::error::Coded;
use sayso_wire::v1;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::ServiceExt;

use crate::house::{House, Person, code, next};

/// The status of a call with an empty message, whatever the method.
async fn call(house: &House, path: &str, authorization: Option<&str>) -> Status {
    let mut request = http::Request::post(path)
        .version(http::Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(value) = authorization {
        request = request.header("authorization", value);
    }
    let body = Body::new(Full::new(Bytes::from_static(&[0; 5])));
    let response = house
        .gateway
        .routes()
        .oneshot(request.body(body).expect("a request"))
        .await;
    let response = response.expect("answered");
    Status::from_header_map(response.headers()).unwrap_or_else(|| Status::ok("a stream or more"))
}

/// S6.11: the one table holds for every method and every scope; a refusal names the scope.
#[tokio::test]
async fn s6_11_every_method_needs_its_scope() {
    let house = House::new().await;
    for scope in Scope::ALL {
        let person = house
            .person("shop", &format!("{}-only", scope.as_str()), &[scope])
            .await;
        let bearer = format!("Bearer {}", person.secret);
        for method in METHODS {
            let status = call(&house, method.path, Some(&bearer)).await;
            let refused = code(&status) == "token.scope_missing";
            let scopes = Scopes::of(&[scope]);
            let may = scopes.permit(method.whole) || scopes.permit(method.own);
            assert_eq!(refused, !may, "{scope:?} {} {status:?}", method.path);
            if refused {
                assert_eq!(status.code(), Code::PermissionDenied);
                let named = &Coded::from_status(&status).metadata["scope"];
                assert!(!named.is_empty(), "{}", method.path);
            }
            // An empty request never breaks anything.
            assert_ne!(status.code(), Code::Internal, "{} {status:?}", method.path);
        }
    }
}

#[tokio::test]
async fn s6_11_no_method_answers_without_a_token() {
    let house = House::new().await;
    let unknown = format!("Bearer sayso_{}", "0".repeat(64));
    for method in METHODS {
        for (given, expected) in [
            (None, "token.missing"),
            (Some("Bearer nonsense"), "token.invalid"),
            (Some("Basic YTpi"), "token.invalid"),
            (Some(unknown.as_str()), "token.invalid"),
        ] {
            let status = call(&house, method.path, given).await;
            assert_eq!(status.code(), Code::Unauthenticated, "{}", method.path);
            assert_eq!(code(&status), expected, "{}", method.path);
        }
    }
    let status = call(&house, "/sayso.v1.RunService/Nonsense", Some(&unknown)).await;
    assert_eq!(status.code(), Code::Unimplemented);
}

fn get(run: &str) -> v1::GetRunRequest {
    v1::GetRunRequest { run_id: run.into() }
}

/// S6.11: shown once, stored hashed, listed without secret, expiring, revocable.
#[tokio::test]
async fn s6_11_tokens_are_made_listed_and_revoked() {
    let house = House::new().await;
    let admin = house.person("shop", "root", &[Scope::Admin]).await;
    let request = v1::CreateTokenRequest {
        name: "ci".into(),
        principal: "alice".into(),
        scopes: vec![v1::Scope::Submit.into(), v1::Scope::Read.into()],
        ..v1::CreateTokenRequest::default()
    };
    let made = admin
        .tokens()
        .create_token(request.clone())
        .await
        .expect("made")
        .into_inner();
    let token = made.token.expect("a token");
    assert_eq!(
        (token.name.as_str(), token.principal.as_str()),
        ("ci", "alice")
    );
    assert_eq!(token.created_by, "root");
    assert_eq!(token.trust(), v1::Trust::Trusted);
    let lifetime =
        token.expires_at.expect("it expires").seconds - token.created_at.expect("made").seconds;
    assert_eq!(lifetime, 90 * 24 * 3600);

    let alice = house.stranger(&made.secret);
    let run = alice.start("hello").await;
    assert_eq!(alice.run(&run).await.requester, "alice");

    let again = admin
        .tokens()
        .create_token(request.clone())
        .await
        .expect_err("the name is taken");
    assert_eq!(
        (again.code(), code(&again).as_str()),
        (Code::AlreadyExists, "token.exists")
    );
    for (bad, expected) in [
        (
            v1::CreateTokenRequest {
                name: "a b".into(),
                ..request.clone()
            },
            "request.invalid",
        ),
        (
            v1::CreateTokenRequest {
                name: "x".into(),
                scopes: vec![],
                ..request.clone()
            },
            "token.no_scope",
        ),
        (
            v1::CreateTokenRequest {
                name: "x".into(),
                scopes: vec![0],
                ..request.clone()
            },
            "request.invalid",
        ),
        (
            v1::CreateTokenRequest {
                name: "x".into(),
                scopes: vec![99],
                ..request.clone()
            },
            "request.invalid",
        ),
        (
            v1::CreateTokenRequest {
                name: "x".into(),
                trust: 99,
                ..request.clone()
            },
            "request.invalid",
        ),
        (
            v1::CreateTokenRequest {
                name: "x".into(),
                expires_after: Some(prost_types::Duration {
                    seconds: 59,
                    nanos: 0,
                }),
                ..request.clone()
            },
            "token.lifetime",
        ),
    ] {
        let refused = admin.tokens().create_token(bad).await.expect_err("refused");
        assert_eq!(code(&refused), expected, "{refused:?}");
    }

    let list = |include_ended| v1::ListTokensRequest {
        include_ended,
        page_size: 2,
        ..v1::ListTokensRequest::default()
    };
    let first = admin
        .tokens()
        .list_tokens(list(false))
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(
        first
            .tokens
            .iter()
            .map(|t| t.name.as_str())
            .collect::<Vec<_>>(),
        ["ci", "root"]
    );
    let rest = v1::ListTokensRequest {
        page_token: first.next_page_token,
        ..list(false)
    };
    let rest = admin
        .tokens()
        .list_tokens(rest)
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(
        rest.tokens
            .iter()
            .map(|t| t.name.as_str())
            .collect::<Vec<_>>(),
        ["operator"]
    );
    assert_eq!(rest.next_page_token, "");

    let by_name = v1::RevokeTokenRequest {
        token: Some(v1::revoke_token_request::Token::Name("ci".into())),
    };
    let revoked = admin
        .tokens()
        .revoke_token(by_name.clone())
        .await
        .expect("revoked")
        .into_inner();
    assert!(revoked.token.expect("a token").revoked_at.is_some());
    let refused = alice
        .runs()
        .get_run(get(run.as_str()))
        .await
        .expect_err("at once");
    assert_eq!(
        (refused.code(), code(&refused).as_str()),
        (Code::Unauthenticated, "token.revoked")
    );
    let gone = admin
        .tokens()
        .revoke_token(by_name)
        .await
        .expect_err("no live one has the name");
    assert_eq!(code(&gone), "token.not_found");
    let live = admin
        .tokens()
        .list_tokens(list(false))
        .await
        .expect("listed")
        .into_inner();
    assert!(live.tokens.iter().all(|token| token.name != "ci"));
    let all = v1::ListTokensRequest {
        principal: "alice".into(),
        ..list(true)
    };
    let all = admin
        .tokens()
        .list_tokens(all)
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(all.tokens.len(), 1);
}

/// S6.11: streams of a revoked token end within a second, also those of an instance that did not
/// revoke it; expiry ends calls.
#[tokio::test]
async fn s6_11_open_streams_end_with_their_token() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    let mut runs = person.watch(&run, 1).await;
    assert!(next(&mut runs).await.expect("a step").is_ok());
    let watch = v1::WatchApprovalsRequest::default();
    let mut approvals = person
        .approvals()
        .watch_approvals(watch)
        .await
        .expect("a stream")
        .into_inner();
    assert_eq!(house.gateway.watchers(), (1, 1));

    // Straight in the database, as another instance would.
    let namespace = crate::house::namespace("shop");
    house
        .store
        .tokens()
        .revoke(&namespace, &person.token)
        .await
        .expect("revoked");
    let ended = tokio::time::timeout(Duration::from_secs(1), async {
        let runs = next(&mut runs)
            .await
            .expect("an end")
            .expect_err("an error");
        let approvals = next(&mut approvals)
            .await
            .expect("an end")
            .expect_err("an error");
        (runs, approvals)
    });
    for status in ended.await.map(<[_; 2]>::from).expect("within a second") {
        assert_eq!(status.code(), Code::Unauthenticated);
        assert_eq!(code(&status), "token.revoked");
    }
    drop((runs, approvals));
    assert_eq!(house.gateway.watchers(), (0, 0));

    let other = house.person("shop", "bob", &[Scope::Read]).await;
    other.run(&run).await;
    house
        .store
        .set_clock_offset(91 * 24 * 3600 * 1_000_000)
        .await
        .expect("moved");
    let refused = other
        .runs()
        .get_run(get(run.as_str()))
        .await
        .expect_err("expired");
    assert_eq!(code(&refused), "token.expired");
}

/// B43: nothing of another namespace is listed, streamed, fetched or decided, and an unknown id
/// answers the same.
#[tokio::test]
async fn b43_another_namespace_is_as_good_as_none() {
    let house = House::new().await;
    let scopes = [Scope::Submit, Scope::Read, Scope::Approver, Scope::Operator];
    let ours = house.person("shop", "ann", &scopes).await;
    let theirs = house.person("other", "eve", &scopes).await;
    let (run, approval) = house.gated(&ours).await;
    let unknown = ("run_0", "apr_0");

    let watch = v1::WatchApprovalsRequest {
        snapshot: true,
        ..v1::WatchApprovalsRequest::default()
    };
    let mut streamed = theirs
        .approvals()
        .watch_approvals(watch)
        .await
        .expect("a stream")
        .into_inner();
    let first = next(&mut streamed)
        .await
        .expect("a message")
        .expect("no error");
    let complete =
        v1::watch_approvals_response::Event::SnapshotComplete(v1::SnapshotComplete { count: 0 });
    assert_eq!(first.event, Some(complete));

    assert!(theirs.pending().await.is_empty());
    let listed = theirs
        .runs()
        .list_runs(v1::ListRunsRequest::default())
        .await
        .expect("listed");
    assert!(listed.into_inner().runs.is_empty());
    for id in [run.as_str(), unknown.0] {
        for status in answers_for_run(&theirs, id).await {
            assert_eq!(
                (status.code(), code(&status).as_str()),
                (Code::NotFound, "run.not_found"),
                "{id}"
            );
        }
    }
    let mut alike = Vec::new();
    for id in [approval.as_str(), unknown.1] {
        let get = v1::GetApprovalRequest {
            approval_id: id.into(),
        };
        let got = theirs
            .approvals()
            .get_approval(get)
            .await
            .expect_err("not found");
        let decided = theirs
            .decide(id, v1::Verdict::Approve)
            .await
            .expect_err("not found");
        for status in [got, decided] {
            assert_eq!(code(&status), "approval.not_found");
            alike.push((status.code(), status.message().to_owned()));
        }
    }
    assert!(
        alike.windows(2).all(|pair| pair[0] == pair[1]),
        "nobody can tell: {alike:?}"
    );

    // Nothing happened, and what happens next in `shop` is not streamed to them.
    let waiting = ours.run(&run).await;
    assert_eq!(waiting.status(), v1::RunStatus::AwaitingApproval);
    let (own, _) = house.gated(&theirs_in(&house).await).await;
    let streamed = next(&mut streamed)
        .await
        .expect("a message")
        .expect("no error");
    match streamed.event {
        Some(v1::watch_approvals_response::Event::Requested(approval)) => {
            assert_eq!(approval.run_id, own.to_string());
        }
        other => panic!("only their own is streamed: {other:?}"),
    }
}

/// Somebody else of the other namespace, with an agent to start.
async fn theirs_in(house: &House) -> Person {
    let person = house
        .person("other", "mallory", &[Scope::Submit, Scope::Operator])
        .await;
    let deploy = v1::DeployAgentRequest {
        bundle: crate::house::BUNDLE.into(),
    };
    person
        .agents()
        .deploy_agent(deploy)
        .await
        .expect("deployed");
    person
}

async fn answers_for_run(person: &Person, id: &str) -> Vec<Status> {
    let run_id = || id.to_owned();
    let mut runs = person.runs();
    let steps = v1::ListRunStepsRequest {
        run_id: run_id(),
        ..v1::ListRunStepsRequest::default()
    };
    let actions = v1::ListRunActionsRequest {
        run_id: run_id(),
        ..v1::ListRunActionsRequest::default()
    };
    let watch = v1::WatchRunRequest {
        run_id: run_id(),
        ..v1::WatchRunRequest::default()
    };
    let cancel = v1::CancelRunRequest {
        run_id: run_id(),
        ..v1::CancelRunRequest::default()
    };
    let reply = v1::ReplyToRunRequest {
        run_id: run_id(),
        message: "x".into(),
        ..v1::ReplyToRunRequest::default()
    };
    let respond = v1::RespondToRunRequest {
        run_id: run_id(),
        message: "x".into(),
        ..v1::RespondToRunRequest::default()
    };
    vec![
        runs.get_run(get(id)).await.expect_err("not found"),
        runs.list_run_steps(steps).await.expect_err("not found"),
        runs.list_run_actions(actions).await.expect_err("not found"),
        runs.watch_run(watch).await.expect_err("not found"),
        runs.verify_run(v1::VerifyRunRequest { run_id: run_id() })
            .await
            .expect_err("not found"),
        runs.cancel_run(cancel).await.expect_err("not found"),
        runs.reply_to_run(reply).await.expect_err("not found"),
        runs.retry_run(v1::RetryRunRequest { run_id: run_id() })
            .await
            .expect_err("not found"),
        person
            .approvals()
            .respond_to_run(respond)
            .await
            .expect_err("not found"),
    ]
}

/// S6.11: `submit` alone reaches its own runs and their approvals; others' are not found.
#[tokio::test]
async fn s6_11_submit_reaches_its_own_runs_alone() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let bob = house.person("shop", "bob", &[Scope::Submit]).await;
    let operator = house.person("shop", "olga", &[Scope::Operator]).await;
    let (run, approval) = house.gated(&ann).await;

    assert_eq!(ann.run(&run).await.id, run.to_string());
    assert_eq!(ann.pending().await.len(), 1);
    assert!(bob.pending().await.is_empty());
    let of_ann = v1::ListRunsRequest {
        requester: "ann".into(),
        ..v1::ListRunsRequest::default()
    };
    let seen = bob
        .runs()
        .list_runs(of_ann.clone())
        .await
        .expect("listed")
        .into_inner();
    assert!(seen.runs.is_empty());
    assert_eq!(
        operator
            .runs()
            .list_runs(of_ann)
            .await
            .expect("listed")
            .into_inner()
            .runs
            .len(),
        1
    );
    let got = bob
        .runs()
        .get_run(get(run.as_str()))
        .await
        .expect_err("not bob's");
    assert_eq!(code(&got), "run.not_found");
    let get_approval = v1::GetApprovalRequest {
        approval_id: approval,
    };
    let got = bob
        .approvals()
        .get_approval(get_approval.clone())
        .await
        .expect_err("not bob's");
    assert_eq!(code(&got), "approval.not_found");
    assert!(ann.approvals().get_approval(get_approval).await.is_ok());

    let cancel = v1::CancelRunRequest {
        run_id: run.to_string(),
        ..v1::CancelRunRequest::default()
    };
    let refused = bob
        .runs()
        .cancel_run(cancel.clone())
        .await
        .expect_err("not bob's");
    assert_eq!(code(&refused), "run.not_found");
    let cancelled = operator
        .runs()
        .cancel_run(cancel)
        .await
        .expect("an operator cancels anyone's");
    assert_eq!(
        cancelled.into_inner().run.expect("a run").status(),
        v1::RunStatus::Cancelled
    );
}
