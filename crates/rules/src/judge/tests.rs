use proptest::prelude::*;

use super::*;
use crate::names::{ToolNames, plain_form};
use crate::trust::Trust;

pub(super) fn rules(yaml: &str) -> Rules {
    let text = format!("name: a\nrole: unrestricted\n{yaml}");
    Rules::compile(&Bundle::parse(&text).unwrap_or_else(|errors| panic!("{errors}")))
}

fn with_rules(list: &[(&str, &str)]) -> Rules {
    let list: Vec<String> = list
        .iter()
        .map(|(tool, action)| format!("{{tool: '{tool}', action: {action}}}"))
        .collect();
    rules(&format!("permissions: {{rules: [{}]}}", list.join(", ")))
}

pub(super) fn view<'t>(
    registered: &'t str,
    model_name: &'t str,
    kind: ToolKind,
    granted: bool,
) -> ToolView<'t> {
    ToolView {
        registered,
        model_name,
        kind,
        granted,
        hints: Hints::default(),
    }
}

/// The verdict on a call without arguments in a trusted run.
pub(super) fn verdict<'r>(rules: &'r Rules, view: &ToolView<'_>) -> Verdict<'r> {
    let tool = rules.resolve(view);
    let (standing, index) = (Standing::new(Trust::Trusted), Index::default());
    let call = CallView {
        id: "1",
        tool: &tool,
        args: "{}",
    };
    let run = RunView {
        standing: &standing,
        index: &index,
    };
    rules.judge(&call, &run)
}

fn judge(rules: &Rules, kind: ToolKind, registered: &str) -> (Action, String) {
    let model_name = plain_form(registered);
    let verdict = verdict(rules, &view(registered, &model_name, kind, true));
    (verdict.action, verdict.rule.to_string())
}

fn check(rules: &Rules, kind: ToolKind, registered: &str, action: Action, rule: &str) {
    assert_eq!(
        judge(rules, kind, registered),
        (action, rule.to_owned()),
        "{registered}"
    );
}

use Action::{Allow, Ask, Deny};
use ToolKind::{Agent, Builtin as BuiltinKind, Control, Mcp};

pub(super) const GET: ToolKind = ToolKind::Endpoint(Method::Read);
pub(super) const POST: ToolKind = ToolKind::Endpoint(Method::Write);

#[test]
fn s5_1_what_is_not_granted_is_denied_before_anything_else() {
    let rules = with_rules(&[("*", "allow")]);
    for kind in [BuiltinKind, Control, Mcp, GET, POST, Agent] {
        let view = view("x.y", "x_y", kind, false);
        let verdict = verdict(&rules, &view);
        assert_eq!(
            (verdict.action, verdict.rule),
            (Deny, RuleId::Grant),
            "{kind:?}"
        );
        assert!(rules.hidden(&rules.resolve(&view)));
    }
}

#[test]
fn s5_1_the_strictest_voice_is_heard() {
    let rules = rules(
        "tools: {crm.read: {review: required}, crm.write: {review: not_required}}\n\
         permissions: {default: allow, rules: [{tool: crm.read, action: allow}, \
         {tool: crm.write, action: ask}, {tool: crm.drop, action: deny}]}",
    );
    check(&rules, Mcp, "crm.read", Ask, "review");
    check(&rules, Mcp, "crm.write", Ask, "rules#1");
    check(&rules, Mcp, "crm.drop", Deny, "rules#2");
    check(&rules, Mcp, "crm.other", Allow, "default");
}

#[test]
fn s5_3_b35_deny_then_ask_then_allow_in_any_order_of_writing() {
    let list = [
        ("*", "allow"),
        ("crm.update_*", "ask"),
        ("*.delete_*", "deny"),
    ];
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let rules = with_rules(&order.map(|index| list[index]));
        let at = |wanted: usize| {
            format!(
                "rules#{}",
                order.iter().position(|index| *index == wanted).unwrap()
            )
        };
        check(&rules, Mcp, "crm.read", Allow, &at(0));
        check(&rules, Mcp, "crm.update_contact", Ask, &at(1));
        check(&rules, Mcp, "crm.delete_contact", Deny, &at(2));
        check(&rules, Mcp, "crm.update_x.delete_y", Deny, &at(2));
    }
}

#[test]
fn s5_3_b35_no_rule_matches_and_no_default_asks() {
    check(
        &with_rules(&[("crm.*", "allow")]),
        Mcp,
        "git.push",
        Ask,
        "default",
    );
    check(
        &rules("permissions: {}"),
        BuiltinKind,
        "create_artifact",
        Ask,
        "default",
    );
    check(
        &rules("permissions: {default: deny}"),
        GET,
        "shop.get",
        Deny,
        "default",
    );
    check(
        &rules("permissions: {default: allow}"),
        Mcp,
        "git.push",
        Allow,
        "default",
    );
}

#[test]
fn s5_3_within_a_class_the_first_rule_decides() {
    let rules = with_rules(&[("git.*", "ask"), ("git.push", "ask")]);
    check(&rules, Mcp, "git.push", Ask, "rules#0");
}

#[test]
fn s5_4_without_a_permissions_block() {
    let rules = rules("tools: {shop.refund: {review: required}, git.log: {review: not_required}}");
    check(&rules, BuiltinKind, "create_artifact", Allow, "review");
    check(&rules, GET, "shop.get_order", Allow, "review");
    check(&rules, POST, "shop.refund", Ask, "review");
    check(&rules, Agent, "start_agent", Allow, "review");
    check(&rules, Mcp, "git.status", Ask, "default");
    // A review that is not required loosens nothing.
    check(&rules, Mcp, "git.log", Ask, "default");
}

#[test]
fn s5_5_the_review_table() {
    let table = [
        ("create_artifact", Allow, "review"),
        ("read_doc", Allow, "review"),
        ("fetch_url", Allow, "review"),
        ("draft_reply", Allow, "review"),
        ("send_email", Ask, "floor"),
        // One that the table does not know is treated as one that acts.
        ("launch_rocket", Ask, "review"),
    ];
    for (name, action, rule) in table {
        check(&rules(""), BuiltinKind, name, action, rule);
    }
    let on = rules("tools: {create_artifact: {review: required}}");
    check(&on, BuiltinKind, "create_artifact", Ask, "review");
}

#[test]
fn s5_5_nothing_clears_the_floor() {
    let allowed = with_rules(&[("send_email", "allow"), ("*", "allow")]);
    check(&allowed, BuiltinKind, "send_email", Ask, "floor");
    check(
        &rules("permissions: {default: allow}"),
        BuiltinKind,
        "send_email",
        Ask,
        "floor",
    );
    // A deny is stricter still, and the rule that asks too is named first.
    check(
        &with_rules(&[("*", "deny")]),
        BuiltinKind,
        "send_email",
        Deny,
        "rules#0",
    );
    check(
        &with_rules(&[("*", "ask")]),
        BuiltinKind,
        "send_email",
        Ask,
        "rules#0",
    );
    // Another server's tool of a like name has no floor.
    check(
        &with_rules(&[("*", "allow")]),
        Mcp,
        "send.email",
        Allow,
        "rules#0",
    );
}

#[test]
fn s3_4_control_tools_are_never_held_whatever_rules_say() {
    for list in [
        &[("*", "ask")][..],
        &[("*", "deny")],
        &[("ask_person", "ask")],
    ] {
        for name in CONTROL_TOOLS {
            check(&with_rules(list), Control, name, Allow, "review");
        }
    }
    check(
        &rules("permissions: {default: deny}"),
        Control,
        "ask_person",
        Allow,
        "review",
    );
    let marked = rules("tools: {'*_person': {review: required}}");
    check(&marked, Control, "ask_person", Allow, "review");
}

#[test]
fn s5_6_a_denied_tool_is_hidden_and_a_held_one_is_not() {
    let rules = with_rules(&[("*.delete_*", "deny"), ("*", "ask")]);
    let hidden = |registered, model_name| {
        rules.hidden(&rules.resolve(&view(registered, model_name, Mcp, true)))
    };
    assert!(hidden("crm.delete_all", "crm_delete_all"));
    assert!(!hidden("crm.read", "crm_read"));
}

#[test]
fn s5_6_only_what_is_denied_whatever_the_run_is_hidden() {
    let hidden = |yaml: &str, kind: ToolKind| {
        let rules = rules(yaml);
        rules.hidden(&rules.resolve(&view("a.b", "a_b", kind, true)))
    };
    for (rule, expected) in [
        ("{tool: '*', action: deny}", true),
        ("{tool: '*', action: deny, when: {effect: [write]}}", true),
        ("{tool: '*', action: deny, when: {effect: [read]}}", false),
        (
            "{tool: '*', action: deny, when: {trustBelow: operator}}",
            false,
        ),
        (
            "{tool: '*', action: deny, when: {args: {x: {equals: 1}}}}",
            false,
        ),
        (
            "{tool: '*', action: deny, when: {secretRead: false}}",
            false,
        ),
        (
            "{tool: '*', action: deny, unless: {args: {x: {from: [task]}}}}",
            false,
        ),
    ] {
        let yaml = format!("permissions: {{default: allow, rules: [{rule}]}}");
        assert_eq!(hidden(&yaml, Mcp), expected, "{rule}");
    }
    assert!(hidden("permissions: {default: deny}", Mcp));
    let exception =
        "permissions: {default: deny, rules: [{tool: a.b, action: ask, when: {trust: operator}}]}";
    assert!(!hidden(exception, Mcp));
    let other =
        "permissions: {default: deny, rules: [{tool: a.b, action: ask, when: {effect: [read]}}]}";
    assert!(hidden(other, Mcp));
    assert!(!hidden("permissions: {default: deny}", Control));
}

#[test]
fn s5_2_b37_a_deny_rule_holds_in_all_four_forms() {
    for pattern in [
        "github-read.list__issues",
        "github-read_list__issues",
        "github-read.*",
        "github-read_*",
    ] {
        let rules = with_rules(&[("*", "allow"), (pattern, "deny")]);
        check(&rules, Mcp, "github-read.list__issues", Deny, "rules#1");
        check(&rules, Mcp, "github.list__issues", Allow, "rules#0");
    }
}

#[test]
fn b38_of_two_tools_with_one_plain_name_only_the_denied_one_is_denied() {
    let (denied, allowed) = ("crm.update.contact", "crm.update_contact");
    for order in [[denied, allowed], [allowed, denied]] {
        let names = ToolNames::assign(order);
        for (denied, allowed) in [(denied, allowed), (allowed, denied)] {
            let rules = with_rules(&[(denied, "deny"), (allowed, "allow")]);
            let action = |registered| {
                let model_name = names.model_name(registered).unwrap();
                verdict(&rules, &view(registered, model_name, Mcp, true)).action
            };
            assert_eq!(action(denied), Deny);
            assert_eq!(action(allowed), Allow);
        }
        // The ambiguous spelling denies both: it cannot be escaped by a clash.
        let rules = with_rules(&[("crm_update_contact", "deny"), ("*", "allow")]);
        for (registered, model_name) in names.iter() {
            let view = view(registered, model_name, Mcp, true);
            assert_eq!(verdict(&rules, &view).action, Deny);
        }
    }
}

#[test]
fn s5_12_explain_names_every_voice_and_each_speaks_one_sentence() {
    let rules = with_rules(&[("send_*", "allow")]);
    let tool = rules.resolve(&view("send_email", "send_email", BuiltinKind, false));
    let (standing, index) = (Standing::new(Trust::Trusted), Index::default());
    let call = CallView {
        id: "1",
        tool: &tool,
        args: "{}",
    };
    let run = RunView {
        standing: &standing,
        index: &index,
    };
    let said: Vec<String> = rules
        .explain(&call, &run)
        .voices
        .iter()
        .map(|voice| format!("{} {}: {}", voice.rule, voice.action, voice.reason))
        .collect();
    assert_eq!(
        said,
        [
            "grant deny: The bundle does not grant this tool.",
            "rules#0 allow: Rule 0 of the bundle, for `send_*`, allows this tool.",
            "floor ask: The tool acts on the world outside and is always reviewed.",
        ]
    );
}

#[test]
fn s3_8_settings_have_defaults() {
    let settings = rules("").tool("git.log", "git_log");
    assert_eq!(settings.timeout, Duration::from_secs(60));
    assert_eq!(settings.max_result_bytes, 262_144);
    assert_eq!(
        (settings.idempotent, settings.effect, settings.review),
        (None, None, None)
    );
}

#[test]
fn s5_8_an_exact_key_wins_and_each_mark_is_looked_up_by_itself() {
    let rules = rules(
        "tools:\n  \
         '*': {timeout: 5s, review: required}\n  \
         'git.*': {timeout: 7s, maxResult: 1KiB, effect: read}\n  \
         git_log: {timeout: 8s, idempotent: false}\n  \
         git.log: {timeout: 9s, idempotent: true}",
    );
    let log = rules.tool("git.log", "git_log");
    assert_eq!(log.timeout, Duration::from_secs(9));
    assert_eq!(log.idempotent, Some(true));
    assert_eq!(log.max_result_bytes, 1024);
    assert_eq!(log.effect, Some(Effect::Read));
    assert_eq!(log.review, Some(Review::Required));
    // Among globs the first in the file decides.
    assert_eq!(
        rules.tool("git.push", "git_push").timeout,
        Duration::from_secs(5)
    );
}

fn action() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["allow", "ask", "deny"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// The verdict does not depend on how rules of different classes are
    /// interleaved, and equals its definition.
    #[test]
    fn s5_3_the_verdict_is_the_strictest_class_that_matches(
        list in prop::collection::vec(("[ab_.*]{1,5}", action()), 0..8),
        name in "[ab]\\.[ab_.]{1,4}",
        default in prop::option::of(action()),
    ) {
        let pairs: Vec<(&str, &str)> = list.iter().map(|(tool, action)| (tool.as_str(), *action)).collect();
        let entries: Vec<String> = pairs.iter().map(|(t, a)| format!("{{tool: '{t}', action: {a}}}")).collect();
        let default_entry = default.map(|d| format!("default: {d}, ")).unwrap_or_default();
        let rules = rules(&format!("permissions: {{{default_entry}rules: [{}]}}", entries.join(", ")));
        let model = plain_form(&name);
        let expected = ["deny", "ask", "allow"].into_iter().find(|class| {
            pairs.iter().any(|(tool, action)| action == class && Glob::new(tool).unwrap().matches(&name, &model))
        }).or(default).unwrap_or("ask");
        let (action, rule) = judge(&rules, Mcp, &name);
        prop_assert_eq!(action.as_str(), expected);
        if let Some(index) = rule.strip_prefix("rules#") {
            let index: usize = index.parse().unwrap();
            let first = pairs.iter().position(|(tool, action)| {
                *action == expected && Glob::new(tool).unwrap().matches(&name, &model)
            });
            prop_assert_eq!(Some(index), first);
        }
    }

    /// Adding a deny or ask rule, or a review, never loosens a verdict.
    #[test]
    fn s5_1_adding_a_strict_rule_never_loosens(
        list in prop::collection::vec(("[ab_.*]{1,5}", action()), 0..6),
        extra in "[ab_.*]{1,5}",
        strict in prop::sample::select(vec!["ask", "deny"]),
        name in "[ab]\\.[ab_.]{1,4}",
    ) {
        let mut pairs: Vec<(&str, &str)> = list.iter().map(|(tool, action)| (tool.as_str(), *action)).collect();
        let before = judge(&with_rules(&pairs), Mcp, &name).0;
        pairs.push((&extra, strict));
        let after = judge(&with_rules(&pairs), Mcp, &name).0;
        let matched = Glob::new(&extra).unwrap().matches(&name, &plain_form(&name));
        prop_assert!(after >= before, "{} after {}", after, before);
        prop_assert!(matched || after == before);
    }
}
