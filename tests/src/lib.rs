//! Tests of the whole product, through its public surfaces: the program `sayso`, the gRPC API and
//! the command line.
//!
//! A [`Deployment`] is the product at work: one process (`sayso up`) or six and more (`sayso serve`)
//! with a Postgres database and a NATS server of their own. Tests of one file share one of each kind
//! where they do not disturb each other, under agents of their own; those that kill, move the clock
//! or count everything start theirs. Processes end with the deployment, or, where it is shared or the
//! test process dies, through a watchdog that notices the end of the test process. Their logs stand
//! in a temporary folder, and a test that fails prints what they said while it ran.
//!
//! [`both!`] runs a scenario on both kinds. Waiting is asking again until a condition holds, with a
//! limit ([`until`]) that no healthy run comes near; nothing waits for a fixed time.
//!
//! Races are run for 200 rounds, or as many as `SAYSO_TEST_ROUNDS` says; what the variables of
//! `tests/chaos` say, stands there.
//!
//! What acts in these tests is [`Ledger`]'s server: a file outside the product gets a line for each
//! execution.

mod broker;
mod bundle;
mod case;
mod client;
mod collector;
mod command;
mod deployment;
mod dice;
mod disk;
mod ledger;
mod options;
mod process;
mod program;
mod provider;
mod proxy;
mod server;
mod timeline;
mod wait;
mod watchdog;
mod world;

pub use bundle::Bundle;
pub use case::Case;
pub use client::{Bearer, Client, code, detail};
pub use collector::{Collector, Span};
pub use command::Ran;
pub use deployment::Deployment;
pub use dice::Dice;
pub use disk::Disk;
pub use ledger::{Entry, Ledger};
pub use options::{Options, Shape, Small};
pub use process::Process;
pub use program::{free_port, program};
pub use provider::{Answer, Format, Provider, Receiver};
pub use proxy::Proxy;
pub use timeline::{Step, Timeline};
pub use wait::{LIMIT, rounds, until};
pub use world::{World, on_runtime};
