//! What may run: the bundle, permission rules, review settings, floors and the verdict on a call. Pure.
//!
//! Nothing here reads a clock, draws a random number, does I/O or iterates a
//! hash map: the same bundle and the same call give the same verdict on every
//! machine, today and when a recorded run is judged again.
//!
//! - [`bundle`]: the file that defines an agent, parsed whole or refused with
//!   every mistake in it.
//! - [`names`]: registered tool names and the form a model sees.
//! - [`glob`]: the one pattern language, used by rules, tool marks and roles.
//! - [`review`]: which tools are reviewed by default, and the floors that
//!   nothing clears.
//! - [`judge`]: the verdict on one call.
//! - [`schedule`]: when a schedule is due.
//! - [`role`]: the ceiling over everything an agent may do.
//! - [`mod@warnings`]: what is allowed in a bundle but probably not meant.

pub mod bundle;
pub mod glob;
pub mod judge;
pub mod names;
mod patterns;
pub mod review;
pub mod role;
pub mod schedule;
pub mod warnings;

pub use bundle::{Bundle, BundleError, BundleErrors};
pub use glob::{BadGlob, Glob};
pub use judge::{CallView, RuleId, Rules, ToolKind, ToolSettings, Verdict};
pub use names::ToolNames;
pub use role::Role;
pub use schedule::Schedule;
pub use warnings::{BundleWarning, warnings};
