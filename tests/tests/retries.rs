//! Automatic retry (S1.6): what passes is tried again by itself, spaced, and what would be refused
//! again is not.

use std::time::Duration;

use sayso_tests::{Bundle, Case, Options, Shape, code, on_runtime, until};
use sayso_wire::v1::{EndedBy, RunStatus};

const AWAY: &str = "{error: {status: 503, body: overloaded}}";

fn options() -> Options {
    let scripts = [
        (
            "wakes",
            format!(
                "turns:\n  - calls: [{{tool: ledger.append, args: {{n: 1}}}}]\n  - {AWAY}\n  - text: done\n"
            ),
        ),
        ("sleeps", format!("turns: [{}]\n", [AWAY; 9].join(", "))),
        (
            "refuses",
            "turns: [{error: {status: 400, body: no such parameter}}, {text: done}]\n".to_owned(),
        ),
    ];
    scripts
        .iter()
        .fold(Options::new(), |options, (name, script)| {
            options.script(name, script)
        })
}

fn on_both(scenario: impl AsyncFn(Case)) {
    for shape in [Shape::Embedded, Shape::APART] {
        on_runtime(async { scenario(Case::alone(shape, options()).await).await });
    }
}

/// A deployment's clock, moved on from retry to retry.
struct Clock<'c> {
    case: &'c Case,
    at: Duration,
}

impl Clock<'_> {
    async fn on(&mut self, seconds: u64) {
        self.at += Duration::from_secs(seconds);
        self.case.advance(self.at).await;
    }
}

/// Waits until so many retries were scheduled, and answers with the seconds to the last one.
async fn scheduled(case: &Case, run: &str, count: usize) -> i64 {
    let step = until(&format!("{count} retries are scheduled"), async || {
        let timeline = case.app.timeline(run).await;
        let steps = timeline.of("retry_scheduled");
        (steps.len() == count).then(|| steps[count - 1].clone())
    })
    .await;
    assert_eq!(step.actor, "system");
    assert_eq!(step.content["attempt"], count);
    assert_eq!(step.content["code"], "provider.unavailable");
    let due = step.content["due_at"]
        .as_i64()
        .expect("a time in microseconds");
    (due - step.at) / 1_000_000
}

/// S1.6, S1.5, B29: a run whose models are all away waits as `pending`, goes on by itself, and repeats
/// no tool; the time survives the death of every process.
#[test]
fn s1_6_a_run_is_retried_by_itself() {
    on_both(async |case: Case| {
        let bundle = Bundle::new("wakes")
            .ledger("ledger", "append")
            .allow("ledger.append");
        let run = case.begin(&bundle).await;
        let mut clock = Clock {
            case: &case,
            at: Duration::ZERO,
        };
        let first = scheduled(&case, &run, 1).await;
        assert!((11..=19).contains(&first), "{first}");
        let waiting = case.sub.run(&run).await;
        assert_eq!(waiting.status(), RunStatus::Pending);
        assert_eq!(waiting.ended_by(), EndedBy::Unspecified);
        assert_eq!(
            code(&case.sub.retry(&run).await.unwrap_err()),
            "run.not_failed"
        );
        // A scripted model that begins anew fails this turn once more.
        case.kill_all();
        case.start_all().await;
        clock.on(20).await;
        let second = scheduled(&case, &run, 2).await;
        assert!((22..=38).contains(&second), "{second}");
        clock.on(40).await;
        let done = case.completed(&run).await;
        assert_eq!((done.output(), done.retries), ("done", 2));
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("retried"), 2);
        assert_eq!(timeline.count("error"), 0);
        assert!(
            timeline
                .of("retried")
                .iter()
                .all(|step| step.actor == "system")
        );
        assert_eq!(case.ledger.numbers(&run), [1]);
        assert!(case.app.is_verified(&run).await);
    });
}

/// S1.6, S2.6: after three it is for a person, who has two more; cancel works while a retry is due.
#[test]
fn s1_6_three_retries_and_then_a_person() {
    on_both(async |case: Case| {
        let bundle = Bundle::new("sleeps");
        let run = case.begin(&bundle).await;
        let mut clock = Clock {
            case: &case,
            at: Duration::ZERO,
        };
        for count in 1..=3 {
            scheduled(&case, &run, count).await;
            clock.on(80).await;
        }
        let failed = case.sub.until(&run, RunStatus::Failed).await;
        let failure = failed.failure.expect("a failed run says why");
        assert_eq!(failure.code, "provider.unavailable");
        assert!(failure.message.contains("503"), "{}", failure.message);
        assert!(
            failure.advice.contains("Retry by hand"),
            "{}",
            failure.advice
        );
        for retries in 4..=5 {
            case.sub.retry(&run).await.expect("it may be retried");
            let failed = until("it has failed again", async || {
                let run = case.sub.run(&run).await;
                (run.status() == RunStatus::Failed && run.retries == retries).then_some(run)
            })
            .await;
            assert_eq!(failed.ended_by(), EndedBy::Error);
        }
        let refused = case.sub.retry(&run).await.unwrap_err();
        assert_eq!(code(&refused), "run.retries_used_up");

        let other = case.sub.start("sleeps", "go").await;
        scheduled(&case, &other, 1).await;
        case.sub
            .cancel(&other)
            .await
            .expect("what is pending can be cancelled");
        clock.on(80).await;
        let third = case.sub.start("sleeps", "go").await;
        scheduled(&case, &third, 1).await;
        assert_eq!(case.sub.run(&other).await.status(), RunStatus::Cancelled);
    });
}

/// S1.6: a request that the model would refuse again stays failed.
#[test]
fn s1_6_what_would_be_refused_again_is_not_retried() {
    on_both(async |case: Case| {
        let run = case.begin(&Bundle::new("refuses")).await;
        let failed = case.sub.until(&run, RunStatus::Failed).await;
        assert_eq!(
            failed.failure.expect("it says why").code,
            "provider.refused"
        );
        assert_eq!(case.app.timeline(&run).await.count("retry_scheduled"), 0);
    });
}
