//! Deciding (S6.4, S6.10), and what the audit log says of it (S10.8).

use sayso_gateway::auth::Scope;
use sayso_service::error::Coded;
use sayso_wire::v1;
use tonic::Code;

use crate::house::{House, Person, code};

async fn audit(person: &Person, action: &str) -> Vec<v1::AuditEntry> {
    let request = v1::ListAuditEntriesRequest {
        action: action.into(),
        ..v1::ListAuditEntriesRequest::default()
    };
    let listed = person.audit().list_audit_entries(request).await;
    listed.expect("listed").into_inner().entries
}

/// S6.4, B11, B15: the first decision is final; the same again by the same person is answered with
/// the record, a different one is refused naming it. What came of it stands on the approval (S6.3).
#[tokio::test]
async fn s6_4_the_first_decision_is_final() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let bob = house.person("shop", "bob", &[Scope::Approver]).await;
    let cyd = house
        .person("shop", "cyd", &[Scope::Approver, Scope::Operator])
        .await;
    let (run, approval) = house.gated(&ann).await;

    let decided = bob
        .decide(&approval, v1::Verdict::Approve)
        .await
        .expect("decided");
    let outcome = decided.outcome.expect("an outcome");
    assert_eq!(
        (outcome.decided_by.as_str(), outcome.already_recorded),
        ("bob", false)
    );
    assert_eq!(decided.run_id, run.to_string());
    let again = bob
        .decide(&approval, v1::Verdict::Approve)
        .await
        .expect("answered");
    assert!(again.outcome.expect("an outcome").already_recorded);
    assert_eq!(again.last_sequence, decided.last_sequence, "no extra step");

    for (person, verdict) in [(&cyd, v1::Verdict::Deny), (&bob, v1::Verdict::Deny)] {
        let refused = person.decide(&approval, verdict).await.expect_err("final");
        assert_eq!(refused.code(), Code::FailedPrecondition);
        let coded = Coded::from_status(&refused);
        assert_eq!(coded.code, "approval.already_decided");
        assert_eq!(coded.metadata["decided_by"], "bob");
        assert_eq!(coded.metadata["recorded_decision"], "approved");
    }
    house.complete(&run).await;
    let get = v1::GetApprovalRequest {
        approval_id: approval.clone(),
    };
    let shown = cyd
        .approvals()
        .get_approval(get)
        .await
        .expect("read")
        .into_inner();
    let shown = shown.approval.expect("an approval");
    assert_eq!(shown.status(), v1::ApprovalStatus::Approved);
    assert_eq!(shown.action_status(), v1::ActionStatus::Executed);
    assert_eq!(shown.decided_by.as_deref(), Some("bob"));

    let feedback = cyd
        .feedback()
        .list_feedback(v1::ListFeedbackRequest::default())
        .await;
    let feedback = feedback.expect("listed").into_inner().feedback;
    assert_eq!(feedback.len(), 1, "one a decision");
    assert_eq!((feedback[0].by.as_str(), feedback[0].score), ("bob", 1.0));

    let entries = audit(&cyd, "approval.decide").await;
    let who: Vec<_> = entries
        .iter()
        .map(|entry| (entry.actor.as_str(), entry.code.as_str()))
        .collect();
    assert_eq!(
        who,
        [
            ("principal:bob", "approval.already_decided"),
            ("principal:cyd", "approval.already_decided"),
        ],
        "what was accepted stands on the timeline"
    );
}

/// B42, S6.10, S10.8: nobody decides their own request, by either method, in either direction, with
/// any scope; every refusal is recorded.
#[tokio::test]
async fn b42_nobody_decides_their_own_request_and_the_refusal_is_recorded() {
    let house = House::new().await;
    let scopes = [Scope::Submit, Scope::Approver, Scope::Admin];
    let ann = house.person("shop", "ann", &scopes).await;
    let (run, approval) = house.gated(&ann).await;
    for verdict in [v1::Verdict::Approve, v1::Verdict::Deny] {
        let refused = ann
            .decide(&approval, verdict)
            .await
            .expect_err("own request");
        assert_eq!(
            (refused.code(), code(&refused).as_str()),
            (Code::PermissionDenied, "approval.own_request")
        );
        assert!(
            refused.message().contains("sayso token create"),
            "{refused:?}"
        );
        let respond = v1::RespondToRunRequest {
            run_id: run.to_string(),
            decisions: vec![v1::Decision {
                target: Some(v1::decision::Target::ApprovalId(approval.clone())),
                verdict: verdict.into(),
                ..v1::Decision::default()
            }],
            ..v1::RespondToRunRequest::default()
        };
        let refused = ann
            .approvals()
            .respond_to_run(respond)
            .await
            .expect_err("own request");
        assert_eq!(code(&refused), "approval.own_request");
    }
    let decided = audit(&ann, "approval.decide").await;
    assert_eq!(decided.len(), 2);
    for entry in decided.iter().chain(&audit(&ann, "run.respond").await) {
        assert_eq!(entry.actor, "principal:ann");
        assert_eq!(entry.outcome(), v1::AuditOutcome::Refused);
        assert_eq!(entry.code, "approval.own_request");
        assert!([approval.as_str(), run.as_str()].contains(&entry.subject.as_str()));
        assert_eq!(entry.hash.len(), 64);
    }
    assert_eq!(
        ann.run(&run).await.status(),
        v1::RunStatus::AwaitingApproval
    );
}

/// S10.8: decisions refused for want of a scope, on unknown approvals and after expiry are recorded;
/// what is malformed decides nothing and is not. The log verifies.
#[tokio::test]
async fn s10_8_refused_decisions_are_recorded() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let bob = house.person("shop", "bob", &[Scope::Approver]).await;
    let root = house.person("shop", "root", &[Scope::Admin]).await;
    let (run, approval) = house.gated(&ann).await;
    let last = root.run(&run).await.last_sequence;

    let refused = ann
        .decide(&approval, v1::Verdict::Approve)
        .await
        .expect_err("no scope");
    assert_eq!(code(&refused), "token.scope_missing");
    let refused = bob
        .decide("apr_unknown", v1::Verdict::Deny)
        .await
        .expect_err("unknown");
    assert_eq!(code(&refused), "approval.not_found");
    let refused = bob
        .decide("nonsense", v1::Verdict::Deny)
        .await
        .expect_err("malformed");
    assert_eq!(code(&refused), "request.invalid");
    let refused = bob
        .decide(&approval, v1::Verdict::Unspecified)
        .await
        .expect_err("says nothing");
    assert_eq!(code(&refused), "request.invalid");
    house
        .store
        .set_clock_offset(3601 * 1_000_000)
        .await
        .expect("moved");
    let refused = bob
        .decide(&approval, v1::Verdict::Approve)
        .await
        .expect_err("too late");
    assert_eq!(
        (refused.code(), code(&refused).as_str()),
        (Code::FailedPrecondition, "approval.expired")
    );
    assert_eq!(
        root.run(&run).await.last_sequence,
        last,
        "nothing was decided"
    );

    let entries = audit(&root, "approval.decide").await;
    let codes: Vec<_> = entries
        .iter()
        .map(|entry| (entry.actor.as_str(), entry.code.as_str()))
        .collect();
    assert_eq!(
        codes,
        [
            ("principal:bob", "approval.expired"),
            ("principal:bob", "approval.not_found"),
            ("principal:ann", "token.scope_missing"),
        ]
    );
    assert_eq!(entries[0].subject, approval);
    assert_eq!(
        entries[0].details_json,
        r#"{"decision":"approve","edits":0}"#
    );

    let all = root
        .audit()
        .list_audit_entries(v1::ListAuditEntriesRequest::default())
        .await;
    let all = all.expect("listed").into_inner().entries;
    let actions = |action: &str| all.iter().filter(|entry| entry.action == action).count();
    assert_eq!((actions("token.create"), actions("agent.deploy")), (4, 1));
    let deploy = all
        .iter()
        .find(|entry| entry.action == "agent.deploy")
        .expect("recorded");
    assert_eq!(
        (deploy.actor.as_str(), deploy.subject.as_str()),
        ("principal:operator", "desk")
    );
    assert!(
        deploy.details_json.contains(r#""revision":""#),
        "{}",
        deploy.details_json
    );
    let done = v1::ListAuditEntriesRequest {
        outcome: v1::AuditOutcome::Done.into(),
        subject: "desk".into(),
        page_size: 1,
        ..v1::ListAuditEntriesRequest::default()
    };
    let done = root
        .audit()
        .list_audit_entries(done)
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(done.entries.len(), 1);
    let verified = root
        .audit()
        .verify_audit(v1::VerifyAuditRequest {})
        .await
        .expect("verified")
        .into_inner();
    match verified.result {
        Some(v1::verify_audit_response::Result::Verified(head)) => {
            assert_eq!(head.sequence, all.len() as u64);
        }
        other => panic!("it fits: {other:?}"),
    }
}

/// S6.4, S6.5: approve some and deny others in one response, with a message; the run goes on at once.
/// A decision by tool names what the person saw.
#[tokio::test]
async fn s6_4_one_response_decides_several_calls() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let bob = house.person("shop", "bob", &[Scope::Approver]).await;
    let run = ann.start("Close two orders.").await;
    house.begin(&run).await;
    house
        .answer(
            &run,
            "",
            &[("shop.close", r#"{"id":1}"#), ("shop.close", r#"{"id":2}"#)],
        )
        .await;
    house.ask(&run).await;
    let decision = |target, verdict: v1::Verdict, reason: &str| v1::Decision {
        target,
        verdict: verdict.into(),
        reason: reason.into(),
        ..v1::Decision::default()
    };
    let by_tool = Some(v1::decision::Target::Tool("shop.close".into()));
    let respond = |decisions, seen_sequence, message: &str| v1::RespondToRunRequest {
        run_id: run.to_string(),
        decisions,
        message: message.into(),
        seen_sequence,
        idempotency_key: String::new(),
    };
    for (request, expected) in [
        (respond(vec![], None, ""), "request.empty"),
        (
            respond(
                vec![decision(by_tool.clone(), v1::Verdict::Approve, "")],
                None,
                "",
            ),
            "approval.seen_missing",
        ),
        (
            respond(vec![decision(None, v1::Verdict::Approve, "")], None, ""),
            "request.invalid",
        ),
        (
            respond(
                vec![decision(by_tool.clone(), v1::Verdict::Unspecified, "")],
                Some(9),
                "",
            ),
            "request.invalid",
        ),
        (
            respond(
                vec![decision(by_tool.clone(), v1::Verdict::Deny, "a\0b")],
                Some(9),
                "",
            ),
            "request.invalid_text",
        ),
    ] {
        let refused = bob
            .approvals()
            .respond_to_run(request)
            .await
            .expect_err("refused");
        assert_eq!(code(&refused), expected, "{refused:?}");
    }
    let one = Some(v1::decision::Target::CallId("call_1_2".into()));
    let decisions = vec![
        decision(by_tool, v1::Verdict::Approve, ""),
        decision(one, v1::Verdict::Deny, "wrong customer"),
    ];
    let last = bob.run(&run).await.last_sequence;
    let answered = bob
        .approvals()
        .respond_to_run(respond(decisions, Some(last), "Hurry."))
        .await;
    let answered = answered.expect("decided").into_inner();
    let verdicts: Vec<_> = answered
        .outcomes
        .iter()
        .map(|o| (o.call_id.as_str(), o.verdict()))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("call_1_1", v1::Verdict::Approve),
            ("call_1_2", v1::Verdict::Deny)
        ]
    );
    assert_eq!(answered.outcomes[1].reason, "wrong customer");
    assert_eq!(answered.run_status(), v1::RunStatus::Running);
    assert_eq!(answered.last_sequence, last + 3);
    let steps = v1::ListRunStepsRequest {
        run_id: run.to_string(),
        from_sequence: last + 1,
        ..v1::ListRunStepsRequest::default()
    };
    let steps = bob
        .runs()
        .list_run_steps(steps)
        .await
        .expect("listed")
        .into_inner()
        .steps;
    let types: Vec<_> = steps.iter().map(|step| step.r#type.as_str()).collect();
    assert_eq!(types, ["tool_approved", "tool_denied", "user_message"]);
    assert!(steps[0].content_json.contains(r#""goes_on":true"#));
}

/// S6.5: one decision by id leaves the run waiting for the others; with a message it goes on.
#[tokio::test]
async fn s6_5_one_decision_waits_for_the_others_unless_a_message_comes_along() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let bob = house.person("shop", "bob", &[Scope::Approver]).await;
    for (message, status) in [
        ("", v1::RunStatus::AwaitingApproval),
        ("Go on.", v1::RunStatus::Running),
    ] {
        let run = ann.start("Close two orders.").await;
        house.begin(&run).await;
        house
            .answer(
                &run,
                "",
                &[("shop.close", r#"{"id":1}"#), ("shop.close", r#"{"id":2}"#)],
            )
            .await;
        house.ask(&run).await;
        let of_run = v1::ListApprovalsRequest {
            run_id: run.to_string(),
            ..v1::ListApprovalsRequest::default()
        };
        let held = bob
            .approvals()
            .list_approvals(of_run)
            .await
            .expect("listed")
            .into_inner()
            .approvals;
        let request = v1::DecideApprovalRequest {
            approval_id: held[0].id.clone(),
            verdict: v1::Verdict::Deny.into(),
            message: message.into(),
            ..v1::DecideApprovalRequest::default()
        };
        let decided = bob
            .approvals()
            .decide_approval(request)
            .await
            .expect("decided")
            .into_inner();
        assert_eq!(decided.run_status(), status, "{message:?}");
    }
}
