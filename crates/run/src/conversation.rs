//! What a run knows of the conversation that it belongs to (S9.1).
//!
//! A conversation is a row of runs, one after the other. Each begins with what was said before as
//! part of its first step, so that its timeline alone says what its model was shown. What was said is
//! bounded: the newest messages, whole ones as far as that goes.
//!
//! Words keep the trust that they were said with. A run is trusted no further than the least trusted
//! words that it begins with, and what an agent said counts as far as its run was trusted then: what
//! an outsider wrote cannot come back as an agent's words and be trusted again (S5.7).

use serde::{Deserialize, Serialize};

use crate::id::{AgentName, ConversationId, PrincipalId};
use crate::limits::{CONTEXT_BYTES, CONTEXT_MESSAGE_BYTES, CONTEXT_MESSAGES};
use crate::step::{IdempotencyKey, Trust};
use crate::time::Timestamp;

/// Who said something in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// A principal, in their own words.
    Person(PrincipalId),
    /// An agent.
    Agent(AgentName),
    /// Somebody outside, by the name that was given with their words, which a principal passed on.
    Outside(String),
}

impl Speaker {
    /// The kind: `person`, `agent` or `outside`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Speaker::Person(_) => "person",
            Speaker::Agent(_) => "agent",
            Speaker::Outside(_) => "outside",
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        match self {
            Speaker::Person(name) => name.as_str(),
            Speaker::Agent(name) => name.as_str(),
            Speaker::Outside(name) => name,
        }
    }
}

/// Something that was said before the run began, as its model is shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    /// Who said it.
    pub by: Speaker,
    /// The words, cut at a limit.
    pub text: String,
    /// Bytes that were cut.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cut_bytes: u64,
    /// How far they are trusted: whoever wrote them, or the run whose agent said them.
    pub trust: Trust,
}

/// The conversation as a run begins in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The conversation.
    pub id: ConversationId,
    /// The run's place in it, from 1.
    pub turn: u64,
    /// Who wrote the input.
    pub by: Speaker,
    /// How far the input is trusted, whatever was said before it.
    pub trust: Trust,
    /// What was said before, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
    /// Messages before those, which are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Whether one of the runs that said it had called a tool whose results are secret (S5.9).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret_read: bool,
    /// Whether the input was said to the run before, which could not take it in any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carried: bool,
}

impl Conversation {
    /// How far a run may be trusted that begins so.
    pub fn trust(&self) -> Trust {
        let said = self.earlier.iter().map(|earlier| earlier.trust);
        said.fold(self.trust, Trust::min)
    }

    /// The principals whose words are in it, beside the input's.
    pub fn persons(&self) -> impl Iterator<Item = &PrincipalId> {
        self.earlier.iter().filter_map(|said| match &said.by {
            Speaker::Person(person) => Some(person),
            Speaker::Agent(_) | Speaker::Outside(_) => None,
        })
    }
}

/// Whether what was said is a plain message or asks a person for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidKind {
    /// A message.
    Message,
    /// An agent's question, which a person's next message answers.
    Question,
}

impl SaidKind {
    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            SaidKind::Message => "message",
            SaidKind::Question => "question",
        }
    }
}

/// One message of a conversation, said within a run of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Sequence number of the run's step that holds it.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who said it.
    pub by: Speaker,
    /// The principal that sent it; none of what an agent said.
    pub sender: Option<PrincipalId>,
    /// A message or a question.
    pub kind: SaidKind,
    /// The words.
    pub text: String,
    /// How far they are trusted.
    pub trust: Trust,
    /// Whether the run had called a tool whose results are secret.
    pub secret_read: bool,
    /// The key of the request that brought it.
    pub idempotency: Option<IdempotencyKey>,
}

/// The newest of these messages, oldest first, as the next run is shown them, and how many are left
/// out in all; `older` more were said before them.
pub fn remembered(
    said: impl DoubleEndedIterator<Item = (Speaker, String, Trust)>,
    older: u64,
) -> (Vec<Earlier>, u64) {
    let (mut kept, mut bytes, mut left_out) = (Vec::new(), 0_usize, older);
    for (by, mut text, trust) in said.rev() {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(CONTEXT_MESSAGE_BYTES));
        bytes = bytes.saturating_add(text.len());
        if left_out > older || kept.len() >= CONTEXT_MESSAGES || bytes > CONTEXT_BYTES {
            left_out += 1;
            continue;
        }
        kept.push(Earlier {
            cut_bytes: u64::try_from(whole - text.len()).unwrap_or(u64::MAX),
            by,
            text,
            trust,
        });
    }
    kept.reverse();
    (kept, left_out)
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(text: &str) -> (Speaker, String, Trust) {
        let by = Speaker::Person(PrincipalId::new("ada").unwrap());
        (by, text.to_owned(), Trust::Trusted)
    }

    /// S9.1: the context is bounded by count and by bytes, the newest messages stay.
    #[test]
    fn s9_1_what_is_remembered_is_the_newest_and_bounded() {
        let few = vec![person("one"), person("two")];
        let (kept, left_out) = remembered(few.into_iter(), 3);
        assert_eq!((kept.len(), left_out), (2, 3));
        assert_eq!(kept[0].text, "one");

        let many = (0..CONTEXT_MESSAGES + 5).map(|n| person(&n.to_string()));
        let (kept, left_out) = remembered(many, 0);
        assert_eq!((kept.len(), left_out), (CONTEXT_MESSAGES, 5));
        assert_eq!(kept[0].text, "5");

        let long = "ü".repeat(CONTEXT_MESSAGE_BYTES);
        let (kept, left_out) = remembered((0..9).map(|_| person(&long)), 0);
        let bytes: usize = kept.iter().map(|said| said.text.len()).sum();
        assert!(bytes <= CONTEXT_BYTES && left_out > 0, "{bytes}");
        assert_eq!(kept[0].cut_bytes as usize + kept[0].text.len(), long.len());
    }
}
