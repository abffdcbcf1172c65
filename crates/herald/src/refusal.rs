use sayso_driver::{AppendError, LoadError, WriteError};
use sayso_run::{DenyCause, Refusal};
use sayso_service::error::{Coded, Kind};

/// Why nothing was written, for whoever asked: a stable code, a sentence, and where a decision is on
/// record already, that record.
pub fn coded(error: WriteError) -> Coded {
    match error {
        WriteError::NotFound(run) => Coded::new(
            Kind::NotFound,
            "run.not_found",
            format!("there is no run {run} in this namespace"),
        ),
        WriteError::Refused(refusal) => refused(&refusal),
        WriteError::Load(LoadError::Unavailable(_))
        | WriteError::Append(AppendError::Unavailable(_)) => Coded::new(
            Kind::Unavailable,
            "database.unavailable",
            "the database is away; try again in a moment",
        ),
        WriteError::Append(AppendError::Conflict(run)) => Coded::new(
            Kind::Conflict,
            "run.busy",
            format!("too many write to {run} at once; try again in a moment"),
        ),
        WriteError::Append(AppendError::TooLate) => Coded::new(
            Kind::Precondition,
            "approval.expired",
            "the approval expired: it counts as denied",
        ),
        error @ (WriteError::Load(_) | WriteError::Append(_)) => {
            Coded::internal("writing to a run", &error)
        }
    }
}

fn refused(refusal: &Refusal) -> Coded {
    let kind = match refusal {
        Refusal::Terminal(_)
        | Refusal::NotFailed(_)
        | Refusal::RetriesUsedUp
        | Refusal::IsChild(_)
        | Refusal::MovedOn(_)
        | Refusal::AlreadyDecided { .. }
        | Refusal::VotedBefore(_)
        | Refusal::BrokenVote(_)
        | Refusal::Changed(_)
        | Refusal::Expired { .. }
        | Refusal::KeyReused(_) => Kind::Precondition,
        Refusal::UnknownTarget(_) => Kind::NotFound,
        Refusal::OwnRequest | Refusal::Excluded(_) | Refusal::NotInGroup(_) => {
            Kind::PermissionDenied
        }
        Refusal::SeenMissing | Refusal::Empty | Refusal::HoldsNul => Kind::Invalid,
        Refusal::TooLong { .. } => Kind::TooLarge,
        Refusal::Stale(_) | Refusal::CallNotOpen { .. } => Kind::Conflict,
    };
    let coded = Coded::new(kind, refusal.code(), refusal.to_string());
    match refusal {
        Refusal::AlreadyDecided { approval, recorded } => coded
            .with("approval_id", approval.to_string())
            .with(
                "recorded_decision",
                match recorded.denied {
                    None => "approved",
                    Some(DenyCause::Person) => "denied",
                    Some(cause) => cause.as_str(),
                },
            )
            .with(
                "decided_by",
                recorded
                    .by
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            )
            .with("decided_at", recorded.at.to_string()),
        Refusal::Expired {
            approval,
            expires_at,
        } => coded
            .with("approval_id", approval.to_string())
            .with("expires_at", expires_at.to_string()),
        Refusal::Terminal(status) | Refusal::NotFailed(status) => {
            coded.with("run_status", status.as_str())
        }
        Refusal::SeenMissing => coded.field("seen_sequence", "required with a decision by tool"),
        Refusal::IsChild(parent) => coded.with("parent_run_id", parent.to_string()),
        Refusal::MovedOn(conversation) => coded.with("conversation_id", conversation.to_string()),
        Refusal::RetriesUsedUp
        | Refusal::UnknownTarget(_)
        | Refusal::OwnRequest
        | Refusal::Excluded(_)
        | Refusal::NotInGroup(_)
        | Refusal::VotedBefore(_)
        | Refusal::BrokenVote(_)
        | Refusal::Changed(_)
        | Refusal::KeyReused(_)
        | Refusal::Empty
        | Refusal::TooLong { .. }
        | Refusal::HoldsNul
        | Refusal::Stale(_)
        | Refusal::CallNotOpen { .. } => coded,
    }
}
