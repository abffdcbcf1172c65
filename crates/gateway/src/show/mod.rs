//! Rows of the database as the API shows them.

mod agent;
mod approval;
mod audit;
mod feedback;
mod pause;
mod run;
mod token;

pub(crate) use agent::{agent, log_entry, revision};
pub(crate) use approval::{StoredStatus, approval, is_invisible};
pub(crate) use audit::entry as audit_entry;
pub(crate) use feedback::feedback;
pub(crate) use pause::pause;
pub(crate) use run::{action, run, step};
pub(crate) use token::token;
