//! The heartbeat of one worker.
//!
//! It has its own thread and its own connection, so that neither a busy runtime nor a busy pool can
//! make a healthy worker look dead. What it knows is monotonic: [`Heartbeat::holds`] compares when
//! the last successful renewal was *sent* with now, both by this process's monotonic clock. Whoever
//! marks workers dead waits for 3 s without a change, so a worker that stops acting after 2 s has
//! stopped before anybody takes its runs. A process that was stopped and continued finds the clock
//! gone on and does not send.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sayso_driver::Fence;
use sayso_run::WorkerId;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use thiserror::Error;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::database::{Database, WriteTurn};
use crate::error::{DatabaseError, Trouble};
use crate::open::{Connect, Store};
use crate::workers::{RegisterError, renew_sql};

/// How often a worker renews.
const EVERY: Duration = Duration::from_secs(1);

/// How long after its last renewal a worker may still act.
const HOLDS: Duration = Duration::from_secs(2);

/// How long one renewal may take before its connection is given up.
const LONGEST: Duration = Duration::from_millis(900);

/// The pause after a renewal that did not work.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Why a heartbeat could not start.
#[derive(Debug, Error)]
pub enum HeartbeatError {
    /// The worker could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The system gave no thread.
    #[error("no thread for the heartbeat")]
    Thread(#[source] std::io::Error),
}

/// The heartbeat of one worker; stops renewing when it is dropped.
#[derive(Debug)]
pub struct Heartbeat {
    shared: Arc<Shared>,
    store: Store,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
struct Shared {
    worker: WorkerId,
    start: Instant,
    /// When the last successful renewal was sent, in microseconds after `start`.
    renewed: AtomicU64,
    lost: watch::Sender<bool>,
    #[cfg(feature = "hooks")]
    stalled: std::sync::atomic::AtomicBool,
}

impl Shared {
    fn renewed(&self, sent: Instant) {
        let micros = sent.saturating_duration_since(self.start).as_micros();
        let micros = u64::try_from(micros).expect("no process runs for 584,000 years");
        self.renewed.store(micros, Ordering::Release);
    }

    fn holds(&self) -> bool {
        let renewed = Duration::from_micros(self.renewed.load(Ordering::Acquire));
        !*self.lost.borrow() && self.start.elapsed().saturating_sub(renewed) < HOLDS
    }
}

impl Heartbeat {
    /// Registers a new start of `name` and renews it once a second from now on.
    pub async fn start(store: &Store, name: &str) -> Result<Self, HeartbeatError> {
        let start = Instant::now();
        let worker = store.workers().register(name).await?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            worker,
            start,
            renewed: AtomicU64::new(0),
            lost: watch::Sender::new(false),
            #[cfg(feature = "hooks")]
            stalled: std::sync::atomic::AtomicBool::new(false),
        });
        let beat = Beat {
            shared: Arc::clone(&shared),
            connect: store.0.connect.clone(),
            turn: match &store.0.database {
                Database::Postgres(_) => None,
                Database::Sqlite(_, turn) => Some(turn.clone()),
            },
            clock: store.0.clock.clone(),
            sql: renew_sql(store.0.database.now()),
            connection: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(HeartbeatError::Thread)?;
        std::thread::Builder::new()
            .name("sayso-heartbeat".into())
            .spawn(move || runtime.block_on(beat.run(stopped)))
            .map_err(HeartbeatError::Thread)?;
        Ok(Self {
            shared,
            store: store.clone(),
            stop,
        })
    }

    /// The worker.
    pub fn worker(&self) -> &WorkerId {
        &self.shared.worker
    }

    /// Whether the worker may act: it is not marked dead, and its last successful renewal was sent
    /// less than 2 s ago.
    pub fn holds(&self) -> bool {
        self.shared.holds()
    }

    /// The same question as the driver asks it before the first byte of a call goes out.
    pub fn fence(&self) -> Fence {
        let shared = Arc::clone(&self.shared);
        Fence::new(move || shared.holds())
    }

    /// Whether the worker was marked dead. It is never alive again: the process has to start a new
    /// one.
    pub fn lost(&self) -> bool {
        *self.shared.lost.borrow()
    }

    /// Waits until the worker is marked dead.
    pub async fn until_lost(&self) {
        let mut lost = self.shared.lost.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        lost.wait_for(|lost| *lost)
            .await
            .map(|_| ())
            .unwrap_or_default();
    }

    /// Stops renewing and ends the worker, whose leases have been given back.
    pub async fn end(self) -> Result<(), DatabaseError> {
        self.stop.send_replace(true);
        self.store.workers().end(&self.shared.worker).await?;
        Ok(())
    }

    /// Stops renewing for as long as it is `true`, as a stopped process does.
    #[cfg(feature = "hooks")]
    pub fn stall(&self, stalled: bool) {
        self.shared.stalled.store(stalled, Ordering::Release);
    }
}

/// The thread's side.
struct Beat {
    shared: Arc<Shared>,
    connect: Connect,
    turn: Option<WriteTurn>,
    clock: Clock,
    sql: String,
    connection: Option<Own>,
}

enum Own {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Beat {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut pause = EVERY;
        loop {
            tokio::select! {
                // An error means that the handle is gone.
                _ = stopped.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(pause) => {}
            }
            #[cfg(feature = "hooks")]
            if self.shared.stalled.load(Ordering::Acquire) {
                continue;
            }
            let sent = Instant::now();
            pause = match tokio::time::timeout(LONGEST, self.renew()).await {
                Ok(Ok(Some(now))) => {
                    self.clock.observe(now);
                    self.shared.renewed(sent);
                    EVERY.saturating_sub(sent.elapsed())
                }
                Ok(Ok(None)) => {
                    tracing::error!(worker = %self.shared.worker, "this worker was marked dead");
                    self.shared.lost.send_replace(true);
                    return;
                }
                Ok(Err(error)) => {
                    if Trouble::of(&error) == Trouble::Lost {
                        self.connection = None;
                    }
                    tracing::warn!(worker = %self.shared.worker, %error, "a renewal failed");
                    AFTER_ERROR
                }
                Err(_) => {
                    self.connection = None;
                    tracing::warn!(worker = %self.shared.worker, "a renewal took too long");
                    AFTER_ERROR
                }
            };
        }
    }

    /// The database's time, or `None` if the worker is marked dead.
    async fn renew(&mut self) -> Result<Option<i64>, sqlx::Error> {
        let own = match self.connection.take() {
            Some(own) => own,
            None => match &self.connect {
                Connect::Postgres(options) => {
                    Own::Postgres(PgConnection::connect_with(options).await?)
                }
                Connect::Sqlite(options) => {
                    Own::Sqlite(SqliteConnection::connect_with(options).await?)
                }
            },
        };
        let sql = AssertSqlSafe(self.sql.as_str());
        let worker = self.shared.worker.as_str();
        let _turn = match &self.turn {
            Some(turn) => Some(turn.take().await),
            None => None,
        };
        match self.connection.insert(own) {
            Own::Postgres(connection) => {
                sqlx::query_scalar(sql)
                    .bind(worker)
                    .fetch_optional(connection)
                    .await
            }
            Own::Sqlite(connection) => {
                sqlx::query_scalar(sql)
                    .bind(worker)
                    .fetch_optional(connection)
                    .await
            }
        }
    }
}
