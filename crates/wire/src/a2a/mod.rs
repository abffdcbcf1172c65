//! Runs as A2A clients see them (S6.13): protocol version 1.0, `proto/lf/a2a/v1`.
//!
//! A task is a run, and its id is the run's. What it is told of is made of the run's row and of a few
//! of its steps, always the same way: [`task()`] makes the whole of it, [`Updates`] makes of each step
//! what a stream says of it, so that all who watch a task are told the same in the same order.
//!
//! | run | task |
//! |---|---|
//! | `pending`, before its first step of work | `SUBMITTED` |
//! | `pending` before a retry, `running` | `WORKING` |
//! | `awaiting_input`, `awaiting_approval` | `INPUT_REQUIRED`, with what is waited for |
//! | `completed` | `COMPLETED`, the output as the artifact `output` |
//! | `failed` | `FAILED`, with what failed |
//! | `cancelled` | `CANCELED` |

mod artifact;
mod message;
mod part;
mod task;
mod updates;

#[doc(no_inline)]
pub use crate::generated::lf::a2a::v1;
pub use artifact::{FileArtifact, INLINE_BYTES, file, file_url, output};
pub use message::{key_of, message_id};
pub use part::{BadPart, text_of, value_of, whole};
pub use task::{TaskFacts, is_over, state, task, waits};
pub use updates::Updates;

/// The protocol's version, as cards and clients name it.
pub const VERSION: &str = "1.0";

/// The kinds of steps that a task is told by.
pub const TELLING: [&str; 5] = [
    "trigger_received",
    "user_message",
    "awaiting_input",
    "awaiting_approval",
    "error",
];
