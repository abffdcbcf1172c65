//! Asking what bundles say, and what a deploy changes (S5.5, S5.11, S5.12, S10.6, S10.8).

#![expect(
    clippy::unwrap_used,
    reason = "tests state what they expect; a panic with the place is what a failing one should print"
)]

use std::path::PathBuf;

use sayso_tests::{Bundle, Case, Shape, World, both, code};
use sayso_wire::v1::explain_call_request::Call;
use sayso_wire::v1::{
    ExplainCallRequest, ExplainCallResponse, PolicyAction, RecordedCall, ReplayRunsRequest,
    ReplayRunsResponse, TestPolicyRequest,
};
use serde_json::{Value, json};
use tonic::Status;

static WORLD: World = World::new(
    &[
        (
            "reads-then-writes",
            "turns:
  - calls:
      - {tool: crm.write, args: {n: 1}}
      - {tool: web.read, args: {n: 2}}
  - calls: [{tool: crm.write, args: {n: 3}}]
  - text: done",
        ),
        ("nothing", "turns: [{text: done}]"),
    ],
    Shape::APART,
);

/// An agent whose run writes, reads a stranger's words, and writes again.
fn agent(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("reads-then-writes")
        .ledger("crm", "write")
        .ledger("web", "read")
        .tool("crm.write", json!({"untrustedOutput": false}))
        .tool("web.read", json!({"effect": "read"}))
}

/// Writes a file into the deployment's folder: its path.
fn file(case: &Case, name: &str, text: &str) -> String {
    let path: PathBuf = case.folder().join(name);
    std::fs::write(&path, text).expect("a file can be written");
    path.to_str()
        .expect("temporary folders have plain names")
        .to_owned()
}

async fn explain(case: &Case, run: &str, call: &str) -> Result<ExplainCallResponse, Status> {
    let recorded = RecordedCall {
        run_id: run.into(),
        call_id: call.into(),
    };
    let request = ExplainCallRequest {
        call: Some(Call::Recorded(recorded)),
    };
    Ok(case
        .sub
        .policies()
        .explain_call(request)
        .await?
        .into_inner())
}

async fn replay(case: &Case, request: ReplayRunsRequest) -> Result<ReplayRunsResponse, Status> {
    Ok(case.sub.policies().replay_runs(request).await?.into_inner())
}

fn changed(answer: &ReplayRunsResponse) -> Vec<(&str, &str, &str)> {
    let changes = answer.changes.iter();
    changes
        .map(|change| {
            (
                change.call_id.as_str(),
                change.recorded_action().word(),
                change.action().word(),
            )
        })
        .collect()
}

fn details(entry: &sayso_wire::v1::AuditEntry) -> Value {
    serde_json::from_str(&entry.details_json).expect("details are JSON")
}

both! {
    /// S5.12: a recorded call is explained as it was judged then: with the trust that the run had,
    /// every voice, and every rule.
    async fn s5_12_a_recorded_call_is_explained(case: Case) {
        let run = case.begin(&agent("explained").permission("preset", "careful".into())).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let first = explain(&case, &run, "call_1_1").await.unwrap();
        assert_eq!((first.action(), first.rule.as_str(), first.trust().word()), (PolicyAction::Allow, "default", "trusted"));
        let asked = explain(&case, &run, "call_2_1").await.unwrap();
        assert_eq!((asked.action(), asked.rule.as_str(), asked.trust().word()), (PolicyAction::Ask, "preset:careful#0", "untrusted"));
        assert_eq!(asked.reason, held.reason);
        assert_eq!((asked.role.as_deref(), asked.role_permits), (Some("unrestricted"), true));
        assert!(asked.rules.iter().any(|rule| rule.holds));
        assert_eq!(code(&explain(&case, &run, "call_9_9").await.unwrap_err()), "policy.no_call");
        assert_eq!(code(&explain(&case, "run_nothing", "call_1_1").await.unwrap_err()), "run.not_found");

        let told = case.sayso_as("sub", ["policy", "explain", "--run", &run, "--call", "call_2_1"]).expect_success();
        assert!(told.stdout.starts_with("ask of crm.write: "), "{}", told.text());
        let told = case.sayso_as("sub", ["policy", "explain", "--agent", "explained", "crm_write", "--trust", "untrusted"]).expect_success();
        assert!(told.stdout.contains("preset:careful#0") && told.stdout.contains("the role unrestricted permits it"), "{}", told.text());
        case.app.deny(&held, "").await;
        case.completed(&run).await;

        // S3.9: the role speaks last.
        case.admin.put_role("readers", &["web.*"]).await.unwrap();
        case.admin.attach_role("explained", "readers").await.unwrap();
        let refused = explain(&case, &run, "call_2_1").await.unwrap();
        assert_eq!((refused.action(), refused.rule.as_str()), (PolicyAction::Deny, "role"));
    }

    /// S5.12: recorded runs are judged under a bundle that is not deployed, by the evidence that they
    /// had, page by page; each verdict that would change is told, and how many asks there would be.
    async fn s5_12_recorded_runs_are_judged_again(case: Case) {
        case.deploy(&agent("replayed").permission("preset", "careful".into())).await;
        let mut runs = Vec::new();
        for _ in 0..3 {
            let run = case.sub.start("replayed", "go").await;
            case.app.approve(&case.app.held(&run, 1).await[0]).await;
            case.completed(&run).await;
            runs.push(run);
        }
        let ask = |bundle: &Bundle| ReplayRunsRequest {
            bundle: case.bundle(bundle),
            ..ReplayRunsRequest::default()
        };
        // The same bundle changes nothing: live and replayed judging agree.
        let same = replay(&case, ask(&agent("replayed").permission("preset", "careful".into()))).await.unwrap();
        assert_eq!((same.runs, same.calls, same.asks_recorded, same.asks), (3, 9, 3, 3));
        assert_eq!(changed(&same), []);
        // Marking what is read as trusted lifts the question; asking for every write adds one.
        let lifted = agent("replayed").permission("preset", "careful".into()).tool("web.read", json!({"effect": "read", "untrustedOutput": false}));
        let lifted = replay(&case, ask(&lifted)).await.unwrap();
        assert_eq!(changed(&lifted), [("call_2_1", "ask", "allow"); 3]);
        assert_eq!(lifted.asks, 0);
        let stricter = agent("replayed").permission("default", "allow".into()).ask("crm.*").deny("web.read");
        let one = ReplayRunsRequest { run_ids: vec![runs[0].clone()], ..ask(&stricter) };
        let one = replay(&case, one).await.unwrap();
        assert_eq!(changed(&one), [("call_1_1", "allow", "ask"), ("call_1_2", "allow", "deny")]);
        assert_eq!((one.runs, one.asks_recorded, one.asks), (1, 1, 2));

        // Pages follow one another and lose nothing.
        let mut request = ReplayRunsRequest { page_size: 2, ..ask(&stricter) };
        let first = replay(&case, request.clone()).await.unwrap();
        request.page_token = first.next_page_token.clone();
        let second = replay(&case, request.clone()).await.unwrap();
        assert_eq!((first.runs, second.runs, second.next_page_token.as_str()), (2, 1, ""));
        request.agent = "another".into();
        assert_eq!(code(&replay(&case, request).await.unwrap_err()), "page.malformed");
        let nobody = ReplayRunsRequest { run_ids: vec!["run_nothing".into()], ..ask(&stricter) };
        assert_eq!(code(&replay(&case, nobody).await.unwrap_err()), "run.not_found");
        let bad = ReplayRunsRequest { bundle: "name: [".into(), ..ReplayRunsRequest::default() };
        assert_eq!(code(&replay(&case, bad).await.unwrap_err()), "bundle.invalid");

        let candidate = file(&case, "stricter.yaml", &case.bundle(&stricter));
        let told = case.sayso_as("sub", ["policy", "replay", "--bundle", &candidate, "--since", "1h"]).expect_success();
        assert!(told.stdout.contains("6 of 9 verdicts change in 3 runs; 3 asks became 6"), "{}", told.text());
        assert!(told.stdout.contains("3.0 asks a day then, 6.0 with this bundle"), "{}", told.text());
        // Another tenant has no such runs.
        let request = ReplayRunsRequest { run_ids: vec![runs[0].clone()], ..ask(&stricter) };
        let foreign = case.foreigner.policies().replay_runs(request).await.unwrap_err();
        assert_eq!(code(&foreign), "run.not_found");
    }

    /// S5.12: cases are run over gRPC as at the command line.
    async fn s5_12_cases_are_run_over_grpc(case: Case) {
        let request = |cases: &str| TestPolicyRequest {
            bundle: agent("tested").permission("preset", "strict".into()).text(),
            cases: cases.into(),
        };
        let bad = case.sub.policies().test_policy(request("cases: [{name: a}]")).await.unwrap_err();
        assert_eq!(code(&bad), "policy.bad_cases");
        let cases = "cases: [{name: a, trust: untrusted, calls: [{tool: nobody.x, expect: deny}, {tool: ask_person, expect: allow}]}]";
        let tested = case.sub.policies().test_policy(request(cases)).await.unwrap().into_inner();
        assert_eq!(tested.cases[0].calls[0].rule, "grant");
        assert_eq!(tested.failed, 1, "{tested:#?}");
    }

    /// S5.5, S5.11, S10.8: a deploy tells what it changes against the revision before, and the audit
    /// log says who switched which review on or off.
    async fn s5_5_s10_8_a_deploy_tells_and_records_what_it_changes(case: Case) {
        let bundle = |review: &str| {
            Bundle::new("reviewed")
                .tier("nothing")
                .ledger("crm", "write")
                .field("instructions", "Be kind.\nBe brief.\n".into())
                .tool("crm.write", json!({"review": review}))
                .allow("crm.*")
        };
        let first = case.admin.try_deploy(&case.bundle(&bundle("required"))).await.unwrap();
        assert_eq!((first.changes.len(), first.replaced_revision_id.as_str()), (0, ""));
        let off = bundle("not_required").field("instructions", "Be kind.\nBe thorough.\n".into()).deny("*.purge");
        let path = file(&case, "off.yaml", &case.bundle(&off));
        let validated = case.sayso_as("admin", ["deploy", "--validate", &path]).expect_success();
        assert!(validated.stdout.contains("instructions:2"), "{}", validated.text());
        let told = case.sayso_as("admin", ["deploy", &path]).expect_success();
        for line in [
            "- instructions instructions:2  \"Be brief.\"",
            "+ instructions instructions:2  \"Be thorough.\"",
            "~ review       tools[\"crm.write\"].review  \"required\" → \"not_required\"",
            "+ rules        permissions.rules[1]  {\"tool\":\"*.purge\",\"action\":\"deny\"}",
        ] {
            assert!(told.stdout.contains(line), "{line} is not in {}", told.text());
        }
        let again = case.sayso_as("admin", ["deploy", &path]).expect_success();
        assert!(again.stdout.contains("nothing changes"), "{}", again.text());

        let switches = case.admin.audited("review.switch", "reviewed").await;
        let told: Vec<_> = switches.iter().map(|entry| {
            let details = details(entry);
            (entry.actor.clone(), details["tool"].clone(), details["before"].clone(), details["after"].clone())
        }).collect();
        let admin = "principal:admin".to_owned();
        assert_eq!(told, [
            (admin.clone(), json!("crm.write"), json!("required"), json!("not_required")),
            (admin, json!("crm.write"), json!(""), json!("required")),
        ]);
        let deploys = case.admin.audited("agent.deploy", "reviewed").await;
        assert_eq!(details(&deploys[1])["changed"].as_array().map(Vec::len), Some(4));
        assert_eq!(case.admin.audited("role.attach", "reviewed").await.len(), 1, "the first deploy attached it");
    }
}
