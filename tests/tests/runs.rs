//! A run's life from outside (S1): what leads out of its statuses, and what does not.

use sayso_tests::{Bundle, Case, Shape, World, both, code};
use sayso_wire::v1::RunStatus;

static WORLD: World = World::new(
    &[(
        "asks",
        "turns:
  - text: I have to know.
    calls: [{tool: ask_person, args: {question: 'Which order?'}}]
  - when: {result_contains: A-17}
    text: 'It is {{result.ask_person}}.'
  - text: Nobody said.",
    )],
    Shape::APART,
);

both! {
    /// S1.5: a failed run is retried by hand five times in all, and not once more; nothing else is
    /// retried.
    async fn s1_5_a_failed_run_is_retried_five_times(case: Case) {
        // Without a role it fails at once, however often it is tried (S3.9).
        let bundle = Bundle::new("s15").without("role");
        let run = case.begin(&bundle).await;
        for retries in 0..=5 {
            let failed = case.sub.until(&run, RunStatus::Failed).await;
            assert_eq!(failed.failure.expect("a failed run says why").code, "run.no_role");
            assert_eq!(failed.retries, retries);
            let retried = case.sub.retry(&run).await;
            match retried {
                Ok(_) => assert!(retries < 5, "a sixth retry is taken"),
                Err(refused) => {
                    assert_eq!((retries, code(&refused).as_str()), (5, "run.retries_used_up"));
                }
            }
        }
        assert_eq!(case.app.timeline(&run).await.count("retried"), 5);

        let done = case.begin(&Bundle::new("s15done").tier("asks")).await;
        let completed = case.completed(&done).await;
        assert_eq!(completed.output(), "Nobody said.");
        assert_eq!(code(&case.sub.retry(&done).await.unwrap_err()), "run.not_failed");
    }

    /// S1.8: a call of `ask_person` waits for a person's words, which are its result; it is never
    /// held, whatever the rules say (S3.4).
    async fn s1_8_a_question_waits_for_its_answer(case: Case) {
        let bundle = Bundle::new("s18")
            .tier("asks")
            .field("interaction", true.into())
            .deny("*");
        let run = case.begin(&bundle).await;
        case.sub.until(&run, RunStatus::AwaitingInput).await;
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.one("awaiting_input", "call_1_1").content["question"], "Which order?");
        assert_eq!(case.app.pending(&run).await, []);

        case.sub.reply(&run, "A-17").await.expect("a waiting run takes an answer");

        assert_eq!(case.completed(&run).await.output(), "It is A-17.");
        assert_eq!(case.app.timeline(&run).await.count("user_message"), 1);
    }
}
