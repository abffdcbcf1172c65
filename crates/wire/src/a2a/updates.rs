//! What a stream says of a run's steps.

use super::message::{Said, of_status};
use super::task::{is_over, words};
use super::v1;
use super::v1::TaskState;
use super::v1::stream_response::Payload;
use crate::v1::RunStep;

/// Makes of each step what a task's watchers are told of it. What it says follows from the steps
/// alone, and from the state at the beginning.
#[derive(Debug, Clone)]
pub struct Updates {
    run: String,
    context: String,
    state: TaskState,
}

impl Updates {
    /// Watches a task that stands in this state.
    pub fn new(run: &str, context: &str, state: TaskState) -> Updates {
        Updates {
            run: run.to_owned(),
            context: context.to_owned(),
            state,
        }
    }

    /// The state that was told last.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// The change of state, or the agent's words, that a step tells of; none of most steps.
    pub fn status(&mut self, step: &RunStep) -> Option<v1::StreamResponse> {
        let (state, text) = match step.r#type.as_str() {
            "awaiting_input" | "awaiting_approval" => (TaskState::InputRequired, words(step)),
            "completion" => (TaskState::Completed, None),
            "error" => (TaskState::Failed, words(step)),
            "cancelled" => (TaskState::Canceled, None),
            "assistant_message" => {
                let text = Said::of(step).text;
                (TaskState::Working, (!text.is_empty()).then_some(text))
            }
            "tools_listed" | "tool_started" | "retried" => (TaskState::Working, None),
            _ => return None,
        };
        if state == self.state && text.is_none() || is_over(self.state) {
            return None;
        }
        self.state = state;
        let message = text.map(|text| of_status(&self.run, &self.context, step, text));
        Some(response(Payload::StatusUpdate(v1::TaskStatusUpdateEvent {
            task_id: self.run.clone(),
            context_id: self.context.clone(),
            status: Some(v1::TaskStatus {
                state: state.into(),
                message,
                timestamp: step.at,
            }),
            metadata: None,
        })))
    }

    /// The output that a step brings, if it is the one that completes the run.
    pub fn output(&self, step: &RunStep) -> Option<v1::Artifact> {
        let ends = step.r#type == "completion";
        ends.then(|| super::output(&Said::of(step).output))
            .flatten()
    }

    /// An artifact, whole.
    pub fn artifact(&self, artifact: v1::Artifact) -> v1::StreamResponse {
        response(Payload::ArtifactUpdate(v1::TaskArtifactUpdateEvent {
            task_id: self.run.clone(),
            context_id: self.context.clone(),
            artifact: Some(artifact),
            append: false,
            last_chunk: true,
            metadata: None,
        }))
    }
}

fn response(payload: Payload) -> v1::StreamResponse {
    v1::StreamResponse {
        payload: Some(payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kinds: &[(&str, &str)]) -> Vec<TaskState> {
        let mut updates = Updates::new("run_1", "ctx", TaskState::Submitted);
        let steps = (2..).zip(kinds).map(|(sequence, (kind, content))| RunStep {
            sequence,
            r#type: (*kind).into(),
            content_json: (*content).into(),
            ..RunStep::default()
        });
        let told = steps.filter_map(|step| updates.status(&step));
        let state = |response: v1::StreamResponse| match response.payload {
            Some(Payload::StatusUpdate(update)) => update.status.unwrap().state(),
            other => panic!("{other:?}"),
        };
        told.map(state).collect()
    }

    /// S6.13: states are told once, waiting always, and nothing after the end.
    #[test]
    fn s6_13_a_stream_tells_each_change_once() {
        use TaskState::{Completed, InputRequired, Working};
        let run = [
            ("tools_listed", "{}"),
            ("assistant_message", r#"{"text":"Looking."}"#),
            ("tool_call", "{}"),
            ("tool_started", "{}"),
            ("awaiting_approval", r#"{"summary":"x"}"#),
            ("tool_approved", "{}"),
            ("tool_started", "{}"),
            ("tool_result", "{}"),
            ("assistant_message", r#"{"text":""}"#),
            ("completion", r#"{"output":"done"}"#),
            ("tool_result", "{}"),
        ];
        assert_eq!(
            told(&run),
            [Working, Working, InputRequired, Working, Completed]
        );
        let unknown = [("something_new", "{}"), ("completion", "[]")];
        assert_eq!(told(&unknown), [Completed]);
    }
}
