//! A gateway with everything around it, and what tests do with it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sayso_bus::local::{LocalBus, LocalConfig};
use sayso_driver::Wrote;
use sayso_gateway::auth::{Scope, Scopes};
use sayso_gateway::tokens::{self, NewToken};
use sayso_gateway::{Gateway, GatewayConfig, GatewayParts};
use sayso_herald::Herald;
use sayso_run::{
    Actor, Answer, ChainKey, ChainKeys, Digest, Input, Judgement, Marks, Namespace, PrincipalId,
    Proposed, Ruling, RunId, ToolOutcome, ToolOutput, ToolSetId, Trust, Usage, WorkerId,
};
use sayso_service::config::Key;
use sayso_service::error::Coded;
use sayso_service::internal::{SignInternal, VerifyInternal};
use sayso_service::peer::Peer;
use sayso_store::testing::TestDatabase;
use sayso_store::{Kind, Store};
use sayso_wire::v1;
use sayso_wire::v1::agent_service_client::AgentServiceClient;
use sayso_wire::v1::approval_service_client::ApprovalServiceClient;
use sayso_wire::v1::audit_service_client::AuditServiceClient;
use sayso_wire::v1::feedback_service_client::FeedbackServiceClient;
use sayso_wire::v1::run_service_client::RunServiceClient;
use sayso_wire::v1::token_service_client::TokenServiceClient;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::metadata::MetadataValue;
use tonic::service::interceptor::InterceptedService;
use tonic::service::{Interceptor, Routes};
use tonic::{Request, Status};
use tower::Layer;

use crate::siblings::Siblings;

pub(crate) const BUNDLE: &str = r#"{"name":"desk","description":"Answers.","tier":"fast"}"#;

pub(crate) struct House {
    pub(crate) gateway: Gateway,
    pub(crate) siblings: Siblings,
    pub(crate) store: Store,
    pub(crate) key: ChainKey,
    pub(crate) database: TestDatabase,
    pub(crate) bus: Arc<LocalBus>,
    pub(crate) shutdown: CancellationToken,
    _stop: DropGuard,
}

/// What a token is sent with.
#[derive(Clone)]
pub(crate) struct Bearer(MetadataValue<tonic::metadata::Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert("authorization", self.0.clone());
        Ok(request)
    }
}

type Edge = InterceptedService<Routes, Bearer>;

/// One person's clients.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) secret: String,
    pub(crate) token: String,
    edge: Edge,
}

impl Person {
    fn new(gateway: &Gateway, secret: &str, token: String) -> Person {
        let bearer = Bearer(format!("Bearer {secret}").parse().expect("a header"));
        Person {
            secret: secret.to_owned(),
            token,
            edge: InterceptedService::new(gateway.routes(), bearer),
        }
    }

    /// The same person at another gateway.
    pub(crate) fn at(gateway: &Gateway, secret: &str) -> Person {
        Person::new(gateway, secret, String::new())
    }

    pub(crate) fn runs(&self) -> RunServiceClient<Edge> {
        RunServiceClient::new(self.edge.clone())
    }

    pub(crate) fn approvals(&self) -> ApprovalServiceClient<Edge> {
        ApprovalServiceClient::new(self.edge.clone())
    }

    pub(crate) fn agents(&self) -> AgentServiceClient<Edge> {
        AgentServiceClient::new(self.edge.clone())
    }

    pub(crate) fn tokens(&self) -> TokenServiceClient<Edge> {
        TokenServiceClient::new(self.edge.clone())
    }

    pub(crate) fn audit(&self) -> AuditServiceClient<Edge> {
        AuditServiceClient::new(self.edge.clone())
    }

    pub(crate) fn feedback(&self) -> FeedbackServiceClient<Edge> {
        FeedbackServiceClient::new(self.edge.clone())
    }

    pub(crate) async fn start(&self, input: &str) -> RunId {
        let request = v1::StartRunRequest {
            agent: "desk".into(),
            input: input.into(),
            idempotency_key: String::new(),
        };
        let started = self
            .runs()
            .start_run(request)
            .await
            .expect("started")
            .into_inner();
        RunId::new(started.run.expect("a run").id).expect("an id")
    }

    pub(crate) async fn run(&self, run: &RunId) -> v1::Run {
        let request = v1::GetRunRequest {
            run_id: run.to_string(),
        };
        let got = self
            .runs()
            .get_run(request)
            .await
            .expect("read")
            .into_inner();
        got.run.expect("a run")
    }

    pub(crate) async fn decide(
        &self,
        approval: &str,
        verdict: v1::Verdict,
    ) -> Result<v1::DecideApprovalResponse, Status> {
        let request = v1::DecideApprovalRequest {
            approval_id: approval.into(),
            verdict: verdict.into(),
            ..v1::DecideApprovalRequest::default()
        };
        let decided = self.approvals().decide_approval(request).await;
        decided.map(tonic::Response::into_inner)
    }

    pub(crate) async fn pending(&self) -> Vec<v1::Approval> {
        let request = v1::ListApprovalsRequest {
            statuses: vec![v1::ApprovalStatus::Pending.into()],
            ..v1::ListApprovalsRequest::default()
        };
        let listed = self.approvals().list_approvals(request).await;
        listed.expect("listed").into_inner().approvals
    }

    pub(crate) async fn watch(
        &self,
        run: &RunId,
        from_sequence: u64,
    ) -> tonic::Streaming<v1::WatchRunResponse> {
        let request = v1::WatchRunRequest {
            run_id: run.to_string(),
            from_sequence,
            steps_only: false,
        };
        self.runs()
            .watch_run(request)
            .await
            .expect("a stream")
            .into_inner()
    }
}

/// The stable code of a refusal.
pub(crate) fn code(status: &Status) -> String {
    Coded::from_status(status).code.into_owned()
}

/// The next message of a stream that has to come soon.
pub(crate) async fn next<T>(stream: &mut tonic::Streaming<T>) -> Option<Result<T, Status>> {
    let soon = tokio::time::timeout(Duration::from_secs(20), stream.next()).await;
    soon.expect("the stream goes on or ends")
}

pub(crate) fn namespace(name: &str) -> Namespace {
    Namespace::new(name).expect("a name")
}

impl House {
    pub(crate) async fn new() -> House {
        House::with(LocalConfig::default(), GatewayConfig::default()).await
    }

    pub(crate) async fn with(bus: LocalConfig, config: GatewayConfig) -> House {
        let database = TestDatabase::new(Kind::Sqlite).await;
        let store = database.store().await;
        let bus = Arc::new(LocalBus::new(bus));
        let herald = Herald::start(store.clone(), bus.clone());
        let key = ChainKey::new("test", [7; 32]);
        let siblings = Siblings {
            store: store.clone(),
            herald,
            key: key.clone(),
        };
        let cluster = Key::generate();
        let service = VerifyInternal::new(&cluster).layer(siblings.routes());
        let peer = Peer::local(service, SignInternal::new("gateway", &cluster));
        let gateway = Gateway::build(GatewayParts {
            store: store.clone(),
            bus: bus.clone(),
            scheduler: peer.clone(),
            hub: peer.clone(),
            policy: peer.clone(),
            notifier: peer,
            key: key.clone(),
            keys: ChainKeys::from_iter([key.clone()]),
            config,
        });
        let gateway = gateway.expect("built");
        let shutdown = CancellationToken::new();
        let (running, stop) = (gateway.clone(), shutdown.clone());
        tokio::spawn(async move { running.run(stop).await });
        let house = House {
            gateway,
            siblings,
            store,
            key,
            database,
            bus,
            _stop: shutdown.clone().drop_guard(),
            shutdown,
        };
        let operator = house.person("shop", "operator", &[Scope::Operator]).await;
        let bundle = v1::DeployAgentRequest {
            bundle: BUNDLE.into(),
        };
        operator
            .agents()
            .deploy_agent(bundle)
            .await
            .expect("deployed");
        house
    }

    /// A person of a namespace with a token of these scopes.
    pub(crate) async fn person(&self, namespace_: &str, name: &str, scopes: &[Scope]) -> Person {
        let new = NewToken {
            namespace: namespace(namespace_),
            name: PrincipalId::new(name).expect("a name"),
            principal: None,
            scopes: Scopes::of(scopes),
            trust: Trust::Trusted,
            lifetime: tokens::DEFAULT_LIFETIME,
        };
        let made = tokens::create(&self.store, &self.key, &Actor::System, new).await;
        let made = made.expect("made");
        Person::new(&self.gateway, made.secret.expose(), made.token.id)
    }

    /// Somebody with this text for a token.
    pub(crate) fn stranger(&self, secret: &str) -> Person {
        Person::new(&self.gateway, secret, String::new())
    }

    async fn write(
        &self,
        run: &RunId,
        input: impl Fn(&sayso_run::RunState) -> Input + Send + Sync,
    ) -> Wrote {
        self.siblings.write(run, input).await.expect("written")
    }

    /// Lists the tools, as a worker does first.
    pub(crate) async fn begin(&self, run: &RunId) {
        let set = ToolSetId::new(Digest::of(b"tools").to_hex()).expect("an id");
        self.write(run, |_| Input::ToolsListed {
            set: set.clone(),
            count: 1,
        })
        .await;
    }

    /// The model answers with calls, `tool` and arguments.
    pub(crate) async fn answer(&self, run: &RunId, text: &str, calls: &[(&str, &str)]) -> Wrote {
        let calls = calls.iter().map(|(tool, args)| Proposed {
            tool: (*tool).to_owned(),
            model_name: tool.replace('.', "_"),
            args: (*args).to_owned(),
            definition: Some(Digest::of(tool.as_bytes())),
        });
        let calls: Vec<Proposed> = calls.collect();
        self.write(run, |state| {
            Input::Answer(Answer {
                cycle: state.cycles() + 1,
                seen: state.seq(),
                failovers: Vec::new(),
                thinking: Vec::new(),
                text: text.to_owned(),
                calls: calls.clone(),
                model: "scripted".into(),
                cost: None,
                usage: Usage {
                    input: 10,
                    cached: 0,
                    output: 5,
                },
            })
        })
        .await
    }

    /// Judges every call that is not judged yet.
    pub(crate) async fn judge(&self, run: &RunId, ruling: &Ruling) -> Wrote {
        self.write(run, |state| Input::Judged {
            judgements: state
                .calls()
                .iter()
                .filter(|call| call.phase == sayso_run::Phase::Proposed)
                .map(|call| Judgement {
                    call: call.id.clone(),
                    ruling: ruling.clone(),
                    shown: None,
                })
                .collect(),
            worker: worker(),
            approval_timeout: Duration::from_secs(3600),
        })
        .await
    }

    pub(crate) async fn ask(&self, run: &RunId) -> Wrote {
        let ruling = Ruling::Ask {
            rule: "rules#0".into(),
            reason: "It changes something.".into(),
            quorum: sayso_run::Quorum::default(),
            origins: Vec::new(),
        };
        self.judge(run, &ruling).await
    }

    pub(crate) async fn allow(&self, run: &RunId) -> Wrote {
        let ruling = Ruling::Allow {
            rule: "rules#1".into(),
            marks: Marks::default(),
        };
        self.judge(run, &ruling).await
    }

    /// Sends every call that a person let through.
    pub(crate) async fn execute(&self, run: &RunId) {
        let state = self.write(run, |_| Input::Tick).await.state;
        let cleared = |call: &&sayso_run::Call| call.phase == sayso_run::Phase::Cleared;
        for call in state.calls().iter().filter(cleared) {
            self.write(run, |_| Input::Execute {
                call: call.id.clone(),
                worker: worker(),
                marks: Marks::default(),
            })
            .await;
        }
    }

    /// Every call that was sent is answered.
    pub(crate) async fn results(&self, run: &RunId) {
        let state = self.write(run, |_| Input::Tick).await.state;
        let sent = |call: &&sayso_run::Call| matches!(call.phase, sayso_run::Phase::Started { .. });
        for call in state.calls().iter().filter(sent) {
            self.write(run, |_| {
                Input::Output(ToolOutput {
                    call: call.id.clone(),
                    worker: worker(),
                    outcome: ToolOutcome::Ok,
                    content: "{\"ok\":true}".into(),
                    cut_bytes: 0,
                    took_micros: 10,
                    artifact: None,
                })
            })
            .await;
        }
    }

    /// A run of `desk` by this person that waits for one approval.
    pub(crate) async fn gated(&self, person: &Person) -> (RunId, String) {
        let run = person.start("Refund order A-17.").await;
        self.begin(&run).await;
        self.answer(
            &run,
            "",
            &[("shop.refund", r#"{"order": "A-17", "amount": 1.10}"#)],
        )
        .await;
        let state = self.ask(&run).await.state;
        let held = state.held().next().expect("a held call");
        let approval = held.approval.as_ref().expect("an approval").id.to_string();
        (run, approval)
    }

    /// What the run's person approved happens, and the run completes.
    pub(crate) async fn complete(&self, run: &RunId) {
        self.execute(run).await;
        self.results(run).await;
        self.answer(run, "Done.", &[]).await;
    }
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::new("worker-1").expect("an id")
}
