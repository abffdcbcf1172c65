//! What an agent's journal says.

use sayso_driver::{ApprovalStatus, RunRow, WriteError};
use sayso_herald::show;
use sayso_run::RunId;
use sayso_service::error::Coded;
use sayso_store::{ApprovalFilter, ListError, LogEntry, PageRequest, RunFilter, VerifyError};

use super::Agent;
use super::agent::{Inner, database, unwritten};
use crate::{Error, v1};

/// Rows that are read at a time.
const PAGE: u32 = 500;

impl Agent {
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
}

impl Inner {
    /// Every run that the filter lets through, newest first.
    pub(crate) async fn rows(&self, filter: &RunFilter) -> Result<Vec<RunRow>, Error> {
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
