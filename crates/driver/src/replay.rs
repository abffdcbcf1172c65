//! Judging a recorded run again (S5.12), by the same evidence as a live one.
//!
//! The calls of one answer were judged together, before any of them ran: what was known then is what
//! stands before the first step that came of that. Within the answer they are judged in order, and
//! one that may run counts for those after it, as when it is live (S5.10).
//!
//! What was recorded happened under another revision. Where the one that judges now denies a call,
//! its result is not read and it lowers no trust; a call that it asks for is taken to be approved if
//! it ran. What the model would have said instead nobody knows: the calls are those that it made.

use std::collections::BTreeSet;

use sayso_rules::bundle::Action;
use sayso_rules::judge::{CallView, Explanation, RunView};
use sayso_run::{Call, CallId, Clearance, DenyCause, Outcome, Phase, RunState};

use crate::evidence::Evidence;
use crate::resolved::ResolvedTools;
use crate::world::Revision;

/// What was recorded of how a call was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedVerdict {
    /// What happened to it.
    pub action: Action,
    /// What decided; empty where the timeline does not say.
    pub rule: String,
}

/// How a recorded call is judged now.
#[derive(Debug, Clone)]
pub struct Rejudged<'s> {
    /// The call.
    pub call: &'s Call,
    /// What was recorded; none of a call that no rule was asked about: its arguments were invalid,
    /// the role did not permit it, the loop breaker stopped it, or the run ended first.
    pub recorded: Option<RecordedVerdict>,
    /// The run's trust when it is judged.
    pub trust: sayso_rules::Trust,
    /// What happens to it now.
    pub action: Action,
    /// What decides.
    pub rule: String,
    /// The same in one sentence.
    pub reason: String,
}

/// Judges every call of a run under a revision; `tools` are the run's own, resolved by it. A call of
/// a tool that the run did not have is passed over.
pub fn rejudge<'s>(
    state: &'s RunState,
    revision: &Revision,
    tools: &ResolvedTools,
) -> Vec<Rejudged<'s>> {
    let mut judged = Vec::new();
    walk(state, tools, |call, view, run| {
        let verdict = revision.rules.judge(view, run);
        let recorded = recorded(call);
        let happens = match (&recorded, call.started_seq) {
            (None, None) => Action::Deny,
            (Some(_), _) | (None, Some(_)) => verdict.action,
        };
        judged.push(Rejudged {
            call,
            recorded,
            trust: run.standing.trust(),
            action: verdict.action,
            rule: verdict.rule.to_string(),
            reason: verdict.reason.into_owned(),
        });
        happens
    });
    judged
}

/// Everything that is said on one call of a run, under the revision that it was judged by, and the
/// run's trust then. None if the run has no such call, or not such a tool.
pub fn explain<'r>(
    state: &RunState,
    revision: &'r Revision,
    tools: &ResolvedTools,
    asked: &CallId,
) -> Option<(Explanation<'r>, sayso_rules::Trust)> {
    let mut found = None;
    walk(state, tools, |call, view, run| {
        if call.id == *asked {
            found = Some((revision.rules.explain(view, run), run.standing.trust()));
        }
        match (call.started_seq, recorded(call)) {
            // It ran, whatever is said of it now.
            (Some(_), _) => Action::Allow,
            (None, Some(recorded)) => recorded.action,
            (None, None) => Action::Deny,
        }
    });
    found
}

/// Visits the calls of a run with what was known when they were judged; the visitor says what
/// happens to them.
fn walk<'s>(
    state: &'s RunState,
    tools: &ResolvedTools,
    mut visit: impl FnMut(&'s Call, &CallView<'_>, &RunView<'_>) -> Action,
) {
    let mut evidence = Evidence::begin(state);
    let mut void: BTreeSet<&CallId> = BTreeSet::new();
    for answer in state.calls().chunk_by(|one, next| one.cycle == next.cycle) {
        evidence.take_in(state, tools, known_then(state, answer), |call| {
            !void.contains(&call.id)
        });
        let mut standing = evidence.standing();
        for call in answer {
            let Some(view) = tools.view(call) else {
                continue;
            };
            match visit(call, &view, &evidence.view(&standing)) {
                Action::Allow | Action::Ask => {
                    standing.starts(&view);
                }
                Action::Deny => {
                    void.insert(&call.id);
                }
            }
        }
    }
}

/// The last step before anything came of judging an answer's calls.
fn known_then(state: &RunState, answer: &[Call]) -> u64 {
    let first = answer.iter().filter_map(|call| {
        let held = call.approval.as_ref().map(|held| held.seq);
        let settled = match &call.phase {
            Phase::Finished(finished) => Some(finished.seq),
            Phase::Proposed
            | Phase::Held
            | Phase::Asked
            | Phase::Cleared
            | Phase::Started { .. }
            | Phase::Delegated
            | Phase::Unknown { .. } => None,
        };
        [held, call.started_seq, settled]
            .into_iter()
            .flatten()
            .min()
    });
    first.min().map_or(state.seq(), |first| first - 1)
}

fn recorded(call: &Call) -> Option<RecordedVerdict> {
    let verdict = |action, rule: &str| {
        Some(RecordedVerdict {
            action,
            rule: rule.to_owned(),
        })
    };
    if let Some(held) = &call.approval {
        return verdict(Action::Ask, &held.rule);
    }
    if let Some(Clearance::Rule(rule)) = &call.clearance {
        return verdict(Action::Allow, rule);
    }
    let Phase::Finished(finished) = &call.phase else {
        return None;
    };
    match &finished.outcome {
        Outcome::Denied {
            cause: DenyCause::Rule,
            ..
        } => verdict(Action::Deny, ""),
        Outcome::Denied {
            cause: DenyCause::NotGranted,
            ..
        } => verdict(Action::Deny, "grant"),
        Outcome::Denied { .. } | Outcome::Result { .. } | Outcome::RepeatLoop { .. } => None,
    }
}
