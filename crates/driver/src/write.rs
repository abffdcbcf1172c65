//! The one way to write: load, fold, decide outside any transaction, append at the sequence number
//! that was seen; on a conflict load and decide again. Nothing locks first and thinks later.

use sayso_rules::Redaction;
use sayso_run::{
    Actor, ChainKey, Head, Next, Recorded, Refusal, RunId, RunState, Start, Step, TaskId,
    Timestamp, WaitFor, WorkerId,
};
use thiserror::Error;
use tracing::Instrument;
use uuid::Uuid;

use crate::journal::{
    Append, AppendError, Journal, LeaseChange, LoadError, Loaded, StartKey, TakenTick, Talk, Tree,
    Written,
};
use crate::notices::deliveries;
use crate::project::{messages, project, run_row, usage};
use crate::redact;
use crate::rows::{LeaseRow, RunRow};
use crate::tree::{tell_tree, tree};
use crate::world::Herald;

/// How often a writer decides again before it says that the run is too busy. Each conflict means
/// that another writer made progress.
const MAX_CONFLICTS: u32 = 64;

/// Why nothing was written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// There is no such run.
    #[error("there is no run {0}")]
    NotFound(RunId),
    /// The run does not take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The database does not take it.
    #[error(transparent)]
    Append(AppendError),
}

/// Steps to append, and the time by which they have to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The steps with their actors.
    pub steps: Vec<(Actor, Step)>,
    /// The append is refused once the database's clock has reached this time.
    pub not_after: Option<Timestamp>,
}

/// What was written.
#[derive(Debug, Clone)]
pub struct Wrote {
    /// The state afterwards.
    pub state: RunState,
    /// The steps; empty if the input caused none, being a repetition.
    pub steps: Vec<Written>,
}

/// Puts steps at the end of a chain and folds them.
pub(crate) fn chain(
    state: &mut RunState,
    steps: Vec<(Actor, Step)>,
    now: Timestamp,
    key: &ChainKey,
) -> Result<Vec<Written>, sayso_run::Corrupt> {
    let mut written = Vec::with_capacity(steps.len());
    for (actor, step) in steps {
        let (recorded, content) = Recorded::chain(state.head(), state.run(), now, actor, step, key);
        state.apply(&recorded)?;
        written.push(Written {
            recorded,
            content,
            view: None,
        });
    }
    Ok(written)
}

/// When the run is ready for a worker: now, if work is owed; when its retry is due, if it waits for
/// that.
pub(crate) fn ready_at(state: &RunState, now: Timestamp) -> Option<Timestamp> {
    match state.next() {
        Next::Owed(_) => Some(now),
        Next::Wait(WaitFor::Retry { due_at }) => Some(due_at),
        Next::Wait(
            WaitFor::Approval { .. } | WaitFor::Input | WaitFor::Results | WaitFor::Child,
        )
        | Next::Done => None,
    }
}

/// Whether a worker has something to do at a time.
pub(crate) fn is_due(state: &RunState, now: Timestamp) -> bool {
    ready_at(state, now).is_some_and(|at| at <= now)
}

/// Writes what `decide` says to a run, as somebody who holds no lease. Tells the world, and wakes a
/// worker if work is owed afterwards.
pub async fn write<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    run: &RunId,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<Wrote, WriteError> {
    let anyhow = |_: &LeaseRow| Ok(LeaseChange::None);
    write_with(journal, herald, key, run, anyhow, Beside::default(), decide).await
}

/// The same for a run that is to be the live one of its conversation again. Where the conversation does
/// not stand so any more that is a conflict, for whoever asks to look again.
pub(crate) async fn write_in_talk<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    run: &RunId,
    talk: &Talk,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<Wrote, WriteError> {
    let anyhow = |_: &LeaseRow| Ok(LeaseChange::None);
    let beside = Beside {
        talk: Some(talk),
        ..Beside::default()
    };
    write_with(journal, herald, key, run, anyhow, beside, decide).await
}

/// The same for whoever knows what readers are not to be shown: a worker that has lost the run, and
/// who writes arguments that a person has edited.
pub async fn write_redacted<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    run: &RunId,
    redaction: &Redaction,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<Wrote, WriteError> {
    let anyhow = |_: &LeaseRow| Ok(LeaseChange::None);
    let beside = Beside {
        redaction: Some(redaction),
        spender: None,
        talk: None,
    };
    write_with(journal, herald, key, run, anyhow, beside, decide).await
}

/// The same for a worker whose steps tell what a model was paid for (S4.6).
pub(crate) async fn write_paid<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    run: &RunId,
    redaction: &Redaction,
    spender: &WorkerId,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<Wrote, WriteError> {
    let anyhow = |_: &LeaseRow| Ok(LeaseChange::None);
    let beside = Beside {
        redaction: Some(redaction),
        spender: Some(spender),
        talk: None,
    };
    write_with(journal, herald, key, run, anyhow, beside, decide).await
}

/// The same for a run whose worker is marked dead: whoever writes takes the lease with the append and
/// gives it back. Refused as stale while nobody holds the run, or somebody alive does.
pub async fn write_for_lost<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    run: &RunId,
    by: &WorkerId,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<Wrote, WriteError> {
    let lost = |lease: &LeaseRow| {
        if lease.worker.is_none() || lease.worker_alive {
            return Err(Refusal::Stale("its worker is not lost any more"));
        }
        Ok(LeaseChange::ClaimAndRelease {
            worker: by.clone(),
            from_epoch: lease.epoch,
        })
    };
    write_with(journal, herald, key, run, lost, Beside::default(), decide).await
}

/// What a writer knows beside the steps.
#[derive(Debug, Clone, Copy, Default)]
struct Beside<'a> {
    /// Where the run's conversation has to stand: if it does not, that is a conflict for whoever asks.
    talk: Option<&'a Talk>,
    /// What readers are not to be shown.
    redaction: Option<&'a Redaction>,
    /// The worker that has paid for what the steps tell.
    spender: Option<&'a WorkerId>,
}

async fn write_with<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    run: &RunId,
    lease: impl Fn(&LeaseRow) -> Result<LeaseChange, Refusal> + Send + Sync,
    beside: Beside<'_>,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<Wrote, WriteError> {
    for _ in 0..MAX_CONFLICTS {
        let loaded = journal
            .load(run)
            .await?
            .ok_or_else(|| WriteError::NotFound(run.clone()))?;
        let span = tracing::info_span!("write", sayso.run.id = %run);
        if let Some(traceparent) = &loaded.state.trigger().traceparent {
            herald.trace(&span, traceparent);
        }
        let lease = lease(&loaded.lease)?;
        let attempt = write_once(journal, herald, key, loaded, lease, beside, &decide);
        match attempt.instrument(span).await {
            Err(WriteError::Append(AppendError::Conflict(_))) if beside.talk.is_none() => {}
            wrote => return wrote,
        }
    }
    Err(WriteError::Append(AppendError::Conflict(run.clone())))
}

async fn write_once<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    loaded: Loaded,
    lease: LeaseChange,
    beside: Beside<'_>,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<Wrote, WriteError> {
    let mut state = loaded.state;
    let now = journal.now();
    let decided = decide(&state, now)?;
    if decided.steps.is_empty() {
        return Ok(Wrote {
            state,
            steps: Vec::new(),
        });
    }
    let (run, expected) = (state.run().clone(), state.seq());
    let mut steps = chain(&mut state, decided.steps, now, key).map_err(LoadError::from)?;
    let mut projected = project(&state, &steps);
    if let Some(redaction) = beside.redaction {
        redact::views(redaction, &mut steps);
        redact::rows(redaction, &mut projected);
    }
    let row = projected.row.clone();
    let deliveries = deliveries(journal, &state, &steps, None).await?;
    let append = Append {
        run,
        expected,
        steps: steps.clone(),
        lease,
        ready_at: ready_at(&state, now),
        not_after: decided.not_after,
        row: projected.row,
        actions: projected.actions,
        approvals: projected.approvals,
        feedback: projected.feedback,
        messages: projected.messages,
        deliveries,
        usage: beside
            .spender
            .map_or(Vec::new(), |worker| usage(&state, &steps, worker)),
        published: herald.published(&row.run),
        tree: tree(&state, &steps, key),
        start_key: None,
        tick: None,
        talk: beside.talk.cloned(),
        id: Uuid::now_v7(),
        again: false,
    };
    let owed = append.ready_at.is_some_and(|at| at <= now);
    let done = append.tree.clone();
    journal.append(append).await.map_err(WriteError::Append)?;
    tell(herald, &row, loaded.unpublished, &steps);
    tell_tree(herald, &row, done);
    if owed || row.status.is_terminal() {
        herald.wake(&row.namespace, &row.run, "written");
    }
    Ok(Wrote { state, steps })
}

/// Announces the steps, after those that may not have gone out yet.
pub(crate) fn tell<H: Herald>(
    herald: &H,
    row: &RunRow,
    mut unpublished: Vec<Written>,
    steps: &[Written],
) {
    unpublished.extend_from_slice(steps);
    herald.announce(row, unpublished);
}

/// Stores a new run as `pending` and wakes a worker for it (S1.1). A start that was made before
/// under the same key is answered with the run that exists, or refused if it asked for something
/// else.
pub async fn start<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    start: Start,
) -> Result<StartOutcome, WriteError> {
    begin(journal, herald, key, start, (None, None)).await
}

/// Stores a new run for a tick of a schedule, in one transaction with the schedule's moving on: no
/// tick, no run (S8.5).
///
/// # Errors
///
/// [`AppendError::Conflict`] if the schedule does not stand at the tick any more: somebody else has
/// taken it, or a deploy has changed the schedule.
pub async fn start_at<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    start: Start,
    tick: TakenTick,
) -> Result<StartOutcome, WriteError> {
    begin(journal, herald, key, start, (Some(tick), None)).await
}

pub(crate) async fn begin<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    start: Start,
    (tick, talk): (Option<TakenTick>, Option<Talk>),
) -> Result<StartOutcome, WriteError> {
    let now = journal.now();
    let (actor, step) = start.decide()?;
    // The key of a message stands with the message, not with the start.
    let own_key = start
        .trigger
        .idempotency
        .as_ref()
        .filter(|_| talk.is_none());
    let start_key = own_key.map(|key| StartKey {
        key: key.key.clone(),
        request: key.request.to_hex(),
    });
    let (recorded, content) = Recorded::chain(&Head::START, &start.run, now, actor, step, key);
    let state = RunState::begin(start.run.clone(), &recorded).map_err(LoadError::from)?;
    let steps = vec![Written {
        recorded,
        content,
        view: None,
    }];
    let row = run_row(&state);
    let append = Append {
        run: start.run.clone(),
        expected: 0,
        steps: steps.clone(),
        lease: LeaseChange::None,
        ready_at: Some(now),
        not_after: None,
        row: row.clone(),
        actions: Vec::new(),
        approvals: Vec::new(),
        feedback: Vec::new(),
        messages: messages(&state, &steps),
        deliveries: Vec::new(),
        usage: Vec::new(),
        published: None,
        tree: Tree::default(),
        start_key: start_key.clone(),
        tick,
        talk,
        id: Uuid::now_v7(),
        again: false,
    };
    match journal.append(append).await {
        Ok(_) => {
            herald.announce(&row, steps);
            herald.wake(&row.namespace, &row.run, "started");
            Ok(StartOutcome {
                run: row.run,
                task: row.task,
                created_at: row.created_at,
                new: true,
            })
        }
        Err(AppendError::DuplicateStart { existing, request }) => match start_key {
            Some(key) if key.request == request => {
                let loaded = journal
                    .load(&existing)
                    .await?
                    .ok_or_else(|| WriteError::NotFound(existing.clone()))?;
                let (task, created_at) = (
                    loaded.state.trigger().task.clone(),
                    loaded.state.started_at(),
                );
                Ok(StartOutcome {
                    run: existing,
                    task,
                    created_at,
                    new: false,
                })
            }
            Some(key) => Err(Refusal::KeyReused(key.key).into()),
            None => Err(WriteError::Append(AppendError::DuplicateStart {
                existing,
                request,
            })),
        },
        Err(error) => Err(WriteError::Append(error)),
    }
}

/// A start that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartOutcome {
    /// The run.
    pub run: RunId,
    /// Its task.
    pub task: TaskId,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Whether this start made it; otherwise it is the run of an earlier start with the same key.
    pub new: bool,
}
