//! The commands that ask bundles and need no server (S5.11, S5.12, S10.6).

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Answer, sayso};

fn run(folder: &Path, arguments: &[&str]) -> Answer {
    Answer::of(sayso().args(arguments).current_dir(folder))
}

/// A folder with what `init` writes, and the traces of a run that reads before it writes.
fn begun() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["init"]).ok();
    let traces = concat!(
        r#"{"id":"t1","prompt":"Pay the bill","tools":[{"name":"bank.read","annotations":{}},{"name":"bank.pay"}],"#,
        r#""calls":[{"tool":"bank.pay","args":{"to":"x"},"approve":false},{"tool":"bank.read","result":"…"},{"tool":"bank_pay","args":{"to":"x"}},{"tool":"other.x"}]}"#,
        "\n\n",
        r#"{"id":"t2","prompt":"","trust":"untrusted","calls":[{"tool":"bank.pay","approve":false}]}"#,
        "\n",
    );
    std::fs::write(folder.path().join("traces.jsonl"), traces).unwrap();
    folder
}

/// S5.11, S10.6: `init` writes a bundle and cases that pass, in a folder that it makes, and
/// overwrites nothing.
#[test]
fn s5_11_init_writes_what_passes_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(folder.path(), &["init", "a/b"]).ok();
    assert!(made.out.contains("agent.yaml"), "{made}");
    let bundle = folder.path().join("a/b/agent.yaml");
    let text = std::fs::read_to_string(&bundle).unwrap();
    assert!(text.contains("preset: balanced"), "{text}");
    let tested = run(folder.path(), &["policy", "test", "a/b/agent.yaml"]).ok();
    assert!(tested.out.contains("cases passed"), "{tested}");

    std::fs::write(&bundle, "mine").unwrap();
    std::fs::remove_file(folder.path().join("a/b/agent.cases.yaml")).unwrap();
    let refused = run(folder.path(), &["init", "a/b"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.err.contains("[init.exists]"), "{refused}");
    assert_eq!(std::fs::read_to_string(&bundle).unwrap(), "mine");
    assert!(!folder.path().join("a/b/agent.cases.yaml").exists());
}

/// S10.6: the schema is JSON Schema that knows the bundle's keys.
#[test]
fn s10_6_schema_prints_json_schema() {
    let folder = tempfile::tempdir().unwrap();
    let schema = run(folder.path(), &["schema", "bundle"]).ok().json();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert!(schema["properties"]["permissions"].is_object());
}

/// S5.12: one answer a line, one verdict a call, in order; what was not approved did not happen.
#[test]
fn s5_12_traces_are_judged_offline() {
    let folder = begun();
    let judge = [
        "policy",
        "judge",
        "--bundle",
        "agent.yaml",
        "--traces",
        "traces.jsonl",
    ];
    let judged = run(folder.path(), &[&judge[..], &["--json"]].concat()).ok();
    let answers: Vec<Value> = judged
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told = |at: usize| -> Vec<Value> {
        let verdicts = answers[at]["verdicts"].as_array().unwrap().iter();
        verdicts
            .map(|verdict| json!([verdict["action"], verdict["trust"], verdict["rule"]]))
            .collect()
    };
    assert_eq!((answers.len(), &answers[0]["id"]), (2, &json!("t1")));
    assert_eq!(
        told(0),
        [
            json!(["allow", "trusted", "default"]),
            json!(["ask", "untrusted", "preset:balanced#0"]),
            json!(["ask", "untrusted", "preset:balanced#0"]),
            json!(["deny", "untrusted", "grant"]),
        ]
    );
    assert_eq!(told(1), [json!(["ask", "untrusted", "preset:balanced#0"])]);
    assert!(
        answers[0]["verdicts"][1]["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty())
    );
    let told = run(folder.path(), &judge).ok();
    assert!(
        told.out.starts_with("t1 1: allow by default (trusted): "),
        "{told}"
    );
    assert!(
        told.err
            .contains("2 traces, 5 calls: 1 allowed, 3 asked, 1 denied"),
        "{told}"
    );
}

/// S10.5: a bad line is named with its number and a stable code, and nothing is half printed.
#[test]
fn s10_5_a_bad_trace_prints_nothing_else() {
    let folder = begun();
    let good = std::fs::read_to_string(folder.path().join("traces.jsonl")).unwrap();
    let judge = [
        "policy",
        "judge",
        "--bundle",
        "agent.yaml",
        "--traces",
        "bad.jsonl",
        "--json",
    ];
    for bad in [
        "{\"id\":\"x\"}",
        "not json",
        "{\"id\":\"x\",\"prompt\":\"\",\"calls\":[{}]}",
    ] {
        std::fs::write(
            folder.path().join("bad.jsonl"),
            format!("{good}{bad}\n{good}"),
        )
        .unwrap();
        let refused = run(folder.path(), &judge);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused}");
        let error: Value = serde_json::from_str(&refused.err).unwrap();
        assert_eq!(error["error"]["code"], "trace.malformed", "{refused}");
        assert_eq!(error["error"]["metadata"]["line"], "4", "{refused}");
    }
    std::fs::write(folder.path().join("bad.yaml"), "name: [").unwrap();
    let judge = [
        "policy",
        "judge",
        "--bundle",
        "bad.yaml",
        "--traces",
        "traces.jsonl",
    ];
    let refused = run(folder.path(), &judge);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused}");
    assert!(refused.err.contains("[bundle.invalid]"), "{refused}");
}

/// S5.12: a case that fails says what was expected and what is, and the exit code tells it from one
/// that cannot be read.
#[test]
fn s5_12_a_case_that_fails_is_told() {
    let folder = begun();
    let cases = folder.path().join("mine.yaml");
    let test = ["policy", "test", "agent.yaml", "--cases", "mine.yaml"];
    std::fs::write(
        &cases,
        "cases: [{name: odd, calls: [{tool: send_email, expect: {action: allow, rule: default}}]}]",
    )
    .unwrap();
    let failed = run(folder.path(), &test);
    assert_eq!(failed.code, 1, "{failed}");
    assert!(
        failed
            .out
            .contains("call 1 send_email: expected allow by default, but it is deny by grant"),
        "{failed}"
    );
    std::fs::write(
        &cases,
        "cases: [{name: odd, calls: [{tool: x, expect: maybe}]}]",
    )
    .unwrap();
    let refused = run(folder.path(), &test);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.err.contains("[policy.bad_cases]"), "{refused}");
    assert!(
        refused.err.contains("cases[0].calls[0].expect"),
        "{refused}"
    );
}

/// S5.12: every voice on one call, the rule that decides, and why its alternative does not lift it.
#[test]
fn s5_12_a_call_is_explained_offline() {
    let folder = begun();
    let explain = [
        "policy",
        "explain",
        "--bundle",
        "agent.yaml",
        "create_artifact",
        r#"{"name":"secret-plan.txt"}"#,
        "--trust",
        "untrusted",
    ];
    let told = run(folder.path(), &explain).ok();
    assert!(told.out.starts_with("ask of create_artifact: "), "{told}");
    assert!(
        told.out.contains("alternative 1 does not lift it: "),
        "{told}"
    );
    let named = run(
        folder.path(),
        &[
            &explain[..],
            &["--prompt", "Write secret-plan.txt", "--json"],
        ]
        .concat(),
    )
    .ok()
    .json();
    assert_eq!(
        named["action"], "POLICY_ACTION_ALLOW",
        "the principal's own words vouch for the name: {named}"
    );
    for bad in [
        &["policy", "explain", "create_artifact"][..],
        &["policy", "explain", "--run", "run_1"],
    ] {
        assert_eq!(run(folder.path(), bad).code, 2);
    }
    let refused = run(
        folder.path(),
        &["policy", "explain", "--bundle", "agent.yaml", "x.y", "{"],
    );
    assert!(
        refused.code == 2 && refused.err.contains("[policy.bad_arguments]"),
        "{refused}"
    );
}
