//! Writes down who changed what, and which decisions were refused (S10.8).
//!
//! A change is written down after it was made, and only then answered: if that fails the caller
//! hears of a failure, asks again, and the change, being the same, is made and written down once
//! more. A refused decision is answered as refused only once that is on record, too.

use sayso_run::{Actor, ChainKey, Namespace};
use sayso_service::error::{Coded, Kind};
use sayso_store::{AuditError, NewAuditEntry, Store};
use sayso_wire::{code, v1};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, Value};
use serde_json::{json, to_value};

use crate::auth::{Caller, Session};
use crate::{Shared, refuse};

/// How much of a subject that did not prove to be an id is kept, in bytes.
const SUBJECT_BYTES: usize = 128;

/// What an entry says beside who, when and what kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// What it was done to: an id or a name.
    pub(crate) subject: String,
    /// The code of a refusal; empty if it was done.
    pub(crate) code: String,
    /// More about it: one JSON object.
    pub(crate) details: String,
}

impl Said {
    pub(crate) fn outcome(&self) -> v1::AuditOutcome {
        if self.code.is_empty() {
            v1::AuditOutcome::Done
        } else {
            v1::AuditOutcome::Refused
        }
    }

    /// Reads the content of an entry. One of another form is all details.
    pub(crate) fn read(content: &str) -> Said {
        #[derive(Deserialize)]
        struct Content<'a> {
            subject: String,
            #[serde(default)]
            code: String,
            #[serde(borrow)]
            details: &'a RawValue,
        }
        match serde_json::from_str::<Content<'_>>(content) {
            Ok(content) => Said {
                subject: content.subject,
                code: content.code,
                details: content.details.get().to_owned(),
            },
            Err(_) => Said {
                details: content.to_owned(),
                ..Said::default()
            },
        }
    }
}

/// Writes down that something was done.
pub(crate) async fn done(
    store: &Store,
    key: &ChainKey,
    namespace: &Namespace,
    actor: &Actor,
    action: &'static str,
    subject: &str,
    details: Value,
) -> Result<(), AuditError> {
    let content = json!({ "subject": subject, "details": details });
    append(store, key, namespace, actor, action, content).await
}

/// A decision that somebody tries to make.
#[derive(Debug)]
pub(crate) struct Tried {
    action: &'static str,
    subject: String,
    details: Value,
}

impl Tried {
    /// A decision on one approval.
    pub(crate) fn approval(asked: &v1::DecideApprovalRequest) -> Tried {
        Tried {
            action: "approval.decide",
            subject: subject(&asked.approval_id),
            details: json!({ "decision": asked.verdict().word(), "edits": asked.edits.len() }),
        }
    }

    /// Decisions on calls of a run.
    pub(crate) fn response(asked: &v1::RespondToRunRequest) -> Tried {
        #[derive(Serialize)]
        struct Decision {
            target: String,
            decision: &'static str,
            edits: usize,
        }
        let decisions = asked.decisions.iter().take(64).map(|decision| Decision {
            decision: decision.verdict().word(),
            edits: decision.edits.len(),
            target: match &decision.target {
                Some(
                    v1::decision::Target::ApprovalId(target)
                    | v1::decision::Target::CallId(target)
                    | v1::decision::Target::Tool(target),
                ) => subject(target),
                None => String::new(),
            },
        });
        let decisions = to_value(decisions.collect::<Vec<_>>());
        Tried {
            action: "run.respond",
            subject: subject(&asked.run_id),
            details: json!({ "decisions": decisions.expect("strings have a JSON form") }),
        }
    }
}

/// Writes down that a decision was refused, and gives back what the caller is answered: the refusal,
/// or that it could not be written down. What failed or was malformed is no refused decision.
pub(crate) async fn refused(
    shared: &Shared,
    session: &Session,
    tried: Tried,
    refused: Coded,
) -> Coded {
    if !is_refusal(&refused) {
        return refused;
    }
    let caller = session.caller();
    let content = json!({
        "subject": tried.subject,
        "code": refused.code,
        "details": tried.details,
    });
    let (namespace, actor) = (&caller.namespace, actor(caller));
    let written = append(
        &shared.store,
        &shared.key,
        namespace,
        &actor,
        tried.action,
        content,
    )
    .await;
    match written {
        Ok(()) => refused,
        Err(error) => failed(error),
    }
}

/// The caller as the audit log names them.
pub(crate) fn actor(caller: &Caller) -> Actor {
    Actor::Principal(caller.principal.clone())
}

/// The audit log could not be written or read.
pub(crate) fn failed(error: AuditError) -> Coded {
    match error {
        AuditError::Database(error) => refuse::database("writing the audit log", error),
        error @ (AuditError::NoNamespace(_) | AuditError::Broken(_)) => {
            Coded::internal("writing the audit log", &error)
        }
    }
}

fn is_refusal(refused: &Coded) -> bool {
    match refused.kind {
        Kind::NotFound | Kind::Precondition | Kind::PermissionDenied => true,
        Kind::Conflict => refused.code != code::RUN_BUSY,
        Kind::Invalid
        | Kind::Exists
        | Kind::Unauthenticated
        | Kind::Unavailable
        | Kind::TooLarge
        | Kind::Exhausted
        | Kind::DeadlineExceeded
        | Kind::Cancelled
        | Kind::Unimplemented
        | Kind::Internal => false,
    }
}

async fn append(
    store: &Store,
    key: &ChainKey,
    namespace: &Namespace,
    actor: &Actor,
    action: &str,
    content: Value,
) -> Result<(), AuditError> {
    let entry = NewAuditEntry {
        actor: actor.clone(),
        kind: action.to_owned(),
        content,
    };
    store
        .audit()
        .append(namespace, &entry, key)
        .await
        .map(|_| ())
}

/// What a caller named, kept short: it may be anything.
fn subject(given: &str) -> String {
    given[..given.floor_char_boundary(SUBJECT_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_other_forms_are_details() {
        let said = Said::read(r#"{"subject":"tok_1","details":{"name": "ci"}}"#);
        assert_eq!(said.subject, "tok_1");
        assert_eq!(said.details, r#"{"name": "ci"}"#);
        assert_eq!(said.outcome(), v1::AuditOutcome::Done);
        let said = Said::read(r#"{"subject":"apr_1","code":"approval.expired","details":{}}"#);
        assert_eq!(said.outcome(), v1::AuditOutcome::Refused);
        assert_eq!(Said::read(r#"{"later":1}"#).details, r#"{"later":1}"#);
    }

    /// S10.8: refused decisions are recorded; failures and malformed requests decide nothing.
    #[test]
    fn s10_8_only_refusals_are_refused_decisions() {
        let is = |kind, code| is_refusal(&Coded::new(kind, code, "x"));
        assert!(is(Kind::PermissionDenied, code::APPROVAL_OWN_REQUEST));
        assert!(is(Kind::PermissionDenied, code::TOKEN_SCOPE_MISSING));
        assert!(is(Kind::Precondition, code::APPROVAL_ALREADY_DECIDED));
        assert!(is(Kind::NotFound, code::APPROVAL_NOT_FOUND));
        assert!(is(Kind::Conflict, code::REQUEST_KEY_REUSED));
        assert!(!is(Kind::Conflict, code::RUN_BUSY));
        assert!(!is(Kind::Unavailable, code::DATABASE_UNAVAILABLE));
        assert!(!is(Kind::Invalid, code::REQUEST_INVALID));
    }

    #[test]
    fn a_subject_is_cut_between_characters() {
        assert_eq!(subject(&"ü".repeat(100)).len(), SUBJECT_BYTES);
        assert_eq!(subject("apr_1"), "apr_1");
    }
}
