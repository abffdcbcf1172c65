//! Who decides, and how.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use sayso_run::Verdict;

use crate::v1;

/// What an approver says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub(crate) verdict: Verdict,
    pub(crate) reason: Option<String>,
}

impl Decision {
    /// The call runs, exactly as it was shown.
    pub fn approve() -> Self {
        Self {
            verdict: Verdict::Approve,
            reason: None,
        }
    }

    /// The call does not run, and the model is told why.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Deny,
            reason: Some(reason.into()),
        }
    }

    /// With a reason for the record.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// What the callback of [`on_approval`](super::AgentBuilder::on_approval) may answer: a [`Decision`], or
/// one that may fail. A failure decides nothing.
pub trait Answer {
    /// The decision, or why there is none.
    ///
    /// # Errors
    ///
    /// The failure in words.
    fn decision(self) -> Result<Decision, String>;
}

impl Answer for Decision {
    fn decision(self) -> Result<Decision, String> {
        Ok(self)
    }
}

impl<E: Display> Answer for Result<Decision, E> {
    fn decision(self) -> Result<Decision, String> {
        self.map_err(|error| error.to_string())
    }
}

/// A principal who decides (S6.14), and the groups that they are in (S6.12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    pub(crate) principal: String,
    pub(crate) groups: BTreeSet<String>,
}

impl Approver {
    /// A principal by name.
    pub fn new(principal: impl Into<String>) -> Self {
        Self {
            principal: principal.into(),
            groups: BTreeSet::new(),
        }
    }

    /// Who is in a group that rules may name.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.groups.insert(group.into());
        self
    }
}

impl From<&str> for Approver {
    fn from(principal: &str) -> Self {
        Approver::new(principal)
    }
}

impl From<String> for Approver {
    fn from(principal: String) -> Self {
        Approver::new(principal)
    }
}

pub(crate) type Callback =
    Arc<dyn Fn(v1::Approval) -> BoxFuture<'static, Result<Decision, String>> + Send + Sync>;

/// A callback as it is kept.
pub(crate) fn callback<F, Fut, A>(ask: F) -> Callback
where
    F: Fn(v1::Approval) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = A> + Send + 'static,
    A: Answer + 'static,
{
    Arc::new(move |approval| ask(approval).map(Answer::decision).boxed())
}
