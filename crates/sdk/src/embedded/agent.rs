use std::sync::Arc;

use sayso_driver::{LoadError, RunRow, WriteError};
use sayso_engine::{NewRun, StartOrigin, admit, new_ids};
use sayso_herald::{coded, show};
use sayso_run::{
    AgentName, BadName, ChainKey, ChainKeys, Namespace, PrincipalId, RevisionId, RunId, Status,
};
use sayso_service::error::{Coded, Kind};
use sayso_service::telemetry::propagate;
use sayso_store::{DatabaseError, RunFilter, Store, StoredStep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::builder::{AgentBuilder, Helper};
use super::desk::Desk;
use super::error::BuildError;
use super::journal::Holds;
use super::start::Start;
use super::town::{News, Town};
use super::watch::AgentWatch;
use crate::{Error, v1};

/// An agent that runs in this process (S6.14). Cheap to clone; it works until it is stopped, or its last
/// clone is dropped.
#[derive(Debug, Clone)]
pub struct Agent(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) namespace: Namespace,
    pub(crate) agent: AgentName,
    pub(crate) revision: RevisionId,
    pub(crate) key: ChainKey,
    pub(crate) keys: ChainKeys,
    pub(crate) store: Store,
    pub(crate) town: Arc<Town>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) found: Vec<v1::BundleFinding>,
    pub(crate) closing: CancellationToken,
    pub(crate) tasks: TaskTracker,
    pub(crate) _holds: Arc<Holds>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.agent)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl Agent {
    /// Begins an agent by its bundle, YAML or JSON.
    ///
    /// # Errors
    ///
    /// [`BuildError::Bundle`] with every mistake in it.
    pub fn from_bundle(text: &str) -> Result<AgentBuilder, BuildError> {
        Helper::from_bundle(text).map(AgentBuilder::new)
    }

    /// The name in its bundle.
    pub fn name(&self) -> &str {
        self.0.agent.as_str()
    }

    /// What its bundle allows but probably does not mean (S5.11).
    pub fn warnings(&self) -> &[v1::BundleFinding] {
        &self.0.found
    }

    /// Starts a run; it is stored when this returns (S1.1).
    ///
    /// # Errors
    ///
    /// `approval.own_request` if whoever asks is the only one who decides: what the run held could be
    /// decided by nobody. `request.invalid`, `request.too_large`, `request.key_reused`.
    pub async fn start(&self, start: impl Into<Start>) -> Result<RunId, Error> {
        let start = start.into();
        let inner = &*self.0;
        inner.open()?;
        let principal = principal(&start.by)?;
        let mut seats = inner.desk.seats.iter().peekable();
        if seats.peek().is_some() && seats.all(|seat| seat.principal == principal) {
            let why = format!(
                "{principal} decides what this agent asks for and cannot ask for it: nobody decides their own request"
            );
            return Err(refused(Kind::PermissionDenied, "approval.own_request", why));
        }
        let new = NewRun {
            ids: new_ids(),
            namespace: inner.namespace.clone(),
            agent: inner.agent.clone(),
            revision: inner.revision.clone(),
            principal,
            trust: start.trust,
            input: start.input,
            origin: StartOrigin::Asked,
            idempotency_key: start.key,
            traceparent: propagate::traceparent(),
        };
        let started = admit(&inner.store, &*inner.town, &inner.key, new).await;
        Ok(started.map_err(unwritten)?.run)
    }

    /// Starts a run and waits as [`Agent::finish`] does.
    ///
    /// # Errors
    ///
    /// As of both.
    pub async fn run(&self, start: impl Into<Start>) -> Result<v1::Run, Error> {
        let run = self.start(start).await?;
        self.finish(&run).await
    }

    /// Waits until a run has ended, or waits for an answer that only [`Agent::reply`] can give
    /// (`awaiting_input`): the run as it is then.
    ///
    /// # Errors
    ///
    /// `run.not_found`, and `agent.stopped` if the agent is stopped meanwhile.
    pub async fn finish(&self, run: &RunId) -> Result<v1::Run, Error> {
        let mut news = self.0.town.watch(run);
        loop {
            let row = self.0.row(run).await?;
            if is_over(&row) || row.status == Status::AwaitingInput {
                return Ok(show::run(row));
            }
            loop {
                let heard = tokio::select! {
                    heard = news.recv() => heard,
                    () = self.0.closing.cancelled() => None,
                };
                match heard {
                    Some(News::Moved) => break,
                    Some(News::Said(_)) => {}
                    None => return Err(stopped()),
                }
            }
        }
    }

    /// Watches a run from a step on: its steps, each once and in order, and the text of answers while
    /// they are written.
    pub fn watch(&self, run: &RunId, from: u64) -> AgentWatch {
        AgentWatch::new(Arc::clone(&self.0), run.clone(), from)
    }

    /// The runs that have not ended, oldest first; each is taken up at once if something is owed. After a
    /// restart these are what the process before has left; it goes on with them by itself, whether or
    /// not it is asked.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub async fn resume(&self) -> Result<Vec<RunId>, Error> {
        self.0.open()?;
        let filter = RunFilter {
            statuses: vec![
                Status::Pending,
                Status::Running,
                Status::AwaitingInput,
                Status::AwaitingApproval,
            ],
            ..RunFilter::default()
        };
        let mut live: Vec<RunId> = Vec::new();
        for row in self.0.rows(&filter).await? {
            sayso_driver::Herald::wake(&*self.0.town, &self.0.namespace, &row.run, "resumed");
            live.push(row.run);
        }
        live.reverse();
        Ok(live)
    }

    /// Hands every run back and ends; calls under way are waited for. What is recorded can still be read;
    /// the journal is free for another agent once the last clone is dropped, and that one goes on. A
    /// process that dies instead loses nothing but the time.
    pub async fn stop(&self) {
        self.0.closing.cancel();
        self.0.tasks.wait().await;
    }

    /// The store, for tests that kill at its appends.
    #[cfg(feature = "hooks")]
    pub fn store(&self) -> &Store {
        &self.0.store
    }
}

impl Inner {
    /// Refuses to begin anything once the agent was stopped.
    pub(crate) fn open(&self) -> Result<(), Error> {
        if self.closing.is_cancelled() {
            return Err(stopped());
        }
        Ok(())
    }

    pub(crate) async fn row(&self, run: &RunId) -> Result<RunRow, Error> {
        let row = self.store.runs().get(&self.namespace, run).await;
        let row = row.map_err(|error| database(&error))?;
        row.ok_or_else(|| unwritten(WriteError::NotFound(run.clone())))
    }

    pub(crate) async fn steps(
        &self,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredStep>, Error> {
        let runs = self.store.runs();
        let steps = runs.steps(&self.namespace, run, after, limit);
        steps.await.map_err(|error| database(&error))
    }
}

/// Whether nothing more will come of a run: a cancelled one still waits for calls that were sent.
pub(crate) fn is_over(row: &RunRow) -> bool {
    match row.status {
        Status::Completed | Status::Failed => true,
        Status::Cancelled => !row.open_calls,
        Status::Pending | Status::Running | Status::AwaitingInput | Status::AwaitingApproval => {
            false
        }
    }
}

pub(crate) fn principal(name: &str) -> Result<PrincipalId, Error> {
    let bad = |bad: BadName| refused(Kind::Invalid, "request.invalid", bad.to_string());
    PrincipalId::new(name).map_err(bad)
}

fn refused(kind: Kind, code: &'static str, message: impl Into<String>) -> Error {
    Error::Refused(Coded::new(kind, code, message))
}

fn stopped() -> Error {
    refused(Kind::Unavailable, "agent.stopped", "the agent was stopped")
}

pub(crate) fn unwritten(error: WriteError) -> Error {
    Error::Refused(coded(error))
}

pub(crate) fn database(error: &DatabaseError) -> Error {
    if error.is_retryable() {
        return unwritten(LoadError::Unavailable(error.to_string()).into());
    }
    Error::Refused(Coded::internal("reading the journal", error))
}
