//! What votes need that the timeline does not have (S6.12): who is in which group now, and what was
//! said with the votes that are sealed on it.

use std::collections::BTreeSet;

use sayso_run::{ApprovalId, Namespace, OpenVote, PrincipalId};
use sayso_store::{DatabaseError, Store};

/// Where groups and sealed words are kept.
pub trait Ballots: Send + Sync + 'static {
    /// Why they could not be read or kept.
    type Error: std::fmt::Display + Send;

    /// The groups that a principal is in now.
    fn groups(
        &self,
        namespace: &Namespace,
        principal: &PrincipalId,
    ) -> impl Future<Output = Result<BTreeSet<String>, Self::Error>> + Send;

    /// What was said on an approval.
    fn said(
        &self,
        approval: &ApprovalId,
    ) -> impl Future<Output = Result<Vec<OpenVote>, Self::Error>> + Send;

    /// Keeps what is about to be said: before its step, so that no step is without its words.
    fn keep(
        &self,
        approval: &ApprovalId,
        vote: &OpenVote,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl Ballots for Store {
    type Error = DatabaseError;

    async fn groups(
        &self,
        namespace: &Namespace,
        principal: &PrincipalId,
    ) -> Result<BTreeSet<String>, DatabaseError> {
        Store::groups(self).of(namespace, principal).await
    }

    async fn said(&self, approval: &ApprovalId) -> Result<Vec<OpenVote>, DatabaseError> {
        self.votes().of(approval).await
    }

    async fn keep(&self, approval: &ApprovalId, vote: &OpenVote) -> Result<(), DatabaseError> {
        self.votes().keep(approval, vote).await
    }
}
