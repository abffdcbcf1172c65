//! Groups and the words of sealed votes: they survive every process, and are away now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use sayso_engine::Ballots;
use sayso_run::{ApprovalId, Namespace, OpenVote, PrincipalId};

use crate::world::World;

/// The group that decides refunds.
pub(crate) const TILL: &str = "till";
/// The group that is let in when nobody has.
pub(crate) const LEADS: &str = "leads";

/// What was said, by approval.
#[derive(Debug, Default)]
pub(crate) struct Words(Mutex<BTreeMap<ApprovalId, Vec<OpenVote>>>);

/// The tables as a hub reaches them.
pub(crate) struct BallotBox(pub(crate) Arc<World>);

impl BallotBox {
    async fn trip(&self) -> Result<(), &'static str> {
        let trip = self.0.sky.trip();
        self.0.kernel.sleep(trip).await;
        if self.0.sky.strikes(20) {
            return Err("the database is away");
        }
        Ok(())
    }
}

impl Ballots for BallotBox {
    type Error = &'static str;

    async fn groups(
        &self,
        _: &Namespace,
        principal: &PrincipalId,
    ) -> Result<BTreeSet<String>, &'static str> {
        self.trip().await?;
        let groups: &[&str] = match principal.as_str() {
            "bob" => &[TILL, LEADS],
            "carol" => &[LEADS],
            _ => &[],
        };
        Ok(groups.iter().map(|&group| group.to_owned()).collect())
    }

    async fn said(&self, approval: &ApprovalId) -> Result<Vec<OpenVote>, &'static str> {
        self.trip().await?;
        let words = self
            .0
            .words
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(words.get(approval).cloned().unwrap_or_default())
    }

    async fn keep(&self, approval: &ApprovalId, vote: &OpenVote) -> Result<(), &'static str> {
        self.trip().await?;
        let mut words = self
            .0
            .words
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        words
            .entry(approval.clone())
            .or_default()
            .push(vote.clone());
        Ok(())
    }
}
