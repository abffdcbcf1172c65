//! A timeline that was read from its first step to its last: it says all that the run's row would,
//! so a watcher that begins at the start needs no second query.

use sayso_run::{PrincipalId, Recorded, RunId, RunState, Status, Step};
use sayso_store::StoredStep;

/// What a whole timeline says of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    /// Who asked for it.
    pub(super) requester: PrincipalId,
    /// Where it stands.
    pub(super) status: Status,
    /// Whether calls were sent that have no result yet.
    pub(super) open_calls: bool,
}

impl Standing {
    /// Folds a timeline; `None` if it is empty, or holds a step that this version does not know: then
    /// the row has to be asked.
    pub(super) fn of(run: &RunId, steps: &[StoredStep]) -> Option<Standing> {
        let recorded: Option<Vec<Recorded>> = steps.iter().map(recorded).collect();
        let state = RunState::fold(run, &recorded?).ok()??;
        Some(Standing {
            requester: state.trigger().principal.clone(),
            status: state.status(),
            open_calls: state.has_open_calls(),
        })
    }
}

fn recorded(step: &StoredStep) -> Option<Recorded> {
    Some(Recorded {
        seq: step.seq,
        at: step.at,
        actor: step.actor.clone(),
        step: Step::decode(&step.kind, step.version, &step.content).ok()?,
        content_sha256: step.content_sha256,
        hash: step.hash,
        seal: step.seal.clone(),
    })
}
