use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sayso_driver::{LoadError, Loaded};
use sayso_run::RunId;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{Connection, Row};
use tokio::sync::{Mutex, mpsc};

use super::fold::{Folding, RawLease, RawStep};
use super::{Request, answer_all, next_group};
use crate::error::Trouble;
use crate::journal::by_key;

/// Connections that load.
const READERS: usize = 2;

/// How long a load may take before its connection counts as lost.
const LONGEST_READ: Duration = Duration::from_secs(30);

/// The lease columns stand in the first step's row only. A read-only copy is nobody's to work on.
const LOAD: &str = "SELECT s.run, s.seq, s.at, s.actor, s.kind, s.version, s.content, s.view, \
    s.content_sha256, s.hash, s.seal_key, s.seal, r.epoch, r.published, \
    CASE WHEN s.seq = 1 THEN r.ready_at END, \
    CASE WHEN s.seq = 1 THEN r.worker END, \
    CASE WHEN s.seq = 1 AND EXISTS \
    (SELECT 1 FROM workers w WHERE w.id = r.worker AND w.ended_at IS NULL) THEN 1 ELSE 0 END, \
    r.seq, \
    CASE WHEN s.seq = 1 AND EXISTS (SELECT 1 FROM pauses p WHERE p.namespace = r.namespace \
    AND p.agent IN ('', r.agent) AND p.resumed_at IS NULL) THEN 1 ELSE 0 END \
    FROM runs r JOIN steps s ON s.run = r.id WHERE r.id = ANY($1) AND r.imported_from IS NULL ORDER BY s.run, s.seq";

/// Starts the readers; the idle one waits for the queue that the busy one has left.
pub(super) fn start(
    options: &PgConnectOptions,
    connect_timeout: Duration,
    requests: mpsc::UnboundedReceiver<Request>,
) {
    let requests = Arc::new(Mutex::new(requests));
    for _ in 0..READERS {
        let reader = Reader {
            options: by_key(options),
            connect_timeout,
            connection: None,
        };
        tokio::spawn(read(reader, Arc::clone(&requests)));
    }
}

async fn read(mut reader: Reader, requests: Arc<Mutex<mpsc::UnboundedReceiver<Request>>>) {
    loop {
        let group = next_group(&mut *requests.lock().await).await;
        let Some(group) = group else { return };
        // A connection that went stale while idle is found out by its first statement, and reading
        // twice does no harm.
        let mut loaded = reader.load(&group).await;
        if matches!(loaded, Err(LoadError::Unavailable(_))) {
            loaded = reader.load(&group).await;
        }
        match loaded {
            Ok(mut runs) => {
                for request in group {
                    // The same run may be asked for twice in one group.
                    let loaded = match runs.get(&request.run) {
                        Some(Ok(loaded)) => Ok(Some(loaded.clone())),
                        Some(Err(error)) => Err(error.clone()),
                        None => Ok(None),
                    };
                    request.answer(loaded);
                }
                runs.clear();
            }
            Err(error) => answer_all(group, &error),
        }
    }
}

struct Reader {
    options: PgConnectOptions,
    connect_timeout: Duration,
    connection: Option<PgConnection>,
}

type Runs = HashMap<RunId, Result<Loaded, LoadError>>;

impl Reader {
    async fn load(&mut self, group: &[Request]) -> Result<Runs, LoadError> {
        let unavailable = |error: sqlx::Error| LoadError::Unavailable(error.to_string());
        let slow = |_| LoadError::Unavailable("the database does not answer".into());
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connecting = PgConnection::connect_with(&self.options);
                tokio::time::timeout(self.connect_timeout, connecting)
                    .await
                    .map_err(slow)?
                    .map_err(unavailable)?
            }
        };
        let ids: Vec<&str> = group.iter().map(|request| request.run.as_str()).collect();
        let reading = sqlx::query(LOAD).bind(ids).fetch_all(&mut connection);
        let rows = tokio::time::timeout(LONGEST_READ, reading)
            .await
            .map_err(slow)?;
        if !matches!(&rows, Err(error) if Trouble::of(error) == Trouble::Lost) {
            self.connection = Some(connection);
        }
        fold_all(&rows.map_err(unavailable)?)
    }
}

fn fold_all(rows: &[PgRow]) -> Result<Runs, LoadError> {
    let mut runs = HashMap::new();
    let mut folding: Option<(&str, Folding, RunId)> = None;
    for row in rows {
        let bad = |error: sqlx::Error| LoadError::Unavailable(error.to_string());
        let id: &str = row.try_get(0).map_err(bad)?;
        if folding.as_ref().is_none_or(|(at, ..)| *at != id) {
            finish(folding.take(), &mut runs);
            let run = RunId::new(id).map_err(|bad| LoadError::Unavailable(bad.to_string()))?;
            let lease = lease(row).map_err(bad)?;
            folding = Some((id, Folding::new(run.clone(), lease), run));
        }
        if let Some((_, folding, _)) = &mut folding {
            folding.step(&step(row).map_err(bad)?);
        }
    }
    finish(folding, &mut runs);
    Ok(runs)
}

fn finish(folding: Option<(&str, Folding, RunId)>, runs: &mut Runs) {
    let Some((_, folding, run)) = folding else {
        return;
    };
    if let Some(loaded) = folding.finish().transpose() {
        runs.insert(run, loaded);
    }
}

fn step(row: &PgRow) -> Result<RawStep<'_>, sqlx::Error> {
    Ok(RawStep {
        seq: row.try_get(1)?,
        at: row.try_get(2)?,
        actor: row.try_get(3)?,
        kind: row.try_get(4)?,
        version: row.try_get(5)?,
        content: row.try_get(6)?,
        view: row.try_get(7)?,
        content_sha256: row.try_get(8)?,
        hash: row.try_get(9)?,
        seal_key: row.try_get(10)?,
        seal: row.try_get(11)?,
    })
}

fn lease(row: &PgRow) -> Result<RawLease, sqlx::Error> {
    Ok(RawLease {
        epoch: row.try_get(12)?,
        published: row.try_get(13)?,
        ready_at: row.try_get(14)?,
        worker: row.try_get(15)?,
        worker_alive: row.try_get::<i32, _>(16)? == 1,
        seq: row.try_get(17)?,
        paused: row.try_get::<i32, _>(18)? == 1,
    })
}
