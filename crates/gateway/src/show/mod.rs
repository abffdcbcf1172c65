//! Rows of the database as the API shows them.

mod agent;
mod audit;
mod conversation;
mod feedback;
mod pause;
mod role;
mod token;

pub(crate) use agent::{agent, log_entry, revision};
pub(crate) use audit::entry as audit_entry;
pub(crate) use conversation::{conversation, message};
pub(crate) use feedback::{feedback, feedback_summary};
pub(crate) use pause::pause;
pub(crate) use role::role;
pub(crate) use sayso_herald::show::{
    StoredStatus, action, approval, approved_before, run, step, trust_lowered,
};
pub(crate) use token::token;
