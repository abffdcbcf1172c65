use super::tests::{mistake, mistakes};
use super::*;

/// A bundle with every kind of condition and mark.
const CONDITIONS: &str = r#"
name: a
tools:
  "shop.refund_order":
    untrustedOutput: false
    sensitiveOutput: true
    roles: { order_id: { role: object, kind: order }, amount: amount, "/to/iban": destination, when: free }
  "shop.get_order": { returns: { id: order, /customer/id: customer } }
permissions:
  preset: balanced
  rules:
    - tool: "shop.*"
      action: ask
      when:
        trust: untrusted
        trustBelow: trusted
        effect: [write, outward]
        secretRead: true
        args: { /amount: { min: 50, max: 99.50 }, to: { equals: x, oneOf: [1, true, "b"], glob: "a*", maxLength: 8 } }
      unless: { args: { to: { from: [trusted, task], linksFrom: [own], max: 1.50 } } }
    - { tool: "*", action: deny, unless: [ { roles: { amount: { max: 5 } } }, { roles: { label: { from: [] } } } ] }
"#;

#[test]
fn s5_9_conditions_and_marks_are_read() {
    let bundle = Bundle::parse(CONDITIONS).unwrap();
    let (_, refund) = &bundle.tools[0];
    assert_eq!(
        (refund.untrusted_output, refund.sensitive_output),
        (Some(false), Some(true))
    );
    let roles: Vec<String> = refund
        .roles
        .iter()
        .map(|(place, mark)| format!("{place} {} {:?}", mark.role, mark.kind))
        .collect();
    assert_eq!(
        roles,
        [
            "/to/iban destination None",
            "amount amount None",
            "order_id object Some(\"order\")",
            "when free None",
        ]
    );
    let permissions = bundle.permissions.as_ref().unwrap();
    assert_eq!(permissions.preset, Some(Preset::Balanced));
    // S5.9: a preset sets the default where the bundle sets none.
    assert_eq!(permissions.default, Action::Allow);
    assert_eq!(permissions.rules[0].unless.len(), 1);
    assert_eq!(permissions.rules[1].unless.len(), 2);
}

#[test]
fn s1_3_the_canonical_form_of_conditions_is_stable() {
    let bundle = Bundle::parse(CONDITIONS).unwrap();
    let canonical = bundle.to_canonical_json();
    assert_eq!(
        canonical,
        concat!(
            r#"{"name":"a","tier":"balanced","instructions":"","interaction":false,"builtins":[],"servers":{},"#,
            r#""tools":{"shop.refund_order":{"untrustedOutput":false,"sensitiveOutput":true,"roles":"#,
            r#"{"/to/iban":"destination","amount":"amount","order_id":{"role":"object","kind":"order"},"#,
            r#""when":"free"}},"shop.get_order":{"returns":{"/customer/id":"customer","id":"order"}}},"#,
            r#""permissions":{"preset":"balanced","default":"allow","rules":[{"tool":"shop.*","action":"ask","#,
            r#""when":{"trust":"untrusted","trustBelow":"trusted","effect":["outward","write"],"args":"#,
            r#"{"/amount":{"min":50,"max":99.5},"to":{"equals":"x","oneOf":[1,true,"b"],"glob":"a*","#,
            r#""maxLength":8}},"secretRead":true},"unless":[{"args":{"to":{"from":["task","trusted"],"#,
            r#""linksFrom":["own"],"max":1.5}}}]},{"tool":"*","action":"deny","unless":["#,
            r#"{"roles":{"amount":{"max":5}}},{"roles":{"label":{"from":[]}}}]}],"approvalTimeout":"1h"}}"#,
        )
    );
    assert_eq!(Bundle::parse(&canonical).unwrap(), bundle);
}

#[test]
fn s5_9_a_preset_does_not_change_a_default_that_is_set() {
    let bundle = Bundle::parse("name: a\npermissions: {preset: light, default: deny}").unwrap();
    assert_eq!(bundle.permissions.unwrap().default, Action::Deny);
}

#[test]
fn s5_11_mistakes_in_conditions_and_marks_are_refused() {
    let rule = |more: &str| format!("permissions: {{rules: [{{tool: '*', action: ask, {more}}}]}}");
    for (more, expected) in [
        ("when: []", "bundle.wrong_type when"),
        ("when: {trust: high}", "bundle.unknown_value when.trust"),
        (
            "when: {trustbelow: trusted}",
            "bundle.unknown_field when.trustbelow",
        ),
        ("when: {effect: write}", "bundle.wrong_type when.effect"),
        (
            "when: {effect: [writes]}",
            "bundle.unknown_value when.effect[0]",
        ),
        (
            "when: {effect: [read, read]}",
            "bundle.duplicate_key when.effect[1]",
        ),
        ("when: {secretRead: 1}", "bundle.wrong_type when.secretRead"),
        ("when: {args: {a: {}}}", "bundle.missing_field when.args.a"),
        ("when: {args: {a: 1}}", "bundle.wrong_type when.args.a"),
        (
            "when: {args: {a: {equals: ~}}}",
            "bundle.wrong_type when.args.a.equals",
        ),
        (
            "when: {args: {a: {equals: [1]}}}",
            "bundle.wrong_type when.args.a.equals",
        ),
        (
            "when: {args: {a: {min: '5'}}}",
            "bundle.wrong_type when.args.a.min",
        ),
        (
            "when: {args: {a: {min: 0x1F}}}",
            "bundle.bad_number when.args.a.min",
        ),
        (
            "when: {args: {a: {max: .inf}}}",
            "bundle.bad_number when.args.a.max",
        ),
        (
            "when: {args: {a: {maxLength: -1}}}",
            "bundle.bad_number when.args.a.maxLength",
        ),
        (
            "when: {args: {a: {like: x}}}",
            "bundle.unknown_field when.args.a.like",
        ),
        (
            "when: {args: {/a~2: {min: 1}}}",
            "bundle.bad_pointer when.args[\"/a~2\"]",
        ),
        (
            "when: {args: {'': {min: 1}}}",
            "bundle.bad_pointer when.args[\"\"]",
        ),
        (
            "when: {args: {a: {min: 1}, /a: {min: 1}}}",
            "bundle.duplicate_key when.args[\"/a\"]",
        ),
        ("unless: 1", "bundle.wrong_type unless"),
        ("unless: {}", "bundle.missing_field unless"),
        ("unless: [{}]", "bundle.missing_field unless[0]"),
        (
            "unless: {roles: {to: {from: [task]}}}",
            "bundle.unknown_value unless.roles.to",
        ),
        (
            "unless: {roles: {free: {from: [task]}}}",
            "bundle.unknown_value unless.roles.free",
        ),
        (
            "unless: {roles: {label: {}}}",
            "bundle.missing_field unless.roles.label",
        ),
        (
            "unless: {roles: {label: {from: task}}}",
            "bundle.wrong_type unless.roles.label.from",
        ),
        (
            "unless: {roles: {label: {from: [web]}}}",
            "bundle.unknown_value unless.roles.label.from[0]",
        ),
        (
            "unless: {args: {a: {equals: 1}}}",
            "bundle.unknown_field unless.args.a.equals",
        ),
    ] {
        let (code, path) = expected.split_once(' ').unwrap();
        let found = mistakes(&format!("name: a\n{}", rule(more)));
        let expected = format!("{code} permissions.rules[0].{path}");
        assert!(found.contains(&expected), "{more}: {found:?}");
    }
    for (marks, expected) in [
        ("roles: []", "bundle.wrong_type roles"),
        ("roles: {to: target}", "bundle.unknown_value roles.to"),
        ("roles: {to: {kind: x}}", "bundle.missing_field roles.to"),
        (
            "roles: {to: {role: object, kind: a b}}",
            "bundle.bad_name roles.to.kind",
        ),
        (
            "roles: {to: {role: object, sort: x}}",
            "bundle.unknown_field roles.to.sort",
        ),
        ("roles: {to: [object]}", "bundle.wrong_type roles.to"),
        ("returns: {id: 1}", "bundle.wrong_type returns.id"),
        ("untrustedOutput: 'no'", "bundle.wrong_type untrustedOutput"),
    ] {
        let (code, path) = expected.split_once(' ').unwrap();
        let lines = format!("tools: {{t: {{{marks}}}}}");
        assert_eq!(mistake(&lines), format!("{code} tools.t.{path}"), "{marks}");
    }
}
