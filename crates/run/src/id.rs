use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::digest::Digest;

/// A name or id that breaks the rules of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{given}` is not a valid {kind}: {rule}")]
pub struct BadName {
    /// What was being named.
    pub kind: &'static str,
    /// The text that was given, cut at 80 characters.
    pub given: String,
    /// The rule in words.
    pub rule: &'static str,
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Takes the text if it keeps the rules of its kind.
            pub fn new(text: impl AsRef<str>) -> Result<Self, BadName> {
                let text = text.as_ref();
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(BadName { kind: $kind, given: text.chars().take(80).collect(), rule: $rule })
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = BadName;
            fn from_str(text: &str) -> Result<Self, BadName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.to_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_id(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| {
        (1..=64).contains(&rest.len())
            && rest
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    })
}

text_id!(
    /// A tenant: nothing of one namespace is seen from another (S6.11).
    Namespace, "namespace", "1 to 63 of a-z, 0-9 and -", is_name);
text_id!(
    /// The name of an agent within its namespace.
    AgentName, "agent name", "1 to 63 of a-z, 0-9 and -", is_name);
text_id!(
    /// One execution of a task: `run_` and a time-ordered UUID, or a digest if an agent started it.
    RunId, "run id", "`run_` followed by letters, digits, - or _", |t| is_id(t, "run_"));
text_id!(
    /// What was asked: `task_` and what its run's id has.
    TaskId, "task id", "`task_` followed by letters, digits, - or _", |t| is_id(t, "task_"));
text_id!(
    /// One tool call of a run: `call_<cycle>_<position>`, unique within its run.
    CallId, "call id", "`call_` followed by letters, digits, - or _", |t| is_id(t, "call_"));
text_id!(
    /// One approval: `apr_` and a digest of run and call, so a call has one approval only.
    ApprovalId, "approval id", "`apr_` followed by letters, digits, - or _", |t| is_id(t, "apr_"));
text_id!(
    /// A conversation with an agent (S9.1): `cnv_` and a time-ordered UUID.
    ConversationId, "conversation id", "`cnv_` followed by letters, digits, - or _",
    |t| is_id(t, "cnv_"));
text_id!(
    /// One start of an executor process: its name and the boot id of that start.
    WorkerId, "worker id", "1 to 128 visible ASCII characters",
    |t| (1..=128).contains(&t.len()) && t.bytes().all(|b| b.is_ascii_graphic()));
text_id!(
    /// A person or a system that acts; tokens belong to principals (S6.11).
    PrincipalId, "principal", "1 to 128 of a-z, A-Z, 0-9 and . _ - @ :",
    |t| (1..=128).contains(&t.len())
        && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@:".contains(&b)));
text_id!(
    /// A revision of an agent: the hex SHA-256 of its compiled bundle. Immutable (S1.3).
    RevisionId, "revision id", "64 hex digits",
    |t| t.len() == 64 && t.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
text_id!(
    /// The tools that a run offers to its model: the hex SHA-256 of their definitions.
    ToolSetId, "tool set id", "64 hex digits",
    |t| t.len() == 64 && t.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));

impl CallId {
    /// The call at `position` (from 1) of the answer of `cycle` (from 1).
    pub fn of(cycle: u32, position: usize) -> Self {
        Self(format!("call_{cycle}_{position}").into())
    }
}

impl ApprovalId {
    /// The approval of a call: derived, so that proposing it twice cannot make two.
    pub fn of(run: &RunId, call: &CallId) -> Self {
        let digest = Digest::of_parts(&[
            b"sayso.approval",
            run.as_str().as_bytes(),
            call.as_str().as_bytes(),
        ]);
        Self(format!("apr_{}", &digest.to_hex()[..32]).into())
    }
}

impl RunId {
    /// The run that a call of `start_agent` becomes: derived, so that it cannot become two.
    pub fn of_child(parent: &RunId, call: &CallId) -> Self {
        Self(format!("run_{}", child_of(parent, call)).into())
    }
}

impl TaskId {
    /// That run's task.
    pub fn of_child(parent: &RunId, call: &CallId) -> Self {
        Self(format!("task_{}", child_of(parent, call)).into())
    }
}

impl RunId {
    /// The conversation's run after this one, where this one leaves a message to it: derived, so that
    /// it cannot become two.
    pub fn of_next(before: &RunId) -> Self {
        Self(format!("run_{}", next_of(before)).into())
    }
}

impl TaskId {
    /// That run's task.
    pub fn of_next(before: &RunId) -> Self {
        Self(format!("task_{}", next_of(before)).into())
    }
}

fn next_of(before: &RunId) -> String {
    let digest = Digest::of_parts(&[b"sayso.next", before.as_str().as_bytes()]);
    digest.to_hex()[..32].to_owned()
}

fn child_of(parent: &RunId, call: &CallId) -> String {
    let digest = Digest::of_parts(&[
        b"sayso.child",
        parent.as_str().as_bytes(),
        call.as_str().as_bytes(),
    ]);
    digest.to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_broker_tokens_so_dots_and_capitals_are_refused() {
        assert!(AgentName::new("support-desk-2").is_ok());
        for bad in ["", "Support", "a.b", "a b", "a*", &"x".repeat(64)] {
            assert!(AgentName::new(bad).is_err(), "{bad}");
            assert!(Namespace::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_id_of_another_kind_is_refused() {
        assert!(RunId::new("apr_1").is_err());
        assert!(ApprovalId::new("apr_1'; drop").is_err());
        assert_eq!(RunId::new("run_").unwrap_err().kind, "run id");
    }

    #[test]
    fn an_approval_id_is_a_function_of_run_and_call() {
        let run = RunId::new("run_1").unwrap();
        let one = ApprovalId::of(&run, &CallId::of(1, 1));
        assert_eq!(one, ApprovalId::of(&run, &CallId::of(1, 1)));
        assert_ne!(one, ApprovalId::of(&run, &CallId::of(1, 2)));
        assert_ne!(
            one,
            ApprovalId::of(&RunId::new("run_2").unwrap(), &CallId::of(1, 1))
        );
    }
}
