//! Hand-made traces under the presets and under rules of one condition each (S5.3, S5.8, S5.9).

#![expect(
    clippy::unwrap_used,
    reason = "tests state what they expect; a panic with the place is what a failing one should print"
)]

mod benign;
mod conditions;
mod laundering;
mod reading;
mod values;

use sayso_rules::Bundle;
use sayso_rules::trace;
use serde_json::{Value, json};

/// A desk with a tool of each kind, described as a bundle should.
const TOOLS: &str = r#"
tools:
  web.open: { effect: outward, untrustedOutput: true, roles: { url: destination } }
  web.post: { effect: write, untrustedOutput: false, roles: { url: destination, text: content } }
  mail.search: { effect: read, untrustedOutput: true, returns: { id: mail } }
  mail.send: { effect: destructive, untrustedOutput: false, returns: { id: mail }, roles: { to: destination, cc: destination, subject: content, body: content, attachments: object, at: free } }
  mail.delete: { effect: destructive, untrustedOutput: false, roles: { id: { role: object, kind: mail } } }
  drive.find: { effect: read, untrustedOutput: true }
  drive.list: { effect: read, untrustedOutput: false, returns: { id: file } }
  drive.create_file: { effect: write, untrustedOutput: false, roles: { name: label, content: content } }
  drive.append_to_file: { effect: write, untrustedOutput: false, roles: { file_id: object, content: content } }
  drive.delete_file: { effect: destructive, untrustedOutput: false, roles: { file_id: object } }
  people.find: { effect: read, untrustedOutput: true }
  people.invite: { effect: write, untrustedOutput: false, roles: { who: destination } }
  bank.pay: { effect: write, untrustedOutput: false, roles: { to: destination, amount: amount, note: content } }
  bank.order: { effect: write, untrustedOutput: false, roles: { /payee/iban: destination, /payee/name: label, /lines/sum: amount } }
  bank.set_password: { effect: write, untrustedOutput: false, roles: { password: credential } }
  vault.read: { effect: read, untrustedOutput: false, sensitiveOutput: true }
  odd.unmarked: { effect: write, untrustedOutput: false }
"#;

const TAINT: &str =
    r#"{"tool":"web.open","args":{"url":"www.start.example"},"result":"\"hello\""}"#;

/// The verdicts of a trace, as letters: `a`llow, as`k`, `d`eny.
fn verdicts(permissions: &str, trust: &str, prompt: &str, calls: &[Value]) -> String {
    let bundle = Bundle::parse(&format!("name: a\n{TOOLS}\n{permissions}"))
        .unwrap_or_else(|error| panic!("{error}"));
    let line = json!({
        "id": "t",
        "prompt": prompt,
        "trust": trust,
        "self": ["me@home.example"],
        "calls": calls,
    });
    let answers = trace::judge(&bundle, &trace::read(&line.to_string()).unwrap());
    answers[0]
        .verdicts
        .iter()
        .map(|verdict| match verdict.action.as_str() {
            "ask" => 'k',
            other => other.chars().next().unwrap(),
        })
        .collect()
}

fn call(tool: &str, args: Value) -> Value {
    json!({ "tool": tool, "args": args, "approve": false })
}

fn returned(tool: &str, args: Value, result: Value) -> Value {
    json!({ "tool": tool, "args": args, "result": result })
}

/// The verdict of `balanced` on the last of several calls, the first of which taints the run.
#[track_caller]
fn check(prompt: &str, calls: &[Value], expected: &str) {
    let mut all = vec![serde_json::from_str(TAINT).unwrap()];
    all.extend_from_slice(calls);
    let found = verdicts("permissions: {preset: balanced}", "trusted", prompt, &all);
    assert_eq!(&found[1..], expected, "{prompt}: {calls:?}");
}
