//! `regorus` on the same rules, in Rego. It has no provenance.

use std::fmt::Write;
use std::hint::black_box;

use regorus::{Engine, Value};

use crate::rules::{Says, hundred, median};

fn policy() -> String {
    let mut text = String::from(
        "package sayso\nimport rego.v1\ndefault verdict := \"allow\"\n\
         verdict := \"deny\" if { deny }\nelse := \"ask\" if { ask }\n\
         default deny := false\ndefault ask := false\ndefault allow := false\n",
    );
    for rule in hundred() {
        let on = if rule.tool.contains('*') {
            format!("glob.match(\"{}\", null, input.tool)", rule.tool)
        } else {
            format!("input.tool == \"{}\"", rule.tool)
        };
        let rule = match rule.says {
            Says::Deny => format!("deny if {{ {on} }}"),
            Says::AskBelowTrusted => format!("ask if {{ input.trust == \"untrusted\"; {on} }}"),
            Says::Ask => format!("ask if {{ {on} }}"),
            Says::AllowReads => format!("allow if {{ input.effect == \"read\"; {on} }}"),
        };
        writeln!(text, "{rule}").expect("strings grow");
    }
    text
}

/// Nanoseconds a verdict.
pub fn measure() -> u128 {
    let mut engine = Engine::new();
    engine
        .add_policy("sayso.rego".to_owned(), policy())
        .expect("the policy is Rego");
    let input = r#"{"tool": "srv7.tool_507", "trust": "trusted", "effect": "write"}"#;
    let input = Value::from_json_str(input).expect("JSON");
    let mut ask = || {
        engine.set_input(black_box(input.clone()));
        engine
            .eval_rule("data.sayso.verdict".to_owned())
            .expect("a verdict")
    };
    assert_eq!(ask(), Value::from("allow"));
    median(99, || {
        black_box(ask());
    })
}
