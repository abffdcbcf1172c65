//! What the model is shown after a pause (S4.8), against a provider that keeps every request, in both
//! wire formats; and what a person who watches is shown.

use std::time::Duration;

use futures::StreamExt;
use sayso_tests::{Answer, Bundle, Case, Format, Options, Provider, Shape, on_runtime, until};
use sayso_wire::v1::decision::Target;
use sayso_wire::v1::watch_run_response::Event;
use sayso_wire::v1::{RunStatus, Verdict};
use serde_json::json;

const FORMATS: [Format; 2] = [Format::OpenAi, Format::Anthropic];
const SHAPES: [Shape; 2] = [Shape::Embedded, Shape::APART];

/// A deployment whose tiers `openai` and `anthropic` give the same answers.
async fn with_providers(shape: Shape, answers: &[Answer]) -> (Case, Vec<(Format, Provider)>) {
    let mut options = Options::new();
    let mut providers = Vec::new();
    for format in FORMATS {
        let provider = Provider::start(format, answers.to_vec()).await;
        let word = format.word();
        options = options.model(word, provider.model()).tier(word, &[word]);
        providers.push((format, provider));
    }
    (Case::alone(shape, options).await, providers)
}

fn ledger(name: &str, tier: &str) -> Bundle {
    Bundle::new(name)
        .tier(tier)
        .ledger("ledger", "append,read,send")
        .ask("ledger.append")
        .allow("ledger.*")
}

/// B19: of one turn's calls one is approved, one denied and one not gated: each has one result, in
/// call order, in both wire formats; and the same transcript is sent after a restart.
fn mixed_turn(shape: Shape) {
    on_runtime(async {
        let answers = [
            Answer::calls(&[
                ("ledger_append", r#"{"n":1}"#),
                ("ledger_append", r#"{"n":2}"#),
                ("ledger_read", r#"{"page":"the page"}"#),
            ]),
            Answer::calls(&[("ledger_append", r#"{"n":3}"#)]),
            Answer::text("done"),
        ];
        let (case, providers) = with_providers(shape, &answers).await;
        let mut runs = Vec::new();
        for (format, provider) in &providers {
            let run = case
                .begin(&ledger(&format!("b19-{}", format.word()), format.word()))
                .await;
            let held = case.app.held(&run, 2).await;
            let id = |at: usize| Target::ApprovalId(held[at].id.clone());
            let decisions = vec![
                (id(1), Verdict::Deny, "not this one"),
                (id(0), Verdict::Approve, ""),
            ];
            case.app.respond(&run, decisions, "").await.unwrap();
            let third = case.app.held(&run, 1).await.remove(0);
            let request = provider.requests().pop().unwrap();
            let results = provider.results(&request);
            assert_eq!(results.len(), 3);
            assert!(results[0].1.contains("append ran"), "{results:?}");
            assert!(results[1].1.contains("denied by user"), "{results:?}");
            assert!(results[1].1.contains("not this one"), "{results:?}");
            assert!(results[2].1.contains("the page"), "{results:?}");
            assert_eq!(case.ledger.numbers_of_append(&run), [1]);
            runs.push((run, third, provider, results));
        }

        case.kill_all();
        case.start_all().await;

        for (run, third, provider, before) in runs {
            case.app.approve(&third).await;
            case.completed(&run).await;
            let request = provider.requests().pop().unwrap();
            let after = provider.results(&request);
            assert_eq!(after[..3], before[..]);
            assert_eq!(after.len(), 4);
            assert_eq!(case.ledger.numbers_of_append(&run), [1, 3]);
        }
    });
}

#[test]
fn b19_each_call_of_a_mixed_turn_has_one_result_embedded() {
    mixed_turn(Shape::Embedded);
}

#[test]
fn b19_each_call_of_a_mixed_turn_has_one_result_apart() {
    mixed_turn(Shape::APART);
}

/// Numbers that `append` wrote; other tools of the same server write too.
trait Numbers {
    fn numbers_of_append(&self, run: &str) -> Vec<i64>;
}

impl Numbers for sayso_tests::Ledger {
    fn numbers_of_append(&self, run: &str) -> Vec<i64> {
        let mut entries = self.of(run);
        entries.retain(|entry| entry.tool == "append");
        let mut numbers: Vec<_> = entries.iter().map(sayso_tests::Entry::n).collect();
        numbers.sort_unstable();
        numbers
    }
}

const GATED_AND_FREE: &str = "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}, {tool: ledger.read, args: {page: the page}}]
  - when: {result_contains: the page}
    text: saw the page
  - text: saw nothing";

/// B20: asking for one call does not ask for its sibling, which runs once, before the decision, and
/// not again after it.
#[test]
fn b20_a_gated_call_does_not_hold_up_its_sibling() {
    for shape in SHAPES {
        on_runtime(async {
            let options = Options::new().script("b20", GATED_AND_FREE);
            let case = Case::alone(shape, options).await;
            let run = case.begin(&ledger("b20", "b20")).await;
            let held = case.app.held(&run, 1).await.remove(0);
            assert_eq!(held.tool, "ledger.append");
            let tools = || {
                case.ledger
                    .of(&run)
                    .into_iter()
                    .map(|entry| entry.tool)
                    .collect::<Vec<_>>()
            };
            assert_eq!(tools(), ["read"]);
            case.app.approve(&held).await;
            case.completed(&run).await;
            assert_eq!(tools(), ["read", "append"]);
            assert_eq!(case.app.timeline(&run).await.count("tool_blocked"), 1);
        });
    }
}

/// B21: the sibling's result is not lost when whoever watches goes away at the approval and comes
/// back an hour later.
#[test]
fn b21_a_siblings_result_outlives_a_watcher_and_an_hour() {
    for shape in SHAPES {
        on_runtime(async {
            let options = Options::new().script("b21", GATED_AND_FREE);
            let case = Case::alone(shape, options).await;
            let bundle = ledger("b21", "b21").permission("approvalTimeout", json!("2h"));
            let run = case.begin(&bundle).await;
            let mut watched = case.app.watch(&run, 1).await.unwrap();
            while let Some(message) = watched.next().await {
                let event = message.unwrap().event;
                if matches!(event, Some(Event::Step(step)) if step.r#type == "tool_blocked") {
                    break;
                }
            }
            drop(watched);
            case.advance(Duration::from_secs(60 * 60)).await;
            let held = case.app.held(&run, 1).await.remove(0);
            case.app.approve(&held).await;
            let done = case.completed(&run).await;
            assert_eq!(done.output.as_deref(), Some("saw the page"));
            let tools: Vec<_> = case
                .ledger
                .of(&run)
                .into_iter()
                .map(|entry| entry.tool)
                .collect();
            assert_eq!(tools, ["read", "append"]);
        });
    }
}

/// B18: a denial tells the model that a person said no and that nothing ran, with the reason if there
/// is one, and does not look like an error of the tool.
#[test]
fn b18_a_denial_reads_as_a_persons_answer() {
    on_runtime(async {
        let answers = [
            Answer::calls(&[
                ("ledger_append", r#"{"n":1}"#),
                ("ledger_append", r#"{"n":2}"#),
            ]),
            Answer::text("done"),
        ];
        let (case, providers) = with_providers(Shape::Embedded, &answers).await;
        for (format, provider) in &providers {
            let run = case
                .begin(&ledger(&format!("b18-{}", format.word()), format.word()))
                .await;
            let held = case.app.held(&run, 2).await;
            case.app.deny(&held[0], "").await;
            case.app.deny(&held[1], "wrong customer").await;
            case.completed(&run).await;
            let request = provider.requests().pop().unwrap();
            let results = provider.results(&request);
            for (_, text) in &results {
                assert!(
                    text.contains("denied by user") && text.contains("did not run"),
                    "{text}"
                );
            }
            assert!(!results[0].1.contains("wrong customer"));
            assert!(results[1].1.contains("wrong customer"));
            assert!(
                !request.to_string().contains(r#""is_error":true"#),
                "{request}"
            );
            assert_eq!(case.ledger.of(&run), []);
        }
    });
}

/// B30: a stream that breaks in the middle of a gated call leaves neither text nor call behind: the
/// next model's answer is the only one, and a watcher is told that the partial text is void.
#[test]
fn b30_nothing_is_left_of_a_broken_answer() {
    for format in FORMATS {
        on_runtime(async {
            let first = Answer::calls(&[("ledger_append", r#"{"n":1}"#)]);
            let broken = Answer::Broken {
                text: "Hel",
                call: ("ledger_append", r#"{"n":"#),
            };
            let breaks = Provider::start(format, vec![first.clone(), broken]).await;
            let answers = Provider::start(format, vec![first, Answer::text("Hello there")]).await;
            let options = Options::new()
                .model("breaks", breaks.model())
                .model("answers", answers.model())
                .tier("b30", &["breaks", "answers"]);
            let case = Case::alone(Shape::Embedded, options).await;
            let run = case.begin(&ledger("b30", "b30")).await;
            let held = case.app.held(&run, 1).await.remove(0);
            let mut watched = case.app.watch(&run, 1).await.unwrap();
            case.app.approve(&held).await;
            let done = case.completed(&run).await;

            assert_eq!(done.output.as_deref(), Some("Hello there"));
            let timeline = case.app.timeline(&run).await;
            assert_eq!(timeline.count("assistant_message"), 2);
            assert_eq!(timeline.count("tool_call"), 1);
            assert_eq!(timeline.count("tool_blocked"), 1);
            let failover = timeline.of("model_failover");
            assert_eq!(failover.len(), 1);
            assert_eq!(failover[0].content["from"], "breaks");
            assert_eq!(failover[0].content["to"], "answers");

            let mut text = String::new();
            let mut withdrawn = 0;
            while let Some(message) = watched.next().await {
                match message.unwrap().event {
                    Some(Event::Delta(delta)) if delta.cycle == 2 => text.push_str(&delta.text),
                    Some(Event::Withdrawn(void)) if void.cycle == 2 => {
                        assert_eq!(text, "Hel");
                        text.clear();
                        withdrawn += 1;
                    }
                    _ => {}
                }
            }
            assert_eq!(withdrawn, 1);
            // Text that is still being written is provisional, and may be overtaken by its step.
            assert!(["", "Hello there"].contains(&text.as_str()), "{text}");
        });
    }
}

/// B29 (a): the answer broke off after the last byte of an ungated call. Nothing of it ran: tools start
/// after the whole answer. The next model answers, and its call is the only one.
#[test]
fn b29_a_call_of_an_answer_that_broke_off_does_not_run() {
    for format in FORMATS {
        on_runtime(async {
            let call = ("ledger_append", r#"{"n":1}"#);
            let broken = Answer::Broken {
                text: "I append",
                call,
            };
            let breaks = Provider::start(format, vec![broken, Answer::text("done")]).await;
            let whole = vec![Answer::calls(&[call]), Answer::text("done")];
            let answers = Provider::start(format, whole).await;
            let options = Options::new()
                .model("breaks", breaks.model())
                .model("answers", answers.model())
                .tier("b29", &["breaks", "answers"]);
            let case = Case::alone(Shape::Embedded, options).await;
            let bundle = Bundle::new("b29").ledger("ledger", "append").allow("*");
            let run = case.begin(&bundle).await;
            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);
            let timeline = case.app.timeline(&run).await;
            assert_eq!(timeline.count("model_failover"), 1);
            assert_eq!(timeline.count("tool_call"), 1);
            assert_eq!(timeline.count("tool_started"), 1);
        });
    }
}

/// B29 (b): an earlier turn has executed a call, and no model is available in this one. However the
/// run is retried, the transcript is sent again and the call is not.
#[test]
fn b29_a_retry_after_an_outage_of_the_models_repeats_no_call() {
    for shape in SHAPES {
        on_runtime(async {
            let script = "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - error: {status: 529, body: overloaded}
  - text: done";
            let case = Case::alone(shape, Options::new().script("b29", script)).await;
            let bundle = Bundle::new("b29").ledger("ledger", "append").allow("*");
            let run = case.begin(&bundle).await;
            until("the run to complete", async || {
                let now = case.sub.run(&run).await;
                // Unless it is retried by itself.
                if now.status() == RunStatus::Failed {
                    case.sub.retry(&run).await.unwrap();
                }
                (now.status() == RunStatus::Completed).then_some(())
            })
            .await;
            assert_eq!(case.ledger.numbers(&run), [1]);
            let timeline = case.app.timeline(&run).await;
            assert_eq!(timeline.count("tool_started"), 1);
        });
    }
}

/// S6.5, B23's part of S4.8: a call that is left undecided is shown as awaiting review, and its result
/// comes later as a note.
#[test]
fn an_undecided_call_is_shown_as_awaiting_review() {
    on_runtime(async {
        let answers = [
            Answer::calls(&[("ledger_append", r#"{"n":1}"#)]),
            Answer::calls(&[
                ("ledger_send", r#"{"to":"a"}"#),
                ("ledger_append", r#"{"n":2}"#),
            ]),
            Answer::text("done"),
        ];
        let (case, providers) = with_providers(Shape::Embedded, &answers).await;
        for (format, provider) in &providers {
            let run = case
                .begin(&ledger(&format!("open-{}", format.word()), format.word()))
                .await;
            let first = case.app.held(&run, 1).await.remove(0);
            case.sub.reply(&run, "use 20 instead").await.unwrap();
            let both = until("the second call to be held", async || {
                let pending = case.app.pending(&run).await;
                (pending.len() == 2).then_some(pending)
            })
            .await;
            let request = provider.requests().pop().unwrap();
            let results = provider.results(&request);
            assert!(results[0].1.contains("awaiting review"), "{results:?}");
            assert!(request.to_string().contains("use 20 instead"));
            assert_eq!(case.ledger.numbers_of_append(&run), [0i64; 0]);
            case.app.approve(&first).await;
            case.app.deny(&both[1], "").await;
            let done = case.sub.until(&run, RunStatus::Completed).await;
            assert_eq!(done.output.as_deref(), Some("done"));
            assert_eq!(case.ledger.numbers_of_append(&run), [1]);
            let request = provider.requests().pop().unwrap();
            assert_eq!(provider.results(&request).len(), 3);
            assert!(request.to_string().contains("[note]"), "{request}");
        }
    });
}
