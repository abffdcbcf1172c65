//! Models behind one door: providers, tiers with failover, usage, and the scripted model.
//!
//! [`Registry`] implements [`sayso_driver::Models`]. It is built from a [`ModelsConfig`], checks all
//! of it at once, and keeps nothing between two requests that a restart would miss.
//!
//! # Why own clients
//!
//! The bytes that a model wrote as arguments are what is shown, hashed, approved and sent (S3.7), and
//! the model has to see the same in its history, or it argues with a number that it never wrote. The
//! client libraries that exist carry arguments as a parsed value: `1.10` comes back as `1.1`, a long
//! id as a float, spaces and escapes are lost. Those that were tried also take a stream that breaks
//! in the middle for the end of an answer, and cut model names that end in words such as `-high`. So
//! the two formats are written here, over `reqwest` and an event-stream parser, with `RawValue` for
//! arguments: OpenAI chat completions and Anthropic messages, streamed. A list of smaller rulings:
//!
//! * An answer counts once it is whole: `[DONE]`, or `message_stop`. Anything less is a broken line,
//!   its text is withdrawn, and the next model is asked (B30).
//! * No argument text means `{}`, unless the answer was cut at its token limit.
//! * Arguments that are not one JSON object, or hold a key twice, are passed on as they are for the
//!   judge to refuse. In the history `{}` stands for them, as a provider would refuse the whole
//!   request over them.
//! * Thinking goes back to the Anthropic model that thought it, with its signature; chat completions
//!   have no place for it.
//! * A tool whose schema providers would refuse is offered with one that they take, and the rest of
//!   it in the description.
//! * Redirects are not followed: they would carry keys to other hosts.
//! * Errors quote the provider, its status and code, and never a key or what a URL carries beside
//!   host and path (B45).
//!
//! # Codes
//!
//! Besides those of [`FailureCode`](sayso_run::FailureCode): `script.invalid` for a turn that cannot
//! be played, and `script.exhausted` for a run that goes on after the last turn of its script.

mod answer;
mod anthropic;
mod arguments;
mod ask;
mod config;
mod content;
mod conversation;
mod count;
mod endpoint;
mod fault;
mod offer;
mod openai;
mod registry;
pub mod scripted;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use config::{
    ConfigProblem, ConfigProblems, ModelConfig, ModelsConfig, Provider, ScriptSource, Secret,
};
pub use registry::{DEFAULT_TIER, Registry};
pub use scripted::{Script, ScriptMistake, ScriptMistakes};
