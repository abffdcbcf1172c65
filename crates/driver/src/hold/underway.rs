//! What a hold has begun and waits for.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use sayso_rules::Role;
use sayso_run::{CallId, Effect, ToolOutput};
use tokio_util::sync::CancellationToken;

use super::delegating::Current;
use crate::journal::Budget;
use crate::world::{ListError, ModelReply, PolicyUnavailable, ToolSet};

/// What policy says of an agent's role.
pub(super) type RoleReply = Result<Option<Arc<Role>>, PolicyUnavailable>;

/// The same, and the revisions of the agents that calls would start.
pub(super) type RoleAndAgents = Result<(Option<Arc<Role>>, Current), PolicyUnavailable>;

/// What an operation brought.
pub(super) enum Done {
    Listed(Result<Arc<ToolSet>, ListError>),
    Role(Vec<CallId>, RoleAndAgents),
    NoRole(RoleReply),
    /// What the role says now on a call that a person approved.
    Ceiling(CallId, RoleAndAgents),
    /// A brief was written, or not.
    Briefed {
        cycle: u32,
        upto: u32,
        tokens: u64,
        reply: ModelReply,
    },
    /// What was away may be asked again.
    Rested,
    /// Whether the agent is still paused may be looked at again.
    Looked,
    Answered {
        cycle: u32,
        seen: u64,
        reply: ModelReply,
    },
    /// Nothing more may be spent (S4.6).
    Capped(Budget),
    Returned(ToolOutput),
}

/// Operations under way.
#[derive(Default)]
pub(super) struct Underway {
    pub(super) futures: FuturesUnordered<BoxFuture<'static, Done>>,
    pub(super) listing: bool,
    pub(super) judging: bool,
    /// Whether a hold of a paused run is about to look again.
    pub(super) looking: bool,
    /// Whether a brief is being written.
    pub(super) briefing: bool,
    /// The request under way: the last step that it shows, and how to stop it.
    pub(super) asking: Option<(u64, CancellationToken)>,
    pub(super) executing: Vec<CallId>,
    /// Approved calls of which the role is asked once more.
    pub(super) clearing: BTreeSet<CallId>,
    /// What came while the hold waited for something else, in its order.
    pub(super) came: VecDeque<Done>,
}

impl Underway {
    /// Waits for something while what is under way goes on. Nothing else is ever waited for: what is
    /// under way may have, or be next in line for, what this waits for (SQLite lets one writer in at a
    /// time), and would never give it back if nobody polled it.
    pub(super) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                Some(done) = self.futures.next() => self.came.push_back(done),
            }
        }
    }

    /// What comes next.
    pub(super) async fn next(&mut self) -> Option<Done> {
        match self.came.pop_front() {
            Some(done) => Some(done),
            None => self.futures.next().await,
        }
    }

    /// Whether an effect would begin something that acts, or asks for something to act on.
    pub(super) fn is_new(&self, effect: &Effect) -> bool {
        match effect {
            Effect::ListTools => !self.listing,
            Effect::AskModel { .. } => self.asking.is_none() && !self.listing && !self.briefing,
            Effect::Judge { .. } => !self.judging && !self.listing,
            Effect::Execute { call } => !self.clearing.contains(call),
            Effect::Interrupt { .. } | Effect::Complete => false,
        }
    }

    /// Whether something is under way whose end the hold has to wait for.
    pub(super) fn is_busy(&self) -> bool {
        self.listing
            || self.judging
            || self.briefing
            || self.asking.is_some()
            || !self.clearing.is_empty()
            || !self.executing.is_empty()
    }
}
