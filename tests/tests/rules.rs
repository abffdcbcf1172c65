//! What may run (S5): rules, names and loops. The deployments are shared; where it matters what a
//! model is offered, the model is a provider of the test's own.

use sayso_tests::{
    Answer, Bundle, Case, Format, Options, Provider, Shape, Timeline, World, both, on_runtime,
};
use sayso_wire::v1::ActionStatus;

static WORLD: World = World::new(
    &[
        (
            "b35",
            "turns:
  - calls:
      - {tool: crm.read, args: {n: 1}}
      - {tool: crm.update_contact, args: {n: 2}}
      - {tool: crm.delete_contact, args: {n: 3}}
      - {tool: crm.update_x.delete_y, args: {n: 4}}
  - text: done",
        ),
        (
            "b36",
            "turns:
  - calls:
      - {tool: fetch.v2.get.page, args: {}}
      - {tool: a.b.c.delete_x, args: {}}
      - {tool: crmx.update_y, args: {}}
      - {tool: crm-update_y.z, args: {}}
  - text: done",
        ),
        (
            "b37",
            "turns: [{calls: [{tool: github-read.list__issues, args: {}}]}, {text: done}]",
        ),
        (
            "b38",
            "turns:
  - calls:
      - {tool: crm.update.contact, args: {n: 1}}
      - {tool: crm.update_contact, args: {n: 2}}
  - calls: [{tool: crm_update_contact, args: {n: 3}}]
  - text: done",
        ),
        (
            "b60a",
            "turns:
  - calls: [{tool: poll.check, args: {a: 1}}]
  - calls: [{tool: poll.check, args: {a: 1}}]
  - calls: [{tool: poll.check, args: {a: 1}}]
  - when: {result_contains: different approach}
    calls: [{tool: poll.other, args: {}}]
  - text: done",
        ),
        (
            "b60b",
            "turns:
  - calls: [{tool: poll.check, args: {}}]
  - calls: [{tool: poll.other, args: {}}]
  - calls: [{tool: poll.check, args: {}}]
  - calls: [{tool: poll.other, args: {}}]
  - calls: [{tool: poll.check, args: {}}]
  - calls: [{tool: poll.other, args: {}}]
  - text: done",
        ),
        (
            "b60c",
            r#"turns:
  - calls: [{tool: poll.check, args_raw: '{"a":1,"b":2}'}]
  - calls: [{tool: poll.check, args_raw: '{"b":2,"a":1}'}]
  - calls: [{tool: poll.check, args_raw: '{"a":1,"b":2}'}]
  - text: done"#,
        ),
    ],
    Shape::APART,
);

fn not_available(timeline: &Timeline, call: &str) {
    let denied = timeline.one("tool_denied", call);
    assert_eq!(denied.content["cause"], "rule", "{denied:?}");
    assert!(!timeline.has("tool_blocked", call));
    assert!(!timeline.has("tool_started", call));
}

const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

both! {
    /// B35: deny beats ask beats allow, in whatever order the rules are written.
    async fn b35_the_narrow_no_beats_the_broad_yes(case: Case) {
        let rules = [("*", "allow"), ("crm.update_*", "ask"), ("*.delete_*", "deny")];
        for (number, order) in ORDERS.iter().enumerate() {
            let bundle = Bundle::new(&format!("b35-{number}"))
                .tier("b35")
                .ledger("crm", "read,update_contact,delete_contact,update_x.delete_y");
            let bundle = order.iter().fold(bundle, |bundle, at| bundle.rule(rules[*at].0, rules[*at].1));
            let run = case.begin(&bundle).await;
            let held = case.app.held(&run, 1).await.remove(0);
            assert_eq!(held.tool, "crm.update_contact");
            case.app.approve(&held).await;
            case.completed(&run).await;
            let mut ran: Vec<_> = case.ledger.of(&run).into_iter().map(|entry| entry.tool).collect();
            ran.sort();
            assert_eq!(ran, ["read", "update_contact"], "{order:?}");
            let timeline = case.app.timeline(&run).await;
            not_available(&timeline, "call_1_3");
            not_available(&timeline, "call_1_4");
        }
    }

    /// B35: no rule matches and there is no `default`: the call is asked for.
    async fn b35_what_no_rule_names_is_asked_for(case: Case) {
        let bundle = Bundle::new("b35-default")
            .tier("b35")
            .ledger("crm", "read,update_contact,delete_contact,update_x.delete_y")
            .deny("crm.delete_contact");
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 3).await;
        assert_eq!(held[0].tool, "crm.read");
        assert_eq!(held[0].rule, "default");
        case.sub.cancel(&run).await.unwrap();
        assert_eq!(case.ledger.of(&run), []);
    }

    /// B36: a star stands for anything, dots included; a dot stands for a dot, or for the underscore
    /// of the model's form of a name, and for nothing else.
    async fn b36_a_star_crosses_dots_and_a_dot_is_a_dot(case: Case) {
        let bundle = Bundle::new("b36")
            .ledger("fetch", "v2.get.page")
            .ledger("a", "b.c.delete_x")
            .ledger("crmx", "update_y")
            .ledger("crm-update_y", "z")
            .deny("fetch.*")
            .deny("*.delete_*")
            .ask("crm.update_*")
            .allow("*");
        let run = case.begin(&bundle).await;
        case.completed(&run).await;
        let timeline = case.app.timeline(&run).await;
        not_available(&timeline, "call_1_1");
        not_available(&timeline, "call_1_2");
        let mut ran: Vec<_> = case.ledger.of(&run).into_iter().map(|entry| entry.tool).collect();
        ran.sort();
        assert_eq!(ran, ["update_y", "z"]);
    }

    /// B37: a rule matches however it writes the name: as registered, as the model sees it, and as a
    /// wildcard over either.
    async fn b37_every_form_of_a_name_matches(case: Case) {
        let forms = ["github-read.list__issues", "github-read_list__issues", "github-read.*", "github-read_*"];
        for (number, form) in forms.iter().enumerate() {
            let bundle = Bundle::new(&format!("b37-{number}"))
                .tier("b37")
                .ledger("github-read", "list__issues")
                .deny(form)
                .allow("*");
            let run = case.begin(&bundle).await;
            case.completed(&run).await;
            not_available(&case.app.timeline(&run).await, "call_1_1");
            assert_eq!(case.ledger.of(&run), [], "{form}");
        }
    }

    /// B37: a rule for a server that the bundle lacks is warned of, and no other.
    async fn b37_a_rule_for_no_server_is_warned_of(case: Case) {
        let bundle = Bundle::new("b37-warned")
            .tier("b37")
            .ledger("github-read", "list__issues")
            .deny("github-read.list__issues")
            .deny("github-read_*")
            .deny("gitlab.list__issues")
            .allow("*");
        let deployed = case.admin.try_deploy(&case.bundle(&bundle)).await.unwrap();
        let warned: Vec<_> = deployed.warnings.iter()
            .map(|warning| (warning.code.as_str(), warning.path.as_str()))
            .collect();
        assert_eq!(warned, [("bundle.unknown_server", "permissions.rules[2]")]);
    }

    /// B38: of two tools whose names are alike for a model, the denied one is not reached by either
    /// spelling, in either order of registration.
    async fn b38_names_that_clash_never_reach_the_other_tool(case: Case) {
        for (number, tools) in ["update.contact,update_contact", "update_contact,update.contact"].iter().enumerate() {
            let bundle = Bundle::new(&format!("b38-{number}"))
                .tier("b38")
                .ledger("crm", tools)
                .deny("crm.update.contact")
                .allow("crm.update_contact");
            let run = case.begin(&bundle).await;
            case.completed(&run).await;
            let timeline = case.app.timeline(&run).await;
            not_available(&timeline, "call_1_1");
            let ran = case.ledger.of(&run);
            assert!(ran.iter().all(|entry| entry.tool == "update_contact"), "{ran:?}");
            for entry in &ran {
                let call = timeline.one("tool_call", entry.call());
                assert_eq!(call.content["tool"], "crm.update_contact");
            }
        }
    }

    /// B60 (a), S4.3: the third identical call in a row is stopped with an error, and the run goes on.
    async fn b60_the_third_identical_call_is_stopped(case: Case) {
        let bundle = Bundle::new("b60a").ledger("poll", "check,other").allow("*");
        let run = case.begin(&bundle).await;
        case.completed(&run).await;
        let tools: Vec<_> = case.ledger.of(&run).into_iter().map(|entry| entry.tool).collect();
        assert_eq!(tools, ["check", "check", "other"]);
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.one("repeat_loop", "call_3_1").content["count"], 3);
        assert_eq!(case.app.actions(&run).await["call_3_1"].status(), ActionStatus::Failed);
    }

    /// B60 (b): honest polling of two things in turn is no loop.
    async fn b60_alternating_calls_all_run(case: Case) {
        let bundle = Bundle::new("b60b").ledger("poll", "check,other").allow("*");
        let run = case.begin(&bundle).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run).len(), 6);
        assert_eq!(case.app.timeline(&run).await.count("repeat_loop"), 0);
    }

    /// B60 (c): the same arguments in another order are other bytes, and no repetition.
    async fn b60_other_bytes_are_another_call(case: Case) {
        let bundle = Bundle::new("b60c").ledger("poll", "check").allow("*");
        let run = case.begin(&bundle).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run).len(), 3);
        assert_eq!(case.app.timeline(&run).await.count("repeat_loop"), 0);
    }
}

fn names(request: &serde_json::Value) -> Vec<String> {
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let name = |tool: &serde_json::Value| {
        tool["function"]["name"]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    let mut names: Vec<_> = tools.iter().map(name).collect();
    names.sort();
    names
}

/// B35, B38: a denied tool is not offered to the model, and tools whose names clash are offered under
/// distinct names.
#[test]
fn b35_b38_what_a_model_is_offered() {
    on_runtime(async {
        let provider = Provider::start(Format::OpenAi, vec![Answer::text("done")]).await;
        let options = Options::new()
            .model("m", provider.model())
            .tier("offered", &["m"]);
        let case = Case::alone(Shape::Embedded, options).await;
        let denied = Bundle::new("denied")
            .tier("offered")
            .ledger("crm", "read,delete_contact")
            .deny("*.delete_*")
            .allow("*");
        let run = case.begin(&denied).await;
        case.completed(&run).await;
        assert_eq!(names(&provider.requests()[0]), ["crm_read"]);

        let clash = Bundle::new("clash")
            .tier("offered")
            .ledger("crm", "update.contact,update_contact")
            .allow("*");
        let run = case.begin(&clash).await;
        case.completed(&run).await;
        let offered = names(&provider.requests()[1]);
        assert_eq!(offered.len(), 2);
        assert_ne!(offered[0], offered[1]);
    });
}
