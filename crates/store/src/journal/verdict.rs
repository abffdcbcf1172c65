//! What a look at the database says about an append that did not come back.
//!
//! | the database holds | says |
//! |---|---|
//! | at `expected + 1` a step with this append's id | it took effect |
//! | no steps in it, and the row's `lease_append` is this append's id | it took effect |
//! | a start whose key another start has | it was made before |
//! | another sequence number, epoch or holder | conflict |
//! | the deadline behind the clock, all else as expected | too late |
//! | all as expected | it did not take effect: try again, or after a plain refusal: conflict |
//!
//! An append without steps that changes no lease (it moves `ready_at` or the published mark) leaves
//! no trace of its own; it may be written twice without harm, so it is tried again.

use sayso_driver::{Append, AppendError, Appended, LeaseChange};
use sayso_run::RunId;
#[cfg(feature = "hooks")]
use sayso_run::hooks::{Fault, planted};
use uuid::Uuid;

/// What the database holds for one append.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The append that wrote the step at `expected + 1`.
    pub(crate) step: Option<Uuid>,
    /// The run's row.
    pub(crate) row: Option<FoundRow>,
    /// The start that has its key, and the digest of that request.
    pub(crate) same_key: Option<(RunId, String)>,
    /// The database's time, in microseconds.
    pub(crate) now: i64,
}

/// The columns of a run's row that conditions are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundRow {
    pub(crate) seq: u64,
    pub(crate) epoch: u64,
    /// Whether somebody holds it.
    pub(crate) held: bool,
    /// Whether that worker is marked alive.
    pub(crate) holder_alive: bool,
    /// The last append that changed the lease.
    pub(crate) lease_append: Option<Uuid>,
}

/// The verdict.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was written.
    Written(Appended),
    /// It was not written and its conditions hold: it can be tried again.
    Absent,
    /// Another writer was first.
    Conflict,
    /// Its deadline passed.
    TooLate,
    /// A start with the same key exists.
    SameKey(RunId, String),
}

impl Verdict {
    pub(crate) fn of(append: &Append, found: &Finding) -> Self {
        if let Some(epoch) = written_at(append, found) {
            return Verdict::Written(Appended { epoch });
        }
        let Some(row) = &found.row else {
            return match (&found.same_key, append.expected) {
                (Some((run, request)), _) => Verdict::SameKey(run.clone(), request.clone()),
                (None, 0) => Verdict::of_deadline(append, found),
                (None, _) => Verdict::Conflict,
            };
        };
        if append.expected == 0 || row.seq != append.expected || !lease_fits(&append.lease, row) {
            return Verdict::Conflict;
        }
        Verdict::of_deadline(append, found)
    }

    fn of_deadline(append: &Append, found: &Finding) -> Self {
        match append.not_after {
            Some(deadline) if found.now >= deadline.micros() => Verdict::TooLate,
            Some(_) | None => Verdict::Absent,
        }
    }

    /// The answer after a plain refusal, where nothing can have been written unseen.
    pub(crate) fn into_error(self, append: &Append) -> AppendError {
        match self {
            Verdict::TooLate => AppendError::TooLate,
            Verdict::SameKey(existing, request) => {
                AppendError::DuplicateStart { existing, request }
            }
            Verdict::Written(_) | Verdict::Absent | Verdict::Conflict => {
                AppendError::Conflict(append.run.clone())
            }
        }
    }
}

/// The epoch that the append left, if it was written.
fn written_at(append: &Append, found: &Finding) -> Option<u64> {
    let ours = if append.steps.is_empty() {
        let changes_lease = append.lease != LeaseChange::None;
        let row = found.row.as_ref()?;
        changes_lease && row.lease_append == Some(append.id)
    } else {
        found.step == Some(append.id)
    };
    let row = found.row.as_ref()?;
    ours.then(|| match append.lease {
        LeaseChange::None => row.epoch,
        LeaseChange::Claim { from_epoch, .. } | LeaseChange::ClaimAndRelease { from_epoch, .. } => {
            from_epoch + 1
        }
        LeaseChange::Hold { epoch } | LeaseChange::Release { epoch } => epoch,
    })
}

pub(crate) fn lease_fits(lease: &LeaseChange, row: &FoundRow) -> bool {
    let at = |epoch: u64| row.epoch == epoch;
    let free = !(row.held && row.holder_alive);
    #[cfg(feature = "hooks")]
    let (at, free) = (
        |epoch| at(epoch) || planted(Fault::NoEpochCheck),
        free || planted(Fault::TakeoverOfLiveWorker),
    );
    match lease {
        LeaseChange::None => true,
        LeaseChange::Claim { from_epoch, .. } | LeaseChange::ClaimAndRelease { from_epoch, .. } => {
            at(*from_epoch) && free
        }
        LeaseChange::Hold { epoch } | LeaseChange::Release { epoch } => at(*epoch) && row.held,
    }
}
