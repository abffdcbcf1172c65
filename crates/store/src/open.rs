//! Opening a database: reach it, bring its schema up, start the journal.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sayso_driver::{
    Append, AppendError, Appended, Budget, ConversationNow, Conversations, Journal, KeyedMessage,
    LoadError, Loaded, Target,
};
use sayso_run::{ChildEnd, ConversationId, Namespace, PrincipalId, RunId, Said, Timestamp};
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection};
use thiserror::Error;

use crate::budgets::KnownCaps;
use crate::clock::Clock;
use crate::database::{Database, Kind, WriteTurn, on_both, write_on_both};
use crate::error::{DatabaseError, Trouble};
use crate::journal::{self, Writer};
use crate::load::Loader;
use crate::targets::KnownTargets;

static POSTGRES: Migrator = sqlx::migrate!("migrations/postgres");
static SQLITE: Migrator = sqlx::migrate!("migrations/sqlite");

/// How a store is opened; the defaults suit a service.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Shown by Postgres beside each connection.
    pub application: String,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Connections of the repositories; the journal has three of its own.
    pub connections: u32,
    /// Appends in one commit.
    pub group: usize,
    /// How long an append whose commit is unclear waits for the database to come back before it
    /// answers that it is unavailable.
    pub patience: Duration,
    /// The largest artifact that is stored, in bytes.
    pub max_artifact_bytes: usize,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            application: "sayso".into(),
            connect_timeout: Duration::from_secs(5),
            connections: 4,
            group: 64,
            patience: Duration::from_secs(10),
            max_artifact_bytes: 10 * 1024 * 1024,
        }
    }
}

/// Why a store cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The URL names no database that sayso knows.
    #[error("a database is `postgres://user:password@host:5432/name` or `sqlite:///path`: {0}")]
    BadUrl(String),
    /// The database cannot be reached now. Trying again may help.
    #[error("the database cannot be reached")]
    Unavailable(#[source] sqlx::Error),
    /// The database is there and refuses to be used: credentials, permissions, not a database file.
    #[error("the database refuses to be used")]
    Refused(#[source] sqlx::Error),
    /// Its schema cannot be brought up to this version.
    #[error("the schema of the database cannot be brought up to this version")]
    Schema(#[source] MigrateError),
}

impl OpenError {
    /// The stable code that users see.
    pub const fn code(&self) -> &'static str {
        match self {
            OpenError::BadUrl(_) => "database.bad_url",
            OpenError::Unavailable(_) => "database.unavailable",
            OpenError::Refused(_) => "database.refused",
            OpenError::Schema(_) => "database.schema",
        }
    }

    /// Whether opening it again later may work.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, OpenError::Unavailable(_))
    }
}

impl From<sqlx::Error> for OpenError {
    fn from(error: sqlx::Error) -> Self {
        match Trouble::of(&error) {
            Trouble::Lost | Trouble::Again | Trouble::Down => OpenError::Unavailable(error),
            Trouble::Refused => OpenError::Refused(error),
        }
    }
}

impl From<MigrateError> for OpenError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::Execute(error) => error.into(),
            MigrateError::ExecuteMigration(error, version) => match Trouble::of(&error) {
                Trouble::Lost | Trouble::Again | Trouble::Down => OpenError::Unavailable(error),
                Trouble::Refused => {
                    OpenError::Schema(MigrateError::ExecuteMigration(error, version))
                }
            },
            other => OpenError::Schema(other),
        }
    }
}

/// How to make one more connection.
#[derive(Debug, Clone)]
pub(crate) enum Connect {
    Postgres(Box<PgConnectOptions>),
    Sqlite(Box<SqliteConnectOptions>),
}

impl Connect {
    fn parse(url: &str, config: &StoreConfig) -> Result<Self, OpenError> {
        let bad = |error: sqlx::Error| OpenError::BadUrl(error.to_string());
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let options = PgConnectOptions::from_str(url).map_err(bad)?;
            let options = options
                .application_name(&config.application)
                .options([("jit", "off")]);
            Ok(Connect::Postgres(Box::new(options)))
        } else if url.starts_with("sqlite:") {
            let options = SqliteConnectOptions::from_str(url).map_err(bad)?;
            let options = options
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full)
                .pragma("wal_autocheckpoint", "1000")
                .busy_timeout(SQLITE_BUSY);
            Ok(Connect::Sqlite(Box::new(options)))
        } else {
            let scheme = url.split(':').next().unwrap_or_default();
            Err(OpenError::BadUrl(format!(
                "`{scheme}` is not one of postgres, sqlite"
            )))
        }
    }
}

/// How long a statement waits for SQLite's one write lock.
pub(crate) const SQLITE_BUSY: Duration = Duration::from_secs(10);

/// A connection that was idle for longer is asked whether it still lives before it is used.
const PING_AFTER: Duration = Duration::from_secs(1);

/// A database. Cheap to clone; the journal stops with the last clone.
#[derive(Debug, Clone)]
pub struct Store(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) database: Database,
    pub(crate) connect: Connect,
    pub(crate) config: StoreConfig,
    pub(crate) clock: Clock,
    pub(crate) caps: KnownCaps,
    pub(crate) targets: KnownTargets,
    pub(crate) writer: Writer,
    loader: Loader,
    #[cfg(feature = "hooks")]
    pub(crate) hooks: crate::hooks::Hooks,
}

impl Store {
    /// Opens `postgres://…` or `sqlite:///path`, brings the schema up and starts the journal.
    ///
    /// Makes one attempt; [`OpenError::is_retryable`] says whether another may work. Several
    /// processes may open the same Postgres at once. A SQLite file belongs to one process.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn open(url: &str, config: StoreConfig) -> Result<Self, OpenError> {
        let connect = Connect::parse(url, &config)?;
        let limit = config.connect_timeout;
        migrate(&connect, limit).await?;
        let clock = Clock::new();
        #[cfg(feature = "hooks")]
        let hooks = crate::hooks::Hooks::default();
        let (database, writer, loader) = match &connect {
            Connect::Postgres(options) => {
                let pool = PgPoolOptions::new()
                    .max_connections(config.connections)
                    .acquire_timeout(limit)
                    .test_before_acquire(false)
                    .before_acquire(|connection, meta| {
                        Box::pin(async move {
                            if meta.idle_for > PING_AFTER {
                                connection.ping().await?;
                            }
                            Ok(true)
                        })
                    })
                    .connect_lazy_with((**options).clone());
                let target = journal::PostgresTarget::new(
                    options,
                    limit,
                    #[cfg(feature = "hooks")]
                    hooks.clone(),
                );
                (
                    Database::Postgres(pool),
                    Writer::on_task(target, &config),
                    Loader::postgres(options, limit),
                )
            }
            Connect::Sqlite(options) => {
                let pool = SqlitePoolOptions::new()
                    .max_connections(config.connections)
                    .acquire_timeout(SQLITE_BUSY)
                    .connect_lazy_with((**options).clone());
                let (path, turn) = (options.get_filename(), WriteTurn::default());
                let target = journal::SqliteTarget::new(
                    path,
                    turn.clone(),
                    #[cfg(feature = "hooks")]
                    hooks.clone(),
                );
                (
                    Database::Sqlite(pool, turn),
                    Writer::on_thread(target, &config),
                    Loader::sqlite(path),
                )
            }
        };
        let store = Self(Arc::new(Inner {
            database,
            connect,
            config,
            clock,
            caps: KnownCaps::default(),
            targets: KnownTargets::default(),
            writer,
            loader,
            #[cfg(feature = "hooks")]
            hooks,
        }));
        store.sync_clock().await.map_err(|error| match error {
            DatabaseError::Unavailable(source) | DatabaseError::Refused(source) => source.into(),
            DatabaseError::BadRow { why, .. } => OpenError::Refused(sqlx::Error::Protocol(why)),
            DatabaseError::HoldsNul(_) => unreachable!("no text is given"),
        })?;
        Ok(store)
    }

    /// Which database it is.
    pub fn kind(&self) -> Kind {
        self.0.database.kind()
    }

    /// Looks at the database's clock; the heartbeat does so once a second.
    pub async fn sync_clock(&self) -> Result<Timestamp, DatabaseError> {
        let sql = format!("SELECT {}", self.0.database.now());
        let now: i64 = on_both!(&self.0.database, |pool| {
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(pool).await
        })?;
        self.0.clock.observe(now);
        Ok(Timestamp::from_micros(now))
    }

    /// Moves the database's time for everybody who shares it, by an offset in microseconds to its
    /// real clock. Only for tests. Other processes see it in SQL at once, and in
    /// [`Journal::now`] with their next look at the clock.
    pub async fn set_clock_offset(&self, micros: i64) -> Result<(), DatabaseError> {
        write_on_both!(&self.0.database, |pool| {
            sqlx::query("UPDATE meta SET value = $1 WHERE key = 'clock_offset'")
                .bind(micros)
                .execute(pool)
                .await
                .map(|_| ())
        })?;
        self.sync_clock().await.map(|_| ())
    }

    /// Asks the database for nothing, to learn whether it answers.
    pub async fn ping(&self) -> Result<(), DatabaseError> {
        self.sync_clock().await.map(|_| ())
    }

    /// Moves the published marks of runs up, all in one statement (S8.4). Marks of runs whose next
    /// append carries them need not be given here.
    pub async fn mark_published(&self, marks: Vec<(RunId, u64)>) -> Result<(), AppendError> {
        self.0.writer.mark_published(marks).await
    }

    /// Loads several runs at once, in any order; those that do not exist are left out.
    pub async fn load_many(&self, runs: &[RunId]) -> Vec<(RunId, Result<Loaded, LoadError>)> {
        let loads = runs.iter().map(|run| async move {
            let loaded = self.0.loader.load(run).await.transpose()?;
            Some((run.clone(), loaded))
        });
        futures::future::join_all(loads)
            .await
            .into_iter()
            .flatten()
            .collect()
    }

    /// Ends the connections of the repositories. The journal ends with the last clone.
    pub async fn close(&self) {
        on_both!(&self.0.database, |pool| pool.close().await);
    }
}

impl Journal for Store {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        self.0.writer.append(append).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Loaded>, LoadError> {
        self.0.loader.load(run).await
    }

    fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    async fn budget(&self, namespace: &Namespace) -> Result<Option<Budget>, LoadError> {
        let standing = self.budgets().standing(namespace, self.now()).await;
        standing.map_err(|error| LoadError::Unavailable(error.to_string()))
    }

    async fn targets_of(&self, namespace: &Namespace) -> Result<Arc<[Target]>, LoadError> {
        let takers = self.targets().takers(namespace).await;
        takers.map_err(|error| LoadError::Unavailable(error.to_string()))
    }

    async fn ended_children(&self, parent: &RunId) -> Result<Vec<ChildEnd>, LoadError> {
        self.runs().ended_children(parent).await
    }

    async fn live_children(&self, parent: &RunId) -> Result<Vec<RunId>, LoadError> {
        let live = self.runs().live_children(parent).await;
        live.map_err(|error| LoadError::Unavailable(error.to_string()))
    }

    async fn catch_up(&self) -> Result<(), LoadError> {
        let looked = self.sync_clock().await;
        looked
            .map(|_| ())
            .map_err(|error| LoadError::Unavailable(error.to_string()))
    }
}

impl Conversations for Store {
    async fn conversation(
        &self,
        id: &ConversationId,
    ) -> Result<Option<ConversationNow>, LoadError> {
        let now = self.conversations().now(id).await;
        now.map_err(|error| LoadError::Unavailable(error.to_string()))
    }

    async fn keyed_message(
        &self,
        conversation: &ConversationId,
        sender: &PrincipalId,
        key: &str,
    ) -> Result<Option<KeyedMessage>, LoadError> {
        let found = self.conversations().keyed(conversation, sender, key).await;
        found.map_err(|error| LoadError::Unavailable(error.to_string()))
    }

    async fn said(
        &self,
        conversation: &ConversationId,
        limit: usize,
    ) -> Result<(Vec<Said>, u64), LoadError> {
        let said = self.conversations().newest(conversation, limit).await;
        said.map_err(|error| LoadError::Unavailable(error.to_string()))
    }
}

/// Brings the schema up. A schema that a newer version has already extended is left as it is: it
/// was extended so that this version can still use it.
async fn migrate(connect: &Connect, limit: Duration) -> Result<(), OpenError> {
    let tolerant = |migrator: &Migrator| {
        let mut migrator = Migrator::with_migrations(migrator.iter().cloned().collect());
        migrator.set_ignore_missing(true);
        migrator
    };
    match connect {
        Connect::Postgres(options) => {
            let connecting = sqlx::PgConnection::connect_with(options);
            let mut connection = tokio::time::timeout(limit, connecting)
                .await
                .map_err(|_| OpenError::Unavailable(sqlx::Error::PoolTimedOut))??;
            tolerant(&POSTGRES).run(&mut connection).await?;
            connection.close().await?;
        }
        Connect::Sqlite(options) => {
            // A file that cannot be opened now, in a folder that does not exist, will not be later.
            let connecting = sqlx::SqliteConnection::connect_with(options);
            let mut connection = connecting.await.map_err(OpenError::Refused)?;
            tolerant(&SQLITE).run(&mut connection).await?;
            connection.close().await?;
        }
    }
    Ok(())
}
