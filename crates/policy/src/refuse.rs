//! Refusals, each with its stable code (S10.5).

use sayso_driver::LoadError;
use sayso_rules::bundle::Trigger;
use sayso_rules::{Bundle, BundleErrors};
use sayso_run::BadName;
use sayso_service::error::{Coded, Kind};
use sayso_store::DatabaseError;
use sayso_wire::code;

/// Something of the database's failed.
pub(crate) fn database(doing: &str, error: &DatabaseError) -> Coded {
    match error {
        DatabaseError::Unavailable(_) => Coded::unavailable(error.code(), doing, error),
        DatabaseError::HoldsNul(field) => Coded::new(
            Kind::Invalid,
            code::REQUEST_INVALID_TEXT,
            "The text holds a character that cannot be stored; leave it out.",
        )
        .field(*field, "must not hold a NUL character"),
        DatabaseError::Refused(_) | DatabaseError::BadRow { .. } => Coded::internal(doing, error),
    }
}

/// The refusal of a bundle with mistakes, `bundle.invalid`: each is a violation of the field that it is in (`bundle` as a whole if it
/// is in none) with its message and its code; the code of the first stands in the metadata too.
#[must_use]
pub fn bundle(errors: &BundleErrors) -> Coded {
    let count = errors.errors().len() + errors.omitted();
    let sentence = match count {
        1 => "The bundle has a mistake; nothing was done.".to_owned(),
        count => format!("The bundle has {count} mistakes; nothing was done."),
    };
    let mut coded = Coded::new(Kind::Invalid, code::BUNDLE_INVALID, sentence);
    if let Some(first) = errors.errors().first() {
        coded = coded.with("bundle_code", first.code);
    }
    if errors.omitted() > 0 {
        coded = coded.with("omitted_errors", errors.omitted().to_string());
    }
    errors.errors().iter().fold(coded, |coded, error| {
        let path = if error.path.is_empty() {
            "bundle"
        } else {
            &error.path
        };
        coded.field(path, format!("{} ({})", error.message, error.code))
    })
}

/// A role that the namespace does not have.
pub(crate) fn no_role(role: &str) -> Coded {
    Coded::new(Kind::NotFound, ROLE_NOT_FOUND, no_role_sentence(role))
        .field("role", "is no role of the namespace")
}

/// The code of a role that the namespace does not have.
pub(crate) const ROLE_NOT_FOUND: &str = code::ROLE_NOT_FOUND;

pub(crate) fn no_role_sentence(role: &str) -> String {
    format!(
        "the namespace has no role `{role}`; `unrestricted`, which permits everything, exists in every one"
    )
}

/// The code of a webhook's name that another agent of the namespace has.
pub(crate) const WEBHOOK_TAKEN: &str = "bundle.webhook_taken";

pub(crate) fn webhook_taken_sentence(webhook: &str, agent: &str) -> String {
    format!("the webhook `{webhook}` is that of the agent `{agent}`; choose another name")
}

/// Where a bundle has a webhook.
pub(crate) fn webhook_path(bundle: &Bundle, webhook: &str) -> String {
    let at = bundle.triggers.iter().position(|trigger| match trigger {
        Trigger::Webhook(trigger) => trigger.webhook == webhook,
        Trigger::Cron(_) => false,
    });
    at.map_or_else(
        || "triggers".to_owned(),
        |at| format!("triggers[{at}].webhook"),
    )
}

/// A webhook's name that another agent of the namespace has.
pub(crate) fn webhook_taken(bundle: &Bundle, webhook: &str, agent: &str) -> Coded {
    let sentence = webhook_taken_sentence(webhook, agent);
    Coded::new(
        Kind::Invalid,
        code::BUNDLE_INVALID,
        "The bundle has a mistake; nothing was deployed.",
    )
    .with("bundle_code", WEBHOOK_TAKEN)
    .field(
        webhook_path(bundle, webhook),
        format!("{sentence} ({WEBHOOK_TAKEN})"),
    )
}

/// There is no such run in the namespace.
pub(crate) fn no_run() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::RUN_NOT_FOUND,
        "There is no such run here; `sayso runs ls` lists those that you can see.",
    )
}

/// A timeline that cannot be read.
pub(crate) fn unreadable(error: &LoadError) -> Coded {
    match error {
        LoadError::Unavailable(_) => {
            Coded::unavailable(code::DATABASE_UNAVAILABLE, "reading the run", error)
        }
        LoadError::TooNew { .. } | LoadError::Corrupt(_) | LoadError::BadRow { .. } => {
            Coded::internal("reading the run", error)
        }
    }
}

/// There is no such agent in the namespace.
pub(crate) fn no_agent() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::AGENT_NOT_FOUND,
        "There is no such agent here; deploy one with `sayso deploy`.",
    )
}

/// The agent has no such revision.
pub(crate) fn no_revision() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::AGENT_REVISION_NOT_FOUND,
        "The agent has no such revision; leave it out for the current one.",
    )
}

/// A field that is missing or malformed.
pub(crate) fn invalid(field: &'static str, rule: impl Into<String>) -> Coded {
    let rule = rule.into();
    Coded::new(
        Kind::Invalid,
        code::REQUEST_INVALID,
        format!("{field}: {rule}"),
    )
    .field(field, rule)
}

/// A name or id by its rules.
pub(crate) fn name<T>(field: &'static str, given: Result<T, BadName>) -> Result<T, Coded> {
    given.map_err(|bad| {
        Coded::new(Kind::Invalid, code::REQUEST_INVALID, bad.to_string()).field(field, bad.rule)
    })
}
