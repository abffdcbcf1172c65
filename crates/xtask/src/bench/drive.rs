//! Gated runs, driven over TCP with tokens, as a client of the public API would.
//!
//! A run is started by one principal and watched from its start; when the watch shows the held
//! call, another principal approves it, and the watch goes on until it ends by itself. Nothing is
//! polled.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sayso_wire::v1;
use sayso_wire::v1::agent_service_client::AgentServiceClient;
use sayso_wire::v1::approval_service_client::ApprovalServiceClient;
use sayso_wire::v1::run_service_client::RunServiceClient;
use sayso_wire::v1::token_service_client::TokenServiceClient;
use sayso_wire::v1::watch_run_response::Event;
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// The agent whose call is gated.
pub(super) const AGENT: &str = "bench";
/// What every run is asked.
const INPUT: &str = "Please file order A-17 over 12.50 as agreed by phone.";
/// The steps between a decision and the end, in their order.
pub(super) const STAGES: [&str; 4] = ["tool_approved", "tool_started", "tool_result", "completion"];
/// How long any stretch of a run may take.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a run took from asking for the decision on.
#[derive(Clone, Copy)]
pub(super) struct Took {
    /// Until the completion was seen.
    pub(super) all: Duration,
    /// Until each step of [`STAGES`] was seen.
    pub(super) stages: [Duration; STAGES.len()],
}

type Calls = InterceptedService<Channel, Bearer>;

/// A token, sent with each request.
#[derive(Clone)]
struct Bearer(MetadataValue<Ascii>);

impl Bearer {
    fn new(secret: &str) -> Result<Self> {
        let value = format!("Bearer {secret}").parse();
        Ok(Self(value.context("a token's secret is plain ASCII")?))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// The tokens of the two principals.
#[derive(Clone)]
pub(super) struct Principals {
    requester: Bearer,
    approver: Bearer,
}

/// One connection, used as two principals.
#[derive(Clone)]
pub(super) struct Door {
    runs: RunServiceClient<Calls>,
    approvals: ApprovalServiceClient<Calls>,
}

/// A run that waits for a decision.
pub(super) struct Held {
    pub(super) run: String,
    approval: String,
    /// Sequence number of the last step that was seen.
    seen: u64,
}

impl Principals {
    /// Makes two principals with a token each and deploys the agent, as the admin.
    pub(super) async fn set_up(address: &str, admin: &str, bundle: &str) -> Result<Self> {
        let calls = Calls::new(connect(address).await?, Bearer::new(admin)?);
        let mut tokens = TokenServiceClient::new(calls.clone());
        let mut token = async |name: &str, scope: v1::Scope| -> Result<Bearer> {
            let request = v1::CreateTokenRequest {
                name: name.to_owned(),
                scopes: vec![scope.into(), v1::Scope::Read.into()],
                ..v1::CreateTokenRequest::default()
            };
            let created = tokens.create_token(request).await;
            Bearer::new(
                &created
                    .context("a token cannot be made")?
                    .into_inner()
                    .secret,
            )
        };
        let requester = token("bench-requester", v1::Scope::Submit).await?;
        let approver = token("bench-approver", v1::Scope::Approver).await?;
        let bundle = bundle.to_owned();
        AgentServiceClient::new(calls)
            .deploy_agent(v1::DeployAgentRequest { bundle })
            .await
            .context("the agent cannot be deployed")?;
        Ok(Self {
            requester,
            approver,
        })
    }

    /// Opens a connection.
    pub(super) async fn connect(&self, address: &str) -> Result<Door> {
        let channel = connect(address).await?;
        let as_principal = |bearer: &Bearer| Calls::new(channel.clone(), bearer.clone());
        Ok(Door {
            runs: RunServiceClient::new(as_principal(&self.requester)),
            approvals: ApprovalServiceClient::new(as_principal(&self.approver)),
        })
    }
}

async fn connect(address: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(address.to_owned())?;
    let channel = endpoint.connect().await;
    channel.with_context(|| format!("the gateway at {address} cannot be reached"))
}

impl Door {
    /// One gated run from start to end.
    pub(super) async fn gated_run(&mut self) -> Result<Took> {
        let (held, watch) = self.start().await?;
        self.finish(held, watch).await
    }

    /// Starts a run and leaves it, unwatched, where it waits for a decision.
    pub(super) async fn pause(&mut self) -> Result<Held> {
        Ok(self.start().await?.0)
    }

    /// Lets a run go on that nobody watches: like [`Door::gated_run`] from its approval on.
    pub(super) async fn resume(&mut self, held: Held) -> Result<Took> {
        let watch = self.watch(&held.run, held.seen + 1).await?;
        self.finish(held, watch).await
    }

    /// Reads a run.
    pub(super) async fn read(&mut self, run: &str) -> Result<()> {
        let run_id = run.to_owned();
        let read = self.runs.get_run(v1::GetRunRequest { run_id }).await;
        let read = read.context("a run cannot be read")?.into_inner();
        ensure!(read.run.is_some(), "an answer has its run");
        Ok(())
    }

    async fn start(&mut self) -> Result<(Held, Streaming<v1::WatchRunResponse>)> {
        let request = v1::StartRunRequest {
            agent: AGENT.to_owned(),
            input: INPUT.to_owned(),
            ..v1::StartRunRequest::default()
        };
        let started = self.runs.start_run(request).await;
        let started = started.context("a run cannot be started")?.into_inner();
        let run = started.run.context("a started run is told")?.id;
        let mut watch = self.watch(&run, 0).await?;
        let held = until(&mut watch, "awaiting_approval", |_| {}).await?;
        let content: serde_json::Value = serde_json::from_str(&held.content_json)?;
        let approval = content["approvals"][0].as_str();
        let approval = approval.context("a held call has an approval")?.to_owned();
        let seen = held.sequence;
        Ok((
            Held {
                run,
                approval,
                seen,
            },
            watch,
        ))
    }

    async fn watch(&mut self, run: &str, from: u64) -> Result<Streaming<v1::WatchRunResponse>> {
        let request = v1::WatchRunRequest {
            run_id: run.to_owned(),
            from_sequence: from,
            steps_only: false,
        };
        let watch = self.runs.watch_run(request).await;
        Ok(watch.context("a run cannot be watched")?.into_inner())
    }

    /// Approves, and watches to the end.
    async fn finish(
        &mut self,
        held: Held,
        mut watch: Streaming<v1::WatchRunResponse>,
    ) -> Result<Took> {
        let request = v1::DecideApprovalRequest {
            approval_id: held.approval,
            verdict: v1::Verdict::Approve.into(),
            ..v1::DecideApprovalRequest::default()
        };
        let mut stages = [Duration::ZERO; STAGES.len()];
        let asked = Instant::now();
        let decided = async {
            let decided = self.approvals.decide_approval(request).await;
            decided.context("an approval cannot be decided")
        };
        let completed = async {
            let note = |step: &v1::RunStep| {
                if let Some(stage) = STAGES.iter().position(|stage| *stage == step.r#type) {
                    stages[stage] = asked.elapsed();
                }
            };
            until(&mut watch, "completion", note).await?;
            Ok(asked.elapsed())
        };
        let (_, all) = tokio::try_join!(decided, completed)?;
        let rest = timeout(LONGEST, watch.message()).await;
        let rest = rest.with_context(|| format!("the watch of {} does not end", held.run))??;
        ensure!(rest.is_none(), "more follows the end of {}", held.run);
        Ok(Took { all, stages })
    }
}

/// Watches until a step of this type, and notes each step. An error if the run ends without one.
async fn until(
    watch: &mut Streaming<v1::WatchRunResponse>,
    kind: &str,
    mut note: impl FnMut(&v1::RunStep),
) -> Result<v1::RunStep> {
    let watching = async {
        let mut last = None;
        while let Some(message) = watch.message().await.context("a watch broke off")? {
            let Some(Event::Step(step)) = message.event else {
                continue;
            };
            note(&step);
            if step.r#type == kind {
                return Ok(step);
            }
            last = Some(step);
        }
        let last = last.map_or_else(String::new, |step| {
            format!(": {} {}", step.r#type, step.content_json)
        });
        bail!("a run ended without a step `{kind}`{last}")
    };
    let watched = timeout(LONGEST, watching).await;
    watched.with_context(|| format!("no step `{kind}` came in {} s", LONGEST.as_secs()))?
}
