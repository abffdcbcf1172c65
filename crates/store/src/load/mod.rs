//! Loading and folding runs.
//!
//! Loads are grouped like appends: a reader takes what is queued, up to [`GROUP`] runs, and asks once
//! for all of them. Row and steps come from one statement, so they are of the same moment.

mod fold;
mod postgres;
mod sqlite;

use std::path::Path;
use std::time::Duration;

use sayso_driver::{LoadError, Loaded};
use sayso_run::RunId;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::{mpsc, oneshot};

/// Runs that one statement loads.
const GROUP: usize = 64;

#[derive(Debug)]
struct Request {
    run: RunId,
    answer: oneshot::Sender<Result<Option<Loaded>, LoadError>>,
}

impl Request {
    /// Answers; whoever asked may have gone.
    fn answer(self, with: Result<Option<Loaded>, LoadError>) {
        self.answer.send(with).unwrap_or_default();
    }
}

/// A handle on the readers.
#[derive(Debug)]
pub(crate) struct Loader(mpsc::UnboundedSender<Request>);

impl Loader {
    /// Two connections that take turns.
    pub(crate) fn postgres(options: &PgConnectOptions, connect_timeout: Duration) -> Self {
        let (send, receive) = mpsc::unbounded_channel();
        postgres::start(options, connect_timeout, receive);
        Self(send)
    }

    /// One thread.
    pub(crate) fn sqlite(path: &Path) -> Self {
        let (send, receive) = mpsc::unbounded_channel();
        sqlite::start(path.to_owned(), receive);
        Self(send)
    }

    pub(crate) async fn load(&self, run: &RunId) -> Result<Option<Loaded>, LoadError> {
        let stopped = || LoadError::Unavailable("the journal's reader has stopped".into());
        let (answer, answered) = oneshot::channel();
        let request = Request {
            run: run.clone(),
            answer,
        };
        self.0.send(request).map_err(|_| stopped())?;
        answered.await.map_err(|_| stopped())?
    }
}

/// Waits for a request and takes what else is queued; `None` when the last handle is gone.
async fn next_group(requests: &mut mpsc::UnboundedReceiver<Request>) -> Option<Vec<Request>> {
    let mut group = vec![requests.recv().await?];
    while group.len() < GROUP
        && let Ok(request) = requests.try_recv()
    {
        group.push(request);
    }
    Some(group)
}

fn answer_all(group: Vec<Request>, error: &LoadError) {
    for request in group {
        request.answer(Err(error.clone()));
    }
}
