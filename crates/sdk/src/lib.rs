//! A typed client of the public API and, with the feature `embedded`, agents in one's own process
//! (the module of that name; `docs/sdk.md` is the guide).
//!
//! ```no_run
//! # async fn example() -> Result<(), sayso_sdk::Error> {
//! use sayso_sdk::{Client, RunEvent, WatchOptions};
//!
//! let client = Client::connect("http://127.0.0.1:7400", "sayso_…").await?;
//! let started = client.start_run("support-desk", "Where is order A-17?", None).await?;
//! let mut watch = client.watch_run(&started.run.id, WatchOptions::default());
//! while let Some(event) = watch.next().await {
//!     if let RunEvent::Message(message) = event? {
//!         println!("{message:?}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! * Requests and answers are the API's own messages ([`v1`], from `proto/sayso/v1`); a method whose
//!   request is one id takes the id.
//! * Every failure is an [`Error`]: an answer of the server with its stable code (`S10.5`), or the
//!   server could not be reached.
//! * [`Client::watch_run`] goes on by itself after a broken connection, from the step after the last
//!   one seen, so that no step is missed and none comes twice.
//! * Nothing else is tried again by itself: whether it is safe is the caller's to say, with an
//!   idempotency key.

mod agents;
mod approvals;
mod audit;
mod budgets;
mod client;
mod conversations;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
mod events;
mod feedback;
mod groups;
mod pauses;
mod policy;
mod roles;
mod runs;
mod secrets;
mod targets;
mod tokens;
mod watch;

pub use client::{Client, Credentials, Service};
pub use error::Error;
pub use runs::Started;
pub use sayso_service::error::{Coded, Kind};
pub use sayso_wire::v1;
pub use watch::{RunEvent, RunWatch, WatchOptions, is_final};
