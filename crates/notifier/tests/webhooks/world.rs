//! What the tests are made of.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sayso_bus::Bus;
use sayso_bus::local::{LocalBus, LocalConfig};
use sayso_driver::{
    Append, ApprovalRow, ApprovalStatus, DeliveryRow, Herald, Journal, LeaseChange, Notice,
    Recipient, RunRow, Takes, Tree, Written, run_row, start,
};
use sayso_notifier::{Notifier, NotifierConfig};
use sayso_run::{
    ActionStatus, AgentName, ApprovalId, CallDigest, CallId, ChainKey, Digest, Namespace,
    PrincipalId, RevisionId, RunId, Source, Start, Status, TaskId, Timestamp, TriggerReceived,
    Trust,
};
use sayso_service::config::{Secret, SecretSource};
use sayso_store::testing::TestDatabase;
use sayso_store::{Added, Kind, LogEntry, NewTarget, PageRequest, Store, TargetKind};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

pub(crate) const KEY: &str = "hook-key-of-the-tests";

/// How long a claim lasts here: unlike any time between retries.
pub(crate) const CLAIM: Duration = Duration::from_secs(50);

/// One database, and the time in it.
pub(crate) struct World {
    pub(crate) database: TestDatabase,
    pub(crate) store: Store,
    pub(crate) bus: Arc<LocalBus>,
    offset: Mutex<i64>,
}

/// A herald for whom nobody listens.
struct Silent;

impl Herald for Silent {
    fn announce(&self, _: &RunRow, _: Vec<Written>) {}
    fn published(&self, _: &RunId) -> Option<u64> {
        None
    }
    fn announce_again(&self, _: &RunRow, _: u64, _: Vec<Written>) {}
    fn wake(&self, _: &Namespace, _: &RunId, _: &'static str) {}
    fn trace(&self, _: &tracing::Span, _: &str) {}
    fn delta(&self, _: &RunId, _: u32, _: Option<&str>) {}
}

impl World {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::new(Kind::Sqlite).await;
        let store = database.store().await;
        let bus = Arc::new(LocalBus::new(LocalConfig::default()));
        Self {
            database,
            store,
            bus,
            offset: Mutex::new(0),
        }
    }

    /// A run that holds a call, not yet notified of.
    pub(crate) async fn run(&self) -> RunId {
        let run = RunId::new(format!("run_{}", Uuid::now_v7().simple())).unwrap();
        let key = ChainKey::new("test", [7; 32]);
        let trigger = TriggerReceived {
            task: TaskId::new(format!("task_{}", Uuid::now_v7().simple())).unwrap(),
            namespace: shop(),
            agent: desk(),
            revision: RevisionId::new("a".repeat(64)).unwrap(),
            source: Source::Start,
            input: "Refund order A-17".into(),
            principal: PrincipalId::new("ann").unwrap(),
            trust: Trust::Trusted,
            idempotency: None,
            trigger: None,
            tick: None,
            traceparent: None,
            parent: None,
            conversation: None,
        };
        start(
            &self.store,
            &Silent,
            &key,
            Start {
                run: run.clone(),
                trigger,
            },
        )
        .await
        .unwrap();
        run
    }

    /// Holds the run's next call and makes the notification due, as the parking append does.
    pub(crate) async fn hold(&self, run: &RunId, position: usize, to: &Target) -> ApprovalId {
        let now = self.store.sync_clock().await.unwrap();
        let row = approval(run, position, &to.args, now, now.plus(to.expires_in));
        let id = row.approval.clone();
        let notice = Notice::Pending(id.clone());
        let recipient = Recipient::Bundle {
            url: to.url.clone(),
            secret: to.secret.clone(),
        };
        let delivery = due(run, format!("{id}:notify"), notice, recipient, now);
        self.append(run, vec![row], vec![delivery]).await;
        id
    }

    /// A new run with one held call, of which these targets are told.
    pub(crate) async fn held_for(&self, targets: &[&str]) -> ApprovalId {
        let run = self.run().await;
        let now = self.store.sync_clock().await.unwrap();
        let args = r#"{"order_id":"A-17"}"#;
        let row = approval(&run, 1, args, now, now.plus(Duration::from_secs(3600)));
        let id = row.approval.clone();
        let told = targets.iter().map(|target| {
            let to = Recipient::Target((*target).into());
            due(
                &run,
                format!("{id}:target:{target}"),
                Notice::Pending(id.clone()),
                to,
                now,
            )
        });
        self.append(&run, vec![row], told.collect()).await;
        id
    }

    /// Reminds a target of an approval.
    pub(crate) async fn remind(&self, approval: &ApprovalId, target: &str) {
        let found = self.store.approvals().get(&shop(), approval).await.unwrap();
        let run = found.unwrap().run;
        let now = self.store.sync_clock().await.unwrap();
        let (id, to) = (
            format!("{approval}:escalated:9"),
            Recipient::Target(target.into()),
        );
        let notice = Notice::Escalated(approval.clone());
        self.append(&run, Vec::new(), vec![due(&run, id, notice, to, now)])
            .await;
    }

    /// A run that has failed, of which a target is told.
    pub(crate) async fn failed(&self, target: &str) -> RunId {
        let run = self.run().await;
        let now = self.store.sync_clock().await.unwrap();
        let (id, to) = (
            format!("{run}:failed:2:{target}"),
            Recipient::Target(target.into()),
        );
        let mut append = self.append_of(&run).await;
        append.row.status = Status::Failed;
        append.row.error_code = Some("run.no_role".into());
        append.row.error_message = Some("The agent has no role.".into());
        append.row.ended_at = Some(now);
        append.deliveries = vec![due(&run, id, Notice::Failed, to, now)];
        self.store.append(append).await.unwrap();
        run
    }

    /// Starts a failed run again, as a retry does.
    pub(crate) async fn retried(&self, run: &RunId) {
        let append = self.append_of(run).await;
        self.store.append(append).await.unwrap();
    }

    /// Adds a target.
    pub(crate) async fn target(&self, name: &str, kind: TargetKind, address: &str) {
        let target = NewTarget {
            name: name.into(),
            kind,
            address: address.into(),
            secret: (kind == TargetKind::Webhook).then(|| "HOOK".into()),
            takes: Takes {
                approvals: true,
                failures: true,
            },
        };
        let by = PrincipalId::new("ann").unwrap();
        let added = self.store.targets().add(&shop(), &target, &by).await;
        assert_eq!(added.unwrap(), Added::Added);
    }

    /// A new run with one held call.
    pub(crate) async fn held(&self, to: &Target) -> ApprovalId {
        self.hold(&self.run().await, 1, to).await
    }

    /// Decides an approval.
    pub(crate) async fn decide(&self, approval: &ApprovalId, status: ApprovalStatus) {
        let found = self.store.approvals().get(&shop(), approval).await.unwrap();
        let mut row = found.unwrap();
        assert_eq!(row.status, ApprovalStatus::Pending);
        row.status = status;
        row.decided_at = Some(self.store.now());
        self.append(&row.run.clone(), vec![row], Vec::new()).await;
    }

    async fn append(&self, run: &RunId, approvals: Vec<ApprovalRow>, deliveries: Vec<DeliveryRow>) {
        let append = Append {
            approvals,
            deliveries,
            ..self.append_of(run).await
        };
        self.store.append(append).await.unwrap();
    }

    async fn append_of(&self, run: &RunId) -> Append {
        let loaded = self.store.load(run).await.unwrap().unwrap();
        Append {
            run: run.clone(),
            expected: loaded.state.seq(),
            steps: Vec::new(),
            lease: LeaseChange::None,
            ready_at: None,
            not_after: None,
            row: run_row(&loaded.state),
            actions: Vec::new(),
            approvals: Vec::new(),
            feedback: Vec::new(),
            deliveries: Vec::new(),
            usage: Vec::new(),
            published: None,
            tree: Tree::default(),
            messages: Vec::new(),
            talk: None,
            start_key: None,
            tick: None,
            id: Uuid::now_v7(),
            again: false,
        }
    }

    /// Lets time pass on the database's clock.
    pub(crate) async fn pass(&self, time: Duration) {
        let offset = {
            let mut offset = self.offset.lock().unwrap();
            *offset += i64::try_from(time.as_micros()).unwrap();
            *offset
        };
        self.store.set_clock_offset(offset).await.unwrap();
    }

    /// Starts a notifier with a connection of its own to the database, as a process has.
    pub(crate) async fn notifier(&self) -> Running {
        self.notifier_with(config()).await
    }

    pub(crate) async fn notifier_with(&self, config: NotifierConfig) -> Running {
        let bus: Arc<dyn Bus> = Arc::<LocalBus>::clone(&self.bus);
        let notifier = Notifier::build(self.database.store().await, bus, config).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(notifier.run(stop.clone()));
        Running { stop, task }
    }

    /// The agent's log, oldest first, as code and message.
    pub(crate) async fn log(&self) -> Vec<(String, String)> {
        let request = PageRequest::default();
        let page = self
            .store
            .agent_logs()
            .list(&shop(), &desk(), &request)
            .await
            .unwrap();
        let read = |entry: LogEntry| (entry.code, entry.message);
        page.items.into_iter().rev().map(read).collect()
    }

    /// How long until the next delivery is due; `None` if none is.
    pub(crate) async fn due_in(&self) -> Option<Duration> {
        let due = self.store.deliveries().next_due().await.unwrap()?;
        let now = self.store.sync_clock().await.unwrap();
        Some(Duration::from_micros(
            u64::try_from(due.micros_since(now)).unwrap_or(0),
        ))
    }

    /// Waits until nothing is due any more: sent, given up or cancelled.
    pub(crate) async fn settled(&self) {
        until("everything is settled", || async {
            self.due_in().await.is_none()
        })
        .await;
    }

    /// Waits until a failed try has been recorded and the next one is due in about `planned`.
    pub(crate) async fn rescheduled(&self, planned: Duration) {
        until(&format!("the next try is due in {planned:?}"), || async {
            let slack = Duration::from_secs(1).min(planned / 2);
            self.due_in()
                .await
                .is_some_and(|due| due + slack >= planned && due <= planned.mul_f64(1.1))
        })
        .await;
    }
}

/// A notifier at work.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Stops it as SIGTERM does.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Ends it as `kill -9` does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// Where a bundle's notifications go.
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) secret: Option<String>,
    pub(crate) args: String,
    pub(crate) expires_in: Duration,
}

impl Target {
    pub(crate) fn of(receiver: &Receiver) -> Self {
        Self {
            url: receiver.url(),
            secret: Some("HOOK".into()),
            args: r#"{"order_id":"A-17"}"#.into(),
            expires_in: Duration::from_secs(3600),
        }
    }
}

/// A receiver that answers as scripted, one answer a request, and takes everything after that.
pub(crate) struct Receiver {
    server: MockServer,
}

struct Script(Mutex<VecDeque<ResponseTemplate>>);

impl Respond for Script {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        self.0
            .lock()
            .unwrap()
            .pop_front()
            .unwrap_or_else(|| ResponseTemplate::new(200))
    }
}

impl Receiver {
    pub(crate) async fn new(answers: impl IntoIterator<Item = ResponseTemplate>) -> Self {
        let server = MockServer::start().await;
        let script = Script(Mutex::new(answers.into_iter().collect()));
        Mock::given(wiremock::matchers::any())
            .respond_with(script)
            .mount(&server)
            .await;
        Self { server }
    }

    /// One that answers with these statuses.
    pub(crate) async fn statuses(statuses: &[u16]) -> Self {
        Self::new(statuses.iter().map(|status| ResponseTemplate::new(*status))).await
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/hooks/path-that-is-secret?token=t", self.server.uri())
    }

    /// What arrived.
    pub(crate) async fn requests(&self) -> Vec<Request> {
        self.server.received_requests().await.unwrap()
    }

    /// Waits for this many requests in all.
    pub(crate) async fn reached(&self, count: usize) -> Vec<Request> {
        until(&format!("{count} requests arrive"), || async {
            self.requests().await.len() >= count
        })
        .await;
        let requests = self.requests().await;
        assert_eq!(requests.len(), count);
        requests
    }
}

/// A header of a request.
pub(crate) fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request
        .headers
        .get(name)
        .map(|value| value.to_str().unwrap())
}

/// Waits until something holds; fails after a while, saying what did not come.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let limit = Duration::from_secs(30);
    assert!(
        tokio::time::timeout(limit, wait).await.is_ok(),
        "waited in vain until {what}"
    );
}

pub(crate) fn config() -> NotifierConfig {
    let source = SecretSource::Value(Secret::new(KEY));
    let mut config = NotifierConfig::new(
        "https://sayso.example",
        BTreeMap::from([("HOOK".to_owned(), source)]),
    );
    config.every = Duration::from_millis(20);
    config.claim = CLAIM;
    config
}

pub(crate) fn shop() -> Namespace {
    Namespace::new("shop").unwrap()
}

pub(crate) fn desk() -> AgentName {
    AgentName::new("desk").unwrap()
}

fn due(run: &RunId, id: String, notice: Notice, to: Recipient, due_at: Timestamp) -> DeliveryRow {
    DeliveryRow {
        id,
        namespace: shop(),
        agent: desk(),
        run: run.clone(),
        notice,
        to,
        due_at,
    }
}

fn approval(
    run: &RunId,
    position: usize,
    args: &str,
    requested_at: Timestamp,
    expires_at: Timestamp,
) -> ApprovalRow {
    let call = CallId::of(1, position);
    let definition = Digest::of(b"definition");
    ApprovalRow {
        approval: ApprovalId::of(run, &call),
        namespace: shop(),
        run: run.clone(),
        agent: desk(),
        requester: PrincipalId::new("ann").unwrap(),
        tool: "shop.refund".into(),
        args: args.into(),
        original: None,
        edited_by: None,
        written: None,
        digest: CallDigest::of(run, &call, "shop.refund", &definition, args),
        definition,
        call,
        task_input: "Refund order A-17".into(),
        trust: Trust::Trusted,
        rule: "rules#0".into(),
        reason: "a rule asks for it".into(),
        summary: "Refund order A-17.".into(),
        seq: 1,
        status: ApprovalStatus::Pending,
        requested_at,
        expires_at,
        decided_by: None,
        decided_at: None,
        decision_reason: None,
        closed_cause: None,
        action_status: ActionStatus::PendingReview,
        origins: Vec::new(),
        deciders: None,
        escalates_at: None,
    }
}
