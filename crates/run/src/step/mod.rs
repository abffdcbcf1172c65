//! The steps of a timeline: a stored format. A type, a version and a content, which is one JSON
//! object; what was written once is read for ever. The set is open (S2.2): an unknown type or a
//! newer version decodes to [`StepError::Unknown`], which a reader shows and an executor leaves to
//! a newer one.

mod answer;
mod call;
mod end;
mod review;
mod start;

use thiserror::Error;

pub use answer::{
    AssistantMessage, Compaction, CompactionKind, ModelFailover, RetryScheduled, SpendingCap,
    Thinking, Usage,
};
pub use call::{
    ChildFinished, ChildStarted, Marks, RepeatLoop, TakenOver, ToolCall, ToolOutcome, ToolResult,
    ToolStarted, TrustLowered,
};
pub use end::{Cancelled, Completion, EndedBy, Failed, Retried};
pub use review::{
    AwaitingApproval, AwaitingInput, DenyCause, Escalated, SummaryWritten, ToolApproved,
    ToolBlocked, ToolDenied, ToolEdited, Verdict, VoteCast,
};
pub use start::{
    IdempotencyKey, Parent, Source, Tick, ToolsListed, TriggerReceived, Trust, UserMessage,
};

/// A step could not be read.
#[derive(Debug, Error)]
pub enum StepError {
    /// A newer version of sayso wrote it.
    #[error("step type `{kind}` version {version} is not known to this version of sayso")]
    Unknown {
        /// The stored type.
        kind: String,
        /// The stored version.
        version: u16,
    },
    /// The content is not what its type says.
    #[error("the content of a `{kind}` step cannot be read")]
    Content {
        /// The step's type.
        kind: StepKind,
        /// What the decoder says.
        #[source]
        source: serde_json::Error,
    },
}

macro_rules! steps {
    ($($variant:ident($content:ident) = $word:literal v $version:literal),* $(,)?) => {
        /// One entry of a timeline.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Step {
            $(#[doc = concat!("`", $word, "`")] $variant($content),)*
        }

        /// The type of a step, as it is stored and shown.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum StepKind {
            $(#[doc = concat!("`", $word, "`")] $variant,)*
        }

        impl StepKind {
            /// Every type that this version knows.
            pub const ALL: &'static [StepKind] = &[$(StepKind::$variant),*];

            /// The stored word.
            pub const fn as_str(self) -> &'static str {
                match self { $(StepKind::$variant => $word),* }
            }

            /// The version that this code writes.
            pub const fn version(self) -> u16 {
                match self { $(StepKind::$variant => $version),* }
            }
        }

        impl Step {
            /// The type.
            pub const fn kind(&self) -> StepKind {
                match self { $(Step::$variant(_) => StepKind::$variant),* }
            }

            /// The content as the JSON object that is stored and hashed.
            pub fn encode(&self) -> String {
                let written = match self { $(Step::$variant(content) => serde_json::to_string(content)),* };
                written.expect("step contents hold only strings, numbers and lists of them")
            }

            /// Reads a stored step.
            pub fn decode(kind: &str, version: u16, content: &str) -> Result<Step, StepError> {
                match (kind, version) {
                    $(($word, $version) => serde_json::from_str(content)
                        .map(Step::$variant)
                        .map_err(|source| StepError::Content { kind: StepKind::$variant, source }),)*
                    _ => Err(StepError::Unknown { kind: kind.to_owned(), version }),
                }
            }
        }
    };
}

steps! {
    TriggerReceived(TriggerReceived) = "trigger_received" v 1,
    ToolsListed(ToolsListed) = "tools_listed" v 1,
    UserMessage(UserMessage) = "user_message" v 1,
    Thinking(Thinking) = "thinking" v 1,
    AssistantMessage(AssistantMessage) = "assistant_message" v 1,
    ToolCall(ToolCall) = "tool_call" v 1,
    ToolBlocked(ToolBlocked) = "tool_blocked" v 1,
    AwaitingApproval(AwaitingApproval) = "awaiting_approval" v 1,
    SummaryWritten(SummaryWritten) = "summary_written" v 1,
    ToolEdited(ToolEdited) = "tool_edited" v 1,
    VoteCast(VoteCast) = "vote_cast" v 1,
    Escalated(Escalated) = "escalated" v 1,
    ToolApproved(ToolApproved) = "tool_approved" v 1,
    ToolDenied(ToolDenied) = "tool_denied" v 1,
    ToolStarted(ToolStarted) = "tool_started" v 1,
    TrustLowered(TrustLowered) = "trust_lowered" v 1,
    TakenOver(TakenOver) = "taken_over" v 1,
    ToolResult(ToolResult) = "tool_result" v 1,
    RepeatLoop(RepeatLoop) = "repeat_loop" v 1,
    AwaitingInput(AwaitingInput) = "awaiting_input" v 1,
    ChildStarted(ChildStarted) = "child_started" v 1,
    ChildFinished(ChildFinished) = "child_finished" v 1,
    Compaction(Compaction) = "compaction" v 1,
    ModelFailover(ModelFailover) = "model_failover" v 1,
    SpendingCap(SpendingCap) = "spending_cap" v 1,
    Completion(Completion) = "completion" v 1,
    Failed(Failed) = "error" v 1,
    RetryScheduled(RetryScheduled) = "retry_scheduled" v 1,
    Retried(Retried) = "retried" v 1,
    Cancelled(Cancelled) = "cancelled" v 1,
}

impl StepKind {
    /// Whether the chain's head is sealed with the key that the database does not have: at steps
    /// where the run pauses or ends (S2.3).
    pub const fn is_sealed(self) -> bool {
        matches!(
            self,
            StepKind::AwaitingApproval
                | StepKind::AwaitingInput
                | StepKind::RetryScheduled
                | StepKind::Completion
                | StepKind::Failed
                | StepKind::Cancelled
        )
    }
}

impl std::fmt::Display for StepKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CallId;

    /// S2.2: what this version does not know is told apart from what is broken.
    #[test]
    fn an_unknown_type_or_version_is_not_a_broken_step() {
        assert!(matches!(
            Step::decode("dream", 1, "{}"),
            Err(StepError::Unknown { .. })
        ));
        assert!(matches!(
            Step::decode("retried", 2, "{}"),
            Err(StepError::Unknown { .. })
        ));
        assert!(matches!(
            Step::decode("retried", 1, "{}"),
            Err(StepError::Content { .. })
        ));
        assert_eq!(
            Step::decode("retried", 1, r#"{"attempt":1,"later":true}"#).unwrap(),
            Step::Retried(Retried { attempt: 1 })
        );
    }

    /// S3.7: argument bytes come back as they went in, however odd.
    #[test]
    fn exact_argument_bytes_survive_storage() {
        let args = "{\"amount\": 1.10,\n \"n\":123456789012345678901234567890, \"s\":\"\\u00e9é\u{202e}\"}";
        let step = Step::ToolCall(ToolCall {
            call: CallId::of(1, 1),
            tool: "shop.refund".into(),
            model_name: "shop_refund".into(),
            args: args.into(),
            definition: None,
        });
        let read = Step::decode("tool_call", 1, &step.encode()).unwrap();
        assert_eq!(read, step);
    }
}
