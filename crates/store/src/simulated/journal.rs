use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use sayso_driver::{
    Append, AppendError, Appended, ConversationNow, Conversations, KeyedMessage, LoadError, Loaded,
};
use sayso_run::{
    ChildEnd, ConversationId, PrincipalId, RunId, RunState, Said, Timestamp, WorkerId,
};
use thiserror::Error;

use super::tables::{Disk, Tables, before};
use super::target::SimulatedTarget;
use super::weather::{After, Weather};
use crate::journal::Writer;
use crate::open::StoreConfig;
use crate::sweep::RunRef;
use crate::workers::Worker;

/// The database cannot be reached.
#[derive(Debug, Clone, Error)]
#[error("the database is unavailable: {0}")]
pub struct Away(pub String);

/// One process's way to a [`Disk`]: its writer, its clock, its questions. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    disk: Disk,
    weather: Arc<dyn Weather>,
    writer: Arc<Writer>,
    /// The database's time minus this process's, in microseconds.
    offset: Arc<AtomicI64>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Journal")
    }
}

impl Journal {
    /// A process's journal, and the work of its writer, which whoever runs the process has to run.
    pub fn open(
        disk: &Disk,
        weather: Arc<dyn Weather>,
        config: &StoreConfig,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let target = SimulatedTarget {
            disk: disk.clone(),
            weather: Arc::clone(&weather),
            began: Instant::now(),
        };
        let (writer, work) = Writer::new(target, config);
        let journal = Self {
            disk: disk.clone(),
            weather,
            writer: Arc::new(writer),
            offset: Arc::default(),
        };
        journal.observe();
        (journal, work)
    }

    /// What is stored.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    fn elapsed(&self) -> i64 {
        i64::try_from(self.weather.elapsed().as_micros()).unwrap_or(i64::MAX)
    }

    fn observe(&self) {
        let offset = self.disk.now().micros() - self.elapsed();
        self.offset.store(offset, Ordering::Relaxed);
    }

    async fn ask(&self) -> Result<(), Away> {
        self.weather.ask().await.map_err(Away)
    }

    /// An update that commits by itself; its answer may be lost.
    async fn update<R>(
        &self,
        update: impl FnOnce(&mut Tables, Timestamp) -> R + Send,
    ) -> Result<R, Away> {
        self.ask().await?;
        let done = self.disk.with(update);
        match self.weather.after_commit().await {
            After::Answered => Ok(done),
            After::Lost => Err(Away("the connection broke".into())),
        }
    }

    /// Registers a new start of `name`; `None` if it is no name.
    ///
    /// # Errors
    ///
    /// As every question: the database is away, and nothing happened.
    pub async fn register(&self, name: &str) -> Result<Option<WorkerId>, Away> {
        self.update(|tables, now| tables.register(name, now)).await
    }

    /// Renews a worker: false if it is marked dead. The clock is looked at, as a heartbeat does.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn renew(&self, worker: &WorkerId) -> Result<bool, Away> {
        let renewing = self.update(|tables, now| tables.renew(worker, now));
        let renewed = renewing.await?;
        self.observe();
        Ok(renewed)
    }

    /// Ends a worker: whether it was alive.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn end(&self, worker: &WorkerId) -> Result<bool, Away> {
        self.update(|tables, now| tables.end(worker, None, now))
            .await
    }

    /// Marks a worker dead if it has not renewed since `seen` was read.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn mark_dead(&self, worker: &WorkerId, seen: u64) -> Result<bool, Away> {
        self.update(|tables, now| tables.end(worker, Some(seen), now))
            .await
    }

    /// Every worker that is not marked dead.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn live_workers(&self) -> Result<Vec<Worker>, Away> {
        self.ask().await?;
        Ok(self.disk.with(|tables, _| tables.live_workers()))
    }

    /// Makes runs ready whose worker is marked dead.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn orphans(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.update(|tables, now| tables.orphans(limit as usize, now))
            .await
    }

    /// Runs that have been ready for longer and that no live worker holds.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn ready(&self, older_than: Duration, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.ask().await?;
        Ok(self
            .disk
            .with(|tables, now| tables.ready(before(now, older_than), limit as usize)))
    }

    /// Runs with a pending approval whose time has passed.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn expired(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.ask().await?;
        Ok(self
            .disk
            .with(|tables, now| tables.expired(now, limit as usize)))
    }

    /// Runs whose published mark lags.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn unpublished(&self, older_than: Duration, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.ask().await?;
        Ok(self
            .disk
            .with(|tables, now| tables.unpublished(before(now, older_than), limit as usize)))
    }

    /// Runs still `running` whose worker was marked dead longer ago.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn abandoned(&self, after: Duration, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.ask().await?;
        Ok(self
            .disk
            .with(|tables, now| tables.abandoned(before(now, after), limit as usize)))
    }

    /// Live runs that nobody holds and that have ends of children to take.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn waiting_parents(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.ask().await?;
        Ok(self
            .disk
            .with(|tables, _| tables.waiting_parents(limit as usize)))
    }

    /// Runs that have ended for good, with ends of children that are not on their record yet.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn late_parents(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.ask().await?;
        Ok(self
            .disk
            .with(|tables, _| tables.late_parents(limit as usize)))
    }

    /// Runs that have ended with calls under way whose worker is marked dead.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn lost(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.ask().await?;
        Ok(self.disk.with(|tables, _| tables.lost(limit as usize)))
    }

    /// Live runs whose parent has ended.
    ///
    /// # Errors
    ///
    /// As every question.
    pub async fn parentless(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.ask().await?;
        Ok(self
            .disk
            .with(|tables, _| tables.parentless(limit as usize)))
    }

    /// Moves published marks up.
    ///
    /// # Errors
    ///
    /// The database is away.
    pub async fn mark_published(&self, marks: Vec<(RunId, u64)>) -> Result<(), AppendError> {
        self.writer.mark_published(marks).await
    }
}

impl sayso_driver::Journal for Journal {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        self.writer.append(append).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Loaded>, LoadError> {
        self.ask()
            .await
            .map_err(|Away(why)| LoadError::Unavailable(why))?;
        self.disk.look(|tables| {
            let Some(stored) = tables.runs.get(run) else {
                return Ok(None);
            };
            let lease = tables.lease(stored);
            let steps = stored.steps.iter();
            let recorded = steps.clone().map(|step| &step.recorded);
            let Some(state) = RunState::fold(run, recorded)? else {
                return Ok(None);
            };
            let unpublished = steps.filter(|step| step.recorded.seq > lease.published);
            Ok(Some(Loaded {
                state,
                unpublished: unpublished.cloned().collect(),
                lease,
            }))
        })
    }

    fn now(&self) -> Timestamp {
        let offset = self.offset.load(Ordering::Relaxed);
        Timestamp::from_micros(self.elapsed().saturating_add(offset))
    }

    async fn ended_children(&self, parent: &RunId) -> Result<Vec<ChildEnd>, LoadError> {
        self.ask()
            .await
            .map_err(|Away(why)| LoadError::Unavailable(why))?;
        Ok(self.disk.with(|tables, _| tables.ended_children(parent)))
    }

    async fn live_children(&self, parent: &RunId) -> Result<Vec<RunId>, LoadError> {
        self.ask()
            .await
            .map_err(|Away(why)| LoadError::Unavailable(why))?;
        Ok(self.disk.with(|tables, _| tables.live_children(parent)))
    }

    async fn catch_up(&self) -> Result<(), LoadError> {
        self.ask()
            .await
            .map_err(|Away(why)| LoadError::Unavailable(why))?;
        self.observe();
        Ok(())
    }

    async fn pause(&self, time: Duration) {
        self.weather.pause(time).await;
    }
}

impl Conversations for Journal {
    async fn conversation(
        &self,
        id: &ConversationId,
    ) -> Result<Option<ConversationNow>, LoadError> {
        let asked = self.ask().await;
        asked.map_err(|Away(why)| LoadError::Unavailable(why))?;
        Ok(self
            .disk
            .look(|tables| tables.conversations.get(id).cloned()))
    }

    async fn keyed_message(
        &self,
        conversation: &ConversationId,
        sender: &PrincipalId,
        key: &str,
    ) -> Result<Option<KeyedMessage>, LoadError> {
        let asked = self.ask().await;
        asked.map_err(|Away(why)| LoadError::Unavailable(why))?;
        Ok(self
            .disk
            .look(|tables| tables.keyed(conversation, sender, key)))
    }

    async fn said(
        &self,
        conversation: &ConversationId,
        limit: usize,
    ) -> Result<(Vec<Said>, u64), LoadError> {
        let asked = self.ask().await;
        asked.map_err(|Away(why)| LoadError::Unavailable(why))?;
        Ok(self.disk.look(|tables| tables.newest(conversation, limit)))
    }
}
