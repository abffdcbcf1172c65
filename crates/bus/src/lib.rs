//! Wake-ups and events: one trait, JetStream and in-process.
//!
//! The bus only *hurries* things. A run's timeline in the database is the truth, and what is owed
//! can be read from it at any time; the bus tells a worker to look now instead of at the next
//! sweep, and tells the world what was appended. **Losing a message loses time, never work**, so
//! nothing here tries to be durable beyond what the broker gives for free, and no caller may
//! depend on a message surviving.
//!
//! # What travels
//!
//! | what | subject | kept |
//! |---|---|---|
//! | wake-ups | `sayso.work.<namespace>.<run>` | stream `SAYSO_WORK`, one message a subject, until acknowledged |
//! | events | `sayso.events.v1.<namespace>.<agent>.<type>` | stream `SAYSO_EVENTS`, 7 days |
//! | text deltas, cancel hints | `sayso.live.<run>`, `sayso.control.<run>` | not at all |
//!
//! This crate knows subjects and bytes, not runs and not their encoding: a [`WorkKey`] is two
//! subject tokens, an [`Event`] is a subject, an id and a body.
//!
//! # The two implementations
//!
//! - [`nats::NatsBus`] speaks JetStream to any nats-server from 2.10 on. It connects in the
//!   background, creates its streams and its consumer, and makes them again when they vanish.
//! - [`local::LocalBus`] is the same contract within one process, with nothing durable: after a
//!   restart the sweep over the database wakes what is owed.
//!
//! Both pass the one suite in `tests/contract.rs`; callers hold an `Arc<dyn Bus>`.
//!
//! # Promises
//!
//! - **Wake-ups** are delivered at least once, to one of the pullers at a time, and again when the
//!   acknowledgement window passes without an answer. A second wake-up of a key replaces the one
//!   that waits. One that arrives while the first is being worked on is a message of its own, and
//!   the first one's acknowledgement does not take it away.
//! - **Events** are published in the caller's order and acknowledged; see
//!   [`Bus::publish_events`] for what holds when a batch breaks off.
//! - **Feeds** ([`Bus::events`], [`Bus::live`]) are at most once. A feed that lost messages, or may
//!   have, says so with [`Heard::Lagged`]; the reader fills the gap from the database.
//! - While wake-ups cannot be received, [`Bus::health`] says so (B80).

mod bus;
mod error;
mod event;
mod health;
pub mod local;
pub mod nats;
pub mod subject;
#[cfg(feature = "testing")]
pub mod testing;
mod work;

pub use bus::Bus;
pub use error::{BusError, PartlyPublished};
pub use event::{Event, Feed, Heard, Live};
pub use health::{Health, Receiving};
pub use work::{Headers, Receipt, Work, WorkKey, WorkQueue};
