//! Held calls that a person changes and approves in one decision (S6.7, B09).

use sayso_tests::{Bundle, Case, Client, Shape, World, both, code};
use sayso_wire::v1::decision::Target;
use sayso_wire::v1::{
    AddToGroupRequest, Approval, ApprovalStatus, ArgumentEdit, DecideApprovalRequest, Decision,
    DecisionOutcome, OriginKind, RespondToRunRequest, Verdict,
};
use serde_json::json;

/// The exact bytes that the model proposes.
const ARGS: &str =
    r#"{ "n" : 1,"amount":12345678901234567890, "auth":{"password":"abcdefgh"}, "to":"ann" }"#;

static WORLD: World = World::new(
    &[(
        "one",
        r#"turns:
  - calls:
      - {tool: ledger.append, args_raw: '{ "n" : 1,"amount":12345678901234567890, "auth":{"password":"abcdefgh"}, "to":"ann" }'}
  - when: {result_contains: "[edited]"}
    text: a person changed it
  - text: done"#,
    )],
    Shape::Apart {
        executors: 1,
        gateways: 2,
    },
);

/// An agent that may append below 100, in somebody's group from 50 on.
fn bundle(name: &str, fields: serde_json::Value) -> Bundle {
    let mut rule = json!({"tool": "ledger.append", "action": "ask"});
    for (key, value) in fields.as_object().unwrap() {
        rule[key] = value.clone();
    }
    let denied = json!({
        "tool": "ledger.append", "action": "deny", "when": {"args": {"/n": {"min": 100}}},
    });
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .permission("rules", json!([denied, rule]))
}

async fn begun(case: &Case, bundle: &Bundle) -> (String, Approval) {
    let run = case.begin(bundle).await;
    let held = case.app.held(&run, 1).await.remove(0);
    (run, held)
}

fn edits(changes: &[(&str, &str)]) -> Vec<ArgumentEdit> {
    let changes = changes.iter();
    changes
        .map(|(pointer, value)| ArgumentEdit {
            pointer: (*pointer).to_owned(),
            value_json: (*value).to_owned(),
        })
        .collect()
}

async fn edit(
    client: &Client,
    held: &Approval,
    changes: &[(&str, &str)],
) -> Result<DecisionOutcome, String> {
    approve(client, &held.id, changes, &held.digest).await
}

async fn approve(
    client: &Client,
    approval: &str,
    changes: &[(&str, &str)],
    digest: &str,
) -> Result<DecisionOutcome, String> {
    let request = DecideApprovalRequest {
        approval_id: approval.to_owned(),
        verdict: Verdict::Approve.into(),
        edits: edits(changes),
        digest: digest.to_owned(),
        ..DecideApprovalRequest::default()
    };
    let decided = client.approvals().decide_approval(request).await;
    let decided = decided.map_err(|refused| code(&refused))?.into_inner();
    Ok(decided.outcome.expect("what is on record"))
}

async fn join(case: &Case, group: &str, principal: &str) {
    let request = AddToGroupRequest {
        group: group.into(),
        principal: principal.into(),
    };
    case.admin.groups().add_to_group(request).await.unwrap();
}

both! {
    /// S6.7, B09: the edited call runs, once, and nothing else of it changed by a byte; the model is told
    /// with the result, and the original stays where it was.
    async fn b09_the_edited_call_is_what_runs(case: Case) {
        let (run, held) = begun(&case, &bundle("edited", json!({}))).await;
        let decided = edit(&case.app, &held, &[("/n", "50")]).await.unwrap();
        assert_eq!((decided.verdict(), decided.decided_by.as_str()), (Verdict::Approve, "app"));
        let done = case.completed(&run).await;
        assert_eq!(done.output.as_deref(), Some("a person changed it"));
        assert_eq!(case.ledger.numbers(&run), [50]);

        let now = case.app.approval(&held.id).await.unwrap();
        let shown = ARGS.replace("abcdefgh", "[redacted]");
        assert_eq!(held.args_json, shown);
        assert_eq!(now.args_json, shown.replace("\"n\" : 1", "\"n\" : 50"));
        assert_eq!(now.original_args_json.as_deref(), Some(shown.as_str()));
        assert_eq!(now.edited_by.as_deref(), Some("app"));
        assert_ne!(now.digest, held.digest);
        assert!(now.summary.contains("50") && !now.summary.contains("abcdefgh"), "{}", now.summary);
        let from = |at: &str| now.origins.iter().find(|origin| origin.pointer == at).map(|origin| origin.from());
        assert_eq!(from("/n"), Some(OriginKind::Person));
        assert_ne!(from("/to"), Some(OriginKind::Person));

        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.of("tool_call")[0].content["args"], shown);
        assert_eq!(timeline.of("tool_edited")[0].content["args"], now.args_json);
        assert_eq!(timeline.of("tool_edited")[0].content["before"], held.digest);
        assert_eq!(timeline.of("tool_started")[0].content["digest"], now.digest);
        assert!(case.app.is_verified(&run).await);
        let actions = case.app.actions(&run).await;
        assert!(actions.values().any(|action| action.args_json == now.args_json), "{actions:?}");
        assert_eq!(case.app.feedback(&run).await.len(), 1);

        // What is decided stays decided: the same again is on record, anything else is refused.
        let again = approve(&case.app, &held.id, &[("/n", "50")], "").await.unwrap();
        assert!(again.already_recorded);
        assert_eq!(approve(&case.app, &held.id, &[("/n", "51")], "").await.unwrap_err(), "approval.already_decided");
        assert_eq!(approve(&case.app2, &held.id, &[("/n", "51")], "").await.unwrap_err(), "approval.already_decided");
        assert_eq!(case.ledger.numbers(&run), [50]);
    }

    /// S6.7: an edit that is refused changes nothing and is answered at once: by a rule, the schema, the
    /// role, what is redacted, who asks, and what they saw.
    async fn s6_7_a_refused_edit_changes_nothing(case: Case) {
        case.admin.put_role("editing", &["*"]).await.unwrap();
        let (run, held) = begun(&case, &bundle("refused", json!({})).field("role", "editing".into())).await;
        for (changes, refusal) in [
            (&[("/n", "100")][..], "edit.refused"),
            (&[("/n", "1e2")], "edit.refused"),
            // What the rule cannot compare it does not let pass.
            (&[("/n", "\"many\"")], "edit.refused"),
            (&[("/n", "1.5")], "edit.invalid"),
            (&[("", "{\"n\":2}")], "edit.masked"),
            (&[("/n", "half {")], "edit.invalid"),
            (&[("/n", "1, \"n\": 2")], "edit.invalid"),
            (&[("/m", "1")], "edit.pointer_unknown"),
            (&[("/n", "2"), ("/to/x", "1")], "edit.pointer_unknown"),
            (&[("/auth/password", "\"mine\"")], "edit.masked"),
            (&[("/auth", "{}")], "edit.masked"),
            (&[("/to", "\"[redacted]\"")], "edit.masked"),
            (&[("/amount", "12345678901234567890123")], "edit.invalid"),
        ] {
            assert_eq!(edit(&case.app, &held, changes).await.unwrap_err(), refusal, "{changes:?}");
        }
        assert_eq!(edit(&case.both, &Approval { digest: "0".repeat(64), ..held.clone() }, &[("/n", "2")])
            .await.unwrap_err(), "approval.changed");
        let own = case.admin.create_token("sub-edits", "sub", &[sayso_wire::v1::Scope::Approver]).await;
        let own = case.client_with(&own);
        assert_eq!(edit(&own, &held, &[("/n", "2")]).await.unwrap_err(), "approval.own_request");
        assert_eq!(edit(&case.foreigner, &held, &[("/n", "2")]).await.unwrap_err(), "approval.not_found");

        let decision = |target, verdict: Verdict, changes: &[(&str, &str)]| Decision {
            target: Some(target),
            verdict: verdict.into(),
            edits: edits(changes),
            ..Decision::default()
        };
        let call = || Target::CallId(held.call_id.clone());
        for decisions in [
            vec![decision(call(), Verdict::Deny, &[("/n", "2")])],
            vec![decision(Target::Tool("ledger.append".into()), Verdict::Approve, &[("/n", "2")])],
            vec![decision(call(), Verdict::Approve, &[("/n", "2")]), decision(Target::ApprovalId(held.id.clone()), Verdict::Approve, &[("/n", "3")])],
        ] {
            let request = RespondToRunRequest {
                run_id: run.clone(),
                decisions,
                message: "and this".into(),
                seen_sequence: Some(1000),
                ..RespondToRunRequest::default()
            };
            let refused = case.app.approvals().respond_to_run(request).await.unwrap_err();
            assert_eq!(code(&refused), "request.invalid");
        }

        case.admin.put_role("editing", &["crm.*"]).await.unwrap();
        assert_eq!(edit(&case.app, &held, &[("/n", "2")]).await.unwrap_err(), "edit.refused");
        case.admin.put_role("editing", &["*"]).await.unwrap();
        assert_eq!(case.app.approval(&held.id).await.unwrap(), case.app2.approval(&held.id).await.unwrap());
        let now = case.app.pending(&run).await.remove(0);
        assert_eq!(now, held, "nothing has changed");
        assert_eq!(case.app.timeline(&run).await.count("tool_edited"), 0);
        assert_eq!(case.ledger.of(&run), []);
        let refusals = case.admin.refusals(&held.id).await;
        assert!(refusals.iter().any(|entry| entry.code == "edit.refused"), "{refusals:?}");

        // A mixed response is taken whole.
        let request = RespondToRunRequest {
            run_id: run.clone(),
            decisions: vec![decision(call(), Verdict::Approve, &[("/n", "7"), ("/to", "\"b\"")])],
            ..RespondToRunRequest::default()
        };
        case.app.approvals().respond_to_run(request).await.unwrap();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [7]);
    }

    /// S6.7, S6.12: an edit is a new proposal: the votes before it are void and the editor's counts
    /// once; nobody approves it who has not seen it.
    async fn s6_7_an_edit_voids_the_votes_before_it(case: Case) {
        let two = bundle("voided", json!({"approvers": {"count": 2}}));
        let (run, held) = begun(&case, &two).await;
        let first = edit(&case.app, &held, &[]).await.unwrap();
        assert_eq!((first.votes, first.votes_needed), (1, 2));
        let edited = edit(&case.app2, &held, &[("/n", "7")]).await.unwrap();
        assert_eq!((edited.votes, edited.votes_needed, edited.decided_by.as_str()), (1, 2, ""));
        let now = case.app.approval(&held.id).await.unwrap();
        assert_eq!(now.status(), ApprovalStatus::Pending);
        assert_eq!(now.deciders.clone().unwrap().voters, ["app2"]);
        assert_eq!(now.edited_by.as_deref(), Some("app2"));

        for digest in ["", held.digest.as_str()] {
            let refused = approve(&case.app, &held.id, &[], digest).await.unwrap_err();
            assert_eq!(refused, "approval.changed");
        }
        let by_tool = case.app.respond(&run, vec![(Target::CallId(held.call_id.clone()), Verdict::Approve, "")], "");
        assert_eq!(code(&by_tool.await.unwrap_err()), "approval.changed");
        assert_eq!(case.ledger.of(&run), []);
        let again = edit(&case.app2, &now, &[]).await.unwrap();
        assert!(again.already_recorded);
        let last = edit(&case.app, &now, &[]).await.unwrap();
        assert_eq!((last.votes, last.decided_by.as_str()), (2, "app"));
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [7]);
        let timeline = case.app.timeline(&run).await;
        let approved = &timeline.of("tool_approved")[0].content;
        assert_eq!(approved["votes"].as_array().map(Vec::len), Some(1), "{approved}");
        assert_eq!(approved["votes"][0]["by"], "app2");
    }

    /// S6.7, S6.12: who decides an edit is who the rules say of it as it is now: nobody edits their way
    /// past a group.
    async fn s6_7_an_edit_takes_whom_the_rules_ask(case: Case) {
        let plain = bundle("asked", json!({}));
        let large = json!({
            "tool": "ledger.append", "action": "ask", "when": {"args": {"/n": {"min": 50}}},
            "approvers": {"group": "large-sums", "count": 2},
        });
        let rules = json!([large, {"tool": "ledger.append", "action": "ask"}]);
        let (run, held) = begun(&case, &plain.permission("rules", rules)).await;
        join(&case, "large-sums", "app2").await;
        assert_eq!(edit(&case.app, &held, &[("/n", "60")]).await.unwrap_err(), "approval.not_in_group");
        assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&held));
        join(&case, "large-sums", "app").await;
        let edited = edit(&case.app, &held, &[("/n", "60")]).await.unwrap();
        assert_eq!((edited.votes, edited.votes_needed), (1, 2));
        let now = case.app.approval(&held.id).await.unwrap();
        edit(&case.app2, &now, &[]).await.unwrap();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [60]);
    }

    /// S6.7 at the command line and on the page: the value is JSON or a text, the original is shown.
    async fn s6_7_edits_at_the_command_line(case: Case) {
        let (run, held) = begun(&case, &bundle("typed", json!({}))).await;
        let refused = case.sayso_as("app", ["approve", &held.id, "--set", "/n=100"]);
        assert!(refused.stderr.contains("edit.refused"), "{}", refused.text());
        let set = ["approve", &held.id, "--set", "/n=9", "--set", "/to=bob at home", "--digest", &held.digest];
        case.sayso_as("app", set).expect_success();
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run)[0].args["to"], "bob at home");
        let shown = case.sayso_as("app", ["approvals", "show", &held.id]).expect_success();
        assert!(shown.stdout.contains("edited by") && shown.stdout.contains("bob at home"), "{}", shown.text());
        let told = case.sayso_as("app", ["runs", "show", &run]).expect_success();
        assert!(told.stdout.contains("app edited"), "{}", told.text());
    }
}
