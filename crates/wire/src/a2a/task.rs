//! A run as a task.

use sayso_run::{Status, Timestamp};

use super::artifact::output;
use super::message::{Said, of_status, of_step};
use super::v1;
use super::v1::TaskState;
use crate::timestamp;
use crate::v1::RunStep;

/// What a task is made of.
#[derive(Debug, Clone, Copy)]
pub struct TaskFacts<'a> {
    /// The run's id, which is the task's.
    pub run: &'a str,
    /// The context that the task belongs to.
    pub context: &'a str,
    /// Where the run stands.
    pub status: Status,
    /// The number of its last step.
    pub seq: u64,
    /// When that was recorded.
    pub at: Timestamp,
    /// The output of a completed run.
    pub output: Option<&'a str>,
    /// Its steps of the kinds in [`super::TELLING`], in order.
    pub steps: &'a [RunStep],
    /// The files that it made.
    pub files: &'a [v1::Artifact],
}

/// The state that a status is told as. A run that waits to be retried has begun.
pub const fn state(status: Status, seq: u64) -> TaskState {
    match status {
        Status::Pending if seq <= 1 => TaskState::Submitted,
        Status::Pending | Status::Running => TaskState::Working,
        Status::AwaitingInput | Status::AwaitingApproval => TaskState::InputRequired,
        Status::Completed => TaskState::Completed,
        Status::Failed => TaskState::Failed,
        Status::Cancelled => TaskState::Canceled,
    }
}

/// Whether nothing follows in this state.
pub const fn is_over(state: TaskState) -> bool {
    match state {
        TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => {
            true
        }
        TaskState::Unspecified
        | TaskState::Submitted
        | TaskState::Working
        | TaskState::InputRequired
        | TaskState::AuthRequired => false,
    }
}

/// Whether a task in this state waits for somebody.
pub const fn waits(state: TaskState) -> bool {
    matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// The whole of a task, with all of its history and artifacts.
pub fn task(facts: &TaskFacts<'_>) -> v1::Task {
    let TaskFacts { run, context, .. } = *facts;
    let history = facts.steps.iter();
    let history = history.filter_map(|step| of_step(run, context, step));
    let output = facts.output.and_then(output);
    v1::Task {
        id: run.to_owned(),
        context_id: context.to_owned(),
        status: Some(v1::TaskStatus {
            state: state(facts.status, facts.seq).into(),
            message: status_message(facts),
            timestamp: Some(timestamp(facts.at)),
        }),
        artifacts: facts.files.iter().cloned().chain(output).collect(),
        history: history.collect(),
        metadata: None,
    }
}

/// What there is to say of where it stands: what it waits for, or what failed.
fn status_message(facts: &TaskFacts<'_>) -> Option<v1::Message> {
    let kind = match facts.status {
        Status::AwaitingInput => "awaiting_input",
        Status::AwaitingApproval => "awaiting_approval",
        Status::Failed => "error",
        Status::Pending | Status::Running | Status::Completed | Status::Cancelled => return None,
    };
    let step = facts.steps.iter().rev().find(|step| step.r#type == kind)?;
    Some(of_status(facts.run, facts.context, step, words(step)?))
}

/// What a step that pauses or ends a run says of it.
pub(super) fn words(step: &RunStep) -> Option<String> {
    let said = Said::of(step);
    match step.r#type.as_str() {
        "awaiting_input" => Some(said.question),
        "awaiting_approval" => Some(format!(
            "Held for approval: {} A person who may decide it has to approve or deny it; that is \
             not done here, and not by whoever asked for it. A message to this task is passed on to \
             the agent and leaves the call undecided.",
            sentence(&said.summary)
        )),
        "error" => {
            let code = match step.code.as_str() {
                "" => String::new(),
                code => format!(" ({code})"),
            };
            let advice = match step.advice.as_str() {
                "" => String::new(),
                advice => format!(" {advice}"),
            };
            Some(format!("{}{code}{advice}", sentence(&said.message)))
        }
        _ => None,
    }
}

/// A text with the end of a sentence.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '!', '?', '…']) || text.is_empty() {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::v1::part::Content;
    use super::*;

    pub(crate) fn step(sequence: u64, kind: &str, content: &str) -> RunStep {
        RunStep {
            sequence,
            r#type: kind.into(),
            content_json: content.into(),
            at: Some(timestamp(Timestamp::from_micros(1_000_000))),
            ..RunStep::default()
        }
    }

    fn text(message: &v1::Message) -> &str {
        match &message.parts[0].content {
            Some(Content::Text(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    /// S6.13: both kinds of waiting are `INPUT_REQUIRED`, and say which it is.
    #[test]
    fn s6_13_a_task_says_what_it_waits_for() {
        let steps = [
            step(
                1,
                "trigger_received",
                r#"{"input":"Refund A-17","idempotency":{"key":"a2a:desk:m-1","request":""}}"#,
            ),
            step(
                5,
                "awaiting_input",
                r#"{"call":"call_1_1","question":"Which one?"}"#,
            ),
            step(6, "user_message", r#"{"text":"The red one"}"#),
            step(
                9,
                "awaiting_approval",
                r#"{"approvals":["apr_1"],"summary":"Refund A-17"}"#,
            ),
        ];
        let of = |status, steps| {
            task(&TaskFacts {
                run: "run_1",
                context: "ctx",
                status,
                seq: 9,
                at: Timestamp::from_micros(2_000_000),
                output: None,
                steps,
                files: &[],
            })
        };
        let asks = of(Status::AwaitingInput, &steps[..2]);
        let status = asks.status.unwrap();
        assert_eq!(status.state(), TaskState::InputRequired);
        assert_eq!(text(&status.message.unwrap()), "Which one?");
        let held = of(Status::AwaitingApproval, &steps);
        let said = held.status.unwrap().message.unwrap();
        assert!(text(&said).starts_with("Held for approval: Refund A-17. A person"));
        assert!(text(&said).contains("leaves the call undecided"));
        let ids: Vec<&str> = held.history.iter().map(|m| m.message_id.as_str()).collect();
        assert_eq!(ids, ["m-1", "run_1-5", "run_1-6"]);
        let roles: Vec<_> = held.history.iter().map(v1::Message::role).collect();
        assert_eq!(roles, [v1::Role::User, v1::Role::Agent, v1::Role::User]);
        let goes_on = of(Status::Running, &steps);
        assert_eq!(goes_on.status.unwrap().message, None);
    }

    #[test]
    fn a_run_that_is_retried_has_begun() {
        assert_eq!(state(Status::Pending, 1), TaskState::Submitted);
        assert_eq!(state(Status::Pending, 7), TaskState::Working);
        assert!(is_over(state(Status::Failed, 7)) && !waits(TaskState::Working));
    }
}
