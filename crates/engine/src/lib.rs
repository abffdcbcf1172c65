//! What services and embedded agents do alike, each written once: whoever asks for it, over gRPC or in
//! the same process, it is the same code that loads, decides and appends.
//!
//! * [`Workers`] takes wake-ups, claims runs and drives them ([`attend()`], [`Holds`]).
//! * [`admit()`], [`cancel()`] and [`retry()`] are what people and triggers do with runs.
//! * [`respond()`] carries decisions and messages to a run.
//! * [`Sweeper`] looks for everything that could be forgotten.
//! * [`ToolStorage`] keeps tool sets and artifacts in the store.
//!
//! Whether something is taken is the run's word (`RunState::decide`), never this crate's. It knows no
//! protobuf: what is asked for, and by whom, comes in as data.

mod admit;
mod attend;
mod ballots;
mod config;
mod holds;
mod respond;
mod storage;
mod sweep;
mod watched;
mod work;
mod workers;

pub use admit::{Asker, NewRun, StartOrigin, admit, cancel, new_ids, retry};
pub use attend::attend;
pub use ballots::Ballots;
pub use config::SweepConfig;
pub use holds::{Entry, Holds};
pub use respond::{Answered, Asked, check_reach, idempotency, respond};
pub use storage::ToolStorage;
pub use sweep::Sweeper;
pub use watched::Watched;
pub use workers::{Workers, WorkersConfig};
