//! Starting, reading and listing: runs, steps, actions, approvals, agents.

use std::collections::HashSet;

use sayso_gateway::auth::Scope;
use sayso_wire::v1;
use tonic::Code;

use crate::house::{BUNDLE, House, code};

/// S1.1, S1.7: a start is answered at once with the stored run; the same key gets it back, the same
/// key with other content is refused.
#[tokio::test]
async fn s1_1_a_start_with_the_same_key_is_the_same_run() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let request = v1::StartRunRequest {
        agent: "desk".into(),
        input: "hello".into(),
        idempotency_key: "k1".into(),
    };
    let started = ann
        .runs()
        .start_run(request.clone())
        .await
        .expect("started")
        .into_inner();
    assert!(!started.already_started);
    let run = started.run.expect("a run");
    assert_eq!(run.status(), v1::RunStatus::Pending);
    let again = ann
        .runs()
        .start_run(request.clone())
        .await
        .expect("answered")
        .into_inner();
    assert!(again.already_started);
    assert_eq!(
        again.run,
        Some(run.clone()),
        "as it was answered, it is stored"
    );
    let other = v1::StartRunRequest {
        input: "something else".into(),
        ..request.clone()
    };
    let refused = ann
        .runs()
        .start_run(other)
        .await
        .expect_err("another content");
    assert_eq!(
        (refused.code(), code(&refused).as_str()),
        (Code::FailedPrecondition, "request.key_reused")
    );
    let bob = house.person("shop", "bob", &[Scope::Submit]).await;
    let other = bob
        .runs()
        .start_run(request)
        .await
        .expect("started")
        .into_inner();
    assert_ne!(
        other.run.expect("a run").id,
        run.id,
        "keys belong to principals"
    );

    let unknown = v1::StartRunRequest {
        agent: "nobody".into(),
        ..v1::StartRunRequest::default()
    };
    let refused = ann
        .runs()
        .start_run(unknown)
        .await
        .expect_err("no such agent");
    assert_eq!(
        (refused.code(), code(&refused).as_str()),
        (Code::NotFound, "agent.not_found")
    );
}

/// S1.7, S2.5: what a run and its actions record.
#[tokio::test]
async fn s1_7_a_run_and_its_actions_record_what_happened() {
    let house = House::new().await;
    let ann = house
        .person("shop", "ann", &[Scope::Submit, Scope::Read])
        .await;
    let bob = house.person("shop", "bob", &[Scope::Approver]).await;
    let (run, approval) = house.gated(&ann).await;
    let waiting = ann.run(&run).await;
    assert_eq!(waiting.status(), v1::RunStatus::AwaitingApproval);
    assert!(waiting.approval_expires_at.is_some() && waiting.ended_at.is_none());
    bob.decide(&approval, v1::Verdict::Approve)
        .await
        .expect("decided");
    house.complete(&run).await;

    let done = ann.run(&run).await;
    assert_eq!(done.status(), v1::RunStatus::Completed);
    assert_eq!(done.ended_by(), v1::EndedBy::Answer);
    assert_eq!(done.output.as_deref(), Some("Done."));
    assert_eq!(done.requester, "ann");
    assert_eq!(done.cycles, 2);
    assert_eq!(done.usage.expect("usage").input_tokens, 20);
    assert_eq!(done.trust(), v1::Trust::Trusted);
    assert!(done.ended_at.is_some() && done.failure.is_none() && done.hint.is_empty());

    let actions = v1::ListRunActionsRequest {
        run_id: run.to_string(),
        ..v1::ListRunActionsRequest::default()
    };
    let actions = ann
        .runs()
        .list_run_actions(actions)
        .await
        .expect("listed")
        .into_inner()
        .actions;
    assert_eq!(actions.len(), 1);
    assert_eq!(actions[0].status(), v1::ActionStatus::Executed);
    assert_eq!(actions[0].cleared_by.as_deref(), Some("principal:bob"));
    assert_eq!(actions[0].args_json, r#"{"order": "A-17", "amount": 1.10}"#);

    let verify = v1::VerifyRunRequest {
        run_id: run.to_string(),
    };
    match ann
        .runs()
        .verify_run(verify)
        .await
        .expect("verified")
        .into_inner()
        .result
    {
        Some(v1::verify_run_response::Result::Verified(head)) => {
            assert_eq!(head.sequence, done.last_sequence);
        }
        other => panic!("it fits: {other:?}"),
    }
}

#[tokio::test]
async fn runs_are_paged_and_filtered() {
    let house = House::new().await;
    let ann = house
        .person("shop", "ann", &[Scope::Submit, Scope::Read])
        .await;
    let mut started = Vec::new();
    for n in 0..7 {
        started.push(ann.start(&format!("task {n}")).await.to_string());
    }
    started.reverse();
    let mut request = v1::ListRunsRequest {
        agent: "desk".into(),
        page_size: 3,
        ..v1::ListRunsRequest::default()
    };
    let (mut seen, mut sizes) = (Vec::new(), Vec::new());
    loop {
        let page = ann
            .runs()
            .list_runs(request.clone())
            .await
            .expect("listed")
            .into_inner();
        sizes.push(page.runs.len());
        seen.extend(page.runs.into_iter().map(|run| run.id));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!((seen, sizes), (started.clone(), vec![3, 3, 1]));

    let cancel = v1::CancelRunRequest {
        run_id: started[2].clone(),
        reason: "enough".into(),
        ..v1::CancelRunRequest::default()
    };
    ann.runs()
        .cancel_run(cancel.clone())
        .await
        .expect("cancelled");
    let refused = ann
        .runs()
        .cancel_run(cancel)
        .await
        .expect_err("it has ended");
    assert_eq!(code(&refused), "run.ended");
    let ids = async |request: v1::ListRunsRequest| -> HashSet<String> {
        let page = ann
            .runs()
            .list_runs(request)
            .await
            .expect("listed")
            .into_inner();
        page.runs.into_iter().map(|run| run.id).collect()
    };
    let one = HashSet::from([started[2].clone()]);
    let all: HashSet<String> = started.iter().cloned().collect();
    let none = v1::ListRunsRequest::default;
    let cancelled = v1::RunStatus::Cancelled.into();
    assert_eq!(
        ids(v1::ListRunsRequest {
            statuses: vec![cancelled],
            ..none()
        })
        .await,
        one
    );
    let ended_by = vec![v1::EndedBy::Cancelled.into(), v1::EndedBy::Error.into()];
    assert_eq!(
        ids(v1::ListRunsRequest {
            ended_by,
            page_size: 1,
            ..none()
        })
        .await,
        one
    );
    let task_id = ann.run(&started[2].parse().expect("an id")).await.task_id;
    assert_eq!(
        ids(v1::ListRunsRequest {
            task_id,
            page_size: 1,
            ..none()
        })
        .await,
        one
    );
    assert_eq!(
        ids(v1::ListRunsRequest {
            statuses: vec![0],
            ..none()
        })
        .await,
        all
    );
    let created_before = Some(prost_types::Timestamp {
        seconds: 1,
        nanos: 0,
    });
    assert!(
        ids(v1::ListRunsRequest {
            created_before,
            ..none()
        })
        .await
        .is_empty()
    );
}

/// A page token of another list, of other filters, or of nobody is refused.
#[tokio::test]
async fn page_tokens_are_good_for_their_list_alone() {
    let house = House::new().await;
    let ann = house
        .person("shop", "ann", &[Scope::Submit, Scope::Admin])
        .await;
    for _ in 0..2 {
        ann.start("hello").await;
    }
    let first = v1::ListRunsRequest {
        page_size: 1,
        ..v1::ListRunsRequest::default()
    };
    let token = ann
        .runs()
        .list_runs(first)
        .await
        .expect("listed")
        .into_inner()
        .next_page_token;
    let refused = [
        ann.runs()
            .list_runs(v1::ListRunsRequest {
                page_token: "zz".into(),
                ..Default::default()
            })
            .await
            .err(),
        ann.runs()
            .list_runs(v1::ListRunsRequest {
                page_token: token.clone(),
                agent: "desk".into(),
                ..Default::default()
            })
            .await
            .err(),
        ann.approvals()
            .list_approvals(v1::ListApprovalsRequest {
                page_token: token.clone(),
                ..Default::default()
            })
            .await
            .err(),
        ann.agents()
            .list_agents(v1::ListAgentsRequest {
                page_token: token.clone(),
                ..Default::default()
            })
            .await
            .err(),
        ann.tokens()
            .list_tokens(v1::ListTokensRequest {
                page_token: token.clone(),
                ..Default::default()
            })
            .await
            .err(),
        ann.audit()
            .list_audit_entries(v1::ListAuditEntriesRequest {
                page_token: token.clone(),
                ..Default::default()
            })
            .await
            .err(),
        ann.feedback()
            .list_feedback(v1::ListFeedbackRequest {
                page_token: token,
                ..Default::default()
            })
            .await
            .err(),
    ];
    for status in refused {
        let status = status.expect("refused");
        assert_eq!(
            (status.code(), code(&status).as_str()),
            (Code::InvalidArgument, "page.malformed")
        );
    }
}

#[tokio::test]
async fn steps_and_actions_are_paged_in_order() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = ann.start("hello").await;
    house.begin(&run).await;
    let args: Vec<String> = (0..5).map(|n| format!("{{\"n\":{n}}}")).collect();
    let calls: Vec<(&str, &str)> = args
        .iter()
        .map(|args| ("shop.get", args.as_str()))
        .collect();
    house.answer(&run, "", &calls).await;
    let mut steps = v1::ListRunStepsRequest {
        run_id: run.to_string(),
        from_sequence: 2,
        page_size: 3,
        page_token: String::new(),
    };
    let mut seen = Vec::new();
    loop {
        let page = ann
            .runs()
            .list_run_steps(steps.clone())
            .await
            .expect("listed")
            .into_inner();
        seen.extend(page.steps.iter().map(|step| step.sequence));
        steps.page_token = page.next_page_token;
        if steps.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, (2..=8).collect::<Vec<_>>());
    let mut actions = v1::ListRunActionsRequest {
        run_id: run.to_string(),
        page_size: 2,
        page_token: String::new(),
    };
    let mut seen = Vec::new();
    loop {
        let page = ann
            .runs()
            .list_run_actions(actions.clone())
            .await
            .expect("listed")
            .into_inner();
        seen.extend(page.actions.into_iter().map(|action| action.call_id));
        actions.page_token = page.next_page_token;
        if actions.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(
        seen,
        ["call_1_1", "call_1_2", "call_1_3", "call_1_4", "call_1_5"]
    );
}

#[tokio::test]
async fn agents_are_deployed_validated_read_and_listed() {
    let house = House::new().await;
    let olga = house.person("shop", "olga", &[Scope::Operator]).await;
    let deploy = async |bundle: &str| {
        let request = v1::DeployAgentRequest {
            bundle: bundle.into(),
        };
        olga.agents().deploy_agent(request).await
    };
    let again = deploy(BUNDLE).await.expect("deployed").into_inner();
    assert!(!again.created, "the same bundle is the same revision");
    let old = again.revision.expect("a revision").id;
    deploy(r#"{"name":"desk","description":"Answers more."}"#)
        .await
        .expect("deployed");
    for name in ["a", "b", "c"] {
        deploy(&format!(r#"{{"name":"{name}"}}"#))
            .await
            .expect("deployed");
    }
    let refused = deploy(r#"{"title":"x"}"#).await.expect_err("a mistake");
    assert_eq!(code(&refused), "bundle.invalid");
    let fields = sayso_service::error::Coded::from_status(&refused).fields;
    assert_eq!(
        fields,
        [("name".to_owned(), "bundle.missing: is required".to_owned())]
    );
    assert_eq!(
        code(&deploy("").await.expect_err("nothing")),
        "request.invalid"
    );

    let validate = v1::ValidateAgentRequest {
        bundle: "wrong".into(),
    };
    let found = olga
        .agents()
        .validate_agent(validate)
        .await
        .expect("an answer")
        .into_inner();
    assert_eq!((found.errors.len(), found.revision_id.as_str()), (1, ""));

    let get = |revision_id: &str| v1::GetAgentRequest {
        name: "desk".into(),
        revision_id: revision_id.into(),
    };
    let now = olga
        .agents()
        .get_agent(get(""))
        .await
        .expect("read")
        .into_inner();
    let agent = now.agent.expect("an agent");
    assert_eq!(
        (agent.description.as_str(), agent.tier.as_str()),
        ("Answers more.", "balanced")
    );
    assert_eq!(agent.role, "unrestricted");
    let before = olga
        .agents()
        .get_agent(get(&old))
        .await
        .expect("read")
        .into_inner();
    assert_eq!(before.bundle_json, BUNDLE);
    assert_eq!(before.revision.expect("a revision").id, old);
    assert_eq!(
        before.agent.expect("an agent").description,
        "Answers more.",
        "the agent is as it is now"
    );
    let missing = olga
        .agents()
        .get_agent(get(&"0".repeat(64)))
        .await
        .expect_err("no such revision");
    assert_eq!(code(&missing), "agent.revision_not_found");

    let mut request = v1::ListAgentsRequest {
        page_size: 3,
        page_token: String::new(),
    };
    let first = olga
        .agents()
        .list_agents(request.clone())
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(
        first
            .agents
            .iter()
            .map(|a| a.name.as_str())
            .collect::<Vec<_>>(),
        ["a", "b", "c"]
    );
    request.page_token = first.next_page_token;
    let rest = olga
        .agents()
        .list_agents(request)
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(
        rest.agents
            .iter()
            .map(|a| a.name.as_str())
            .collect::<Vec<_>>(),
        ["desk"]
    );
    assert_eq!(rest.next_page_token, "");

    let log = v1::ListAgentLogsRequest {
        agent: "desk".into(),
        ..Default::default()
    };
    assert!(
        olga.agents()
            .list_agent_logs(log)
            .await
            .expect("listed")
            .into_inner()
            .entries
            .is_empty()
    );
    let log = v1::ListAgentLogsRequest {
        agent: "nobody".into(),
        ..Default::default()
    };
    assert_eq!(
        code(
            &olga
                .agents()
                .list_agent_logs(log)
                .await
                .expect_err("no agent")
        ),
        "agent.not_found"
    );
}
