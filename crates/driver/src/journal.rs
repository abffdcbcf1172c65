use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sayso_run::{
    ChildEnd, ConversationId, Corrupt, Money, Namespace, PrincipalId, Recorded, RunId, RunState,
    Said, Timestamp, WorkerId,
};
use thiserror::Error;
use uuid::Uuid;

use crate::rows::{
    ActionRow, ApprovalRow, DeliveryRow, FeedbackRow, LeaseRow, MessageRow, RunRow, Target,
    UsageRow,
};

/// What an append does to the run's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseChange {
    /// Nothing: the writer holds no lease (a start, a decision, a cancel). If work is owed
    /// afterwards the run becomes ready.
    None,
    /// Takes the lease: it must be free, or held by a worker that is marked dead. Raises the epoch
    /// from `from_epoch`.
    Claim {
        /// Who takes it.
        worker: WorkerId,
        /// The epoch that the writer saw.
        from_epoch: u64,
    },
    /// Keeps it: it must be held at this epoch.
    Hold {
        /// The epoch of the claim.
        epoch: u64,
    },
    /// Gives it back with this append.
    Release {
        /// The epoch of the claim.
        epoch: u64,
    },
    /// Takes and gives it back in one append.
    ClaimAndRelease {
        /// Who takes it.
        worker: WorkerId,
        /// The epoch that the writer saw.
        from_epoch: u64,
    },
}

/// A step with its stored forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The step in its place.
    pub recorded: Recorded,
    /// The stored content: the bytes that were hashed.
    pub content: String,
    /// The content with secrets masked, where that differs.
    pub view: Option<String>,
}

/// One append: all of it happens, or nothing.
#[derive(Debug, Clone)]
pub struct Append {
    /// The run.
    pub run: RunId,
    /// The sequence number that the writer saw; zero makes a new run.
    pub expected: u64,
    /// The steps, numbered from `expected + 1`; may be empty for a claim or release alone.
    pub steps: Vec<Written>,
    /// What happens to the lease.
    pub lease: LeaseChange,
    /// When the run is ready for a worker; none if nothing is owed, or the writer goes on itself.
    pub ready_at: Option<Timestamp>,
    /// Refused if the database's clock is at or past this time (S6.8).
    pub not_after: Option<Timestamp>,
    /// The run's row as it is afterwards.
    pub row: RunRow,
    /// Actions that are new or changed.
    pub actions: Vec<ActionRow>,
    /// Approvals that are new or changed.
    pub approvals: Vec<ApprovalRow>,
    /// Decisions as feedback.
    pub feedback: Vec<FeedbackRow>,
    /// What it says in the run's conversation.
    pub messages: Vec<MessageRow>,
    /// Notifications that are due.
    pub deliveries: Vec<DeliveryRow>,
    /// What the answers in it cost.
    pub usage: Vec<UsageRow>,
    /// The last step whose event was acknowledged, if the writer knows.
    pub published: Option<u64>,
    /// The key of a start: principal, key and request digest; unique in the namespace.
    pub start_key: Option<StartKey>,
    /// What it does to the tree of delegation.
    pub tree: Tree,
    /// The tick that a start takes: the schedule moves on in the same transaction, or nothing
    /// happens. Only of a start without a key and a deadline.
    pub tick: Option<TakenTick>,
    /// The run becomes the live one of its conversation, or nothing happens: of a start or a retry.
    pub talk: Option<Talk>,
    /// Stored with the steps: read back after an unclear commit, it says who won.
    pub id: Uuid,
    /// An attempt with this id was answered as unavailable and may have taken effect: before a
    /// conflict is answered it is looked for.
    pub again: bool,
}

/// What an append does to the tree of delegation (S3.6).
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// Runs that begin with it, and not without it.
    pub children: Vec<NewRun>,
    /// The run that started this one, if this one ends: its end waits there to be taken.
    pub ends_child_of: Option<RunId>,
    /// Children whose end is taken.
    pub taken: Vec<RunId>,
}

/// A run that begins with the append of another one.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its row.
    pub row: RunRow,
    /// Its first step.
    pub first: Written,
}

/// A tick of a schedule, taken by whoever starts its run (S8.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenTick {
    /// The schedule's id.
    pub schedule: String,
    /// The tick: the schedule must still stand at it.
    pub due_at: Timestamp,
    /// The tick at which it stands afterwards.
    pub next_at: Timestamp,
    /// Ticks between the two that no run is started for.
    pub skipped: u32,
}

/// Where a conversation has to stand for a run of it to begin or go on (S1.9). Afterwards that run is
/// the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Talk {
    /// The conversation.
    pub conversation: ConversationId,
    /// Its last run, as the writer saw it.
    pub last: Option<RunId>,
    /// How often a run of it had begun or been retried.
    pub moves: u64,
}

/// A conversation as whoever writes to it needs it (S9.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationNow {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its agent.
    pub agent: sayso_run::AgentName,
    /// Who began it.
    pub created_by: PrincipalId,
    /// Its last run.
    pub last: Option<RunId>,
    /// How often a run of it has begun or been retried.
    pub moves: u64,
}

/// A message that was taken under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedMessage {
    /// The run that took it.
    pub run: RunId,
    /// Sequence number of its step.
    pub seq: u64,
    /// The digest of the request, in hex.
    pub request: String,
}

/// What makes a start the same start (S1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartKey {
    /// The caller's key.
    pub key: String,
    /// Hex digest of the request.
    pub request: String,
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The epoch afterwards.
    pub epoch: u64,
}

/// Why nothing was appended.
#[derive(Debug, Clone, Error)]
pub enum AppendError {
    /// Another writer was first, the lease is not as expected, or the run already exists: load,
    /// fold, decide again.
    #[error("the timeline of {0} has moved on")]
    Conflict(RunId),
    /// The database's clock is past `not_after`.
    #[error("the time to decide had passed")]
    TooLate,
    /// A start with this key exists.
    #[error("the start was made before as {existing}")]
    DuplicateStart {
        /// The run that exists.
        existing: RunId,
        /// The digest of its request.
        request: String,
    },
    /// The database refuses this append and would refuse it again.
    #[error("the database refuses the append: {0}")]
    Refused(String),
    /// The database cannot be reached; nothing is known to be lost or half done.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
}

/// Why a timeline could not be read.
#[derive(Debug, Clone, Error)]
pub enum LoadError {
    /// The database cannot be reached.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A newer version of sayso wrote a step of it: leave the run to a newer worker (S2.2).
    #[error("the timeline of {run} holds a step that this version does not know: {what}")]
    TooNew {
        /// The run.
        run: RunId,
        /// The step's type and version.
        what: String,
    },
    /// The timeline cannot have come about.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// A row cannot be read.
    #[error("a stored row of {run} cannot be read: {why}")]
    BadRow {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
    },
}

/// A run as loaded.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The folded timeline.
    pub state: RunState,
    /// Steps after the published mark, whose events may still have to go out.
    pub unpublished: Vec<Written>,
    /// The lease columns.
    pub lease: LeaseRow,
}

/// A namespace's cap and what was spent of it this month (S4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The most that models may cost in a month.
    pub cap: Money,
    /// What they cost so far, in the cap's currency.
    pub spent: Money,
    /// When the month ends.
    pub resets_at: Timestamp,
}

impl Budget {
    /// Whether nothing more may be spent.
    pub fn is_met(&self) -> bool {
        self.spent.millionths() >= self.cap.millionths()
    }
}

/// Where timelines live.
pub trait Journal: Send + Sync + 'static {
    /// Appends, or says why not. Returns once it is durable.
    fn append(&self, append: Append) -> impl Future<Output = Result<Appended, AppendError>> + Send;

    /// Loads and folds a run; `None` if there is none.
    fn load(&self, run: &RunId) -> impl Future<Output = Result<Option<Loaded>, LoadError>> + Send;

    /// The database's time, as well as this process knows it.
    fn now(&self) -> Timestamp;

    /// Looks at the database's clock, so that [`Journal::now`] is not behind it.
    fn catch_up(&self) -> impl Future<Output = Result<(), LoadError>> + Send;

    /// The namespace's cap this month; `None` if it has none, as everybody in a journal without
    /// budgets. A cap that was set or removed counts within a second; what was spent is read anew.
    fn budget(
        &self,
        _namespace: &Namespace,
    ) -> impl Future<Output = Result<Option<Budget>, LoadError>> + Send {
        std::future::ready(Ok(None))
    }

    /// The targets of a namespace (S8.2); none in a journal without targets. One that was added or
    /// removed counts within a second.
    fn targets_of(
        &self,
        _namespace: &Namespace,
    ) -> impl Future<Output = Result<Arc<[Target]>, LoadError>> + Send {
        std::future::ready(Ok(Vec::new().into()))
    }

    /// The ends of a run's children that the run has not taken yet (S3.6).
    fn ended_children(
        &self,
        parent: &RunId,
    ) -> impl Future<Output = Result<Vec<ChildEnd>, LoadError>> + Send;

    /// The children of a run that have not ended (S3.6).
    fn live_children(
        &self,
        parent: &RunId,
    ) -> impl Future<Output = Result<Vec<RunId>, LoadError>> + Send;

    /// Waits. A journal that is simulated waits in its own time.
    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(time)
    }
}

/// A journal that knows conversations (S9.1).
pub trait Conversations: Journal {
    /// A conversation; `None` if there is none.
    fn conversation(
        &self,
        id: &ConversationId,
    ) -> impl Future<Output = Result<Option<ConversationNow>, LoadError>> + Send;

    /// The message that somebody sent under a key, if it was taken.
    fn keyed_message(
        &self,
        conversation: &ConversationId,
        sender: &PrincipalId,
        key: &str,
    ) -> impl Future<Output = Result<Option<KeyedMessage>, LoadError>> + Send;

    /// The newest messages of a conversation, at most so many, oldest first, as readers are shown
    /// them; and how many there are in all.
    fn said(
        &self,
        conversation: &ConversationId,
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<Said>, u64), LoadError>> + Send;
}
