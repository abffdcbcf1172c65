use super::tests::{GET, POST, rules, verdict, view};
use super::*;
use crate::bundle::Action::{Ask, Deny};
use crate::judge::ToolKind::{Agent, Builtin as BuiltinKind, Control, Mcp};
use crate::names::plain_form;

#[test]
fn s5_9_a_tools_effect() {
    let hints = |read_only, destructive| Hints {
        read_only,
        destructive,
        open_world: None,
    };
    let effect = |trusts: bool, mark: &str, kind, hints| {
        let yaml = format!(
            "servers: {{s: {{command: [x], trustAnnotations: {trusts}}}}}\ntools: {{s.t: {{{mark}}}}}"
        );
        let rules = rules(&yaml);
        let tool = ToolView {
            registered: "s.t",
            model_name: "s_t",
            kind,
            granted: true,
            hints,
        };
        rules.resolve(&tool).effect()
    };
    let (yes, no) = (Some(true), Some(false));
    for (trusts, mark, kind, hints, expected) in [
        (false, "", Mcp, hints(None, None), Effect::Write),
        (false, "", Mcp, hints(yes, no), Effect::Write),
        (false, "", Mcp, hints(no, yes), Effect::Write),
        (true, "", Mcp, hints(yes, None), Effect::Read),
        (true, "", Mcp, hints(no, yes), Effect::Destructive),
        (true, "", Mcp, hints(no, no), Effect::Write),
        (true, "", Mcp, hints(None, None), Effect::Write),
        (
            true,
            "effect: outward",
            Mcp,
            hints(yes, None),
            Effect::Outward,
        ),
        (false, "effect: read", Mcp, hints(no, yes), Effect::Read),
        (false, "", GET, hints(None, None), Effect::Read),
        (false, "", POST, hints(yes, None), Effect::Write),
        (
            false,
            "",
            ToolKind::Endpoint(Method::from_name("delete")),
            hints(None, None),
            Effect::Destructive,
        ),
        (false, "effect: read", POST, hints(None, None), Effect::Read),
    ] {
        assert_eq!(
            effect(trusts, mark, kind, hints),
            expected,
            "{trusts} {mark} {kind:?} {hints:?}"
        );
    }
    let rules = rules("");
    for (name, expected) in [
        ("create_artifact", Effect::Write),
        ("read_doc", Effect::Read),
        ("fetch_url", Effect::Outward),
        ("draft_reply", Effect::Write),
        ("send_email", Effect::Write),
        ("launch_rocket", Effect::Write),
    ] {
        assert_eq!(
            rules.resolve(&view(name, name, BuiltinKind, true)).effect(),
            expected,
            "{name}"
        );
    }
    assert_eq!(
        rules
            .resolve(&view("start_agent", "start_agent", Agent, true))
            .effect(),
        Effect::Write
    );
}

#[test]
fn s5_8_b40_whose_output_is_untrusted() {
    let untrusted = |trusts: bool, tools: &str, open_world| {
        let yaml = format!(
            "servers: {{s: {{command: [x], trustAnnotations: {trusts}}}}}\ntools: {{{tools}}}"
        );
        let tool = ToolView {
            registered: "s.t",
            model_name: "s_t",
            kind: Mcp,
            granted: true,
            hints: Hints {
                open_world,
                ..Hints::default()
            },
        };
        rules(&yaml).resolve(&tool).untrusted_output()
    };
    for (trusts, tools, hint, expected) in [
        (false, "", None, true),
        (true, "", None, true),
        (true, "", Some(false), false),
        (true, "", Some(true), true),
        (false, "s.t: {untrustedOutput: false}", Some(true), false),
        (false, "", Some(false), true),
        (false, "'s.*': {untrustedOutput: false}", None, false),
        (
            false,
            "'s.*': {untrustedOutput: false}, s.t: {untrustedOutput: true}",
            None,
            true,
        ),
        (
            true,
            "'*': {untrustedOutput: true}, s_t: {untrustedOutput: false}",
            Some(true),
            false,
        ),
        (true, "s.t: {untrustedOutput: true}", Some(false), true),
    ] {
        assert_eq!(
            untrusted(trusts, tools, hint),
            expected,
            "{trusts} {tools} {hint:?}"
        );
    }
    let rules = rules("");
    let of = |name: &str, kind| {
        rules
            .resolve(&view(name, name, kind, true))
            .untrusted_output()
    };
    for (name, expected) in [
        ("create_artifact", false),
        ("read_doc", true),
        ("fetch_url", true),
        ("launch_rocket", true),
    ] {
        assert_eq!(of(name, BuiltinKind), expected, "{name}");
    }
    assert!(!of("shop.get", GET) && !of("ask_person", Control));
}

#[test]
fn s5_8_b41_hints_never_loosen_a_rule() {
    let rules = rules(
        "servers: {s: {command: [x], trustAnnotations: true}}\n\
         permissions: {rules: [{tool: s.asked, action: ask}, {tool: s.denied, action: deny}, {tool: '*', action: allow}]}",
    );
    for (name, action) in [("s.asked", Ask), ("s.denied", Deny)] {
        let model_name = plain_form(name);
        let tool = ToolView {
            hints: Hints {
                read_only: Some(true),
                destructive: Some(false),
                open_world: Some(false),
            },
            ..view(name, &model_name, Mcp, true)
        };
        assert_eq!(verdict(&rules, &tool).action, action);
    }
}
