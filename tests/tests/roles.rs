//! Roles: the ceiling over everything that an agent may do (S3.9).

#![expect(
    clippy::unwrap_used,
    reason = "tests state what they expect; a panic with the place is what a failing one should print"
)]

use std::time::Duration;

use sayso_tests::{Bundle, Case, Shape, World, both, code};
use sayso_wire::v1::{ActionStatus, DeleteRoleRequest, GetRoleRequest, RunStatus};
use serde_json::{Value, json};

static WORLD: World = World::new(
    &[
        (
            "live",
            "turns:
  - calls:
      - {tool: crm.write, args: {n: 1}}
      - {tool: crm.drop, args: {n: 2}}
      - {tool: crm.read, args: {n: 3}}
  - calls: [{tool: ask_person, args: {question: Wider?}}]
  - calls: [{tool: crm.write, args: {n: 4}}]
  - calls: [{tool: ask_person, args: {question: Narrower?}}]
  - calls: [{tool: crm.write, args: {n: 5}}]
  - text: done",
        ),
        (
            "retried",
            "turns:
  - calls: [{tool: ask_person, args: {question: Well?}}]
  - calls: [{tool: crm.write, args: {n: 1}}]
  - calls: [{tool: crm.write, args: {n: 2}}]
  - text: done",
        ),
        (
            "held",
            "turns: [{calls: [{tool: crm.drop, args: {n: 1}}]}, {text: done}]",
        ),
        ("nothing", "turns: [{text: done}]"),
    ],
    Shape::APART,
);

fn agent(name: &str, tier: &str, role: &str) -> Bundle {
    Bundle::new(name)
        .tier(tier)
        .field("role", role.into())
        .field("interaction", true.into())
        .ledger("crm", "read,write,drop")
        .ask("crm.drop")
        .allow("*")
}

/// Workers keep a role for a second: after that the change must act. What is waited for is time.
async fn a_second_passes() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn details(entry: &sayso_wire::v1::AuditEntry) -> Value {
    serde_json::from_str(&entry.details_json).expect("details are JSON")
}

both! {
    /// S3.9: a granted call that the role does not permit is rejected before anybody is asked for it,
    /// with an error that names role and operation and that the model sees. Widening and narrowing
    /// the role act on a run that waits meanwhile.
    async fn s3_9_what_changes_in_a_role_acts_on_live_runs(case: Case) {
        case.admin.put_role("clerk", &["crm.read"]).await.unwrap();
        let run = case.begin(&agent("live", "live", "clerk")).await;
        case.sub.until(&run, RunStatus::AwaitingInput).await;
        let timeline = case.app.timeline(&run).await;
        for (call, tool) in [("call_1_1", "crm.write"), ("call_1_2", "crm.drop")] {
            assert!(!timeline.has("tool_blocked", call), "{timeline:#?}");
            let result = timeline.one("tool_result", call).content.to_string();
            assert!(result.contains("clerk") && result.contains(tool), "{result}");
            assert_eq!(case.app.actions(&run).await[call].status(), ActionStatus::Failed);
        }
        assert_eq!(case.ledger.numbers(&run), [3]);

        let wider = case.admin.put_role("clerk", &["crm.read", "crm_write"]).await.unwrap();
        assert_eq!((wider.created, wider.added), (false, vec!["crm_write".to_owned()]));
        a_second_passes().await;
        case.sub.reply(&run, "now").await.unwrap();
        case.sub.until(&run, RunStatus::AwaitingInput).await;
        assert_eq!(case.ledger.numbers(&run), [3, 4]);

        let narrower = case.admin.put_role("clerk", &["crm.r*"]).await.unwrap();
        assert_eq!(narrower.removed, ["crm.read", "crm_write"]);
        a_second_passes().await;
        case.sub.reply(&run, "and now").await.unwrap();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [3, 4]);
        let result = case.app.timeline(&run).await.one("tool_result", "call_5_1").content.to_string();
        assert!(result.contains("permission denied"), "{result}");
    }

    /// S3.9, S2.6: a role that was narrowed while a person thought is the ceiling of the approved call,
    /// too: it is not sent, and the model is told why; people are told what to do about it.
    async fn s3_9_an_approved_call_does_not_outrun_a_narrower_role(case: Case) {
        case.admin.put_role("holder", &["crm.*"]).await.unwrap();
        let run = case.begin(&agent("held", "held", "holder")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        case.admin.put_role("holder", &["crm.read"]).await.unwrap();
        a_second_passes().await;
        case.app.approve(&held).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run), []);
        let result = case.app.timeline(&run).await.one("tool_result", "call_1_1").content.to_string();
        assert!(result.contains("holder") && result.contains("permission denied"), "{result}");
        let step = case.app.timeline(&run).await.one("tool_result", "call_1_1").clone();
        assert_eq!(step.code, "tool.permission_denied");
        assert!(step.advice.contains("narrow the agent's job"), "{}", step.advice);
        assert_eq!(case.app.actions(&run).await["call_1_1"].status(), ActionStatus::Failed);
    }

    /// S3.9: an agent whose role is taken away fails at its next call, and a retry, which lets the
    /// model ask again, goes on under the role that the agent was given since.
    async fn s3_9_a_retry_goes_by_the_role_attached_since(case: Case) {
        case.admin.put_role("first", &["*"]).await.unwrap();
        let run = case.begin(&agent("retried", "retried", "first")).await;
        case.sub.until(&run, RunStatus::AwaitingInput).await;
        assert_eq!(case.admin.detach_role("retried").await.unwrap(), "first");
        a_second_passes().await;
        case.sub.reply(&run, "go on").await.unwrap();
        let failed = case.sub.until(&run, RunStatus::Failed).await;
        let failure = failed.failure.expect("a failed run says why");
        assert_eq!(failure.code, "run.no_role");
        assert!(failure.advice.contains("role"), "{failure:?}");
        assert_eq!(case.ledger.of(&run), []);

        case.admin.put_role("second", &["crm.*"]).await.unwrap();
        assert_eq!(case.admin.attach_role("retried", "second").await.unwrap(), "");
        a_second_passes().await;
        case.sub.retry(&run).await.unwrap();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [2]);
    }

    /// S3.9, S10.5: what cannot be done to a role is refused with a stable code and changes nothing.
    async fn s3_9_refusals_have_codes(case: Case) {
        let refusal = |refused: Result<(), tonic::Status>| code(&refused.unwrap_err());
        let put = async |name: &str, permits: &[&str]| {
            refusal(case.admin.put_role(name, permits).await.map(drop))
        };
        assert_eq!(put("unrestricted", &["crm.*"]).await, "role.unrestricted");
        assert_eq!(put("Bad Name", &["crm.*"]).await, "request.invalid");
        assert_eq!(put("fine", &["a?"]).await, "request.invalid");

        case.admin.put_role("used", &["*"]).await.unwrap();
        case.deploy(&agent("user-of-used", "nothing", "used")).await;
        let delete = async |name: &str| {
            let request = DeleteRoleRequest { name: name.into() };
            refusal(case.admin.roles().delete_role(request).await.map(drop))
        };
        assert_eq!(delete("used").await, "role.in_use");
        assert_eq!(delete("unrestricted").await, "role.unrestricted");
        assert_eq!(delete("nobodys").await, "role.not_found");
        let attach = async |agent: &str, role: &str| {
            refusal(case.admin.attach_role(agent, role).await.map(drop))
        };
        assert_eq!(attach("user-of-used", "nobodys").await, "role.not_found");
        assert_eq!(attach("nobody", "used").await, "agent.not_found");
        let request = GetRoleRequest { name: "nobodys".into() };
        assert_eq!(refusal(case.admin.roles().get_role(request).await.map(drop)), "role.not_found");

        // S6.11: changing roles needs more than submitting and approving; another tenant has its own.
        let scope = case.both.put_role("used", &[]).await.unwrap_err();
        assert_eq!(code(&scope), "token.scope_missing");
        assert_eq!(code(&case.foreigner.attach_role("user-of-used", "used").await.unwrap_err()), "agent.not_found");

        let request = GetRoleRequest { name: "used".into() };
        let used = case.sub.roles().get_role(request).await.unwrap().into_inner();
        assert_eq!(used.agents, ["user-of-used"]);
        assert_eq!(used.role.unwrap().permits, ["*"]);
    }

    /// S10.6, S10.8: the command line does all of it, and the audit log says who did what.
    async fn s3_9_s10_8_roles_at_the_command_line_are_on_record(case: Case) {
        case.deploy(&agent("desk", "nothing", "unrestricted")).await;
        let made = case.sayso_as("admin", ["role", "set", "desk-role", "crm.read", "crm.w*"]).expect_success();
        assert!(made.stdout.contains("desk-role is new"), "{}", made.text());
        let attached = case.sayso_as("admin", ["role", "attach", "desk", "desk-role"]).expect_success();
        assert!(attached.stdout.contains("in place of unrestricted"), "{}", attached.text());
        let shown = case.sayso_as("sub", ["role", "show", "desk-role", "--json"]).expect_success().json();
        assert_eq!(shown["role"]["permits"], json!(["crm.read", "crm.w*"]));
        assert_eq!(shown["agents"], json!(["desk"]));
        assert!(case.sayso_as("sub", ["role", "ls"]).expect_success().stdout.contains("unrestricted"));
        let refused = case.sayso_as("admin", ["role", "rm", "desk-role"]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("role.in_use"), "{}", refused.text());
        case.sayso_as("admin", ["role", "set", "desk-role", "crm.read"]).expect_success();
        case.sayso_as("admin", ["role", "detach", "desk"]).expect_success();
        case.sayso_as("admin", ["role", "rm", "desk-role"]).expect_success();

        let put = case.admin.audited("role.put", "desk-role").await;
        assert_eq!(put.len(), 2, "{put:#?}");
        assert_eq!(put[0].actor, "principal:admin");
        assert_eq!(details(&put[0])["removed"], json!(["crm.w*"]));
        let attached = case.admin.audited("role.attach", "desk").await;
        assert_eq!(details(&attached[0]), json!({"role": "desk-role", "replaced": "unrestricted"}));
        assert_eq!(details(&case.admin.audited("role.detach", "desk").await[0]), json!({"role": "desk-role"}));
        assert_eq!(case.admin.audited("role.delete", "desk-role").await.len(), 1);
    }
}
