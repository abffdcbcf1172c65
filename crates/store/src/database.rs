//! The two databases behind one set of statements.

use std::sync::Arc;

use sqlx::{PgPool, SqlitePool};
use tokio::sync::{Mutex, MutexGuard};

/// Which database it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Postgres.
    Postgres,
    /// SQLite.
    Sqlite,
}

/// The connections of the repositories.
#[derive(Debug, Clone)]
pub(crate) enum Database {
    Postgres(PgPool),
    Sqlite(SqlitePool, WriteTurn),
}

/// Whose turn it is to write to a SQLite file.
///
/// SQLite has one write lock, and who waits for it only looks now and then: beside a journal that
/// commits without a pause, a heartbeat could miss it for seconds. Everybody in this process takes
/// turns here first, in the order in which they came, and then finds the lock free.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriteTurn(Arc<Mutex<()>>);

impl WriteTurn {
    pub(crate) async fn take(&self) -> MutexGuard<'_, ()> {
        self.0.lock().await
    }
}

impl Database {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Database::Postgres(_) => Kind::Postgres,
            Database::Sqlite(..) => Kind::Sqlite,
        }
    }

    /// The SQL of the database's time with the tests' offset, in microseconds.
    pub(crate) fn now(&self) -> &'static str {
        self.kind().now()
    }

    /// The same, read once for a whole statement, so that an index finds what lies before it: a clock
    /// that may answer differently for each row makes Postgres look at every row. For reads that come
    /// before any lock; what is read after one needs [`Database::now`].
    pub(crate) fn at_once(&self) -> String {
        format!("(SELECT {})", self.now())
    }
}

impl Kind {
    /// The SQL of the database's time with the tests' offset, in microseconds.
    pub(crate) const fn now(self) -> &'static str {
        match self {
            Kind::Postgres => {
                "(CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) \
                 + (SELECT value FROM meta WHERE key = 'clock_offset'))"
            }
            Kind::Sqlite => {
                "(CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER) \
                 + (SELECT value FROM meta WHERE key = 'clock_offset'))"
            }
        }
    }
}

/// Reads: runs the same code against whichever pool it is; the drivers' types are inferred in each
/// arm.
macro_rules! on_both {
    ($database:expr, |$pool:ident| $body:expr) => {
        match $database {
            $crate::database::Database::Postgres($pool) => $body,
            $crate::database::Database::Sqlite($pool, _) => $body,
        }
    };
}

/// Writes: the same for one statement that commits by itself.
macro_rules! write_on_both {
    ($database:expr, |$pool:ident| $body:expr) => {
        match $database {
            $crate::database::Database::Postgres($pool) => $body,
            $crate::database::Database::Sqlite($pool, turn) => {
                let _turn = turn.take().await;
                $body
            }
        }
    };
}

/// The same inside one transaction that writes. An early return rolls it back. SQLite takes its one
/// write lock at the beginning: a transaction that upgrades later fails instead of waiting.
macro_rules! in_transaction {
    ($database:expr, |$tx:ident| $body:expr) => {
        match $database {
            $crate::database::Database::Postgres(pool) => {
                let mut $tx = pool.begin().await?;
                let out = $body;
                $tx.commit().await?;
                out
            }
            $crate::database::Database::Sqlite(pool, turn) => {
                let _turn = turn.take().await;
                let mut $tx = pool.begin_with("BEGIN IMMEDIATE").await?;
                let out = $body;
                $tx.commit().await?;
                out
            }
        }
    };
}

pub(crate) use {in_transaction, on_both, write_on_both};
