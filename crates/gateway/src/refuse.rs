//! Refusals and failures that several methods share, each with its stable code (S10.5).

use sayso_service::error::{Coded, Kind};
use sayso_store::DatabaseError;
use tonic::Status;

/// Something of the database's failed.
pub(crate) fn database(doing: &str, error: DatabaseError) -> Coded {
    match &error {
        DatabaseError::Unavailable(_) => Coded::unavailable("database.unavailable", doing, &error),
        DatabaseError::HoldsNul(field) => Coded::new(
            Kind::Invalid,
            "request.invalid_text",
            "The text holds a character that cannot be stored; leave it out.",
        )
        .field(*field, "must not hold a NUL character"),
        DatabaseError::Refused(_) | DatabaseError::BadRow { .. } => Coded::internal(doing, &error),
    }
}

/// What a sibling answered. Its own refusals pass through; if it cannot be reached or does not
/// answer, that is `service.unavailable`, whose metadata `done` says whether it may have been done.
pub(crate) fn sibling(service: &'static str, status: &Status) -> Coded {
    let coded = Coded::from_status(status);
    let done = match coded.code.as_ref() {
        "peer.unreachable" => "no",
        "peer.lost" | "rpc.unavailable" => "unknown",
        // How siblings tell each other apart is none of a caller's business.
        "internal.unauthenticated" => {
            let doing = format!("calling the {service}");
            return Coded::internal(&doing, &coded);
        }
        _ => return coded,
    };
    tracing::warn!(service, "a sibling cannot be asked: {coded}");
    let sentence = match done {
        "no" => "nothing was done; try again in a moment",
        _ => "whether it was done is unknown; trying again with the same idempotency key is safe",
    };
    Coded::new(
        Kind::Unavailable,
        "service.unavailable",
        format!("The {service} is away: {sentence}."),
    )
    .with("service", service)
    .with("done", done)
}

/// This instance is being stopped.
pub(crate) fn stopping() -> Coded {
    Coded::new(
        Kind::Unavailable,
        "service.unavailable",
        "This server is stopping; connect again to go on.",
    )
    .with("service", "gateway")
}

/// There is no such run, or it is another namespace's, or out of the caller's reach: nobody can tell
/// which (B43).
pub(crate) fn no_run() -> Coded {
    Coded::new(
        Kind::NotFound,
        "run.not_found",
        "There is no such run here; `sayso runs ls` lists those that you can see.",
    )
}

/// The run is a copy: nothing changes it.
pub(crate) fn read_only() -> Coded {
    Coded::new(
        Kind::Precondition,
        "run.read_only",
        "The run is a read-only copy of an exported one; nothing changes it.",
    )
}

/// The same of an approval.
pub(crate) fn no_approval() -> Coded {
    Coded::new(
        Kind::NotFound,
        "approval.not_found",
        "There is no such approval here; `sayso approvals` lists those that you can see.",
    )
}

/// The same of a conversation.
pub(crate) fn no_conversation() -> Coded {
    Coded::new(
        Kind::NotFound,
        "conversation.not_found",
        "There is no such conversation here; `sayso conversations ls` lists those that you can see.",
    )
}

/// The same of an agent.
pub(crate) fn no_agent() -> Coded {
    Coded::new(
        Kind::NotFound,
        "agent.not_found",
        "There is no such agent here; deploy one with `sayso deploy`.",
    )
}

/// A request that asks for nothing.
pub(crate) fn empty(field: &'static str) -> Coded {
    Coded::new(
        Kind::Invalid,
        "request.empty",
        "There is nothing in it: send a decision or a message.",
    )
    .field(field, "is required")
}
