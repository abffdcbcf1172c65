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
/// The agent whose model takes its time.
pub(super) const SLOW_AGENT: &str = "bench-slow";
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
    /// Until the decision was answered.
    pub(super) decided: Duration,
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

/// A run that is watched.
pub(super) struct Watch(Streaming<v1::WatchRunResponse>);

impl Watch {
    /// Waits until another worker has it; when that was seen.
    pub(super) async fn taken_over(mut self) -> Result<Instant> {
        until(&mut self.0, "taken_over", |_| {}).await?;
        Ok(Instant::now())
    }
}

impl Principals {
    /// Makes two principals with a token each and deploys the agents, as the admin.
    pub(super) async fn set_up(address: &str, admin: &str, bundles: &[String]) -> Result<Self> {
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
        let mut agents = AgentServiceClient::new(calls);
        for bundle in bundles {
            let bundle = bundle.clone();
            let deployed = agents.deploy_agent(v1::DeployAgentRequest { bundle });
            deployed.await.context("an agent cannot be deployed")?;
        }
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

    /// Starts a run and leaves it, without a look at what becomes of it; its id.
    pub(super) async fn begin(&mut self) -> Result<String> {
        self.begin_of(AGENT).await
    }

    async fn begin_of(&mut self, agent: &str) -> Result<String> {
        let request = v1::StartRunRequest {
            agent: agent.to_owned(),
            input: INPUT.to_owned(),
            ..v1::StartRunRequest::default()
        };
        let started = self.runs.start_run(request).await;
        let started = started.context("a run cannot be started")?.into_inner();
        Ok(started.run.context("a started run is told")?.id)
    }

    /// Whether a run is to be worked on, or is worked on.
    pub(super) async fn any_at_work(&mut self) -> Result<bool> {
        let at_work = [v1::RunStatus::Pending, v1::RunStatus::Running];
        let request = v1::ListRunsRequest {
            statuses: at_work.map(Into::into).into(),
            page_size: 1,
            ..v1::ListRunsRequest::default()
        };
        let listed = self.runs.list_runs(request).await;
        Ok(!listed
            .context("runs cannot be listed")?
            .into_inner()
            .runs
            .is_empty())
    }

    /// A page of the approvals that wait, behind a place: how many it has, and the place behind it.
    pub(super) async fn page(&mut self, after: String) -> Result<(usize, String)> {
        let request = v1::ListApprovalsRequest {
            statuses: vec![v1::ApprovalStatus::Pending.into()],
            page_token: after,
            ..v1::ListApprovalsRequest::default()
        };
        let listed = self.approvals.list_approvals(request).await;
        let listed = listed.context("approvals cannot be listed")?.into_inner();
        Ok((listed.approvals.len(), listed.next_page_token))
    }

    /// A run that was left where it waits for a decision.
    pub(super) async fn find_held(&mut self, run: String) -> Result<Held> {
        let request = v1::GetRunRequest {
            run_id: run.clone(),
        };
        let got = self.runs.get_run(request).await;
        let got = got.context("a run cannot be read")?.into_inner().run;
        let seen = got.context("an answer has its run")?.last_sequence;
        let request = v1::ListApprovalsRequest {
            run_id: run.clone(),
            ..v1::ListApprovalsRequest::default()
        };
        let listed = self.approvals.list_approvals(request).await;
        let mut listed = listed.context("approvals cannot be listed")?.into_inner();
        let approval = listed.approvals.pop();
        let approval = approval
            .with_context(|| format!("{run} waits for nothing"))?
            .id;
        Ok(Held {
            run,
            approval,
            seen,
        })
    }

    /// Starts a run of the agent whose model takes its time, and waits until a worker has it.
    pub(super) async fn start_slow(&mut self) -> Result<(String, Watch)> {
        let run = self.begin_of(SLOW_AGENT).await?;
        let mut watch = self.watch(&run, 0).await?;
        until(&mut watch, "tools_listed", |_| {}).await?;
        Ok((run, Watch(watch)))
    }

    /// Cancels a run.
    pub(super) async fn cancel(&mut self, run: &str) -> Result<()> {
        let request = v1::CancelRunRequest {
            run_id: run.to_owned(),
            ..v1::CancelRunRequest::default()
        };
        let cancelled = self.runs.cancel_run(request).await;
        cancelled.context("a run cannot be cancelled")?;
        Ok(())
    }

    async fn start(&mut self) -> Result<(Held, Streaming<v1::WatchRunResponse>)> {
        let run = self.begin().await?;
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
            decided.context("an approval cannot be decided")?;
            anyhow::Ok(asked.elapsed())
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
        let (decided, all) = tokio::try_join!(decided, completed)?;
        let rest = timeout(LONGEST, watch.message()).await;
        let rest = rest.with_context(|| format!("the watch of {} does not end", held.run))??;
        ensure!(rest.is_none(), "more follows the end of {}", held.run);
        Ok(Took {
            all,
            decided,
            stages,
        })
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
