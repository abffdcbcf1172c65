//! Putting a streamed message together.
//!
//! An answer is whole when `message_stop` has come; a stream that ends before it is a broken line
//! (B30). Argument bytes are the pieces of `input_json_delta` one after another; a server that sends
//! none of them has put the whole object into the block's start, where its exact text is kept.

use std::ops::ControlFlow;

use sayso_run::{Thinking, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::REDACTED;
use crate::answer::{Answer, CallInProgress, Ear};
use crate::endpoint::unreadable;
use crate::fault::{self, Fault, Veil};

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct BlockStart<'a> {
    index: u32,
    #[serde(borrow)]
    content_block: StartedBlock<'a>,
}

#[derive(Deserialize)]
struct StartedBlock<'a> {
    r#type: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BlockDelta {
    index: u32,
    delta: Piece,
}

#[derive(Deserialize)]
struct Piece {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: Option<Stop>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Stop {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// One block of the answer.
enum Block {
    Text(String),
    Thinking(Thinking),
    Call {
        call: CallInProgress,
        /// The whole object, if it stood in the block's start.
        whole: Option<String>,
    },
    /// Of a kind that was not asked for.
    Other,
}

/// Tokens as this provider counts them: each kind apart.
#[derive(Default)]
struct Tally {
    fresh: u64,
    written_to_cache: u64,
    cached: u64,
    output: u64,
}

/// An answer in the making.
pub(super) struct Assembly<'a> {
    veil: &'a Veil,
    blocks: Vec<(u32, Block)>,
    tally: Tally,
    stop: Option<String>,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(veil: &'a Veil) -> Self {
        Self {
            veil,
            blocks: Vec::new(),
            tally: Tally::default(),
            stop: None,
        }
    }

    /// Takes the data of one event; breaks with the last one.
    pub(super) fn take(&mut self, data: &str, ear: &Ear<'_>) -> Result<ControlFlow<()>, Fault> {
        let kind: Kind = self.read(data)?;
        match kind.r#type.as_str() {
            "message_start" => {
                let start: MessageStart = self.read(data)?;
                self.count(start.message.usage);
            }
            "content_block_start" => {
                let start: BlockStart<'_> = self.read(data)?;
                self.start(start, ear);
            }
            "content_block_delta" => {
                let delta: BlockDelta = self.read(data)?;
                self.piece(delta, ear)?;
            }
            "message_delta" => {
                let delta: MessageDelta = self.read(data)?;
                self.count(delta.usage);
                self.stop = delta
                    .delta
                    .and_then(|stop| stop.stop_reason)
                    .or(self.stop.take());
            }
            "message_stop" => return Ok(ControlFlow::Break(())),
            "error" => return Err(fault::of_event(data, self.veil)),
            // `ping`, `content_block_stop`, and what later versions add.
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    fn read<'d, T: Deserialize<'d>>(&self, data: &'d str) -> Result<T, Fault> {
        serde_json::from_str(data).map_err(|error| unreadable(&error, self.veil))
    }

    /// Counts are running totals, and the later ones may leave kinds out (B58).
    fn count(&mut self, counts: Option<Counts>) {
        let Some(counts) = counts else { return };
        let tally = &mut self.tally;
        for (total, count) in [
            (&mut tally.fresh, counts.input_tokens),
            (
                &mut tally.written_to_cache,
                counts.cache_creation_input_tokens,
            ),
            (&mut tally.cached, counts.cache_read_input_tokens),
            (&mut tally.output, counts.output_tokens),
        ] {
            *total = count.unwrap_or(*total);
        }
    }

    fn start(&mut self, start: BlockStart<'_>, ear: &Ear<'_>) {
        let begun = start.content_block;
        let block = match begun.r#type.as_str() {
            "text" => {
                let text = begun.text.unwrap_or_default();
                ear.text(&text);
                Block::Text(text)
            }
            "thinking" => Block::Thinking(Thinking {
                text: begun.thinking.unwrap_or_default(),
                signature: begun.signature.filter(|text| !text.is_empty()),
            }),
            "redacted_thinking" => Block::Thinking(Thinking {
                text: String::new(),
                signature: begun.data.map(|data| format!("{REDACTED}{data}")),
            }),
            "tool_use" => Block::Call {
                call: CallInProgress {
                    name: begun.name.unwrap_or_default(),
                    args: String::new(),
                },
                whole: begun.input.map(|input| input.get().to_owned()),
            },
            _ => Block::Other,
        };
        self.blocks.push((start.index, block));
    }

    fn piece(&mut self, delta: BlockDelta, ear: &Ear<'_>) -> Result<(), Fault> {
        let block = self
            .blocks
            .iter_mut()
            .rfind(|(index, _)| *index == delta.index)
            .map(|(_, block)| block)
            .ok_or_else(|| {
                Fault::Unavailable("sent a piece of a block that it never began".into())
            })?;
        let piece = delta.delta;
        match block {
            Block::Text(text) => {
                let more = piece.text.unwrap_or_default();
                text.push_str(&more);
                ear.text(&more);
            }
            Block::Thinking(thinking) => {
                thinking.text.push_str(&piece.thinking.unwrap_or_default());
                if let Some(more) = piece.signature {
                    thinking.signature.get_or_insert_default().push_str(&more);
                }
            }
            Block::Call { call, .. } => {
                call.args.push_str(&piece.partial_json.unwrap_or_default());
            }
            Block::Other => {}
        }
        Ok(())
    }

    /// The whole answer, once `message_stop` has come.
    pub(super) fn finish(self) -> Result<Answer, Fault> {
        let Some(stop) = self.stop else {
            return Err(Fault::broke_off());
        };
        if stop == "refusal" {
            return Err(Fault::Refused(
                "stopped its answer: the provider's safety rules stepped in".into(),
            ));
        }
        let cut = matches!(
            stop.as_str(),
            "max_tokens" | "model_context_window_exceeded"
        );
        let tally = self.tally;
        let mut answer = Answer {
            usage: Usage {
                input: tally
                    .fresh
                    .saturating_add(tally.written_to_cache)
                    .saturating_add(tally.cached),
                cached: tally.cached,
                output: tally.output,
            },
            ..Answer::default()
        };
        for (_, block) in self.blocks {
            match block {
                Block::Text(text) => answer.text.push_str(&text),
                Block::Thinking(thinking) => answer.thinking.push(thinking),
                Block::Call { mut call, whole } => {
                    if call.name.is_empty() {
                        return Err(Fault::Unavailable("sent a call that names no tool".into()));
                    }
                    // An empty object in the start is the promise of pieces, not an answer.
                    if let Some(whole) = whole.filter(|whole| whole != "{}" && call.args.is_empty())
                    {
                        call.args = whole;
                    }
                    answer.calls.push(call.finish(cut));
                }
                Block::Other => {}
            }
        }
        Ok(answer)
    }
}
