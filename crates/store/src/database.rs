//! The two databases behind one set of statements.

use sqlx::{PgPool, SqlitePool};

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
    Sqlite(SqlitePool),
}

impl Database {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Database::Postgres(_) => Kind::Postgres,
            Database::Sqlite(_) => Kind::Sqlite,
        }
    }

    /// The SQL of the database's time with the tests' offset, in microseconds.
    pub(crate) fn now(&self) -> &'static str {
        self.kind().now()
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

/// Runs the same code against whichever pool it is; the drivers' types are inferred in each arm.
macro_rules! on_both {
    ($database:expr, |$pool:ident| $body:expr) => {
        match $database {
            $crate::database::Database::Postgres($pool) => $body,
            $crate::database::Database::Sqlite($pool) => $body,
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
            $crate::database::Database::Sqlite(pool) => {
                let mut $tx = pool.begin_with("BEGIN IMMEDIATE").await?;
                let out = $body;
                $tx.commit().await?;
                out
            }
        }
    };
}

pub(crate) use {in_transaction, on_both};
