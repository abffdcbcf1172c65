//! Judging a held call as a person has edited it (S6.7): by the same evidence as a live one, with
//! every other call that may still run counted as if it had (S5.10).

use sayso_rules::Role;
use sayso_rules::bundle::Action;
use sayso_run::{ArgumentOrigin, Call, CallId, OriginKind, Phase, Quorum, RunState};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::evidence::{Evidence, call_view};
use crate::judge::{origins, permits, quorum};
use crate::resolved::ResolvedTools;
use crate::world::{Revision, ToolDefinition};

/// An edit that may stand in the place of the call, if the run is still where it was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedEdit {
    /// Sequence number of the state that it was judged in.
    pub seq: u64,
    /// What it takes to approve it, where the rules ask; none if they would let it through.
    pub quorum: Option<Quorum>,
    /// Where each value came from; what was changed came from a person.
    pub origins: Vec<ArgumentOrigin>,
}

/// Why an edit does not stand.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EditRefused {
    /// The run has no such call, or not such a tool.
    #[error("the run has no such call of a tool that it was offered")]
    NoCall,
    /// A rule denies the call as it would be.
    #[error("{reason} ({rule})")]
    Denied {
        /// The rule.
        rule: String,
        /// Why, in one sentence.
        reason: String,
    },
    /// The role does not permit it.
    #[error("{0}")]
    NotPermitted(String),
    /// The arguments do not fit the tool's schema.
    #[error("{0}")]
    Invalid(String),
}

/// Judges a call with other arguments, of which these `pointers` were changed. `tools` are the run's
/// own, resolved by its revision; `check` holds arguments against a tool's schema.
///
/// # Errors
///
/// What refuses it: the rules, the role, then the schema.
pub fn judge_edit(
    state: &RunState,
    (revision, role): (&Revision, &Role),
    tools: &ResolvedTools,
    (id, args, pointers): (&CallId, &str, &[String]),
    check: impl Fn(&ToolDefinition, &str) -> Result<(), String>,
) -> Result<JudgedEdit, EditRefused> {
    let call = state.call(id).ok_or(EditRefused::NoCall)?;
    let (tool, resolved) = tools.get(&call.tool).ok_or(EditRefused::NoCall)?;
    let edited = Call {
        args: args.to_owned(),
        ..call.clone()
    };
    let mut evidence = Evidence::begin(state);
    evidence.catch_up(state, tools);
    let mut standing = evidence.standing();
    let others = state.calls().iter().filter(|other| other.id != *id);
    let may_run = others.filter(|other| matches!(other.phase, Phase::Held | Phase::Cleared));
    for view in may_run.filter_map(|other| tools.view(other)) {
        standing.starts(&view);
    }
    let (view, run) = (call_view(&edited, resolved), evidence.view(&standing));
    let verdict = revision.rules.judge(&view, &run);
    if verdict.action == Action::Deny {
        return Err(EditRefused::Denied {
            rule: verdict.rule.to_string(),
            reason: verdict.reason.into_owned(),
        });
    }
    permits(role, tool).map_err(EditRefused::NotPermitted)?;
    check(tool, args).map_err(EditRefused::Invalid)?;
    let mut origins = origins(args, evidence.index());
    for origin in &mut origins {
        if pointers.iter().any(|at| is_within(&origin.pointer, at)) {
            origin.from = OriginKind::Person;
            (origin.tool, origin.call) = (None, None);
        }
    }
    Ok(JudgedEdit {
        seq: state.seq(),
        quorum: (verdict.action == Action::Ask).then(|| quorum(revision, &view, &run)),
        origins,
    })
}

/// Whether a pointer names what stands at another one, or within it.
fn is_within(pointer: &str, at: &str) -> bool {
    let rest = pointer.strip_prefix(at);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
