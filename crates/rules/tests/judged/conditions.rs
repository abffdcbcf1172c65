//! When rules hold, in which order, and how traces are read (S5.3, S5.8, S5.9, S5.12).

use sayso_rules::Bundle;
use sayso_rules::trace;
use serde_json::{Value, json};

use super::{call, returned, verdicts};

#[test]
fn s5_8_trust_drops_from_that_call_on() {
    let open = returned("web.open", json!({ "url": "u" }), json!("x"));
    let write = call("odd.unmarked", json!({ "x": "y" }));
    let rule = "permissions: {default: allow, rules: [{tool: 'odd.*', action: ask, when: {trustBelow: trusted}}]}";
    let run = |calls: &[Value]| verdicts(rule, "trusted", "p", calls);
    assert_eq!(run(&[write.clone(), open.clone(), write.clone()]), "aak");
    let denied = "permissions: {default: allow, rules: [{tool: 'web.*', action: ask}, \
                  {tool: 'odd.*', action: ask, when: {trustBelow: trusted}}]}";
    let mut refused = open;
    refused["approve"] = json!(false);
    assert_eq!(
        verdicts(denied, "trusted", "p", &[refused.clone(), write.clone()]),
        "ka"
    );
    refused["approve"] = json!(true);
    assert_eq!(
        verdicts(denied, "trusted", "p", &[refused, write.clone()]),
        "kk"
    );
    assert_eq!(
        verdicts(rule, "operator", "p", std::slice::from_ref(&write)),
        "a"
    );
    assert_eq!(verdicts(rule, "untrusted", "p", &[write]), "k");
}

#[test]
fn s5_9_each_condition_of_when() {
    let args = json!({ "n": 60, "s": "prod-eu", "l": ["a", "b"], "t": "75.00", "c": "40 BTC", "d": "1.000,00", "f": true, "p": { "q/r": 1 } });
    for (when, strict, loose) in [
        ("{}", true, true),
        ("{trust: trusted}", true, true),
        ("{trust: operator}", false, false),
        ("{trustBelow: trusted}", false, false),
        ("{trustBelow: operator}", true, true),
        ("{effect: [write]}", true, true),
        ("{effect: [read, destructive]}", false, false),
        ("{secretRead: false}", true, true),
        ("{secretRead: true}", false, false),
        ("{args: {n: {equals: 60.0}}}", true, true),
        ("{args: {n: {equals: '60'}}}", true, false),
        ("{args: {s: {equals: prod-eu}}}", true, true),
        ("{args: {s: {equals: PROD-EU}}}", false, false),
        ("{args: {s: {oneOf: [x, prod-eu]}}}", true, true),
        ("{args: {s: {oneOf: [x]}}}", false, false),
        ("{args: {s: {glob: 'prod-*'}}}", true, true),
        ("{args: {s: {glob: 'prod'}}}", false, false),
        ("{args: {n: {min: 60}}}", true, true),
        ("{args: {n: {min: 60.5}}}", false, false),
        ("{args: {n: {max: 60}}}", true, true),
        ("{args: {n: {min: 1, max: 59}}}", false, false),
        ("{args: {s: {maxLength: 7}}}", true, true),
        ("{args: {s: {maxLength: 6}}}", false, false),
        ("{args: {/p/q~1r: {equals: 1}}}", true, true),
        ("{args: {f: {equals: true}}}", true, true),
        // Absent does not match.
        ("{args: {missing: {glob: '*'}}}", false, false),
        ("{args: {/p/x: {glob: '*'}}}", false, false),
        // A list: any item for a rule that asks or denies, all for one that allows.
        ("{args: {l: {equals: a}}}", true, false),
        ("{args: {l: {oneOf: [a, b]}}}", true, true),
        ("{args: {l: {equals: c}}}", false, false),
        // What cannot be told is held against the call.
        ("{args: {t: {min: 50}}}", true, false),
        ("{args: {t: {min: 80}}}", false, false),
        ("{args: {c: {min: 80}}}", true, false),
        ("{args: {d: {min: 80}}}", true, false),
        ("{args: {s: {min: 50}}}", true, false),
        // All that is named must hold.
        ("{trust: trusted, effect: [read]}", false, false),
        ("{args: {n: {equals: 60}, s: {equals: x}}}", false, false),
    ] {
        let judged = |action: &str, default: &str| {
            let permissions = format!(
                "permissions: {{default: {default}, rules: [{{tool: '*', action: {action}, when: {when}}}]}}"
            );
            verdicts(
                &permissions,
                "trusted",
                "p",
                &[call("odd.unmarked", args.clone())],
            )
        };
        assert_eq!(judged("deny", "allow") == "d", strict, "deny {when}");
        assert_eq!(judged("ask", "allow") == "k", strict, "ask {when}");
        assert_eq!(judged("allow", "deny") == "a", loose, "allow {when}");
    }
}

#[test]
fn s5_3_every_pair_of_actions() {
    for (one, other, expected) in [
        ("allow", "allow", "a"),
        ("allow", "ask", "k"),
        ("allow", "deny", "d"),
        ("ask", "ask", "k"),
        ("ask", "deny", "d"),
        ("deny", "deny", "d"),
    ] {
        for (first, second) in [(one, other), (other, one)] {
            for tool in ["odd.unmarked", "odd_unmarked", "odd.*", "*_unmarked"] {
                let permissions = format!(
                    "permissions: {{rules: [{{tool: '{tool}', action: {first}}}, {{tool: '*', action: {second}}}]}}"
                );
                let found = verdicts(
                    &permissions,
                    "trusted",
                    "p",
                    &[call("odd.unmarked", json!({}))],
                );
                assert_eq!(found, expected, "{first} {second} {tool}");
            }
        }
    }
}

#[test]
fn s5_9_presets_stand_first_in_their_class() {
    let bundle = Bundle::parse(
        "name: a\npermissions: {preset: strict, rules: [{tool: x.y, action: ask}, {tool: x.z, action: deny}, {tool: '*', action: allow}]}",
    )
    .unwrap();
    let line = r#"{"id":"t","prompt":"p","trust":"untrusted","calls":[{"tool":"x.y"},{"tool":"x.z"}]}
{"id":"u","prompt":"p","calls":[{"tool":"x.y","approve":false},{"tool":"x.q","approve":true},{"tool":"x.q"}]}"#;
    let answers = trace::judge(&bundle, &trace::read(line).unwrap());
    let rules: Vec<String> = answers
        .iter()
        .flat_map(|answer| &answer.verdicts)
        .map(|verdict| format!("{} {} {}", verdict.action, verdict.rule, verdict.trust))
        .collect();
    assert_eq!(
        rules,
        [
            "ask preset:strict#0 untrusted",
            "deny rules#1 untrusted",
            "ask rules#0 trusted",
            "allow rules#2 trusted",
            "ask preset:strict#0 untrusted",
        ]
    );
    let json = serde_json::to_string(&answers[1].verdicts[1]).unwrap();
    assert_eq!(
        json,
        r#"{"action":"allow","trust":"trusted","rule":"rules#2","reason":"Rule 2 of the bundle, for `*`, allows this tool."}"#
    );
}

#[test]
fn s5_12_traces_grant_what_they_list() {
    let bundle =
        Bundle::parse("name: a\nbuiltins: [create_artifact]\npermissions: {default: allow}")
            .unwrap();
    let lines = r#"{"id":"1","prompt":"p","calls":[{"tool":"s.a"},{"tool":"s_a"},{"tool":"s.b"},{"tool":"create_artifact"}],"tools":[{"name":"s.a","description":"d","inputSchema":{},"annotations":{"readOnlyHint":true}}]}

{"id":"2","prompt":"p","calls":[{"tool":"s.a","args":{"x":1},"result":null},{"tool":"s.b"}]}"#;
    let answers = trace::judge(&bundle, &trace::read(lines).unwrap());
    let shown: Vec<String> = answers
        .iter()
        .flat_map(|answer| &answer.verdicts)
        .map(|verdict| format!("{} {}", verdict.action, verdict.rule))
        .collect();
    assert_eq!(
        shown,
        [
            "allow default",
            "allow default",
            "deny grant",
            "allow default",
            "allow default",
            "deny grant"
        ]
    );
    let bad = trace::read("{\"id\":\"1\",\"prompt\":\"p\",\"calls\":[]}\n{}").unwrap_err();
    assert_eq!(bad.line, 2);
}
