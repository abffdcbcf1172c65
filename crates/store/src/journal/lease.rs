//! What an append does to the lease and outbox columns, in the terms that both databases share.

use sayso_driver::{Append, LeaseChange};

use super::int;

/// The lease change as the number that the statements read: none, claim, hold, release, claim and
/// release.
pub(crate) const fn lease_code(append: &Append) -> i64 {
    match append.lease {
        LeaseChange::None => 0,
        LeaseChange::Claim { .. } => 1,
        LeaseChange::Hold { .. } => 2,
        LeaseChange::Release { .. } => 3,
        LeaseChange::ClaimAndRelease { .. } => 4,
    }
}

/// The epoch that the row must have; any for a writer without a lease.
pub(crate) const fn lease_epoch(append: &Append) -> u64 {
    match append.lease {
        LeaseChange::None => 0,
        LeaseChange::Claim { from_epoch, .. } | LeaseChange::ClaimAndRelease { from_epoch, .. } => {
            from_epoch
        }
        LeaseChange::Hold { epoch } | LeaseChange::Release { epoch } => epoch,
    }
}

/// Who takes the lease with this append, even if it is given back at once.
pub(crate) fn claimer(append: &Append) -> Option<&str> {
    match &append.lease {
        LeaseChange::Claim { worker, .. } | LeaseChange::ClaimAndRelease { worker, .. } => {
            Some(worker.as_str())
        }
        LeaseChange::None | LeaseChange::Hold { .. } | LeaseChange::Release { .. } => None,
    }
}

/// Who holds a new run.
pub(crate) fn holder(append: &Append) -> Option<&str> {
    match &append.lease {
        LeaseChange::Claim { worker, .. } => Some(worker.as_str()),
        LeaseChange::None
        | LeaseChange::Hold { .. }
        | LeaseChange::Release { .. }
        | LeaseChange::ClaimAndRelease { .. } => None,
    }
}

/// Whether `ready_at` stays as it is. A writer without a lease that owes nothing leaves it alone,
/// since somebody else's work may be owed; a holder has seen everything up to here, so what it says
/// stands; and nothing is owed of a run that has ended.
pub(crate) fn keeps_ready(append: &Append) -> bool {
    append.lease == LeaseChange::None
        && append.ready_at.is_none()
        && !append.row.status.is_terminal()
}

/// The published mark that the append carries; zero, which moves nothing, if none.
pub(crate) fn published(append: &Append) -> i64 {
    int(append.published.unwrap_or(0).min(append.row.seq))
}
