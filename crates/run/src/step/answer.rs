//! What models answer, and what becomes of asking them.

use serde::{Deserialize, Serialize};

use crate::failure::FailureCode;
use crate::id::Namespace;
use crate::money::Money;
use crate::time::Timestamp;

/// Tokens of one model answer, as the provider counted them, or as they were counted here where it
/// did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Of those, read from the provider's cache.
    pub cached: u64,
    /// Tokens of the answer, thinking included.
    pub output: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
    }
}

/// What the model thought, where the provider tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// The text.
    pub text: String,
    /// The provider's signature, needed to send the thinking back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// One model answer; its calls follow as [`ToolCall`](super::ToolCall)s.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The think-and-call cycle, from 1.
    pub cycle: u32,
    /// The sequence number of the last step that the request was built from.
    pub seen: u64,
    /// The text; may be empty when the answer is calls only.
    pub text: String,
    /// How many calls follow.
    pub calls: u32,
    /// The model that answered, by its configured name.
    pub model: String,
    /// Its tokens.
    pub usage: Usage,
    /// What it costs; none if the model has no price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// A model was unavailable and the next of its chain was asked (S4.7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailover {
    /// The unavailable model.
    pub from: String,
    /// The next one.
    pub to: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// The namespace has spent what it may in a month (S4.6); the completion follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendingCap {
    /// The cap.
    pub cap: Money,
    /// What was spent when it was met.
    pub spent: Money,
    /// When the month, and with it the sum, begins anew.
    pub resets_at: Timestamp,
}

impl SpendingCap {
    /// The sentence that is the run's output.
    pub fn sentence(&self, namespace: &Namespace) -> String {
        let resets_at = self.resets_at.to_string();
        format!(
            "Stopped: the namespace {namespace} has spent {} of its monthly cap of {}; the cap resets on {} at 00:00 UTC.",
            self.spent,
            self.cap,
            resets_at.get(..10).unwrap_or_default()
        )
    }
}

/// How a conversation was made smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionKind {
    /// The content of older results was taken out.
    Prune,
    /// Older turns were replaced by a brief.
    Brief,
}

impl CompactionKind {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            CompactionKind::Prune => "prune",
            CompactionKind::Brief => "brief",
        }
    }
}

/// The conversation neared the model's context limit and was made smaller (S4.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// How.
    pub kind: CompactionKind,
    /// The last turn that is concerned: it, and those before it.
    pub upto: u32,
    /// Tokens of the request that was too large.
    pub tokens: u64,
    /// The brief that stands for those turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brief: Option<String>,
    /// The model that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its tokens.
    #[serde(default)]
    pub usage: Usage,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Money>,
}

/// No model could be asked: the run waits as `pending` and is retried by itself (S1.6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryScheduled {
    /// The retry, counted like those by hand.
    pub attempt: u32,
    /// When it is due.
    pub due_at: Timestamp,
    /// The code of what went wrong.
    pub code: FailureCode,
    /// The underlying message.
    pub message: String,
}
