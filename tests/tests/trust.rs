//! Trust, and what it changes (S5.6–S5.10, S5.13): what a run has read decides what it may do alone.

#![expect(
    clippy::unwrap_used,
    reason = "tests state what they expect; a panic with the place is what a failing one should print"
)]

use std::time::Duration;

use sayso_tests::{Bundle, Case, Shape, World, both, until};
use sayso_wire::v1::{CreateTokenRequest, RunStatus, Scope, Trust};
use serde_json::json;

static WORLD: World = World::new(
    &[
        (
            "lowered",
            "turns:
  - calls: [{tool: crm.write, args: {n: 1}}]
  - calls: [{tool: web.read, args: {n: 2}}]
  - calls: [{tool: crm.write, args: {n: 3}}]
  - text: done",
        ),
        (
            "turn",
            "turns:
  - calls:
      - {tool: crm.write, args: {n: 1}}
      - {tool: web.read, args: {n: 2}}
      - {tool: crm.write, args: {n: 3}}
      - {tool: crm.look, args: {n: 4}}
  - text: done",
        ),
        (
            "one-write",
            "turns: [{calls: [{tool: crm.write, args: {n: 1}}]}, {text: done}]",
        ),
        (
            "denied",
            "turns:
  - calls:
      - {tool: crm.drop, args: {n: 1}}
      - {tool: nobody.there, args: {n: 2}}
      - {tool: crm_write, args: {n: 3}}
  - when: {result_contains: not available}
    text: went on
  - text: was not told",
        ),
        (
            "hints",
            "turns:
  - calls: [{tool: web.a, args: {}}]
  - calls: [{tool: crm.write, args: {n: 1}}]
  - text: done",
        ),
        (
            "hints-closed",
            "turns:
  - calls: [{tool: web.a_closed, args: {}}]
  - calls: [{tool: crm.write, args: {n: 1}}]
  - text: done",
        ),
        (
            "hints-open",
            "turns:
  - calls: [{tool: web.a_open, args: {}}]
  - calls: [{tool: crm.write, args: {n: 1}}]
  - text: done",
        ),
        (
            "claims",
            "turns:
  - calls:
      - {tool: web.asked_closed, args: {n: 1}}
      - {tool: web.denied_closed, args: {n: 2}}
  - text: done",
        ),
        (
            "gated",
            "turns:
  - calls: [{tool: ask_person, args: {question: Well?}}]
  - calls: [{tool: crm.write, args: {n: 1}}]
  - text: done",
        ),
    ],
    Shape::APART,
);

/// An agent of two servers, one of which returns what strangers wrote.
fn agent(name: &str, tier: &str) -> Bundle {
    Bundle::new(name)
        .tier(tier)
        .ledger("crm", "write,look")
        .ledger("web", "read")
        .tool("crm.*", json!({"untrustedOutput": false}))
        .tool("crm.look", json!({"effect": "read"}))
        .tool("web.read", json!({"effect": "read"}))
        .permission("preset", "careful".into())
}

/// Below trusted a write is asked for; the tools of `web` are whatever they say they are.
fn hinted(name: &str, tier: &str, tool: &str) -> Bundle {
    Bundle::new(name)
        .tier(tier)
        .ledger("crm", "write")
        .ledger("web", tool)
        .tool("crm.write", json!({"untrustedOutput": false}))
        .permission("default", "allow".into())
        .permission(
            "rules",
            json!([{"tool": "crm.write", "action": "ask", "when": {"trustBelow": "trusted"}}]),
        )
}

/// Whether a run under this bundle has to ask for its write, and by which call its trust fell.
async fn asks(case: &Case, text: &str, name: &str) -> Option<String> {
    case.admin.try_deploy(text).await.unwrap();
    let run = case.sub.start(name, "go").await;
    let ended = until(&format!("{run} to ask or to end"), async || {
        let status = case.sub.run(&run).await.status();
        (status == RunStatus::AwaitingApproval || status == RunStatus::Completed).then_some(status)
    })
    .await;
    let lowered = case
        .app
        .timeline(&run)
        .await
        .of("trust_lowered")
        .first()
        .map(|step| step.call().to_owned());
    assert_eq!(
        ended == RunStatus::AwaitingApproval,
        lowered.is_some(),
        "{name}: {lowered:?}"
    );
    if lowered.is_some() {
        case.sub.cancel(&run).await.unwrap();
    }
    lowered
}

async fn starts_with(case: &Case, trust: Trust, name: &str) -> String {
    let request = CreateTokenRequest {
        name: format!("{name}-{}", trust.word()),
        scopes: vec![Scope::Submit.into(), Scope::Read.into()],
        trust: trust.into(),
        ..CreateTokenRequest::default()
    };
    let made = case
        .admin
        .tokens()
        .create_token(request)
        .await
        .unwrap()
        .into_inner();
    case.client_with(&made.secret).start(name, "go").await
}

/// Workers take a role's word for two seconds while policy does not answer. What is waited for is
/// time.
async fn two_seconds_pass() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

both! {
    /// S5.8: a call whose result may be an outsider's words lowers the run's trust from then on, on
    /// the record; run and approval show it, and which call it was.
    async fn s5_8_an_outsiders_words_lower_the_trust(case: Case) {
        let run = case.begin(&agent("lowered", "lowered")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        assert_eq!((held.call_id.as_str(), held.rule.as_str()), ("call_3_1", "preset:careful#0"));
        assert_eq!(case.ledger.numbers(&run), [1, 2]);

        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("trust_lowered"), 1);
        let lowered = timeline.one("trust_lowered", "call_2_1");
        assert_eq!((&lowered.content["from"], &lowered.content["to"]), (&json!("trusted"), &json!("untrusted")));
        let approval = case.app.approval(&held.id).await.unwrap();
        let shown = case.app.run(&run).await;
        for (trust, why) in [(approval.trust(), approval.trust_lowered), (shown.trust(), shown.trust_lowered)] {
            assert_eq!(trust, Trust::Untrusted);
            let why = why.expect("it says what lowered the trust");
            assert_eq!((why.tool.as_str(), why.call_id.as_str()), ("web.read", "call_2_1"));
            assert_eq!((why.before(), why.sequence), (Trust::Trusted, lowered.sequence));
        }
        let card = case.sayso_as("app", ["approvals", "show", &held.id]).expect_success();
        assert!(card.stdout.contains("trusted until web.read"), "{}", card.text());
        case.app.approve(&held).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1, 2, 3]);
    }

    /// S5.7: a token's trust is its runs' trust.
    async fn s5_7_a_token_sets_the_trust_of_its_runs(case: Case) {
        case.deploy(&agent("tokens", "one-write")).await;
        let run = starts_with(&case, Trust::Trusted, "tokens").await;
        case.completed(&run).await;
        let run = starts_with(&case, Trust::Untrusted, "tokens").await;
        let held = case.app.held(&run, 1).await.remove(0);
        assert_eq!(held.trust(), Trust::Untrusted);
        let approval = case.app.approval(&held.id).await.unwrap();
        assert_eq!(approval.trust_lowered, None, "nothing lowered it: it began so");

        let below_operator = Bundle::new("below-operator")
            .tier("one-write")
            .ledger("crm", "write")
            .permission("default", "allow".into())
            .permission("rules", json!([{"tool": "*", "action": "ask", "when": {"trustBelow": "operator"}}]));
        case.deploy(&below_operator).await;
        let run = starts_with(&case, Trust::Operator, "below-operator").await;
        let completed = case.completed(&run).await;
        assert_eq!(completed.trust(), Trust::Untrusted, "an unmarked tool's result lowers an operator's run too");
        let run = starts_with(&case, Trust::Trusted, "below-operator").await;
        case.app.held(&run, 1).await;
    }

    /// S5.10: the calls of one answer are judged in order; one whose result is untrusted counts for
    /// those after it and not for those before. Asking for one holds up no sibling.
    async fn s5_10_calls_of_one_answer_are_judged_in_order(case: Case) {
        let run = case.begin(&agent("turn", "turn")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        assert_eq!(held.call_id, "call_1_3");
        let mut ran = case.ledger.numbers(&run);
        ran.sort_unstable();
        assert_eq!(ran, [1, 2, 4]);
        case.app.deny(&held, "").await;
        case.completed(&run).await;
    }

    /// S5.6: a tool that a rule denies outright, and one that was never granted, are answered as not
    /// available; that is on record with its cause, nobody is asked, and the run goes on.
    async fn s5_6_what_is_denied_or_not_there_is_not_available(case: Case) {
        let bundle = Bundle::new("denied").ledger("crm", "write,drop").deny("crm.drop").allow("*");
        let run = case.begin(&bundle).await;
        let completed = case.completed(&run).await;
        assert_eq!(completed.output.as_deref(), Some("went on"));
        let timeline = case.app.timeline(&run).await;
        for (call, cause) in [("call_1_1", "rule"), ("call_1_2", "not_granted")] {
            assert_eq!(timeline.one("tool_denied", call).content["cause"], cause);
            assert!(!timeline.has("tool_started", call));
        }
        assert_eq!(timeline.count("tool_blocked"), 0);
        assert_eq!(case.ledger.numbers(&run), [3]);
    }

    /// B40: a tool that says nothing of itself is not a safe one, and what a server says counts only
    /// where the bundle trusts its annotations, or in the bundle's own words.
    async fn b40_a_tool_without_hints_is_not_a_safe_one(case: Case) {
        let text = |bundle: &Bundle, trusted: bool| {
            let mut text: serde_json::Value = serde_json::from_str(&case.bundle(bundle)).unwrap();
            text["servers"]["web"]["trustAnnotations"] = trusted.into();
            text.to_string()
        };
        let nothing = hinted("b40-nothing", "hints", "a");
        assert_eq!(asks(&case, &text(&nothing, true), "b40-nothing").await.as_deref(), Some("call_1_1"));
        let closed = hinted("b40-closed", "hints-closed", "a_closed");
        assert_eq!(asks(&case, &text(&closed, true), "b40-closed").await, None);
        let open = hinted("b40-open", "hints-open", "a_open");
        assert_eq!(asks(&case, &text(&open, true), "b40-open").await.as_deref(), Some("call_1_1"));
        let named = hinted("b40-named", "hints-open", "a_open").tool("web.*", json!({"untrustedOutput": false}));
        assert_eq!(asks(&case, &text(&named, true), "b40-named").await, None);
        let untrusted = hinted("b40-untrusted", "hints-closed", "a_closed");
        assert_eq!(asks(&case, &text(&untrusted, false), "b40-untrusted").await.as_deref(), Some("call_1_1"));
    }

    /// B41: a server's claim that its tools only read and touch nothing takes away neither the
    /// question nor the denial, whether the bundle trusts its annotations or not.
    async fn b41_a_servers_hints_loosen_no_rule(case: Case) {
        for trusted in [true, false] {
            let name = format!("b41-{trusted}");
            let bundle = Bundle::new(&name)
                .tier("claims")
                .ledger("web", "asked_closed,denied_closed")
                .ask("web.asked_*")
                .deny("web.denied_*")
                .allow("*");
            let mut text: serde_json::Value = serde_json::from_str(&case.bundle(&bundle)).unwrap();
            text["servers"]["web"]["trustAnnotations"] = trusted.into();
            case.admin.try_deploy(&text.to_string()).await.unwrap();
            let run = case.sub.start(&name, "go").await;
            let held = case.app.held(&run, 1).await.remove(0);
            assert_eq!(held.tool, "web.asked_closed");
            assert_eq!(case.app.timeline(&run).await.one("tool_denied", "call_1_2").content["cause"], "rule");
            assert_eq!(case.ledger.of(&run), []);
            case.app.deny(&held, "").await;
            case.completed(&run).await;
        }
    }
}

/// S5.13: without the policy service nothing runs: no model is asked and no call is sent. The run
/// waits, also over restarts of its worker, and goes on when policy is back.
#[test]
fn s5_13_without_policy_nothing_runs() {
    WORLD.alone(Shape::APART, async |case: Case| {
        let bundle = agent("gated", "gated").field("interaction", true.into());
        let run = case.begin(&bundle).await;
        case.sub.until(&run, RunStatus::AwaitingInput).await;
        case.process("policy").kill();
        two_seconds_pass().await;
        case.sub.reply(&run, "go on").await.unwrap();
        let executor = case.executor(0);
        for _ in 0..2 {
            two_seconds_pass().await;
            let timeline = case.app.timeline(&run).await;
            assert_eq!(timeline.count("assistant_message"), 1, "{timeline:#?}");
            assert_eq!(timeline.count("tool_started"), 0, "{timeline:#?}");
            let waiting = case.app.run(&run).await;
            assert_eq!(waiting.status(), RunStatus::Running, "{waiting:#?}");
            executor.kill();
            executor.start();
        }
        case.start_all().await;
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    });
}
