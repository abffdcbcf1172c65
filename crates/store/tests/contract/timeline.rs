//! A run that a test writes by hand.

use sayso_driver::{
    ActionRow, Append, AppendError, Appended, ApprovalRow, ApprovalStatus, FeedbackRow, Journal,
    LeaseChange, RunRow, StartKey, Tree, Written,
};
use sayso_run::{
    ActionStatus, Actor, AgentName, ApprovalId, CallDigest, CallId, ChainKey, ChainKeys, Digest,
    Head, Namespace, PrincipalId, Recorded, RevisionId, RunId, Source, Status, Step, TaskId,
    Timestamp, TriggerReceived, Trust, Usage, UserMessage, WorkerId,
};
use uuid::Uuid;

pub(crate) fn key() -> ChainKey {
    ChainKey::new("test-key", [7; 32])
}

pub(crate) fn keys() -> ChainKeys {
    [key()].into_iter().collect()
}

pub(crate) fn namespace() -> Namespace {
    Namespace::new("default").unwrap()
}

pub(crate) fn alice() -> PrincipalId {
    PrincipalId::new("alice").unwrap()
}

pub(crate) fn bob() -> PrincipalId {
    PrincipalId::new("bob").unwrap()
}

/// A message, the simplest step that may follow any other.
pub(crate) fn message(text: &str) -> Step {
    Step::UserMessage(UserMessage {
        text: text.into(),
        answers: Vec::new(),
        idempotency: None,
    })
}

/// One run, as its only writer sees it.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    pub(crate) head: Head,
    pub(crate) row: RunRow,
}

impl Timeline {
    /// A run that is not stored yet. The name makes its ids.
    pub(crate) fn new(name: &str) -> Self {
        let zero = Timestamp::from_micros(0);
        Self {
            head: Head::START,
            row: RunRow {
                run: RunId::new(format!("run_{name}")).unwrap(),
                task: TaskId::new(format!("task_{name}")).unwrap(),
                namespace: namespace(),
                agent: AgentName::new("support-desk").unwrap(),
                revision: RevisionId::new("a".repeat(64)).unwrap(),
                principal: alice(),
                trust: Trust::Trusted,
                source: Source::Start,
                trigger: None,
                imported_from: None,
                lineage: None,
                input: format!("Do {name}."),
                status: Status::Pending,
                seq: 0,
                ended_by: None,
                output: None,
                error_code: None,
                error_message: None,
                cycles: 0,
                retries: 0,
                usage: Usage::default(),
                cost: None,
                created_at: zero,
                updated_at: zero,
                ended_at: None,
                expires_at: None,
                open_calls: false,
            },
        }
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.row.run
    }

    /// The append that makes the run.
    pub(crate) fn start(&self, at: Timestamp) -> Append {
        let trigger = Step::TriggerReceived(TriggerReceived {
            task: self.row.task.clone(),
            namespace: self.row.namespace.clone(),
            agent: self.row.agent.clone(),
            revision: self.row.revision.clone(),
            source: Source::Start,
            input: self.row.input.clone(),
            principal: self.row.principal.clone(),
            trust: self.row.trust,
            idempotency: None,
            trigger: None,
            tick: None,
            parent: None,
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        });
        let mut append = self.next(at, LeaseChange::None, vec![trigger]);
        append.row.created_at = at;
        append.ready_at = Some(at);
        append
    }

    /// The same with a key.
    pub(crate) fn start_with_key(&self, at: Timestamp, key: &str, request: &str) -> Append {
        Append {
            start_key: Some(StartKey {
                key: key.into(),
                request: request.into(),
            }),
            ..self.start(at)
        }
    }

    /// An append of these steps after what is stored.
    pub(crate) fn next(&self, at: Timestamp, lease: LeaseChange, steps: Vec<Step>) -> Append {
        let mut head = self.head;
        let mut row = self.row.clone();
        let steps = steps
            .into_iter()
            .map(|step| {
                let actor = Actor::Principal(alice());
                let (recorded, content) =
                    Recorded::chain(&head, self.run(), at, actor, step, &key());
                head = recorded.head();
                Written {
                    recorded,
                    content,
                    view: None,
                }
            })
            .collect();
        row.seq = head.seq;
        row.updated_at = head.at;
        Append {
            run: self.run().clone(),
            expected: self.head.seq,
            steps,
            lease,
            ready_at: None,
            not_after: None,
            row,
            actions: Vec::new(),
            approvals: Vec::new(),
            feedback: Vec::new(),
            deliveries: Vec::new(),
            usage: Vec::new(),
            published: None,
            tree: Tree::default(),
            start_key: None,
            tick: None,
            id: Uuid::now_v7(),
            again: false,
        }
    }

    /// One message without a lease.
    pub(crate) fn say(&self, at: Timestamp, text: &str) -> Append {
        self.next(at, LeaseChange::None, vec![message(text)])
    }

    /// Goes on from an append that took effect.
    pub(crate) fn took(&mut self, append: &Append) {
        if let Some(last) = append.steps.last() {
            self.head = last.recorded.head();
        }
        self.row = append.row.clone();
    }

    /// Appends, and goes on from it if it took effect.
    pub(crate) async fn write(
        &mut self,
        store: &impl Journal,
        append: Append,
    ) -> Result<Appended, AppendError> {
        let appended = store.append(append.clone()).await;
        if appended.is_ok() {
            self.took(&append);
        }
        appended
    }

    /// Stores the start.
    pub(crate) async fn started(name: &str, store: &impl Journal) -> Self {
        let mut timeline = Self::new(name);
        let start = timeline.start(store.now());
        timeline.write(store, start).await.unwrap();
        timeline
    }

    /// A pending approval of the run's first call.
    pub(crate) fn approval(&self, at: Timestamp, expires_at: Timestamp) -> ApprovalRow {
        let call = CallId::of(1, 1);
        let definition = Digest::of(b"definition");
        ApprovalRow {
            approval: ApprovalId::of(self.run(), &call),
            namespace: self.row.namespace.clone(),
            run: self.run().clone(),
            agent: self.row.agent.clone(),
            requester: self.row.principal.clone(),
            tool: "shop.refund".into(),
            args: "{\"amount\": 1.10}".into(),
            original: None,
            edited_by: None,
            written: None,
            digest: CallDigest::of(self.run(), &call, "shop.refund", &definition, "{}"),
            call,
            definition,
            task_input: self.row.input.clone(),
            trust: self.row.trust,
            rule: "rules#0".into(),
            reason: "a person looks at refunds".into(),
            summary: "Run shop.refund with amount 1.10".into(),
            seq: 4,
            status: ApprovalStatus::Pending,
            requested_at: at,
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

    /// The action of the run's call at `position` of its first answer.
    pub(crate) fn action(&self, position: usize, at: Timestamp) -> ActionRow {
        let call = CallId::of(1, position);
        ActionRow {
            run: self.run().clone(),
            digest: CallDigest::of(self.run(), &call, "shop.refund", &Digest::ZERO, "{}"),
            call,
            tool: "shop.refund".into(),
            status: ActionStatus::PendingReview,
            args: "{\"amount\": 1.10}".into(),
            cleared_by: None,
            result: None,
            denied: None,
            created_at: at,
            updated_at: at,
        }
    }

    /// Bob's approval as feedback.
    pub(crate) fn feedback(&self, at: Timestamp) -> FeedbackRow {
        FeedbackRow {
            task: self.row.task.clone(),
            namespace: self.row.namespace.clone(),
            agent: self.row.agent.clone(),
            run: self.run().clone(),
            approval: ApprovalId::of(self.run(), &CallId::of(1, 1)),
            by: bob(),
            score_millionths: 1_000_000,
            note: Some("looks right".into()),
            at,
        }
    }
}

pub(crate) fn claim(worker: &WorkerId, from_epoch: u64) -> LeaseChange {
    LeaseChange::Claim {
        worker: worker.clone(),
        from_epoch,
    }
}

pub(crate) fn is_conflict(result: &Result<Appended, AppendError>) -> bool {
    matches!(result, Err(AppendError::Conflict(_)))
}
