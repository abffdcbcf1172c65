//! The simulated database under the journal's contract.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use sayso_driver::{
    ActionRow, Append, AppendError, Appended, ApprovalRow, ApprovalStatus, ConversationNow,
    KeyedMessage, LoadError, Loaded, RunRow,
};
use sayso_run::{
    AgentName, ApprovalId, ChildEnd, ConversationId, PrincipalId, RunId, Said, StoredLink,
    Timestamp, WorkerId, verify,
};
use sayso_store::hooks::{Hook, Then, Window};
use sayso_store::simulated::{After, Before, Calm, Disk, Journal, Later, Weather};
use sayso_store::{RunRef, StoreConfig, Worker};

use crate::subject::{Ledger, Stored, Subject};
use crate::timeline::{alice, keys, namespace};

pub(crate) struct SimulatedDatabase(Disk);

impl SimulatedDatabase {
    pub(crate) fn new() -> Self {
        Self(Disk::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap())
        }))
    }
}

impl Subject for SimulatedDatabase {
    type Store = SimulatedStore;

    async fn store(&self) -> SimulatedStore {
        let hook = Arc::new(Mutex::new(None));
        let weather = Arc::new(Hooked(Calm::default(), Arc::clone(&hook)));
        let (journal, work) = Journal::open(&self.0, weather, &StoreConfig::default());
        tokio::spawn(work);
        SimulatedStore { journal, hook }
    }

    fn postgres(&self) -> Option<String> {
        None
    }
}

type SharedHook = Arc<Mutex<Option<Hook>>>;

/// Calm, but for the hook of a test.
struct Hooked(Calm, SharedHook);

impl Hooked {
    fn pass(&self, window: Window) -> Then {
        let mut hook = self.1.lock().unwrap();
        hook.as_mut()
            .map_or(Then::Proceed, |hook| hook(window, None))
    }
}

impl Weather for Hooked {
    fn before_commit(&self) -> BoxFuture<'static, Before> {
        let before = match self.pass(Window::BeforeCommit) {
            Then::Proceed => Before::Arrives,
            Then::LoseConnection => Before::Lost,
        };
        Box::pin(std::future::ready(before))
    }

    fn after_commit(&self) -> BoxFuture<'static, After> {
        let after = match self.pass(Window::AfterCommit) {
            Then::Proceed => After::Answered,
            Then::LoseConnection => After::Lost,
        };
        Box::pin(std::future::ready(after))
    }

    fn ask(&self) -> BoxFuture<'static, Result<(), String>> {
        self.0.ask()
    }

    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.pause(time)
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn later(&self, time: Duration, work: Later) {
        self.0.later(time, work);
    }
}

#[derive(Clone)]
pub(crate) struct SimulatedStore {
    journal: Journal,
    hook: SharedHook,
}

impl SimulatedStore {
    fn run<R>(&self, run: &RunId, read: impl FnOnce(&sayso_store::simulated::Run) -> R) -> R {
        let disk = self.journal.disk();
        disk.look(|tables| read(&tables.runs[run]))
    }
}

impl sayso_driver::Journal for SimulatedStore {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        self.journal.append(append).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Loaded>, LoadError> {
        self.journal.load(run).await
    }

    fn now(&self) -> Timestamp {
        self.journal.now()
    }

    async fn ended_children(&self, parent: &RunId) -> Result<Vec<ChildEnd>, LoadError> {
        self.journal.ended_children(parent).await
    }

    async fn live_children(&self, parent: &RunId) -> Result<Vec<RunId>, LoadError> {
        self.journal.live_children(parent).await
    }

    async fn catch_up(&self) -> Result<(), LoadError> {
        self.journal.catch_up().await
    }
}

impl sayso_driver::Conversations for SimulatedStore {
    async fn conversation(
        &self,
        id: &ConversationId,
    ) -> Result<Option<ConversationNow>, LoadError> {
        sayso_driver::Conversations::conversation(&self.journal, id).await
    }

    async fn keyed_message(
        &self,
        conversation: &ConversationId,
        sender: &PrincipalId,
        key: &str,
    ) -> Result<Option<KeyedMessage>, LoadError> {
        self.journal.keyed_message(conversation, sender, key).await
    }

    async fn said(
        &self,
        conversation: &ConversationId,
        limit: usize,
    ) -> Result<(Vec<Said>, u64), LoadError> {
        self.journal.said(conversation, limit).await
    }
}

impl Ledger for SimulatedStore {
    async fn close(&self) {}

    async fn talk(&self, id: &ConversationId) {
        let now = ConversationNow {
            namespace: namespace(),
            agent: AgentName::new("support-desk").unwrap(),
            created_by: alice(),
            last: None,
            moves: 0,
        };
        self.journal.disk().converse(id.clone(), now);
    }

    async fn register(&self, name: &str) -> WorkerId {
        self.journal.register(name).await.unwrap().unwrap()
    }

    async fn renew(&self, worker: &WorkerId) -> Option<()> {
        self.journal.renew(worker).await.unwrap().then_some(())
    }

    async fn end(&self, worker: &WorkerId) -> bool {
        self.journal.end(worker).await.unwrap()
    }

    async fn mark_dead(&self, worker: &WorkerId, seen: u64) -> bool {
        self.journal.mark_dead(worker, seen).await.unwrap()
    }

    async fn live(&self) -> Vec<Worker> {
        self.journal.live_workers().await.unwrap()
    }

    async fn orphans(&self, limit: u32) -> Vec<RunRef> {
        self.journal.orphans(limit).await.unwrap()
    }

    async fn ready(&self, older_than: Duration, limit: u32) -> Vec<RunRef> {
        self.journal.ready(older_than, limit).await.unwrap()
    }

    async fn expired(&self, limit: u32) -> Vec<RunRef> {
        self.journal.expired(limit).await.unwrap()
    }

    async fn unpublished(&self, older_than: Duration, limit: u32) -> Vec<RunRef> {
        self.journal.unpublished(older_than, limit).await.unwrap()
    }

    async fn abandoned(&self, after: Duration, limit: u32) -> Vec<RunRef> {
        self.journal.abandoned(after, limit).await.unwrap()
    }

    async fn waiting_parents(&self, limit: u32) -> Vec<RunRef> {
        self.journal.waiting_parents(limit).await.unwrap()
    }

    async fn late_parents(&self, limit: u32) -> Vec<RunRef> {
        self.journal.late_parents(limit).await.unwrap()
    }

    async fn parentless(&self, limit: u32) -> Vec<RunRef> {
        self.journal.parentless(limit).await.unwrap()
    }

    async fn mark_published(&self, marks: Vec<(RunId, u64)>) {
        self.journal.mark_published(marks).await.unwrap();
    }

    async fn set_clock_offset(&self, micros: i64) {
        self.journal.disk().set_clock_offset(micros);
        sayso_driver::Journal::catch_up(&self.journal)
            .await
            .unwrap();
    }

    async fn row(&self, run: &RunId) -> Option<RunRow> {
        let disk = self.journal.disk();
        disk.look(|tables| tables.runs.get(run).map(|run| run.row.clone()))
    }

    async fn steps(&self, run: &RunId) -> Vec<Stored> {
        self.run(run, |run| {
            let steps = run.steps.iter().map(|step| Stored {
                seq: step.recorded.seq,
                content: step.content.clone(),
                view: step.view.clone(),
            });
            steps.collect()
        })
    }

    async fn actions(&self, run: &RunId) -> Vec<ActionRow> {
        self.run(run, |run| run.actions.values().cloned().collect())
    }

    async fn approval(&self, approval: &ApprovalId) -> Option<ApprovalRow> {
        let disk = self.journal.disk();
        disk.look(|tables| {
            let mut runs = tables.runs.values();
            runs.find_map(|run| run.approvals.get(approval).cloned())
        })
    }

    async fn pending(&self) -> u64 {
        self.journal.disk().look(|tables| {
            let approvals = tables.runs.values().flat_map(|run| run.approvals.values());
            let pending = approvals.filter(|row| row.status == ApprovalStatus::Pending);
            u64::try_from(pending.count()).unwrap()
        })
    }

    async fn scores(&self) -> Vec<i64> {
        self.journal.disk().look(|tables| {
            let scores = tables.feedback.values().map(|row| row.score_millionths);
            scores.collect()
        })
    }

    async fn due_deliveries(&self) -> usize {
        self.journal.disk().look(|tables| tables.deliveries.len())
    }

    async fn verify(&self, run: &RunId) {
        let links: Vec<StoredLink> = self.run(run, |run| {
            let steps = run.steps.iter().map(|step| {
                let recorded = &step.recorded;
                StoredLink {
                    seq: recorded.seq,
                    at: recorded.at,
                    actor: recorded.actor.clone(),
                    kind: recorded.step.kind().to_string(),
                    version: recorded.step.kind().version(),
                    content: Some(step.content.clone()),
                    content_sha256: recorded.content_sha256,
                    hash: recorded.hash,
                    seal: recorded.seal.clone(),
                }
            });
            steps.collect()
        });
        verify(run, &links, &keys()).unwrap();
    }

    fn hook(&self, hook: impl FnMut(Window, Option<i32>) -> Then + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    fn unhook(&self) {
        *self.hook.lock().unwrap() = None;
    }
}
