//! Rows of runs and approvals as the API shows them, to clients and to whoever runs agents in their own
//! process alike.

mod approval;
mod origin;
mod run;

pub use approval::{StoredStatus, approval};
pub use origin::approved_before;
pub use run::{action, run, step, trust_lowered};
