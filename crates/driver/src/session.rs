//! One worker's hold on one run: the state it has folded, what it has decided but not yet appended,
//! and the lease.
//!
//! Inputs are taken in at once and appended later, so that an answer that comes at once travels with
//! the result before it. Two things must never run ahead of the journal: a tool call is sent only
//! after its `tool_started` is durable, and a wait begins only after everything is. When an append
//! meets a conflict the inputs are decided again on top of what others wrote; those that no longer
//! fit are dropped, since the timeline has moved past them.

use std::sync::Arc;
use std::time::Duration;

use sayso_rules::Redaction;
use sayso_run::{CallId, ChainKey, Input, RunId, RunState, Step, Timestamp, ToolOutput, WorkerId};
use uuid::Uuid;

use crate::evidence::Evidence;
use crate::journal::{Append, AppendError, Journal, LeaseChange, LoadError, Loaded, Written};
use crate::notices::deliveries;
use crate::project::{project, usage};
use crate::redact;
use crate::resolved::ResolvedTools;
use crate::rows::{DeliveryRow, LeaseRow};
use crate::tree::{tell_tree, tree};
use crate::world::{Herald, Revision};
use crate::write::{Decided, WriteError, chain, ready_at, tell, write_redacted};

/// How this worker stands to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lease {
    /// Not claimed yet; the epoch that was seen.
    Free { epoch: u64 },
    /// Claimed at this epoch.
    Held { epoch: u64 },
    /// Another worker has it, or it was given back.
    Gone,
}

/// What a flush did to the hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// Everything taken in is durable, or was dropped by what others wrote.
    Durable,
    /// The lease was to be given back, but others wrote first: look again at what is owed.
    Moved,
    /// Another worker goes on with the run.
    Lost,
}

/// The hold is over because the timeline cannot be worked on.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// It cannot be read.
    Load(LoadError),
    /// The database refuses the append for good.
    Refused(String),
}

impl From<LoadError> for Stuck {
    fn from(error: LoadError) -> Self {
        Stuck::Load(error)
    }
}

pub(crate) struct Session<J, H> {
    journal: Arc<J>,
    herald: Arc<H>,
    key: ChainKey,
    worker: WorkerId,
    redaction: Arc<Redaction>,
    run: RunId,
    /// As the journal has it.
    base: RunState,
    /// With what was taken in since.
    state: RunState,
    taken: Vec<Input>,
    steps: Vec<Written>,
    unpublished: Vec<Written>,
    lease: Lease,
    started: Vec<CallId>,
    /// Whether the database has a `ready_at` that this worker's next append has to clear.
    marked_ready: bool,
    /// The sequence number from which a conflict has moved steps since it was last asked for.
    moved_from: Option<u64>,
    /// What the judge knows of the state; none until it was asked, or after a conflict.
    evidence: Option<Evidence>,
}

impl<J: Journal, H: Herald> Session<J, H> {
    pub(crate) fn new(
        journal: Arc<J>,
        herald: Arc<H>,
        key: ChainKey,
        worker: WorkerId,
        redaction: Arc<Redaction>,
        loaded: Loaded,
    ) -> Self {
        Self {
            journal,
            herald,
            key,
            worker,
            redaction,
            run: loaded.state.run().clone(),
            base: loaded.state.clone(),
            state: loaded.state,
            taken: Vec::new(),
            steps: Vec::new(),
            unpublished: loaded.unpublished,
            lease: Lease::Free {
                epoch: loaded.lease.epoch,
            },
            started: Vec::new(),
            marked_ready: loaded.lease.ready_at.is_some(),
            moved_from: None,
            evidence: None,
        }
    }

    /// What readers of the run are not shown.
    pub(crate) fn redaction(&self) -> &Arc<Redaction> {
        &self.redaction
    }

    pub(crate) fn state(&self) -> &RunState {
        &self.state
    }

    /// The state, and what the judge knows of it.
    pub(crate) fn evidence(&mut self, tools: &ResolvedTools) -> (&RunState, &Evidence) {
        let evidence = self
            .evidence
            .get_or_insert_with(|| Evidence::begin(&self.state));
        evidence.catch_up(&self.state, tools);
        (&self.state, evidence)
    }

    pub(crate) fn lease(&self) -> Lease {
        self.lease
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.steps.is_empty()
    }

    pub(crate) fn marked_ready(&self) -> bool {
        self.marked_ready
    }

    /// The epoch that this worker has, or will have once its claim is appended.
    pub(crate) fn epoch(&self) -> u64 {
        match self.lease {
            Lease::Free { epoch } => epoch + 1,
            Lease::Held { epoch } => epoch,
            Lease::Gone => 0,
        }
    }

    /// Decides on an input and keeps its steps for the next append. An input that the run does not
    /// take any more is dropped: whoever moved the run on has made it void.
    pub(crate) fn take(&mut self, input: Input) -> Result<bool, Stuck> {
        match self.state.decide(input.clone(), self.journal.now()) {
            Ok(steps) => {
                let mut steps = chain(&mut self.state, steps, self.journal.now(), &self.key)
                    .map_err(LoadError::from)?;
                redact::views(&self.redaction, &mut steps);
                self.steps.extend(steps);
                self.taken.push(input);
                Ok(true)
            }
            Err(refusal) => {
                tracing::debug!(run = %self.run, code = refusal.code(), %refusal, "a worker's report is void");
                Ok(false)
            }
        }
    }

    /// Appends what was taken in. `release` gives the lease back with it, `ready_in` says when the
    /// run is to be taken up again; without it, at once if work is owed.
    pub(crate) async fn flush(
        &mut self,
        revision: &Revision,
        release: bool,
        ready_in: Option<Duration>,
    ) -> Result<Flushed, Stuck> {
        let (mut attempt, mut id) = (0, Uuid::now_v7());
        loop {
            if self.lease == Lease::Gone {
                return Ok(Flushed::Lost);
            }
            let deliveries = match self.deliveries(revision).await {
                Ok(deliveries) => deliveries,
                Err(LoadError::Unavailable(why)) => {
                    attempt += 1;
                    self.wait_for_journal(&why, attempt).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let append = Append {
                id,
                again: attempt > 0,
                deliveries,
                ..self.append(release, ready_in)
            };
            let (row, done) = (append.row.clone(), append.tree.clone());
            #[cfg(feature = "hooks")]
            crate::hooks::window("driver.before_append").await;
            match self.journal.append(append).await {
                Ok(appended) => {
                    self.lease = if release {
                        Lease::Gone
                    } else {
                        Lease::Held {
                            epoch: appended.epoch,
                        }
                    };
                    self.marked_ready = false;
                    self.base = self.state.clone();
                    self.taken.clear();
                    let steps = std::mem::take(&mut self.steps);
                    self.started.extend(steps.iter().filter_map(started_by));
                    tell(
                        &*self.herald,
                        &row,
                        std::mem::take(&mut self.unpublished),
                        &steps,
                    );
                    tell_tree(&*self.herald, &row, done);
                    return Ok(Flushed::Durable);
                }
                Err(AppendError::Conflict(_)) => {
                    (attempt, id) = (0, Uuid::now_v7());
                    self.reload().await?;
                    if release && ready_in.is_none() && self.lease != Lease::Gone {
                        return Ok(Flushed::Moved);
                    }
                }
                Err(AppendError::Unavailable(why)) => {
                    attempt += 1;
                    self.wait_for_journal(&why, attempt).await;
                }
                Err(AppendError::Refused(why)) => return Err(Stuck::Refused(why)),
                Err(error @ (AppendError::TooLate | AppendError::DuplicateStart { .. })) => {
                    return Err(Stuck::Refused(error.to_string()));
                }
            }
        }
    }

    async fn wait_for_journal(&self, why: &str, attempt: u32) {
        tracing::warn!(run = %self.run, why, attempt, "the journal is away; the append is tried again");
        self.journal.pause(backoff(attempt)).await;
    }

    /// The notifications that what was taken in makes due.
    async fn deliveries(&self, revision: &Revision) -> Result<Vec<DeliveryRow>, LoadError> {
        let permissions = revision.bundle.permissions.as_ref();
        let notify = permissions.and_then(|permissions| permissions.notify.as_ref());
        deliveries(&*self.journal, &self.state, &self.steps, notify).await
    }

    /// The append of all that was taken in, without its id and what it makes due.
    fn append(&self, release: bool, ready_in: Option<Duration>) -> Append {
        let mut projected = project(&self.state, &self.steps);
        redact::rows(&self.redaction, &mut projected);
        let mut begun = tree(&self.state, &self.steps, &self.key);
        redact::children(&self.redaction, &mut begun);
        let now = self.journal.now();
        let ready_at = match (release, ready_in) {
            (false, _) => None,
            (true, Some(pause)) => Some(now.plus(pause)),
            (true, None) => ready_at(&self.state, now),
        };
        Append {
            run: self.run.clone(),
            expected: self.base.seq(),
            steps: self.steps.clone(),
            lease: self.lease_change(release),
            ready_at,
            not_after: None,
            row: projected.row,
            actions: projected.actions,
            approvals: projected.approvals,
            feedback: projected.feedback,
            messages: projected.messages,
            deliveries: Vec::new(),
            usage: usage(&self.state, &self.steps, &self.worker),
            published: self.herald.published(&self.run),
            tree: begun,
            start_key: None,
            tick: None,
            talk: None,
            id: Uuid::nil(),
            again: false,
        }
    }

    fn lease_change(&self, release: bool) -> LeaseChange {
        match (self.lease, release) {
            (Lease::Free { epoch }, false) => LeaseChange::Claim {
                worker: self.worker.clone(),
                from_epoch: epoch,
            },
            (Lease::Free { epoch }, true) => LeaseChange::ClaimAndRelease {
                worker: self.worker.clone(),
                from_epoch: epoch,
            },
            (Lease::Held { epoch }, false) => LeaseChange::Hold { epoch },
            (Lease::Held { epoch }, true) => LeaseChange::Release { epoch },
            (Lease::Gone, _) => LeaseChange::None,
        }
    }

    /// Takes in what others wrote: the inputs that are not durable yet are decided again.
    pub(crate) async fn reload(&mut self) -> Result<(), Stuck> {
        let loaded = self.load().await?;
        if !self.still_ours(&loaded.lease) {
            self.lease = Lease::Gone;
        }
        if loaded.state.seq() == self.base.seq() && self.lease != Lease::Gone {
            self.marked_ready |= loaded.lease.ready_at.is_some();
            return Ok(());
        }
        let before = self.base.seq();
        self.base = loaded.state.clone();
        self.state = loaded.state;
        self.unpublished = loaded.unpublished;
        self.marked_ready |= loaded.lease.ready_at.is_some();
        self.steps.clear();
        self.evidence = None;
        self.moved_from = Some(self.moved_from.unwrap_or(before).min(before));
        for input in std::mem::take(&mut self.taken) {
            match &input {
                // Its request showed steps that now have other numbers: it is asked again.
                Input::Answer(answer) if answer.seen > before => {}
                // What it takes over has ended meanwhile: the calls that the lost worker has sent are
                // given up all the same, or nobody would.
                Input::TakenOver { .. } if self.state.status().is_terminal() => {
                    self.take(Input::Lost)?;
                }
                _ => {
                    self.take(input)?;
                }
            }
        }
        Ok(())
    }

    async fn load(&self) -> Result<Loaded, Stuck> {
        let mut attempt: u32 = 0;
        loop {
            match self.journal.load(&self.run).await {
                Ok(Some(loaded)) => return Ok(loaded),
                Ok(None) => return Err(Stuck::Refused("the run is gone".into())),
                Err(LoadError::Unavailable(why)) => {
                    attempt += 1;
                    tracing::warn!(run = %self.run, why, attempt, "the journal is away; the load is tried again");
                    self.journal.pause(backoff(attempt)).await;
                }
                Err(
                    error @ (LoadError::TooNew { .. }
                    | LoadError::Corrupt(_)
                    | LoadError::BadRow { .. }),
                ) => {
                    return Err(error.into());
                }
            }
        }
    }

    fn still_ours(&self, lease: &LeaseRow) -> bool {
        match self.lease {
            Lease::Held { epoch } => {
                lease.epoch == epoch && lease.worker.as_ref() == Some(&self.worker)
            }
            Lease::Free { epoch } => lease.epoch == epoch,
            Lease::Gone => false,
        }
    }

    /// Records what came of a call that this worker sent, although another worker goes on with the
    /// run: a result is a fact (B27).
    pub(crate) async fn record_late(&self, output: ToolOutput) {
        #[cfg(feature = "hooks")]
        if sayso_run::hooks::planted(sayso_run::hooks::Fault::ResultRefusedForEpoch) {
            return;
        }
        let decide = |state: &RunState, now: Timestamp| {
            let steps = state.decide(Input::Output(output.clone()), now)?;
            Ok(Decided {
                steps,
                not_after: None,
            })
        };
        let mut attempt: u32 = 0;
        loop {
            let writing = write_redacted(
                &*self.journal,
                &*self.herald,
                &self.key,
                &self.run,
                &self.redaction,
                decide,
            );
            let why = match writing.await {
                Ok(_) => return,
                Err(
                    WriteError::Load(LoadError::Unavailable(why))
                    | WriteError::Append(AppendError::Unavailable(why)),
                ) => why,
                Err(WriteError::Append(AppendError::Conflict(_))) => "the run is busy".into(),
                Err(error) => {
                    tracing::info!(run = %self.run, call = %output.call, %error, "a late result was not recorded");
                    return;
                }
            };
            attempt += 1;
            tracing::warn!(run = %self.run, call = %output.call, why, attempt, "a late result is recorded again");
            self.journal.pause(backoff(attempt)).await;
        }
    }

    /// What came of calls and is not durable yet, of a hold whose lease is gone.
    pub(crate) fn take_untold(&mut self) -> Vec<ToolOutput> {
        let taken = std::mem::take(&mut self.taken).into_iter();
        let outputs = taken.filter_map(|input| match input {
            Input::Output(output) => Some(output),
            _ => None,
        });
        outputs.collect()
    }

    /// The calls whose start this hold has made durable, each handed out once. A call that an
    /// earlier hold has started is never among them: it may have been sent.
    pub(crate) fn take_started(&mut self) -> Vec<CallId> {
        std::mem::take(&mut self.started)
    }

    /// The sequence number from which steps have moved, if any have: what was asked of a model with
    /// steps beyond it in view is void.
    pub(crate) fn take_moved_from(&mut self) -> Option<u64> {
        self.moved_from.take()
    }

    /// Whether others have written since the hold looked last.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved_from.is_some()
    }

    /// Whether a call is about to be started by a step that is not durable yet.
    pub(crate) fn must_flush(&self) -> bool {
        self.steps
            .iter()
            .any(|written| matches!(written.recorded.step, Step::ToolStarted(_)))
    }
}

/// How long to wait for a journal that is away.
pub(crate) fn backoff(attempt: u32) -> Duration {
    Duration::from_millis(50u64 << attempt.min(5))
}

fn started_by(written: &Written) -> Option<CallId> {
    match &written.recorded.step {
        Step::ToolStarted(started) => Some(started.call.clone()),
        _ => None,
    }
}
