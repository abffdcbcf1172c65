use std::sync::Arc;
use std::time::Duration;

use sayso_driver::{
    Append, AppendError, Appended, Budget, ConversationNow, Conversations, KeyedMessage, LoadError,
    Loaded,
};
use sayso_engine::Watched;
use sayso_run::{
    ChildEnd, ConversationId, Digest, Money, Namespace, PrincipalId, RunId, Said, Timestamp,
    WorkerId,
};
use sayso_store::simulated::{self, Away};
use sayso_store::{RunRef, StoreConfig, Worker};

use crate::kernel::Pid;
use crate::models::currency;
use crate::sky::{Turn, Way};
use crate::world::World;

/// One process's journal: what it says was written is looked for on the disk.
#[derive(Clone)]
pub(crate) struct Journal {
    world: Arc<World>,
    inner: simulated::Journal,
    turn: Turn,
}

impl Journal {
    /// Opens it for a process, which runs its writer.
    pub(crate) fn open(world: &Arc<World>, pid: Pid) -> Self {
        let turn = Turn::default();
        let way = Way {
            turn: Arc::clone(&turn),
            world: Arc::clone(world),
            pid,
            since: world.kernel.now(),
        };
        let config = StoreConfig {
            patience: Duration::from_secs(1),
            group: 8,
            ..StoreConfig::default()
        };
        let (inner, writer) = simulated::Journal::open(&world.disk, Arc::new(way), &config);
        world.kernel.spawn(pid, writer);
        Self {
            world: Arc::clone(world),
            inner,
            turn,
        }
    }

    /// What those who write in this process wait for.
    pub(crate) fn turn(&self) -> Turn {
        Arc::clone(&self.turn)
    }

    /// The tables beside the timelines.
    pub(crate) fn tables(&self) -> &simulated::Journal {
        &self.inner
    }
}

impl sayso_driver::Journal for Journal {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        let (run, expected) = (append.run.clone(), append.expected);
        let hashes: Vec<Digest> = append.steps.iter().map(|step| step.recorded.hash).collect();
        let appended = self.inner.append(append).await?;
        // A writer that was told so relies on it (S2.1).
        let durable = self.world.disk.look(|tables| {
            let stored = tables.runs.get(&run)?;
            let from = usize::try_from(expected).ok()?;
            let steps = stored.steps.get(from..from + hashes.len())?;
            let same = steps.iter().zip(&hashes);
            same.clone()
                .all(|(step, hash)| step.recorded.hash == *hash)
                .then_some(stored.epoch >= appended.epoch)
        });
        if durable != Some(true) {
            let promise = format!("{run} was told that {expected}.. is durable, and it is not");
            self.world.kernel.broken(promise);
        }
        Ok(appended)
    }

    async fn load(&self, run: &RunId) -> Result<Option<Loaded>, LoadError> {
        self.inner.load(run).await
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn ended_children(&self, parent: &RunId) -> Result<Vec<ChildEnd>, LoadError> {
        self.inner.ended_children(parent).await
    }

    async fn live_children(&self, parent: &RunId) -> Result<Vec<RunId>, LoadError> {
        self.inner.live_children(parent).await
    }

    async fn catch_up(&self) -> Result<(), LoadError> {
        self.inner.catch_up().await
    }

    async fn budget(&self, _: &Namespace) -> Result<Option<Budget>, LoadError> {
        let trip = self.world.sky.trip();
        self.world.kernel.sleep(trip).await;
        if self.world.sky.strikes(10) {
            return Err(LoadError::Unavailable("the budget cannot be read".into()));
        }
        let spent = self.world.disk.look(|tables| tables.spent);
        Ok(self.world.cap.map(|cap| Budget {
            cap: Money::new(cap, currency()),
            spent: Money::new(spent, currency()),
            resets_at: self.now(),
        }))
    }

    async fn pause(&self, time: Duration) {
        self.inner.pause(time).await;
    }
}

impl Conversations for Journal {
    async fn conversation(
        &self,
        id: &ConversationId,
    ) -> Result<Option<ConversationNow>, LoadError> {
        self.inner.conversation(id).await
    }

    async fn keyed_message(
        &self,
        conversation: &ConversationId,
        sender: &PrincipalId,
        key: &str,
    ) -> Result<Option<KeyedMessage>, LoadError> {
        self.inner.keyed_message(conversation, sender, key).await
    }

    async fn said(
        &self,
        conversation: &ConversationId,
        limit: usize,
    ) -> Result<(Vec<Said>, u64), LoadError> {
        self.inner.said(conversation, limit).await
    }
}

impl Watched for Journal {
    type Error = Away;

    async fn live_workers(&self) -> Result<Vec<Worker>, Away> {
        self.inner.live_workers().await
    }

    async fn mark_dead(&self, worker: &WorkerId, seen: u64) -> Result<bool, Away> {
        let marked = self.inner.mark_dead(worker, seen).await?;
        if marked {
            self.world
                .kernel
                .note(format_args!("{worker} is marked dead"));
        }
        Ok(marked)
    }

    async fn orphans(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.orphans(limit).await
    }

    async fn ready(&self, older_than: Duration, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.ready(older_than, limit).await
    }

    async fn expired(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.expired(limit).await
    }

    async fn unpublished(&self, older_than: Duration, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.unpublished(older_than, limit).await
    }

    async fn abandoned(&self, after: Duration, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.abandoned(after, limit).await
    }

    async fn waiting_parents(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.waiting_parents(limit).await
    }

    async fn late_parents(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.late_parents(limit).await
    }

    async fn lost(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.lost(limit).await
    }

    async fn parentless(&self, limit: u32) -> Result<Vec<RunRef>, Away> {
        self.inner.parentless(limit).await
    }
}
