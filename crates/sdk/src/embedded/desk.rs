//! Where approvals meet the callbacks that decide them (S6.14).
//!
//! What is pending is read from the journal, never kept: after a crash every approval that nobody had
//! decided is put to its callback again. So a callback may be asked of one approval more than once, and
//! only the first decision counts. One that panics or fails decides nothing: the approval stays pending
//! until its time is up, and both the log and the agent's log say so.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sayso_driver::{AppendError, ApprovalRow, ApprovalStatus, LoadError, WriteError};
use sayso_engine::{Asked, Ballots, respond};
use sayso_herald::{coded, show};
use sayso_run::{
    ApprovalId, Ballot, ChainKey, DecisionItem, Namespace, OpenVote, PrincipalId, Refusal,
    Response, Target, Trust,
};
use sayso_store::{
    ApprovalFilter, DatabaseError, ListError, LogLevel, NewLogEntry, PageRequest, Store,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::approver::{Callback, Decision};
use super::town::Town;

/// Between two looks, whether or not anything was heard.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Between two attempts to write a decision down.
const RETRY: Duration = Duration::from_millis(200);
/// Approvals that are read at a time.
const PAGE: u32 = 500;

/// A principal who decides, and their callback.
pub(crate) struct Seat {
    pub(crate) principal: PrincipalId,
    pub(crate) groups: BTreeSet<String>,
    pub(crate) ask: Callback,
}

impl Seat {
    /// Whether an approval may be decided from here; what counts in the end is the run's word.
    pub(crate) fn may_decide(&self, row: &ApprovalRow) -> bool {
        let Some(deciders) = &row.deciders else {
            return row.requester != self.principal;
        };
        let within =
            deciders.group.is_none() || deciders.groups().any(|group| self.groups.contains(group));
        row.requester != self.principal && within && !deciders.voters.contains(&self.principal)
    }
}

/// Everybody who decides, and what it takes to write down what they say.
pub(crate) struct Desk {
    pub(crate) store: Store,
    pub(crate) town: Arc<Town>,
    pub(crate) key: ChainKey,
    pub(crate) namespace: Namespace,
    pub(crate) seats: Vec<Seat>,
}

/// Who was asked of what in this process.
#[derive(Default)]
struct Put(HashSet<(ApprovalId, usize)>);

impl Desk {
    /// Puts approvals to their callbacks until `closing`.
    pub(crate) async fn run(self: Arc<Self>, closing: CancellationToken) {
        let (mut put, callbacks) = (Put::default(), TaskTracker::new());
        while !closing.is_cancelled() {
            match self.pending().await {
                Ok(pending) => self.put(&pending, &mut put, &callbacks, &closing).await,
                Err(error) => {
                    tracing::warn!(%error, "approvals cannot be read; they are read again")
                }
            }
            tokio::select! {
                () = self.town.held.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = closing.cancelled() => {}
            }
        }
        callbacks.close();
        callbacks.wait().await;
    }

    async fn pending(&self) -> Result<Vec<ApprovalRow>, ListError> {
        let filter = ApprovalFilter {
            statuses: vec![ApprovalStatus::Pending],
            ..ApprovalFilter::default()
        };
        let mut rows = Vec::new();
        let mut request = PageRequest {
            size: PAGE,
            token: None,
        };
        loop {
            let approvals = self.store.approvals();
            let page = approvals.list(&self.namespace, &filter, &request).await?;
            rows.extend(page.items);
            match page.next {
                Some(next) => request.token = Some(next),
                None => return Ok(rows),
            }
        }
    }

    async fn put(
        self: &Arc<Self>,
        pending: &[ApprovalRow],
        put: &mut Put,
        callbacks: &TaskTracker,
        closing: &CancellationToken,
    ) {
        let live: HashSet<&ApprovalId> = pending.iter().map(|row| &row.approval).collect();
        put.0.retain(|(id, _)| live.contains(id));
        for row in pending {
            let deciders = (0..self.seats.len()).filter(|at| self.seats[*at].may_decide(row));
            let deciders: Vec<usize> = deciders.collect();
            let nobody = self.seats.len();
            let voted = row
                .deciders
                .as_ref()
                .is_some_and(|of| !of.voters.is_empty());
            if deciders.is_empty() && !voted && put.0.insert((row.approval.clone(), nobody)) {
                let why = "whoever decides here is not in its group, or asked for it themselves";
                self.say(row, "approval.nobody", why).await;
            }
            for at in deciders {
                if put.0.insert((row.approval.clone(), at)) {
                    let (desk, row, closing) = (Arc::clone(self), row.clone(), closing.clone());
                    callbacks.spawn(async move { desk.ask(at, &row, &closing).await });
                }
            }
        }
    }

    /// Asks, unless the agent is stopped first, and writes down what is said.
    async fn ask(&self, at: usize, row: &ApprovalRow, closing: &CancellationToken) {
        let seat = &self.seats[at];
        let asked = std::panic::AssertUnwindSafe(async { (seat.ask)(show::approval(row)).await });
        let undecided = match closing.run_until_cancelled(asked.catch_unwind()).await {
            None => return,
            Some(Ok(Ok(decision))) => return self.write_down(seat, row, &decision, closing).await,
            Some(Ok(Err(why))) => why,
            Some(Err(_)) => "the callback panicked".to_owned(),
        };
        self.say(row, "approval.undecided", undecided).await;
    }

    async fn write_down(
        &self,
        seat: &Seat,
        row: &ApprovalRow,
        decision: &Decision,
        closing: &CancellationToken,
    ) {
        loop {
            match self.carry(seat, row, decision).await {
                Ok(()) => return,
                // It is asked again by the next agent on this journal.
                Err(error) if passes(&error) && closing.is_cancelled() => {
                    tracing::warn!(approval = %row.approval, %error, "a decision was not written down");
                    return;
                }
                Err(error) if passes(&error) => {
                    tracing::warn!(approval = %row.approval, %error, "a decision is written down later");
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) if is_settled(&error) => {
                    tracing::debug!(approval = %row.approval, %error, "a decision comes too late");
                    return;
                }
                Err(error) => return self.say(row, "approval.undecided", coded(error)).await,
            }
        }
    }

    async fn carry(
        &self,
        seat: &Seat,
        row: &ApprovalRow,
        decision: &Decision,
    ) -> Result<(), WriteError> {
        let mut said = sayso_run::Decision::new(decision.verdict, decision.reason.clone());
        said.saw = Some(row.digest);
        let asked = Asked {
            namespace: self.namespace.clone(),
            reaches_all: true,
            run: row.run.clone(),
            response: Response {
                by: seat.principal.clone(),
                decisions: vec![DecisionItem {
                    target: Target::Approval(row.approval.clone()),
                    decision: said,
                }],
                message: None,
                goes_on: false,
                seen: Some(row.seq),
                idempotency: None,
                ballot: Ballot::default(),
            },
            // The program vouches for whoever speaks through it: nothing is lowered.
            trust: Trust::Operator,
            redaction: None,
        };
        let salt = salt()?;
        respond(&self.store, &*self.town, self, &self.key, asked, &salt).await?;
        Ok(())
    }

    /// Says that an approval stays pending, and why.
    async fn say(&self, row: &ApprovalRow, code: &str, why: impl Display) {
        let message = format!(
            "the approval {} of {} stays pending until {}: {why}",
            row.approval, row.tool, row.expires_at
        );
        tracing::error!(run = %row.run, approval = %row.approval, code, "{message}");
        let entry = NewLogEntry {
            namespace: self.namespace.clone(),
            agent: row.agent.clone(),
            run: Some(row.run.clone()),
            level: LogLevel::Error,
            code: code.to_owned(),
            message,
        };
        if let Err(error) = self.store.agent_logs().append(&entry).await {
            tracing::warn!(%error, "the agent's log cannot be written");
        }
    }
}

/// Groups are those of the seats; sealed words are the store's.
impl Ballots for Desk {
    type Error = DatabaseError;

    async fn groups(
        &self,
        _: &Namespace,
        principal: &PrincipalId,
    ) -> Result<BTreeSet<String>, DatabaseError> {
        let mut seats = self.seats.iter();
        let seat = seats.find(|seat| seat.principal == *principal);
        Ok(seat.map(|seat| seat.groups.clone()).unwrap_or_default())
    }

    async fn said(&self, approval: &ApprovalId) -> Result<Vec<OpenVote>, DatabaseError> {
        self.store.votes().of(approval).await
    }

    async fn keep(&self, approval: &ApprovalId, vote: &OpenVote) -> Result<(), DatabaseError> {
        self.store.votes().keep(approval, vote).await
    }
}

/// Whether writing the same thing down may work in a moment.
fn passes(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::Load(LoadError::Unavailable(_))
            | WriteError::Append(AppendError::Unavailable(_) | AppendError::Conflict(_))
    )
}

/// Whether the approval does not wait any more: somebody else was first, its time is up, or its run has
/// ended.
fn is_settled(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::Refused(
            Refusal::AlreadyDecided { .. } | Refusal::Expired { .. } | Refusal::Terminal(_)
        )
    )
}

/// Keeps what is said with a vote from being guessed from its hash.
fn salt() -> Result<String, WriteError> {
    let mut salt = [0; 16];
    let drawn = getrandom::fill(&mut salt);
    drawn.map_err(|error| WriteError::Append(AppendError::Unavailable(error.to_string())))?;
    Ok(hex::encode(salt))
}
