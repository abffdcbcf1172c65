//! Putting a streamed chat completion together.
//!
//! An answer is whole when it said why it finished **and** the stream ended with `[DONE]`; anything
//! less is a broken line (B30). Servers differ in how they cut a call into pieces: most number the
//! calls, some number them all 0 and tell them apart by id, some number none; all of that is read.

use sayso_run::{Thinking, Usage};
use serde::Deserialize;

use crate::answer::{Answer, CallInProgress, Ear};
use crate::endpoint::unreadable;
use crate::fault::{self, Fault, Veil};

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Counts>,
    error: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct CallPiece {
    index: Option<u32>,
    id: Option<String>,
    function: Option<FunctionPiece>,
}

#[derive(Deserialize)]
struct FunctionPiece {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptCounts>,
}

#[derive(Deserialize)]
struct PromptCounts {
    cached_tokens: Option<u64>,
}

/// A call of the answer, with what tells it from its siblings.
#[derive(Default)]
struct Slot {
    index: Option<u32>,
    id: String,
    call: CallInProgress,
}

/// An answer in the making.
pub(super) struct Assembly<'a> {
    veil: &'a Veil,
    text: String,
    thinking: String,
    slots: Vec<Slot>,
    usage: Usage,
    finish: Option<String>,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(veil: &'a Veil) -> Self {
        Self {
            veil,
            text: String::new(),
            thinking: String::new(),
            slots: Vec::new(),
            usage: Usage::default(),
            finish: None,
        }
    }

    /// Takes the data of one event.
    pub(super) fn take(&mut self, data: &str, ear: &Ear<'_>) -> Result<(), Fault> {
        let chunk: Chunk =
            serde_json::from_str(data).map_err(|error| unreadable(&error, self.veil))?;
        if chunk.error.is_some() {
            return Err(fault::of_event(data, self.veil));
        }
        if let Some(counts) = chunk.usage {
            self.count(&counts);
        }
        // More than one choice is never asked for.
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.hear(delta, ear);
            }
            if choice.finish_reason.is_some() {
                self.finish = choice.finish_reason;
            }
        }
        Ok(())
    }

    /// Servers that count on every chunk send running totals: the last one stands (B58). The
    /// prompt's tokens hold the cached ones here.
    fn count(&mut self, counts: &Counts) {
        let cached = counts
            .prompt_tokens_details
            .as_ref()
            .and_then(|details| details.cached_tokens);
        self.usage = Usage {
            input: counts.prompt_tokens.unwrap_or(self.usage.input),
            cached: cached.unwrap_or(self.usage.cached),
            output: counts.completion_tokens.unwrap_or(self.usage.output),
        };
    }

    fn hear(&mut self, delta: Delta, ear: &Ear<'_>) {
        // A server that sends both names sends the same text under them.
        if let Some(thought) = delta.reasoning_content.or(delta.reasoning) {
            self.thinking.push_str(&thought);
        }
        for text in [delta.content, delta.refusal].into_iter().flatten() {
            self.text.push_str(&text);
            ear.text(&text);
        }
        for piece in delta.tool_calls.into_iter().flatten() {
            self.piece(piece);
        }
    }

    fn piece(&mut self, piece: CallPiece) {
        let id = piece.id.unwrap_or_default();
        let (name, args) = match piece.function {
            Some(function) => (function.name, function.arguments),
            None => (None, None),
        };
        let name = name.unwrap_or_default();
        // A server that numbers all calls alike tells them apart by id, and begins each with a name.
        let begins = !id.is_empty() && !name.is_empty();
        let slot = self.slot(piece.index, begins.then_some(id.as_str()));
        if slot.id.is_empty() {
            slot.id = id;
        }
        // Some servers repeat the whole name with each piece.
        if slot.call.name != name {
            slot.call.name.push_str(&name);
        }
        slot.call.args.push_str(&args.unwrap_or_default());
    }

    /// The call that a piece belongs to; a new one if no call has its number, or if it begins a
    /// call under another id.
    fn slot(&mut self, index: Option<u32>, begins: Option<&str>) -> &mut Slot {
        let known = self.slots.iter().rposition(|slot| {
            let same_number = index.is_none() || slot.index == index;
            let same_id = begins.is_none_or(|id| slot.id.is_empty() || slot.id == id);
            same_number && same_id
        });
        let at = known.unwrap_or_else(|| {
            self.slots.push(Slot {
                index,
                ..Slot::default()
            });
            self.slots.len() - 1
        });
        &mut self.slots[at]
    }

    /// The whole answer, once `[DONE]` has come.
    pub(super) fn finish(mut self) -> Result<Answer, Fault> {
        let Some(finish) = self.finish else {
            return Err(Fault::broke_off());
        };
        if finish == "content_filter" {
            return Err(Fault::Refused(
                "stopped its answer: the provider's content filter stepped in".into(),
            ));
        }
        // Sorting is stable: calls of the same number, or of none, stay as they came.
        self.slots.sort_by_key(|slot| slot.index);
        let cut = finish == "length";
        let mut answer = Answer {
            text: self.text,
            usage: self.usage,
            ..Answer::default()
        };
        for slot in self.slots {
            if slot.call.name.is_empty() {
                return Err(Fault::Unavailable("sent a call that names no tool".into()));
            }
            answer.calls.push(slot.call.finish(cut));
        }
        if !self.thinking.is_empty() {
            answer.thinking.push(Thinking {
                text: self.thinking,
                signature: None,
            });
        }
        Ok(answer)
    }
}
