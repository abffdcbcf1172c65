use sqlx::postgres::{PgDatabaseError, PgSeverity};
use thiserror::Error;

/// Why a statement outside the journal did not work.
#[derive(Debug, Error)]
pub enum DatabaseError {
    /// The database cannot be reached, or cannot work now. Trying again may help.
    #[error("the database is unavailable")]
    Unavailable(#[source] sqlx::Error),
    /// The database refuses the statement and would refuse it again.
    #[error("the database refuses the statement")]
    Refused(#[source] sqlx::Error),
    /// A row holds what this version cannot read.
    #[error("the row `{id}` of `{table}` cannot be read: {why}")]
    BadRow {
        /// The table.
        table: &'static str,
        /// The row's key.
        id: String,
        /// Why.
        why: String,
    },
    /// The text holds a NUL, which no column takes.
    #[error("the field `{0}` holds a NUL character")]
    HoldsNul(&'static str),
}

impl DatabaseError {
    /// The stable code that users see.
    pub const fn code(&self) -> &'static str {
        match self {
            DatabaseError::Unavailable(_) => "database.unavailable",
            DatabaseError::Refused(_) => "database.refused",
            DatabaseError::BadRow { .. } => "database.bad_row",
            DatabaseError::HoldsNul(_) => "request.invalid_text",
        }
    }

    /// Whether the same request may work later.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, DatabaseError::Unavailable(_))
    }
}

impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        match Trouble::of(&error) {
            Trouble::Lost | Trouble::Again | Trouble::Down => DatabaseError::Unavailable(error),
            Trouble::Refused => DatabaseError::Refused(error),
        }
    }
}

/// Refuses text that Postgres cannot store, by the field's name.
pub(crate) fn refuse_nul(fields: &[(&'static str, &str)]) -> Result<(), DatabaseError> {
    match fields.iter().find(|(_, text)| text.contains('\0')) {
        Some((name, _)) => Err(DatabaseError::HoldsNul(name)),
        None => Ok(()),
    }
}

/// What an error says about the statement that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The connection is gone: the statement took effect, or it did not.
    Lost,
    /// It did not, by a deadlock, a serialization failure or a busy lock: the same again may work.
    Again,
    /// It did not, and the database cannot work now: no space, shutting down, read-only.
    Down,
    /// It did not and never will.
    Refused,
}

impl Trouble {
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Trouble::Lost,
            sqlx::Error::Database(refused) if ends_the_connection(refused.as_ref()) => {
                Trouble::Lost
            }
            sqlx::Error::Database(refused) => match refused.code() {
                Some(code) if code.len() == 5 => Self::of_sqlstate(&code),
                Some(code) => code.parse().map_or(Trouble::Refused, Self::of_sqlite),
                None => Trouble::Refused,
            },
            _ => Trouble::Refused,
        }
    }

    /// By SQLSTATE, as Postgres gives it.
    fn of_sqlstate(code: &str) -> Self {
        match code {
            "57P01" | "57P02" | "57P03" | "57P05" => Trouble::Lost,
            "40001" | "40P01" | "55P03" => Trouble::Again,
            "57014" | "25006" => Trouble::Down,
            _ => match &code[..2] {
                "08" => Trouble::Lost,
                "53" | "58" | "XX" => Trouble::Down,
                _ => Trouble::Refused,
            },
        }
    }

    /// By SQLite's (extended) result code: 5 busy, 6 locked; 8 read-only, 10 I/O, 13 full, 14 cannot
    /// open.
    pub(crate) const fn of_sqlite(code: i32) -> Self {
        match code & 0xff {
            5 | 6 => Trouble::Again,
            8 | 10 | 13 | 14 => Trouble::Down,
            _ => Trouble::Refused,
        }
    }
}

/// Whether Postgres hung up, or would not serve a connection now. Wrong credentials (28) and a
/// database that does not exist (3D) are not a matter of time.
fn ends_the_connection(error: &dyn sqlx::error::DatabaseError) -> bool {
    error
        .try_downcast_ref::<PgDatabaseError>()
        .is_some_and(|error| {
            let fatal = matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic);
            fatal && !error.code().starts_with("28") && !error.code().starts_with("3D")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlocks_are_tried_again_and_constraints_are_not() {
        assert_eq!(Trouble::of_sqlstate("40P01"), Trouble::Again);
        assert_eq!(Trouble::of_sqlstate("23505"), Trouble::Refused);
        assert_eq!(Trouble::of_sqlstate("53100"), Trouble::Down);
        assert_eq!(Trouble::of_sqlstate("57P01"), Trouble::Lost);
        assert_eq!(Trouble::of_sqlite(517), Trouble::Again);
        assert_eq!(Trouble::of_sqlite(2067), Trouble::Refused);
    }
}
