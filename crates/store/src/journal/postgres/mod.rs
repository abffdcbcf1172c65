//! A group is one statement and one round trip, committed by itself.
//!
//! The connection's settings matter as much as the statement: with a plan made once for any group
//! and no way to it but the primary keys, the same appends cost a third.

mod bind;
mod look;
mod statement;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sayso_run::RunId;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Row};

use self::bind::Place;
use self::statement::Shape;
use super::verdict::Finding;
use super::{Failure, Member, Target, int};
use crate::error::Trouble;
#[cfg(feature = "hooks")]
use crate::hooks::{Hooks, Then, Window};

/// How long a group may take before its connection counts as lost.
const LONGEST_WRITE: Duration = Duration::from_secs(30);

/// Prepared statements that one connection keeps: more than there are shapes of groups.
const STATEMENTS: usize = 512;

/// The options of a connection that only finds rows by their keys.
pub(crate) fn by_key(options: &PgConnectOptions) -> PgConnectOptions {
    options
        .clone()
        .statement_cache_capacity(STATEMENTS)
        .options([
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
        ])
}

pub(crate) struct PostgresTarget {
    options: PgConnectOptions,
    connect_timeout: Duration,
    connection: Option<PgConnection>,
    texts: HashMap<Shape, Arc<str>>,
    #[cfg(feature = "hooks")]
    hooks: Hooks,
    #[cfg(feature = "hooks")]
    backend: Option<i32>,
}

impl PostgresTarget {
    pub(crate) fn new(
        options: &PgConnectOptions,
        connect_timeout: Duration,
        #[cfg(feature = "hooks")] hooks: Hooks,
    ) -> Self {
        Self {
            options: by_key(options),
            connect_timeout,
            connection: None,
            texts: HashMap::new(),
            #[cfg(feature = "hooks")]
            hooks,
            #[cfg(feature = "hooks")]
            backend: None,
        }
    }

    /// The connection, taken out: it is put back after a statement that left it usable.
    async fn take(&mut self) -> Result<PgConnection, Failure> {
        if let Some(connection) = self.connection.take() {
            return Ok(connection);
        }
        let connecting = PgConnection::connect_with(&self.options);
        let connected = tokio::time::timeout(self.connect_timeout, connecting).await;
        #[cfg_attr(
            not(feature = "hooks"),
            expect(unused_mut, reason = "hooks ask for the backend")
        )]
        let mut connection = match connected {
            Ok(Ok(connection)) => connection,
            // Nothing was sent, so nothing is unclear.
            Ok(Err(error)) => return Err(Failure::Down(describe(&error))),
            Err(_) => return Err(Failure::Down("connecting takes too long".into())),
        };
        #[cfg(feature = "hooks")]
        {
            let backend = sqlx::query_scalar("SELECT pg_backend_pid()");
            self.backend = backend.fetch_one(&mut connection).await.ok();
        }
        Ok(connection)
    }

    /// Runs one statement and puts the connection back if it is still good.
    async fn run(&mut self, sql: Arc<str>, arguments: PgArguments) -> Result<Vec<PgRow>, Failure> {
        let mut connection = self.take().await?;
        #[cfg(feature = "hooks")]
        self.pass(Window::BeforeCommit)?;
        let running = sqlx::query_with(AssertSqlSafe(sql), arguments).fetch_all(&mut connection);
        let result = match tokio::time::timeout(LONGEST_WRITE, running).await {
            Ok(result) => result.map_err(|error| failure(&error)),
            Err(_) => Err(Failure::Unclear("no answer in 30 s".into())),
        };
        if !matches!(result, Err(Failure::Unclear(_))) {
            self.connection = Some(connection);
        }
        #[cfg(feature = "hooks")]
        self.pass(Window::AfterCommit)?;
        result
    }

    #[cfg(feature = "hooks")]
    fn pass(&mut self, window: Window) -> Result<(), Failure> {
        match self.hooks.call(window, self.backend) {
            Then::Proceed => Ok(()),
            Then::LoseConnection => {
                self.connection = None;
                Err(Failure::Unclear(format!("lost by a hook at {window:?}")))
            }
        }
    }
}

impl Target for PostgresTarget {
    async fn write(&mut self, group: &[Member]) -> Result<Vec<Option<u64>>, Failure> {
        let places: Vec<Place<'_>> = (0_i64..)
            .zip(group)
            .map(|(member, one)| Place {
                member,
                append: &one.append,
            })
            .collect();
        let shape = Shape::of(&places);
        let sql = Arc::clone(
            self.texts
                .entry(shape)
                .or_insert_with(|| statement::text(shape).into()),
        );
        let arguments = bind::bind(shape, &places)
            .map_err(|error| Failure::Refused(format!("a value cannot be encoded: {error}")))?;
        let rows = self.run(sql, arguments).await?;
        let mut epochs = vec![None; group.len()];
        for row in &rows {
            let (member, epoch): (i64, i64) = (read(row, 0)?, read(row, 1)?);
            let place = usize::try_from(member)
                .ok()
                .and_then(|at| epochs.get_mut(at));
            let Some(place) = place else {
                return Err(Failure::Unclear(format!(
                    "no member {member} was asked for"
                )));
            };
            *place = u64::try_from(epoch).ok();
        }
        Ok(epochs)
    }

    async fn look(&mut self, group: &[Member]) -> Result<Vec<Finding>, Failure> {
        let mut connection = self.take().await?;
        let looking = look::look(&mut connection, group);
        let found = match tokio::time::timeout(LONGEST_WRITE, looking).await {
            Ok(found) => found.map_err(|error| failure(&error)),
            Err(_) => Err(Failure::Unclear("no answer in 30 s".into())),
        };
        if found.is_ok() {
            self.connection = Some(connection);
        }
        found
    }

    async fn mark(&mut self, marks: &[(RunId, u64)]) -> Result<(), Failure> {
        let refused = |error| Failure::Refused(format!("a value cannot be encoded: {error}"));
        let mut arguments = PgArguments::default();
        let runs: Vec<&str> = marks.iter().map(|(run, _)| run.as_str()).collect();
        let seqs: Vec<i64> = marks.iter().map(|(_, seq)| int(*seq)).collect();
        sqlx::Arguments::add(&mut arguments, runs).map_err(refused)?;
        sqlx::Arguments::add(&mut arguments, seqs).map_err(refused)?;
        self.run(statement::MARK.into(), arguments)
            .await
            .map(|_| ())
    }

    async fn pause(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

fn read<'r, T>(row: &'r PgRow, at: usize) -> Result<T, Failure>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(at)
        .map_err(|error| Failure::Unclear(describe(&error)))
}

fn failure(error: &sqlx::Error) -> Failure {
    // The statement divides by zero when a deadline passed while it waited for a row.
    if let sqlx::Error::Database(refused) = error
        && refused.code().as_deref() == Some("22012")
    {
        return Failure::Late;
    }
    let why = describe(error);
    match Trouble::of(error) {
        Trouble::Lost => Failure::Unclear(why),
        Trouble::Again => Failure::Again(why),
        Trouble::Down => Failure::Down(why),
        Trouble::Refused => Failure::Refused(why),
    }
}

fn describe(error: &sqlx::Error) -> String {
    error.to_string()
}
