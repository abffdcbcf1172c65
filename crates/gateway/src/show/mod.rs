//! Rows of the database as the API shows them.

mod agent;
mod approval;
mod audit;
mod conversation;
mod feedback;
mod origin;
mod pause;
mod role;
mod run;
mod token;

pub(crate) use agent::{agent, log_entry, revision};
pub(crate) use approval::{StoredStatus, approval};
pub(crate) use audit::entry as audit_entry;
pub(crate) use conversation::{conversation, message};
pub(crate) use feedback::{feedback, feedback_summary};
pub(crate) use origin::approved_before;
pub(crate) use pause::pause;
pub(crate) use role::role;
pub(crate) use run::{action, run, step, trust_lowered};
pub(crate) use token::token;
