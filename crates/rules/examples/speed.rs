//! How long judging takes: `cargo run --release -p sayso-rules --example speed`.

use std::hint::black_box;
use std::time::Instant;

use sayso_rules::bundle::Action;
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

/// The median time of one call, in nanoseconds.
fn median(rounds: usize, mut work: impl FnMut()) -> u128 {
    let mut times: Vec<u128> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..16 {
                work();
            }
            start.elapsed().as_nanos() / 16
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
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

fn main() {
    let tools: Vec<String> = (0..1000)
        .map(|n| format!("\"srv{}.tool_{n}\": {{effect: write, untrustedOutput: false, roles: {{to: destination, body: content, amount: amount, at: free}}}}", n % 20))
        .collect();
    let plain: Vec<String> = (0..100)
        .map(|n| match n % 4 {
            0 => format!("{{tool: '*.delete_{n}_*', action: deny}}"),
            1 => format!("{{tool: 'srv{n}.*', action: ask, when: {{trustBelow: trusted}}}}"),
            2 => format!("{{tool: 'srv3.tool_{n}', action: ask}}"),
            _ => format!("{{tool: 'srv*.tool_{n}*', action: allow, when: {{effect: [read]}}}}"),
        })
        .collect();
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
    println!(
        "rebuild an index of 50 results of 4 KiB    {:>9} ns",
        start.elapsed().as_nanos()
    );

    let trusted = Standing::new(Trust::Trusted);
    let untrusted = Standing::new(Trust::Untrusted);
    let tool = resolve(&without, "srv7.tool_507");
    let run = RunView {
        standing: &trusted,
        index: &index,
    };
    println!(
        "resolve a tool, 100 rules, 1,000 tools      {:>9} ns",
        median(999, || {
            black_box(resolve(&without, "srv7.tool_507"));
        })
    );
    println!(
        "judge, 100 rules, 1,000 tools               {:>9} ns",
        median(9999, || {
            black_box(without.judge(black_box(&call(&tool)), &run));
        })
    );
    let tool = resolve(&with, "srv7.tool_507");
    let run = RunView {
        standing: &untrusted,
        index: &index,
    };
    assert_eq!(with.judge(&call(&tool), &run).action, Action::Allow);
    println!(
        "judge with provenance, 50-step run, lifted  {:>9} ns",
        median(9999, || {
            black_box(with.judge(black_box(&call(&tool)), &run));
        })
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
    println!(
        "judge with provenance, 50 trusted, asked    {:>9} ns",
        median(9999, || {
            black_box(with.judge(black_box(&call(&tool)), &run));
        })
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
    println!(
        "take in 256 KiB, untrusted                  {:>9} ns",
        take_in("srv9.get_mails", Trust::Trusted)
    );
    println!(
        "take in 256 KiB, trusted                    {:>9} ns",
        take_in("srv7.tool_507", Trust::Trusted)
    );
}
