//! Agents in one's own process (S6.14): no server, one file, and the same rails, policy, trust, roles,
//! redaction and timeline as the services, since it is the same code that runs them.
//!
//! ```
//! use sayso_sdk::embedded::{Agent, Decision, Journal, Model, Start, Tool};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::from_bundle("{name: clerk, role: unrestricted}")?
//!     .model(Model::scripted("turns: [{calls: [{tool: open_till}]}, {text: done}]"))
//!     .tool(Tool::with_schema("open_till", "Opens the till.", json!({"type": "object"}), |_: Value, _| async {
//!         Ok("open")
//!     }))
//!     .on_approval("desk-lead", |approval| async move {
//!         println!("{}", approval.summary);
//!         Decision::approve()
//!     })
//!     .journal(Journal::memory())
//!     .build()
//!     .await?;
//! let run = agent.run(Start::new("Open the till").by("alice")).await?;
//! assert_eq!(run.output(), "done");
//! # Ok(())
//! # }
//! ```
//!
//! * What an agent may do stands in its bundle, as everywhere. A tool of the process is judged like one
//!   of an MCP server: a write of untrusted output, unless the bundle's `tools` says otherwise.
//! * Whoever decides is given by name with [`AgentBuilder::on_approval`]. Nobody decides their own
//!   request. Without anybody to decide, `ask` is `deny`.
//! * A run outlives the process, if its [`Journal`] does: the next [`AgentBuilder::build`] goes on with
//!   what is owed. A call that was sent and not answered is sent again only where the bundle says that
//!   it may be (S4.5).
//! * Runs, steps and approvals are the API's own messages ([`v1`](crate::v1)), as a
//!   [`Client`](crate::Client) gives them.

mod agent;
mod approver;
mod builder;
mod check;
mod desk;
mod error;
mod journal;
mod model;
mod open;
mod people;
mod policy;
mod read;
mod secrets;
mod start;
mod tool;
mod town;
mod watch;

pub use agent::Agent;
pub use approver::{Answer, Approver, Decision};
pub use builder::{AgentBuilder, Helper};
pub use error::BuildError;
pub use journal::Journal;
pub use model::Model;
pub use sayso_run::{Money, RunId, Trust};
pub use sayso_store::{LogEntry, LogLevel};
pub use start::Start;
pub use tool::{Tool, ToolContext, ToolError};
pub use watch::AgentWatch;

/// The README's and the guide's snippets, compiled and run as they stand.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../../docs/sdk.md")]
    struct Guide;
}
