//! How well tasks went (S7).

use sayso_tests::{Bundle, Case, Client, Shape, World, both, code};
use sayso_wire::v1::{
    Feedback, FeedbackSource, FeedbackSummary, ListFeedbackRequest, RecordFeedbackRequest,
};
use tonic::Status;

static WORLD: World = World::new(
    &[
        ("plain", "turns: [{text: done}]"),
        (
            "gated",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}, {tool: ledger.append, args: {n: 2}}]
  - text: done",
        ),
    ],
    Shape::APART,
);

async fn rate(client: &Client, request: RecordFeedbackRequest) -> Result<Feedback, Status> {
    let recorded = client.ratings().record_feedback(request).await?;
    Ok(recorded.into_inner().feedback.expect("the rating"))
}

fn rating(run: &str, score: f64, labels: &[&str]) -> RecordFeedbackRequest {
    RecordFeedbackRequest {
        run_id: run.into(),
        score,
        labels: labels.iter().map(|&label| label.into()).collect(),
        ..RecordFeedbackRequest::default()
    }
}

async fn list(case: &Case, agent: &str, labels: &[&str]) -> (Vec<f64>, Vec<FeedbackSummary>) {
    let request = ListFeedbackRequest {
        agent: agent.into(),
        labels: labels.iter().map(|&label| label.into()).collect(),
        ..ListFeedbackRequest::default()
    };
    let listed = case
        .app
        .ratings()
        .list_feedback(request)
        .await
        .unwrap()
        .into_inner();
    (
        listed.feedback.iter().map(|rating| rating.score).collect(),
        listed.summaries,
    )
}

fn sum(source: FeedbackSource, count: u64, mean: f64) -> FeedbackSummary {
    FeedbackSummary {
        source: source.into(),
        count,
        mean,
    }
}

both! {
    /// S7.1: a rating adds; lists filter by labels; each source is summed up by itself; what is out of
    /// range, unknown or somebody else's is refused.
    async fn s7_1_tasks_are_rated(case: Case) {
        let run = case.begin(&Bundle::new("rated").tier("plain")).await;
        case.completed(&run).await;
        let task = case.sub.run(&run).await.task_id;

        let first = rate(&case.sub, rating(&run, 0.5, &[])).await.unwrap();
        assert_eq!((first.task_id.as_str(), first.run_id.as_str()), (task.as_str(), run.as_str()));
        assert_eq!((first.by.as_str(), first.source()), ("sub", FeedbackSource::Person));
        let judged = RecordFeedbackRequest {
            task_id: task.clone(),
            run_id: String::new(),
            source: FeedbackSource::Judge.into(),
            note: "mostly right".into(),
            ..rating(&run, 0.8, &["judge=rubric-v1", "lang=de"])
        };
        let judged = rate(&case.app, judged).await.unwrap();
        assert_eq!(judged.labels, ["judge=rubric-v1", "lang=de"]);
        rate(&case.sub, rating(&run, 1.0, &["lang=de"])).await.unwrap();

        let (scores, sums) = list(&case, "rated", &[]).await;
        assert_eq!(scores, [1.0, 0.8, 0.5]);
        assert_eq!(sums, [sum(FeedbackSource::Judge, 1, 0.8), sum(FeedbackSource::Person, 2, 0.75)]);
        let (scores, sums) = list(&case, "rated", &["lang=de", "judge=rubric-v1"]).await;
        assert_eq!(scores, [0.8]);
        assert_eq!(sums, [sum(FeedbackSource::Judge, 1, 0.8)]);
        assert_eq!(list(&case, "rated", &["lang=en"]).await, (vec![], vec![]));

        for score in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let refused = rate(&case.sub, rating(&run, score, &[])).await.unwrap_err();
            assert_eq!(code(&refused), "request.invalid", "{score}");
        }
        let labelled = rate(&case.sub, rating(&run, 0.5, &["no-label"])).await.unwrap_err();
        assert_eq!(code(&labelled), "request.invalid");
        for (who, run) in [
            (&case.sub, "run_00000000000000000000000000000000"),
            (&case.both, run.as_str()),
            (&case.foreigner, run.as_str()),
        ] {
            let only_own = who.secret() == case.both.secret();
            let answer = rate(who, rating(run, 0.5, &[])).await;
            if only_own {
                // `both` may decide, and whoever decides may rate.
                answer.unwrap();
            } else {
                assert_eq!(code(&answer.unwrap_err()), "task.not_found", "{run}");
            }
        }
        let other = case.both.start("rated", "go").await;
        case.completed(&other).await;
        let refused = rate(&case.sub, rating(&other, 0.5, &[])).await.unwrap_err();
        assert_eq!(code(&refused), "task.not_found", "it is not sub's own");
    }

    /// S7.1: the same at the command line.
    async fn s7_1_feedback_at_the_command_line(case: Case) {
        let run = case.begin(&Bundle::new("rated-cli").tier("plain")).await;
        case.completed(&run).await;
        let record = ["feedback", "record", &run, "--score", "0.8", "--note", "mostly right", "--label", "judge=rubric-v1"];
        case.sayso_as("sub", record).expect_success();
        let listed = case.sayso_as("app", ["feedback", "ls", "rated-cli", "--label", "judge=rubric-v1", "--since", "24h"]);
        let listed = listed.expect_success().stdout;
        assert!(listed.contains("mostly right") && listed.contains("person: 1 rated 0.800"), "{listed}");
        let refused = case.sayso_as("sub", ["feedback", "record", &run, "--score", "1.5"]);
        assert!(refused.stderr.contains("request.invalid"), "{}", refused.text());
    }

    /// S7.2: decisions are feedback of their own source, 1.0 and 0.0, and are summed up.
    async fn s7_2_decisions_are_summed_up(case: Case) {
        let bundle = Bundle::new("rated-gated").tier("gated").ledger("ledger", "append").ask("*");
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 2).await;
        case.app.approve(&held[0]).await;
        case.app.deny(&held[1], "no").await;
        case.completed(&run).await;
        let (scores, sums) = list(&case, "rated-gated", &[]).await;
        assert_eq!(scores.len(), 2);
        assert_eq!(sums, [sum(FeedbackSource::Approval, 2, 0.5)]);
    }
}
