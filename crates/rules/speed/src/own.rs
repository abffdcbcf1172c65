//! Our own judge: `Rules::judge`, `Rules::resolve`, and what a value index costs.

use std::hint::black_box;
use std::time::Instant;

use sayso_rules::bundle::Action;
use serde_json::{Map, Value};

use crate::rules::{Rule, Says, hundred, median};

use sayso_rules::{
    Bundle, CallView, Hints, Index, Rules, RunView, Standing, Tool, ToolKind, ToolView, Trust,
};

const ARGS: &str = r#"{"to":["ann@example.org","bob@example.org"],"body":"Hello both, the meeting is on Monday at ten.","amount":120.50,"at":"2024-05-15"}"#;

fn call(tool: &Tool) -> CallView<'_> {
    CallView {
        id: "c",
        tool,
        args: ARGS,
    }
}

fn resolve(rules: &Rules, name: &str) -> Tool {
    let model_name = name.replace('.', "_");
    rules.resolve(&ToolView {
        registered: name,
        model_name: &model_name,
        kind: ToolKind::Mcp,
        granted: true,
        hints: Hints::default(),
    })
}

fn large_result(bytes: usize) -> String {
    let mut items = Vec::new();
    let mut size = 0;
    while size < bytes {
        let at = items.len();
        let item = format!(
            r#"{{"id":{at},"sender":"person{at}@example.org","subject":"About matter {at}","body":"Dear all, please find the notes of meeting number {at} attached, with regards."}}"#
        );
        size += item.len() + 1;
        items.push(item);
    }
    format!("[{}]", items.join(","))
}

fn written(rule: &Rule) -> String {
    let says = match rule.says {
        Says::Deny => "action: deny",
        Says::AskBelowTrusted => "action: ask, when: {trustBelow: trusted}",
        Says::Ask => "action: ask",
        Says::AllowReads => "action: allow, when: {effect: [read]}",
    };
    format!("{{tool: '{}', {says}}}", rule.tool)
}

/// What was measured, in nanoseconds.
pub fn measure() -> Map<String, Value> {
    let mut measured = Map::new();
    let mut note = |what: &str, nanoseconds: u128| {
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
        measured.insert(what.to_owned(), nanoseconds.into());
    };
    let tools: Vec<String> = (0..1000)
        .map(|n| format!("\"srv{}.tool_{n}\": {{effect: write, untrustedOutput: false, roles: {{to: destination, body: content, amount: amount, at: free}}}}", n % 20))
        .collect();
    let plain: Vec<String> = hundred().iter().map(written).collect();
    let bundle = |permissions: &str| {
        let text = format!(
            "name: a\ntools: {{{}}}\npermissions: {{{permissions}}}",
            tools.join(", ")
        );
        Bundle::parse(&text).expect("the bundle of the bench is a bundle")
    };
    let without = Rules::compile(&bundle(&format!(
        "default: allow, rules: [{}]",
        plain.join(", ")
    )));
    let with = Rules::compile(&bundle(&format!(
        "preset: balanced, rules: [{}]",
        plain.join(", ")
    )));

    let prompt = "Write to ann@example.org and bob@example.org: Hello both, the meeting is on Monday at ten. Pay 120.50.";
    let mut index = Index::new(["me@example.org"]);
    index.words(prompt);
    let read = resolve(&with, "srv9.get_mails");
    let step = large_result(4096);
    let start = Instant::now();
    for _ in 0..50 {
        index.result(&call(&read), Trust::Untrusted, &step);
    }
    note(
        "rebuild_index_50_results_of_4_kib",
        start.elapsed().as_nanos(),
    );

    let trusted = Standing::new(Trust::Trusted);
    let untrusted = Standing::new(Trust::Untrusted);
    let tool = resolve(&without, "srv7.tool_507");
    let run = RunView {
        standing: &trusted,
        index: &index,
    };
    note(
        "resolve_tool",
        median(999, || {
            black_box(resolve(&without, "srv7.tool_507"));
        }),
    );
    note(
        "judge",
        median(9999, || {
            black_box(without.judge(black_box(&call(&tool)), &run));
        }),
    );
    let tool = resolve(&with, "srv7.tool_507");
    let run = RunView {
        standing: &untrusted,
        index: &index,
    };
    assert_eq!(with.judge(&call(&tool), &run).action, Action::Allow);
    note(
        "judge_with_provenance_lifted",
        median(9999, || {
            black_box(with.judge(black_box(&call(&tool)), &run));
        }),
    );
    let mut trusted_run = Index::new(["me@example.org"]);
    trusted_run.words(
        prompt
            .split_once("Hello")
            .map_or(prompt, |(before, _)| before),
    );
    let safe = resolve(&with, "srv7.tool_7");
    for _ in 0..50 {
        trusted_run.result(&call(&safe), Trust::Trusted, &step);
    }
    let run = RunView {
        standing: &untrusted,
        index: &trusted_run,
    };
    assert_eq!(with.judge(&call(&tool), &run).action, Action::Ask);
    note(
        "judge_with_provenance_asked",
        median(9999, || {
            black_box(with.judge(black_box(&call(&tool)), &run));
        }),
    );
    let large = large_result(256 * 1024);
    let take_in = |name: &str, trust| {
        let tool = resolve(&with, name);
        median(19, || {
            let mut index = Index::new(["me@example.org"]);
            index.words(prompt);
            index.result(&call(&tool), trust, black_box(&large));
            black_box(&index);
        })
    };
    note(
        "take_in_256_kib_untrusted",
        take_in("srv9.get_mails", Trust::Trusted),
    );
    note(
        "take_in_256_kib_trusted",
        take_in("srv7.tool_507", Trust::Trusted),
    );
    measured
}
