//! Compaction (S4.4): a long conversation is made smaller before it meets the model's limit.

use sayso_tests::{Bundle, Case, Options, Shape, on_runtime};
use sayso_wire::v1::RunStatus;
use serde_json::{Value, json};

/// A page of about 300 tokens that differs with its number.
fn page(number: usize) -> String {
    let words = (0..150).map(|word| format!("word{} ", word * number));
    words.collect()
}

fn script(pages: usize) -> String {
    let mut turns: Vec<Value> = (1..=pages)
        .map(|n| json!({"calls": [{"tool": "web.read", "args": {"n": n, "page": page(n)}}]}))
        .collect();
    turns.push(json!({"text": "read them all"}));
    json!({"turns": turns}).to_string()
}

/// Turns that read four pages, about 2,600 tokens in all; the provider says that each request had so
/// many.
fn counted(tokens: u64) -> String {
    let mut turns: Vec<Value> = (1..=4)
        .map(|n| {
            json!({
                "calls": [{"tool": "web.read", "args": {"n": n, "page": page(n)}}],
                "usage": {"input": tokens, "output": 5},
            })
        })
        .collect();
    turns.push(json!({"text": "read them"}));
    json!({"turns": turns}).to_string()
}

/// A deployment of scripted models that take 4,000 tokens a request.
async fn case(shape: Shape) -> Case {
    let folder = tempfile::tempdir().expect("a folder can be made").keep();
    let mut options = Options::new();
    for (name, script) in [
        ("small", script(8)),
        ("counts-none", counted(0)),
        ("counts-wrong", counted(1_000_000)),
        ("counts-much", counted(3_900)),
    ] {
        let path = folder.join(format!("{name}.json"));
        std::fs::write(&path, script).expect("a script can be written");
        let model = json!({
            "provider": "scripted",
            "script": path.display().to_string(),
            "context": 4500,
            "max_tokens": 500,
        });
        options = options.model(name, model).tier(name, &[name]);
    }
    let options = options.script(
        "balanced",
        "turns: [{text: 'Goal: read pages. Ids: A-17.', usage: {input: 70, output: 7}}]",
    );
    Case::alone(shape, options).await
}

fn on_both(scenario: impl AsyncFn(Case)) {
    for shape in [Shape::Embedded, Shape::APART] {
        on_runtime(async { scenario(case(shape).await).await });
    }
}

/// S4.4: results go first, then a brief is written on the tier `balanced`; each is a step, the run
/// goes on to its end, and the timeline keeps everything.
#[test]
fn s4_4_a_long_conversation_is_compacted() {
    on_both(async |case: Case| {
        let bundle = Bundle::new("reader")
            .tier("small")
            .ledger("web", "read")
            .allow("web.read");
        let run = case.begin(&bundle).await;
        let done = case.completed(&run).await;
        assert_eq!(done.output(), "read them all");
        let timeline = case.app.timeline(&run).await;
        let steps = timeline.of("compaction");
        let kinds: Vec<&str> = steps
            .iter()
            .filter_map(|step| step.content["kind"].as_str())
            .collect();
        assert_eq!(kinds.first(), Some(&"prune"), "{kinds:?}");
        let briefs: Vec<_> = steps
            .iter()
            .filter(|step| step.content["kind"] == "brief")
            .collect();
        assert!(!briefs.is_empty(), "{kinds:?}");
        for brief in &briefs {
            assert_eq!(brief.content["brief"], "Goal: read pages. Ids: A-17.");
            assert_eq!(brief.content["model"], "balanced");
        }
        for step in &steps {
            let tokens = step.content["tokens"].as_u64().expect("a size");
            assert!((3_200..6_000).contains(&tokens), "{tokens} of 4,000");
        }
        let usage = done.usage.expect("a run has used tokens");
        assert_eq!(usage.output_tokens, 7 * briefs.len() as u64);
        assert_eq!(timeline.count("tool_result"), 8);
        for result in timeline.of("tool_result") {
            let content = result.content["content"].as_str().expect("a text");
            assert!(!content.contains("[pruned]") && content.contains("word"));
        }
        assert!(case.app.is_verified(&run).await);
    });
}

/// B58: what a provider counts is believed, unless it cannot be right; then, and where it counts
/// nothing, tokens are counted here, and the same conversation is not too large.
#[test]
fn b58_a_count_that_cannot_be_right_compacts_nothing() {
    on_both(async |case: Case| {
        for (tier, compacted) in [
            ("counts-none", false),
            ("counts-wrong", false),
            ("counts-much", true),
        ] {
            let bundle = Bundle::new(tier).ledger("web", "read").allow("web.read");
            let run = case.begin(&bundle).await;
            assert_eq!(case.completed(&run).await.output(), "read them");
            let timeline = case.app.timeline(&run).await;
            assert_eq!(timeline.count("compaction") > 0, compacted, "{tier}");
        }
    });
}

/// S4.4: what cannot be made smaller fails clearly, and is not tried again.
#[test]
fn s4_4_a_fixed_part_that_is_too_large_fails() {
    on_both(async |case: Case| {
        let bundle = Bundle::new("wordy")
            .tier("small")
            .field("instructions", page(7).repeat(40).into());
        let run = case.begin(&bundle).await;
        let failed = case.sub.until(&run, RunStatus::Failed).await;
        let failure = failed.failure.expect("a failed run says why");
        assert_eq!(failure.code, "provider.context_length");
        assert!(
            failure.message.contains("nothing is left to compact"),
            "{}",
            failure.message
        );
        assert!(
            failure.advice.contains("shorter instructions"),
            "{}",
            failure.advice
        );
        assert_eq!(case.app.timeline(&run).await.count("compaction"), 0);
    });
}
