//! What may run: the bundle, permission rules, trust, provenance, review settings, floors and the
//! verdict on a call. Pure.
//!
//! Nothing here reads a clock, draws a random number, does I/O or iterates a
//! hash map: the same bundle and the same call give the same verdict on every
//! machine, today and when a recorded run is judged again.
//!
//! - [`bundle`]: the file that defines an agent, parsed whole or refused with
//!   every mistake in it.
//! - [`schema`]: the JSON Schema of a bundle, for editors.
//! - [`names`]: registered tool names and the form a model sees.
//! - [`glob`]: the one pattern language, used by rules, tool marks and roles.
//! - [`review`]: which tools are reviewed by default, and the floors that
//!   nothing clears.
//! - [`trust`]: how far a run is trusted, and what lowers that.
//! - [`provenance`]: where the values of a run come from.
//! - [`preset`]: rules that ship by name.
//! - [`judge`]: the verdict on one call.
//! - [`schedule`]: when a schedule is due.
//! - [`trace`]: whole runs judged offline.
//! - [`role`]: the ceiling over everything an agent may do.
//! - [`mod@edit`]: arguments as a person changes them.
//! - [`mod@warnings`]: what is allowed in a bundle but probably not meant.

pub mod bundle;
pub mod decimal;
pub mod edit;
pub mod glob;
mod json;
pub mod judge;
pub mod leaves;
pub mod names;
mod patterns;
pub mod preset;
pub mod provenance;
pub mod redact;
pub mod review;
pub mod role;
pub mod schedule;
pub mod schema;
pub mod trace;
pub mod trust;
pub mod warnings;

pub use bundle::{Bundle, BundleError, BundleErrors};
pub use glob::{BadGlob, Glob};
pub use judge::{
    CallView, Hints, Method, RuleId, Rules, RunView, Standing, Tool, ToolKind, ToolSettings,
    ToolView, Verdict,
};
pub use names::ToolNames;
pub use provenance::{Index, Origin};
pub use redact::Redaction;
pub use role::Role;
pub use schedule::Schedule;
pub use trust::{Source, Trust};
pub use warnings::{BundleWarning, warnings};
