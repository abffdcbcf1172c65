//! A database in memory that makes every trouble a real one makes, when it is told to.
//!
//! What is real here: the queue, the groups and the way from a group to one answer for each member
//! ([`crate::Store`]'s own writer); what an append must not contradict; which leases fit. What is
//! simulated: the tables, and how a commit ends. A [`Disk`] is what all processes share; a
//! [`Journal`] is one process's way to it, with a writer and a clock of its own. What happens on
//! that way is the [`Weather`]'s to say, at two windows around each commit and before each read.
//!
//! It keeps the contract of the store: its journal's suite runs over this database too.

mod conversations;
mod journal;
mod tables;
mod target;
mod weather;

pub use journal::{Away, Journal};
pub use tables::{Commit, Disk, Run, Tables, WorkerRow};
pub use weather::{After, Before, Calm, Later, Weather};
