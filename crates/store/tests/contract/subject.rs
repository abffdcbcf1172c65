//! What the journal's contract needs to ask of a database. What cannot be answered fails the test.

use std::time::Duration;

use sayso_driver::{ActionRow, ApprovalRow, Conversations, RunRow};
use sayso_run::{AgentName, ApprovalId, ConversationId, RunId, WorkerId};
use sayso_store::hooks::{Then, Window};
use sayso_store::testing::TestDatabase;
use sayso_store::{FeedbackFilter, Kind, NewConversation, PageRequest, RunRef, Store, Worker};

use crate::timeline::{alice, keys, namespace};

/// A database that several processes may open.
pub(crate) trait Subject {
    /// One process's way to it.
    type Store: Ledger;

    async fn store(&self) -> Self::Store;

    /// The URL, if it is a Postgres, whose backends can be ended.
    fn postgres(&self) -> Option<String>;
}

/// A step as it is stored.
pub(crate) struct Stored {
    pub(crate) seq: u64,
    pub(crate) content: String,
    pub(crate) view: Option<String>,
}

/// The journal with the tables beside it.
pub(crate) trait Ledger: Conversations + Clone {
    async fn close(&self);
    /// Makes a conversation of `alice` with the agent of all timelines.
    async fn talk(&self, id: &ConversationId);
    async fn register(&self, name: &str) -> WorkerId;
    /// Whether it is still alive.
    async fn renew(&self, worker: &WorkerId) -> Option<()>;
    async fn end(&self, worker: &WorkerId) -> bool;
    async fn mark_dead(&self, worker: &WorkerId, seen: u64) -> bool;
    async fn live(&self) -> Vec<Worker>;
    async fn orphans(&self, limit: u32) -> Vec<RunRef>;
    async fn ready(&self, older_than: Duration, limit: u32) -> Vec<RunRef>;
    async fn expired(&self, limit: u32) -> Vec<RunRef>;
    async fn unpublished(&self, older_than: Duration, limit: u32) -> Vec<RunRef>;
    async fn abandoned(&self, after: Duration, limit: u32) -> Vec<RunRef>;
    async fn waiting_parents(&self, limit: u32) -> Vec<RunRef>;
    async fn parentless(&self, limit: u32) -> Vec<RunRef>;
    async fn late_parents(&self, limit: u32) -> Vec<RunRef>;
    async fn mark_published(&self, marks: Vec<(RunId, u64)>);
    async fn set_clock_offset(&self, micros: i64);
    async fn row(&self, run: &RunId) -> Option<RunRow>;
    async fn steps(&self, run: &RunId) -> Vec<Stored>;
    async fn actions(&self, run: &RunId) -> Vec<ActionRow>;
    async fn approval(&self, approval: &ApprovalId) -> Option<ApprovalRow>;
    /// How many approvals are pending.
    async fn pending(&self) -> u64;
    /// The scores given, in millionths.
    async fn scores(&self) -> Vec<i64>;
    async fn due_deliveries(&self) -> usize;
    /// Checks the chain.
    async fn verify(&self, run: &RunId);
    fn hook(&self, hook: impl FnMut(Window, Option<i32>) -> Then + Send + 'static);
    fn unhook(&self);
}

impl Subject for TestDatabase {
    type Store = Store;

    async fn store(&self) -> Store {
        TestDatabase::store(self).await
    }

    fn postgres(&self) -> Option<String> {
        (self.kind() == Kind::Postgres).then(|| self.url().to_owned())
    }
}

impl Ledger for Store {
    async fn close(&self) {
        Store::close(self).await;
    }

    async fn talk(&self, id: &ConversationId) {
        let new = NewConversation {
            id: id.clone(),
            namespace: namespace(),
            agent: AgentName::new("support-desk").unwrap(),
            channel: "portal",
            title: String::new(),
            created_by: alice(),
            key: None,
        };
        assert!(self.conversations().create(&new).await.unwrap().1);
    }

    async fn register(&self, name: &str) -> WorkerId {
        self.workers().register(name).await.unwrap()
    }

    async fn renew(&self, worker: &WorkerId) -> Option<()> {
        self.workers().renew(worker).await.unwrap().map(|_| ())
    }

    async fn end(&self, worker: &WorkerId) -> bool {
        self.workers().end(worker).await.unwrap()
    }

    async fn mark_dead(&self, worker: &WorkerId, seen: u64) -> bool {
        self.workers().mark_dead(worker, seen).await.unwrap()
    }

    async fn live(&self) -> Vec<Worker> {
        self.workers().live().await.unwrap()
    }

    async fn orphans(&self, limit: u32) -> Vec<RunRef> {
        self.sweep().orphans(limit).await.unwrap()
    }

    async fn ready(&self, older_than: Duration, limit: u32) -> Vec<RunRef> {
        self.sweep().ready(older_than, limit).await.unwrap()
    }

    async fn expired(&self, limit: u32) -> Vec<RunRef> {
        self.sweep().expired(limit).await.unwrap()
    }

    async fn unpublished(&self, older_than: Duration, limit: u32) -> Vec<RunRef> {
        self.sweep().unpublished(older_than, limit).await.unwrap()
    }

    async fn abandoned(&self, after: Duration, limit: u32) -> Vec<RunRef> {
        self.sweep().abandoned(after, limit).await.unwrap()
    }

    async fn waiting_parents(&self, limit: u32) -> Vec<RunRef> {
        self.sweep().waiting_parents(limit).await.unwrap()
    }

    async fn late_parents(&self, limit: u32) -> Vec<RunRef> {
        self.sweep().late_parents(limit).await.unwrap()
    }

    async fn parentless(&self, limit: u32) -> Vec<RunRef> {
        self.sweep().parentless(limit).await.unwrap()
    }

    async fn mark_published(&self, marks: Vec<(RunId, u64)>) {
        Store::mark_published(self, marks).await.unwrap();
    }

    async fn set_clock_offset(&self, micros: i64) {
        Store::set_clock_offset(self, micros).await.unwrap();
    }

    async fn row(&self, run: &RunId) -> Option<RunRow> {
        self.runs().get(&namespace(), run).await.unwrap()
    }

    async fn steps(&self, run: &RunId) -> Vec<Stored> {
        let steps = self.runs().steps(&namespace(), run, 0, 1000).await.unwrap();
        let stored = steps.into_iter().map(|step| Stored {
            seq: step.seq,
            content: step.content,
            view: step.view,
        });
        stored.collect()
    }

    async fn actions(&self, run: &RunId) -> Vec<ActionRow> {
        self.runs().actions(&namespace(), run).await.unwrap()
    }

    async fn approval(&self, approval: &ApprovalId) -> Option<ApprovalRow> {
        self.approvals().get(&namespace(), approval).await.unwrap()
    }

    async fn pending(&self) -> u64 {
        self.approvals().pending(&namespace()).await.unwrap()
    }

    async fn scores(&self) -> Vec<i64> {
        let (filter, page) = (FeedbackFilter::default(), PageRequest::default());
        let feedback = self.feedback();
        let listed = feedback.list(&namespace(), &filter, &page).await.unwrap();
        let items = listed.items.into_iter();
        items.map(|item| item.score_millionths).collect()
    }

    async fn due_deliveries(&self) -> usize {
        let deliveries = self.deliveries();
        let due = deliveries.claim("n", Duration::from_secs(1), 5).await;
        due.unwrap().len()
    }

    async fn verify(&self, run: &RunId) {
        let verifying = self.runs();
        verifying.verify(&namespace(), run, &keys()).await.unwrap();
    }

    fn hook(&self, hook: impl FnMut(Window, Option<i32>) -> Then + Send + 'static) {
        Store::hook(self, hook);
    }

    fn unhook(&self) {
        Store::unhook(self);
    }
}
