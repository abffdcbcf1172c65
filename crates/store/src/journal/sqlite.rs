//! A group is one transaction of prepared one-row statements, on a thread of its own: on one file
//! with one writer, going through an asynchronous driver costs more than the writing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use sayso_driver::Append;
use sayso_run::{Money, RunId};
use uuid::Uuid;

use super::check::trigger;
use super::lease::{claimer, holder, keeps_ready, lease_code, lease_epoch, published};
use super::verdict::{Finding, FoundRow};
use super::{Failure, Member, Target, int};
use crate::database::{Kind, WriteTurn};
use crate::error::Trouble;
#[cfg(feature = "hooks")]
use crate::hooks::{Hooks, Then, Window};
use crate::open::SQLITE_BUSY;
use crate::record::time;

mod rows;
mod talk;
mod tree;

pub(crate) struct SqliteTarget {
    path: PathBuf,
    turn: WriteTurn,
    connection: Option<Connection>,
    sql: Sql,
    #[cfg(feature = "hooks")]
    hooks: Hooks,
}

/// The statements that hold the clock.
struct Sql {
    start: String,
    update: String,
    now: String,
}

impl SqliteTarget {
    pub(crate) fn new(
        path: &Path,
        turn: WriteTurn,
        #[cfg(feature = "hooks")] hooks: Hooks,
    ) -> Self {
        let now = Kind::Sqlite.now();
        Self {
            path: path.to_owned(),
            turn,
            connection: None,
            sql: Sql {
                start: rows::START_TASK.replace("{now}", now),
                update: rows::MOVE.replace("{now}", now),
                now: format!("SELECT {now}"),
            },
            #[cfg(feature = "hooks")]
            hooks,
        }
    }

    fn take(&mut self) -> Result<Connection, Failure> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => open(&self.path).map_err(|error| Failure::Down(error.to_string())),
        }
    }

    fn write_group(&mut self, group: &[Member]) -> Result<Vec<Option<u64>>, Failure> {
        let mut connection = self.take()?;
        let written = self.write_on(&mut connection, group);
        // After an unclear commit the connection is made anew: whatever it still holds is given up.
        if !matches!(written, Err(Failure::Unclear(_))) {
            self.connection = Some(connection);
        }
        written
    }

    fn write_on(
        &self,
        connection: &mut Connection,
        group: &[Member],
    ) -> Result<Vec<Option<u64>>, Failure> {
        let transaction = connection
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
            .map_err(|error| failure(&error))?;
        let mut epochs = Vec::with_capacity(group.len());
        for member in group {
            let epoch = self.write_one(&transaction, &member.append);
            epochs.push(epoch.map_err(|error| failure(&error))?);
        }
        #[cfg(feature = "hooks")]
        self.pass(Window::BeforeCommit)?;
        // A failed commit may have reached the disk or not.
        transaction
            .commit()
            .map_err(|error| Failure::Unclear(error.to_string()))?;
        #[cfg(feature = "hooks")]
        self.pass(Window::AfterCommit)?;
        Ok(epochs)
    }

    #[cfg(feature = "hooks")]
    fn pass(&self, window: Window) -> Result<(), Failure> {
        match self.hooks.call(window, None) {
            Then::Proceed => Ok(()),
            Then::LoseConnection => Err(Failure::Unclear(format!("lost by a hook at {window:?}"))),
        }
    }

    fn write_one(&self, connection: &Connection, append: &Append) -> rusqlite::Result<Option<u64>> {
        if let Some(talk) = &append.talk
            && !talk::take(connection, talk, &append.run)?
        {
            return Ok(None);
        }
        let epoch = if append.expected == 0 {
            self.start(connection, append)?
        } else {
            self.advance(connection, append)?
        };
        let Some(epoch) = epoch else { return Ok(None) };
        rows::insert_steps(connection, append)?;
        rows::upsert_actions(connection, append)?;
        rows::upsert_approvals(connection, append)?;
        rows::insert_feedback(connection, append)?;
        rows::insert_deliveries(connection, append)?;
        talk::insert_messages(connection, append)?;
        rows::add_usage(connection, append)?;
        tree::change(connection, append)?;
        Ok(Some(epoch.unsigned_abs()))
    }

    /// The task decides whether a start is new: its run and its key are unique there.
    fn start(&self, connection: &Connection, append: &Append) -> rusqlite::Result<Option<i64>> {
        let row = &append.row;
        let Some(trigger) = trigger(append) else {
            return Ok(None);
        };
        if let Some(tick) = &append.tick
            && !rows::take_tick(connection, tick)?
        {
            return Ok(None);
        }
        let new = connection
            .prepare_cached(&self.sql.start)?
            .execute(params![
                row.task.as_str(),
                row.run.as_str(),
                row.namespace.as_str(),
                row.agent.as_str(),
                trigger.source.as_str(),
                row.input.as_str(),
                row.principal.as_str(),
                trigger.trust.as_str(),
                append.start_key.as_ref().map(|key| key.key.as_str()),
                append.start_key.as_ref().map(|key| key.request.as_str()),
                trigger.traceparent.as_deref(),
                row.created_at.micros(),
                trigger.trigger.as_deref(),
                time(append.not_after),
            ])?;
        if new == 0 {
            return Ok(None);
        }
        let claimed = claimer(append).is_some();
        let epoch = i64::from(claimed);
        connection
            .prepare_cached(rows::START_RUN)?
            .execute(params![
                row.run.as_str(),
                row.task.as_str(),
                row.namespace.as_str(),
                row.agent.as_str(),
                row.revision.as_str(),
                row.principal.as_str(),
                row.trust.as_str(),
                row.status.as_str(),
                int(row.seq),
                row.ended_by.map(|by| by.as_str()),
                row.output.as_deref(),
                row.error_code.as_deref(),
                row.error_message.as_deref(),
                row.cycles,
                row.retries,
                int(row.usage.input),
                int(row.usage.cached),
                int(row.usage.output),
                row.created_at.micros(),
                row.updated_at.micros(),
                time(row.ended_at),
                time(row.expires_at),
                row.open_calls,
                epoch,
                holder(append),
                claimed.then_some(append.id.as_bytes().as_slice()),
                time(append.ready_at),
                published(append),
                row.conversation.as_ref().map(|it| it.as_str()),
            ])?;
        Ok(Some(epoch))
    }

    fn advance(&self, connection: &Connection, append: &Append) -> rusqlite::Result<Option<i64>> {
        let row = &append.row;
        connection
            .prepare_cached(&self.sql.update)?
            .query_row(
                params![
                    row.run.as_str(),
                    int(append.expected),
                    row.trust.as_str(),
                    row.status.as_str(),
                    int(row.seq),
                    row.ended_by.map(|by| by.as_str()),
                    row.output.as_deref(),
                    row.error_code.as_deref(),
                    row.error_message.as_deref(),
                    row.cycles,
                    row.retries,
                    int(row.usage.input),
                    int(row.usage.cached),
                    int(row.usage.output),
                    row.updated_at.micros(),
                    time(row.ended_at),
                    time(row.expires_at),
                    row.open_calls,
                    lease_code(append),
                    int(lease_epoch(append)),
                    claimer(append),
                    append.id.as_bytes().as_slice(),
                    time(append.ready_at),
                    keeps_ready(append),
                    published(append),
                    time(append.not_after),
                    int(row.cost.map_or(0, Money::millionths)),
                    row.cost.map(|cost| cost.currency().to_string()),
                ],
                |row| row.get(0),
            )
            .optional()
    }

    fn look_at(&self, connection: &Connection, append: &Append) -> rusqlite::Result<Finding> {
        let run = append.run.as_str();
        let row = connection
            .prepare_cached(rows::LOOK_AT_RUN)?
            .query_row([run], |row| {
                Ok(FoundRow {
                    seq: row.get::<_, i64>(0)?.unsigned_abs(),
                    epoch: row.get::<_, i64>(1)?.unsigned_abs(),
                    held: row.get(2)?,
                    holder_alive: row.get(3)?,
                    lease_append: id(row.get(4)?),
                })
            })
            .optional()?;
        let step: Option<Vec<u8>> = connection
            .prepare_cached("SELECT append FROM steps WHERE run = ?1 AND seq = ?2")?
            .query_row(params![run, int(append.expected + 1)], |row| row.get(0))
            .optional()?;
        let same_key = match &append.start_key {
            None => None,
            Some(key) => connection
                .prepare_cached(rows::LOOK_AT_KEY)?
                .query_row(
                    params![
                        append.row.namespace.as_str(),
                        append.row.principal.as_str(),
                        key.key.as_str()
                    ],
                    |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
                )
                .optional()?
                .and_then(|(run, request)| Some((RunId::new(run).ok()?, request))),
        };
        Ok(Finding {
            step: id(step),
            row,
            same_key,
            now: connection
                .prepare_cached(&self.sql.now)?
                .query_row([], |row| row.get(0))?,
        })
    }
}

impl Target for SqliteTarget {
    async fn write(&mut self, group: &[Member]) -> Result<Vec<Option<u64>>, Failure> {
        let turn = self.turn.clone();
        let _turn = turn.take().await;
        self.write_group(group)
    }

    async fn look(&mut self, group: &[Member]) -> Result<Vec<Finding>, Failure> {
        let connection = self.take()?;
        let found = group
            .iter()
            .map(|member| self.look_at(&connection, &member.append))
            .collect::<rusqlite::Result<Vec<_>>>()
            .map_err(|error| failure(&error));
        self.connection = Some(connection);
        found
    }

    async fn mark(&mut self, marks: &[(RunId, u64)]) -> Result<(), Failure> {
        let turn = self.turn.clone();
        let _turn = turn.take().await;
        let mut connection = self.take()?;
        let marked = mark_on(&mut connection, marks).map_err(|error| failure(&error));
        self.connection = Some(connection);
        marked
    }

    async fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

fn mark_on(connection: &mut Connection, marks: &[(RunId, u64)]) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    for (run, seq) in marks {
        transaction
            .prepare_cached(rows::MARK)?
            .execute(params![run.as_str(), int(*seq)])?;
    }
    transaction.commit()
}

/// Opens the journal's own connection.
pub(crate) fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(SQLITE_BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 1000)?;
    Ok(connection)
}

fn failure(error: &rusqlite::Error) -> Failure {
    let why = error.to_string();
    let trouble = error.sqlite_error().map_or(Trouble::Refused, |error| {
        Trouble::of_sqlite(error.extended_code)
    });
    match trouble {
        Trouble::Lost => Failure::Unclear(why),
        // The lock was waited for long enough already.
        Trouble::Again | Trouble::Down => Failure::Down(why),
        Trouble::Refused => Failure::Refused(why),
    }
}

fn id(bytes: Option<Vec<u8>>) -> Option<Uuid> {
    bytes.and_then(|bytes| Uuid::from_slice(&bytes).ok())
}
