use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row};
use sayso_driver::{LoadError, Loaded};
use sayso_run::RunId;
use tokio::sync::mpsc;

use super::fold::{Folding, RawLease, RawStep};
use super::{Request, answer_all, next_group};
use crate::journal::open_sqlite;

const LEASE: &str = "SELECT epoch, worker, \
    EXISTS (SELECT 1 FROM workers w WHERE w.id = runs.worker AND w.ended_at IS NULL), \
    ready_at, published, seq, \
    EXISTS (SELECT 1 FROM pauses p WHERE p.namespace = runs.namespace \
    AND p.agent IN ('', runs.agent) AND p.resumed_at IS NULL) FROM runs WHERE id = ?1 AND imported_from IS NULL";

const STEPS: &str = "SELECT seq, at, actor, kind, version, content, view, content_sha256, hash, \
    seal_key, seal FROM steps WHERE run = ?1 ORDER BY seq";

/// Starts the reader's thread.
pub(super) fn start(path: PathBuf, requests: mpsc::UnboundedReceiver<Request>) {
    std::thread::Builder::new()
        .name("sayso-loader".into())
        .spawn(move || futures::executor::block_on(read(&path, requests)))
        .expect("the system starts one thread");
}

async fn read(path: &Path, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut connection = None;
    while let Some(group) = next_group(&mut requests).await {
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => open_sqlite(path),
        };
        match open {
            Ok(open) => {
                for request in group {
                    let loaded = load(&open, &request.run);
                    request.answer(loaded);
                }
                connection = Some(open);
            }
            Err(error) => answer_all(group, &LoadError::Unavailable(error.to_string())),
        }
    }
}

/// One read transaction, so that row and steps are of the same moment.
fn load(connection: &Connection, run: &RunId) -> Result<Option<Loaded>, LoadError> {
    let unavailable = |error: rusqlite::Error| LoadError::Unavailable(error.to_string());
    let transaction = connection.unchecked_transaction().map_err(unavailable)?;
    let folding = rows(&transaction, run).map_err(unavailable)?;
    transaction.finish().map_err(unavailable)?;
    folding.map_or(Ok(None), Folding::finish)
}

fn rows(connection: &Connection, run: &RunId) -> rusqlite::Result<Option<Folding>> {
    let lease = connection
        .prepare_cached(LEASE)?
        .query_row([run.as_str()], |row| {
            Ok(RawLease {
                epoch: row.get(0)?,
                worker: row.get(1)?,
                worker_alive: row.get(2)?,
                ready_at: row.get(3)?,
                published: row.get(4)?,
                seq: row.get(5)?,
                paused: row.get(6)?,
            })
        })
        .optional()?;
    let Some(lease) = lease else { return Ok(None) };
    let mut folding = Folding::new(run.clone(), lease);
    let mut statement = connection.prepare_cached(STEPS)?;
    let mut steps = statement.query([run.as_str()])?;
    while let Some(row) = steps.next()? {
        folding.step(&step(row)?);
    }
    Ok(Some(folding))
}

fn step<'r>(row: &'r Row<'_>) -> rusqlite::Result<RawStep<'r>> {
    let optional_text = |at| {
        row.get_ref(at)?
            .as_str_or_null()
            .map_err(rusqlite::Error::from)
    };
    Ok(RawStep {
        seq: row.get(0)?,
        at: row.get(1)?,
        actor: row.get_ref(2)?.as_str()?,
        kind: row.get_ref(3)?.as_str()?,
        version: row.get(4)?,
        content: row.get_ref(5)?.as_str()?,
        view: optional_text(6)?,
        content_sha256: row.get_ref(7)?.as_blob()?,
        hash: row.get_ref(8)?.as_blob()?,
        seal_key: optional_text(9)?,
        seal: row.get_ref(10)?.as_blob_or_null()?,
    })
}
