//! The scripted model: a file of turns instead of a provider. The same script and inputs give the
//! same run, without network, keys or luck.
//!
//! ```yaml
//! turns:
//!   - text: "Looking it up."
//!     thinking: "I need the order first."
//!     calls:
//!       - { tool: shop.get_order, args: { id: "A-17" } }
//!       - { tool: shop.refund_order, args_raw: '{"order_id":"A-17","amount":1.10}' }   # exact bytes
//!     usage: { input: 900, output: 40 }
//!     delay: 0ms
//!   - when: { result_contains: "denied by user" }      # else the next turn without `when`
//!     text: "I was told not to."
//!   - error: { status: 529, body: "overloaded" }       # or: { stream_cut_after: 12 }, { hang: 10m }
//!   - text: "Done: {{result.shop.get_order.customer}} was refunded."
//! ```
//!
//! # What a turn holds
//!
//! * `text`, `thinking`, `calls`: the answer. A call names a tool as registered or as the model sees
//!   it, and has `args` (written as compact JSON, keys in the order of the file) or `args_raw`: exact
//!   bytes, taken as they stand.
//! * `usage`: `input`, `cached` (part of `input`) and `output` tokens; zero where absent.
//! * `delay`: how long the answer takes. Without one it is there at the first poll.
//! * `error`: no answer, but a `status` with a `body`; a stream that says the turn's `text` and is
//!   cut after `stream_cut_after` characters of it; or one that says the `text` and then is silent
//!   for the time of `hang`, and breaks. All go through the failover of real providers.
//! * `when`: the turn is for that case only. `result_contains` holds if a result, or a note about an
//!   earlier call, that came since the last answer contains the text; `message_contains` if a
//!   person's message since then does (the task, before the first answer). Both: both must hold.
//!
//! # Which turn is played
//!
//! Turns are played in order. From where the last one stood, turns with a `when` are tried until one
//! holds; those that do not hold are passed by, and the next turn without `when` is played if none
//! did. What is played follows from the request alone: the conversation shows which answers came
//! before and what was seen between them, so another process goes on with the same script. One thing
//! cannot be seen there: how often a turn with `error` was played, as it leaves nothing in the
//! conversation. That is remembered in this process, so that a retry goes on with the turn after it;
//! another process plays it once more. (For a cycle that another model of the chain answered, one
//! turn with `error` counts as played.) Models with the same file share its place.
//!
//! # Templates
//!
//! `{{result.<tool>.<path>}}` in `text`, `thinking` and the strings of `args` stands for the latest
//! result of the tool, or a value in it: keys and list positions, joined by dots. Where a string of
//! `args` is one template alone, the value goes in as it is: a number stays a number, to the digit.
//! `args_raw` is never expanded.

mod mistakes;
mod play;
mod script;
mod template;

use std::sync::Arc;

use sayso_driver::{ModelCall, ModelRequest};
use sayso_run::Thinking;

pub use mistakes::{ScriptMistake, ScriptMistakes};
pub(crate) use play::Player;
pub use script::Script;

use crate::answer::{Answer, Ear};
use crate::fault::{self, Fault, Veil};
use script::{Arguments, Turn, TurnEnd};
use template::Results;

/// The code of a script with a mistake.
pub const INVALID: &str = "script.invalid";

/// The code of a run that goes on after the last turn of its script.
pub const EXHAUSTED: &str = "script.exhausted";

/// A model that plays a script.
pub(crate) struct Scripted {
    player: Arc<Player>,
}

impl Scripted {
    pub(crate) fn new(player: Arc<Player>) -> Self {
        Self { player }
    }

    pub(crate) async fn answer(
        &self,
        request: &ModelRequest,
        ear: &Ear<'_>,
    ) -> Result<Answer, Fault> {
        let (number, turn) = self.player.turn(request)?;
        let results = Results::of(request);
        let invalid = |why: template::Unresolved| {
            Fault::Script(
                INVALID,
                format!("cannot play turns[{number}] of its script: {why}"),
            )
        };
        let answer = played(turn, request, &results).map_err(invalid)?;
        if !turn.delay.is_zero() {
            tokio::time::sleep(turn.delay).await;
        }
        match &turn.end {
            TurnEnd::Whole => {
                ear.text(&answer.text);
                Ok(answer)
            }
            TurnEnd::Status { status, body } => {
                Err(fault::of_status(*status, body, &Veil::default()))
            }
            TurnEnd::CutAfter(characters) => {
                let said: String = answer.text.chars().take(*characters).collect();
                ear.text(&said);
                Err(Fault::broke_off())
            }
            TurnEnd::Hang(silence) => {
                ear.text(&answer.text);
                tokio::time::sleep(*silence).await;
                Err(Fault::broke_off())
            }
        }
    }
}

/// The turn with its templates filled in.
fn played(
    turn: &Turn,
    request: &ModelRequest,
    results: &Results<'_>,
) -> Result<Answer, template::Unresolved> {
    let mut answer = Answer {
        text: turn.text.fill(results)?,
        usage: turn.usage,
        ..Answer::default()
    };
    if let Some(thinking) = &turn.thinking {
        answer.thinking.push(Thinking {
            text: thinking.fill(results)?,
            signature: None,
        });
    }
    for call in &turn.calls {
        let offered = request
            .tools
            .iter()
            .find(|tool| tool.model_name == call.tool)
            .or_else(|| {
                request
                    .tools
                    .iter()
                    .find(|tool| tool.registered == call.tool)
            });
        answer.calls.push(ModelCall {
            name: offered.map_or_else(|| call.tool.clone(), |tool| tool.model_name.clone()),
            args: match &call.args {
                Arguments::Raw(bytes) => bytes.clone(),
                Arguments::Built(value) => value.json(results)?,
            },
        });
    }
    Ok(answer)
}
