use std::sync::Arc;

use sayso_driver::{ApprovalStatus, LoadError, RunRow, WriteError};
use sayso_engine::{Asked, Asker, NewRun, StartOrigin, admit, cancel, new_ids, respond, retry};
use sayso_herald::{coded, show};
use sayso_run::{
    AgentName, BadName, Ballot, ChainKey, ChainKeys, Namespace, PrincipalId, Response, RevisionId,
    RunId, Status,
};
use sayso_service::error::{Coded, Kind};
use sayso_service::telemetry::propagate;
use sayso_store::{
    ApprovalFilter, DatabaseError, ListError, LogEntry, PageRequest, RunFilter, Store, StoredStep,
    VerifyError,
};
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

/// Rows that are read at a time.
const PAGE: u32 = 500;

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

    /// A run.
    ///
    /// # Errors
    ///
    /// `run.not_found`.
    pub async fn get(&self, run: &RunId) -> Result<v1::Run, Error> {
        self.0.row(run).await.map(show::run)
    }

    /// Every run of the journal, newest first.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub async fn list(&self) -> Result<Vec<v1::Run>, Error> {
        let rows = self.0.rows(&RunFilter::default()).await?;
        Ok(rows.into_iter().map(show::run).collect())
    }

    /// A run's timeline, secrets masked.
    ///
    /// # Errors
    ///
    /// `run.not_found`.
    pub async fn steps(&self, run: &RunId) -> Result<Vec<v1::RunStep>, Error> {
        let mut steps = Vec::new();
        let row = self.0.row(run).await?;
        while (steps.len() as u64) < row.seq {
            let page = self.0.steps(run, steps.len() as u64, PAGE).await?;
            if page.is_empty() {
                break;
            }
            steps.extend(page.iter().map(show::step));
        }
        Ok(steps)
    }

    /// Checks a run's hash chain and seals (S2.3). A broken one is an answer.
    ///
    /// # Errors
    ///
    /// `run.not_found`.
    pub async fn verify(&self, run: &RunId) -> Result<v1::VerifyRunResponse, Error> {
        use v1::verify_run_response::Result::{Broken, Verified};
        let inner = &*self.0;
        let runs = inner.store.runs();
        let verified = runs.verify(&inner.namespace, run, &inner.keys);
        let result = match verified.await {
            Ok(head) => Verified(head.into()),
            Err(VerifyError::Broken(broken)) => Broken(broken.into()),
            Err(VerifyError::NotFound(run)) => return Err(unwritten(WriteError::NotFound(run))),
            Err(VerifyError::Database(error)) => return Err(database(&error)),
        };
        Ok(v1::VerifyRunResponse {
            result: Some(result),
        })
    }

    /// What waits for a decision, newest first.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub async fn approvals(&self) -> Result<Vec<v1::Approval>, Error> {
        let filter = ApprovalFilter {
            statuses: vec![ApprovalStatus::Pending],
            ..ApprovalFilter::default()
        };
        let (inner, filter) = (&*self.0, &filter);
        let fetch = |page| async move {
            let approvals = inner.store.approvals();
            approvals.list(&inner.namespace, filter, &page).await
        };
        let rows = pages(fetch).await?;
        Ok(rows.iter().map(show::approval).collect())
    }

    /// What went wrong around the agent, newest first: callbacks that decided nothing, above all.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read.
    pub async fn log(&self) -> Result<Vec<LogEntry>, Error> {
        let inner = &*self.0;
        let fetch = |page| async move {
            let logs = inner.store.agent_logs();
            logs.list(&inner.namespace, &inner.agent, &page).await
        };
        pages(fetch).await
    }

    /// Answers a run that waits for a person, or sends a message into one that runs.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.ended`, `request.empty`, `request.invalid`.
    pub async fn reply(
        &self,
        run: &RunId,
        by: &str,
        message: impl Into<String>,
    ) -> Result<(), Error> {
        let inner = &*self.0;
        inner.open()?;
        let asked = Asked {
            namespace: inner.namespace.clone(),
            reaches_all: true,
            run: run.clone(),
            response: Response {
                by: principal(by)?,
                decisions: Vec::new(),
                message: Some(message.into()),
                goes_on: true,
                seen: None,
                idempotency: None,
                ballot: Ballot::default(),
            },
            redaction: None,
        };
        let answering = respond(
            &inner.store,
            &*inner.town,
            &*inner.desk,
            &inner.key,
            asked,
            "",
        );
        answering.await.map_err(unwritten)?;
        Ok(())
    }

    /// Ends a run, and every run that it has started (S1.4). What runs already is told so, and what it
    /// still answers is recorded.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.ended`.
    pub async fn cancel(&self, run: &RunId, by: &str, reason: &str) -> Result<(), Error> {
        let inner = &*self.0;
        inner.open()?;
        let reason = (!reason.is_empty()).then(|| reason.to_owned());
        let asker = inner.asker(by)?;
        let cancelling = cancel(
            &inner.store,
            &*inner.town,
            &inner.key,
            asker,
            run,
            reason,
            None,
        );
        cancelling.await.map_err(unwritten)?;
        Ok(())
    }

    /// Lets a failed run go on from where it stopped (S1.5).
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.not_failed`, `run.retries_used_up`.
    pub async fn retry(&self, run: &RunId, by: &str) -> Result<(), Error> {
        let inner = &*self.0;
        inner.open()?;
        let asker = inner.asker(by)?;
        let retrying = retry(&inner.store, &*inner.town, &inner.key, asker, run);
        retrying.await.map_err(unwritten)?;
        Ok(())
    }

    /// Hands every run back and ends; calls under way are waited for. Runs go on when an agent is built
    /// on the journal again. A process that dies instead loses nothing but the time.
    pub async fn stop(&self) {
        self.0.closing.cancel();
        self.0.tasks.wait().await;
        self.0.store.close().await;
    }

    /// The store, for tests that kill at its appends.
    #[cfg(feature = "hooks")]
    pub fn store(&self) -> &Store {
        &self.0.store
    }
}

impl Inner {
    /// Refuses to begin anything once the agent was stopped.
    fn open(&self) -> Result<(), Error> {
        if self.closing.is_cancelled() {
            return Err(stopped());
        }
        Ok(())
    }

    fn asker(&self, by: &str) -> Result<Asker, Error> {
        Ok(Asker {
            namespace: self.namespace.clone(),
            principal: principal(by)?,
            reaches_all: true,
        })
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

    async fn rows(&self, filter: &RunFilter) -> Result<Vec<RunRow>, Error> {
        let fetch = |page| async move {
            let runs = self.store.runs();
            runs.list(&self.namespace, filter, &page).await
        };
        pages(fetch).await
    }
}

/// Every row of a list.
async fn pages<T, Fut>(fetch: impl Fn(PageRequest) -> Fut) -> Result<Vec<T>, Error>
where
    Fut: Future<Output = Result<sayso_store::Page<T>, ListError>>,
{
    let (mut rows, mut token) = (Vec::new(), None);
    loop {
        let size = PAGE;
        let page = match fetch(PageRequest { size, token }).await {
            Ok(page) => page,
            Err(ListError::Database(error)) => return Err(database(&error)),
            Err(error) => return Err(Error::Refused(Coded::internal("reading a list", &error))),
        };
        rows.extend(page.items);
        token = page.next;
        if token.is_none() {
            return Ok(rows);
        }
    }
}

/// Whether nothing more will come of a run: a cancelled one still waits for calls that were sent.
pub(crate) fn is_over(row: &RunRow) -> bool {
    row.status.is_terminal() && !row.open_calls
}

fn principal(name: &str) -> Result<PrincipalId, Error> {
    let bad = |bad: BadName| refused(Kind::Invalid, "request.invalid", bad.to_string());
    PrincipalId::new(name).map_err(bad)
}

fn refused(kind: Kind, code: &'static str, message: impl Into<String>) -> Error {
    Error::Refused(Coded::new(kind, code, message))
}

fn stopped() -> Error {
    refused(Kind::Unavailable, "agent.stopped", "the agent was stopped")
}

fn unwritten(error: WriteError) -> Error {
    Error::Refused(coded(error))
}

fn database(error: &DatabaseError) -> Error {
    if error.is_retryable() {
        return unwritten(LoadError::Unavailable(error.to_string()).into());
    }
    Error::Refused(Coded::internal("reading the journal", error))
}
