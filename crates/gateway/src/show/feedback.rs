use sayso_store::{FeedbackSum, StoredFeedback};
use sayso_wire::time::timestamp;
use sayso_wire::v1;

/// A rating of a task (S7.1, S7.2).
pub(crate) fn feedback(row: StoredFeedback) -> v1::Feedback {
    let source = v1::FeedbackSource::from_word(&row.source);
    v1::Feedback {
        id: match row.approval {
            Some(_) => String::new(),
            None => row.id,
        },
        labels: row.labels,
        task_id: row.task.into(),
        run_id: row.run.into(),
        agent: row.agent.into(),
        source: source.unwrap_or(v1::FeedbackSource::Unspecified).into(),
        approval_id: row.approval.map(String::from).unwrap_or_default(),
        by: row.by.into(),
        score: score(row.score_millionths),
        note: row.note.unwrap_or_default(),
        at: Some(timestamp(row.at)),
    }
}

/// What ratings from one source come to.
pub(crate) fn feedback_summary(sum: FeedbackSum) -> v1::FeedbackSummary {
    let source = v1::FeedbackSource::from_word(&sum.source);
    let mean = i64::try_from(sum.count)
        .ok()
        .filter(|count| *count > 0)
        .map_or(0, |count| (sum.score_millionths + count / 2) / count);
    v1::FeedbackSummary {
        source: source.unwrap_or(v1::FeedbackSource::Unspecified).into(),
        count: sum.count,
        mean: score(mean),
    }
}

/// A stored score, from 0 to 1,000,000 millionths.
fn score(millionths: i64) -> f64 {
    let whole = i32::try_from(millionths.clamp(0, 1_000_000)).unwrap_or_default();
    f64::from(whole) / 1_000_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S7.2: approved is 1.0, denied 0.0.
    #[test]
    fn s7_2_scores_are_from_zero_to_one() {
        assert_eq!(
            [score(0), score(250_000), score(1_000_000)],
            [0.0, 0.25, 1.0]
        );
    }
}
