use std::collections::BTreeMap;

use sayso_wire::v1::agent_service_client::AgentServiceClient;
use sayso_wire::v1::approval_service_client::ApprovalServiceClient;
use sayso_wire::v1::audit_service_client::AuditServiceClient;
use sayso_wire::v1::budget_service_client::BudgetServiceClient;
use sayso_wire::v1::conversation_service_client::ConversationServiceClient;
use sayso_wire::v1::decision::Target;
use sayso_wire::v1::event_service_client::EventServiceClient;
use sayso_wire::v1::feedback_service_client::FeedbackServiceClient;
use sayso_wire::v1::group_service_client::GroupServiceClient;
use sayso_wire::v1::pause_service_client::PauseServiceClient;
use sayso_wire::v1::policy_service_client::PolicyServiceClient;
use sayso_wire::v1::role_service_client::RoleServiceClient;
use sayso_wire::v1::run_service_client::RunServiceClient;
use sayso_wire::v1::secret_service_client::SecretServiceClient;
use sayso_wire::v1::target_service_client::TargetServiceClient;
use sayso_wire::v1::token_service_client::TokenServiceClient;
use sayso_wire::v1::{
    Action, Approval, ApprovalStatus, AttachRoleRequest, AuditEntry, AuditOutcome,
    CancelRunRequest, CreateTokenRequest, DecideApprovalRequest, DecideApprovalResponse, Decision,
    DeployAgentRequest, DeployAgentResponse, DetachRoleRequest, Feedback, GetApprovalRequest,
    GetRunRequest, ListApprovalsRequest, ListAuditEntriesRequest, ListFeedbackRequest,
    ListRunActionsRequest, ListRunStepsRequest, PutRoleRequest, PutRoleResponse, ReplyToRunRequest,
    RespondToRunRequest, RespondToRunResponse, RetryRunRequest, Run, RunStatus, Scope,
    StartRunRequest, Verdict, VerifyRunRequest, VerifyRunResponse, WatchApprovalsRequest,
    WatchApprovalsResponse, WatchRunRequest, WatchRunResponse, verify_run_response,
};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_types::StatusExt;

use crate::timeline::Timeline;
use crate::wait::until;

/// The stable code of a refusal; empty if it has none.
pub fn code(status: &Status) -> String {
    status
        .get_details_error_info()
        .map(|info| info.reason)
        .unwrap_or_default()
}

/// A value of a refusal's metadata.
pub fn detail(status: &Status, key: &str) -> Option<String> {
    let info = status.get_details_error_info()?;
    let metadata: BTreeMap<_, _> = info.metadata.into_iter().collect();
    metadata.get(key).cloned()
}

/// Shows a token with each request.
#[derive(Debug, Clone)]
pub struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert("authorization", self.0.clone());
        Ok(request)
    }
}

type Service = InterceptedService<Channel, Bearer>;

/// The public API with one token, at one gateway. It belongs to the runtime that made it.
#[derive(Debug, Clone)]
pub struct Client {
    service: Service,
    secret: String,
}

macro_rules! services {
    ($($name:ident: $client:ident),* $(,)?) => {
        impl Client {
            $(
                #[doc = concat!("The generated `", stringify!($client), "`.")]
                pub fn $name(&self) -> $client<Service> {
                    $client::new(self.service.clone()).max_decoding_message_size(64 << 20)
                }
            )*
        }
    };
}

services! {
    runs: RunServiceClient,
    approvals: ApprovalServiceClient,
    agents: AgentServiceClient,
    talks: ConversationServiceClient,
    happenings: EventServiceClient,
    roles: RoleServiceClient,
    policies: PolicyServiceClient,
    tokens: TokenServiceClient,
    audit: AuditServiceClient,
    ratings: FeedbackServiceClient,
    secrets: SecretServiceClient,
    groups: GroupServiceClient,
    targets: TargetServiceClient,
    pauses: PauseServiceClient,
    budgets: BudgetServiceClient,
}

impl Client {
    /// A client that connects when it is first used.
    pub(crate) fn new(address: &str, secret: &str) -> Self {
        let channel = Endpoint::from_shared(address.to_owned())
            .expect("the address is a URL")
            .connect_lazy();
        let bearer = format!("Bearer {secret}")
            .parse()
            .expect("a token is ASCII");
        Self {
            service: InterceptedService::new(channel, Bearer(bearer)),
            secret: secret.to_owned(),
        }
    }

    /// The token.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Makes a token, for a principal of its own if none is named; needs an admin.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub async fn create_token(&self, name: &str, principal: &str, scopes: &[Scope]) -> String {
        let request = CreateTokenRequest {
            name: name.into(),
            principal: principal.into(),
            scopes: scopes.iter().map(|scope| *scope as i32).collect(),
            ..CreateTokenRequest::default()
        };
        let created = self.tokens().create_token(request).await;
        created.expect("an admin makes tokens").into_inner().secret
    }

    /// Deploys a bundle's text.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn try_deploy(&self, bundle: &str) -> Result<DeployAgentResponse, Status> {
        let bundle = bundle.to_owned();
        let request = DeployAgentRequest { bundle };
        let deployed = self.agents().deploy_agent(request).await?;
        Ok(deployed.into_inner())
    }

    /// Starts a run.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn try_start(&self, agent: &str, input: &str) -> Result<Run, Status> {
        let request = StartRunRequest {
            agent: agent.into(),
            input: input.into(),
            idempotency_key: String::new(),
        };
        let started = self.runs().start_run(request).await?.into_inner();
        Ok(started.run.expect("a start answers with the run"))
    }

    /// Starts a run; its id.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub async fn start(&self, agent: &str, input: &str) -> String {
        let run = self.try_start(agent, input).await;
        run.unwrap_or_else(|status| panic!("{agent} does not start: {status:?}"))
            .id
    }

    /// A run.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn try_run(&self, run: &str) -> Result<Run, Status> {
        let run_id = run.to_owned();
        let got = self.runs().get_run(GetRunRequest { run_id }).await?;
        Ok(got.into_inner().run.expect("an answer has its run"))
    }

    /// A run that exists.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub async fn run(&self, run: &str) -> Run {
        self.try_run(run).await.expect("the run can be read")
    }

    /// Waits for a status of a run. A gateway that is away for a moment is asked again.
    ///
    /// # Panics
    ///
    /// If it does not come, or the run ends otherwise; the message has the timeline.
    pub async fn until(&self, run: &str, status: RunStatus) -> Run {
        let what = format!("{run} to be {}", status.as_str_name());
        let reached = until(&what, async || {
            let now = self.try_run(run).await.ok()?;
            let is = now.status();
            let ended = [
                RunStatus::Completed,
                RunStatus::Failed,
                RunStatus::Cancelled,
            ];
            (is == status || ended.contains(&is)).then_some(now)
        })
        .await;
        if reached.status() != status {
            let timeline = self.timeline(run).await;
            panic!("waited for {what}, but it is {reached:#?}\n{timeline:#?}");
        }
        reached
    }

    /// A run's steps.
    ///
    /// # Panics
    ///
    /// If they cannot be read.
    pub async fn timeline(&self, run: &str) -> Timeline {
        let mut steps = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListRunStepsRequest {
                run_id: run.into(),
                from_sequence: 0,
                page_size: 1000,
                page_token,
            };
            let page = self.runs().list_run_steps(request).await;
            let page = page.expect("steps can be listed").into_inner();
            steps.extend(page.steps.into_iter().map(Into::into));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Timeline(steps);
            }
        }
    }

    /// A run's actions, by call.
    ///
    /// # Panics
    ///
    /// If they cannot be read.
    pub async fn actions(&self, run: &str) -> BTreeMap<String, Action> {
        let request = ListRunActionsRequest {
            run_id: run.into(),
            page_size: 1000,
            page_token: String::new(),
        };
        let page = self.runs().list_run_actions(request).await;
        let page = page.expect("actions can be listed").into_inner();
        let actions = page.actions.into_iter();
        actions
            .map(|action| (action.call_id.clone(), action))
            .collect()
    }

    /// The pending approvals of a run, in call order.
    ///
    /// # Panics
    ///
    /// If they cannot be listed.
    pub async fn pending(&self, run: &str) -> Vec<Approval> {
        let pending = self.try_pending(run).await;
        pending.expect("approvals can be listed")
    }

    /// The pending approvals of a run, in call order.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn try_pending(&self, run: &str) -> Result<Vec<Approval>, Status> {
        let request = ListApprovalsRequest {
            statuses: vec![ApprovalStatus::Pending.into()],
            run_id: run.into(),
            ..ListApprovalsRequest::default()
        };
        let page = self.approvals().list_approvals(request).await?;
        let mut approvals = page.into_inner().approvals;
        approvals.sort_by_key(|approval| approval.sequence);
        Ok(approvals)
    }

    /// Waits until a run waits for so many approvals, and lists them in call order.
    ///
    /// # Panics
    ///
    /// If it never does.
    pub async fn held(&self, run: &str, count: usize) -> Vec<Approval> {
        self.until(run, RunStatus::AwaitingApproval).await;
        let pending = self.pending(run).await;
        assert_eq!(
            pending.len(),
            count,
            "pending approvals of {run}: {pending:#?}"
        );
        pending
    }

    /// An approval.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn approval(&self, approval: &str) -> Result<Approval, Status> {
        let approval_id = approval.to_owned();
        let request = GetApprovalRequest { approval_id };
        let got = self.approvals().get_approval(request).await?.into_inner();
        Ok(got.approval.expect("an answer has its approval"))
    }

    /// Decides one approval.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn decide(
        &self,
        approval: &str,
        verdict: Verdict,
        reason: &str,
    ) -> Result<DecideApprovalResponse, Status> {
        let request = DecideApprovalRequest {
            approval_id: approval.into(),
            verdict: verdict.into(),
            reason: reason.into(),
            ..DecideApprovalRequest::default()
        };
        let decided = self.approvals().decide_approval(request).await?;
        Ok(decided.into_inner())
    }

    /// Approves.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub async fn approve(&self, approval: &Approval) {
        let decided = self.decide(&approval.id, Verdict::Approve, "").await;
        decided.unwrap_or_else(|status| panic!("{} is refused: {status:?}", approval.id));
    }

    /// Denies.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub async fn deny(&self, approval: &Approval, reason: &str) {
        let decided = self.decide(&approval.id, Verdict::Deny, reason).await;
        decided.unwrap_or_else(|status| panic!("{} is refused: {status:?}", approval.id));
    }

    /// Decides calls of a run in one response, with a message if it is not empty.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn respond(
        &self,
        run: &str,
        decisions: Vec<(Target, Verdict, &str)>,
        message: &str,
    ) -> Result<RespondToRunResponse, Status> {
        let decisions = decisions.into_iter();
        let request = RespondToRunRequest {
            run_id: run.into(),
            decisions: decisions
                .map(|(target, verdict, reason)| Decision {
                    target: Some(target),
                    verdict: verdict.into(),
                    reason: reason.into(),
                    ..Decision::default()
                })
                .collect(),
            message: message.into(),
            ..RespondToRunRequest::default()
        };
        let answered = self.approvals().respond_to_run(request).await?;
        Ok(answered.into_inner())
    }

    /// Cancels a run.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn cancel(&self, run: &str) -> Result<Run, Status> {
        let request = CancelRunRequest {
            run_id: run.into(),
            ..CancelRunRequest::default()
        };
        let cancelled = self.runs().cancel_run(request).await?.into_inner();
        Ok(cancelled.run.expect("an answer has its run"))
    }

    /// Retries a run.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn retry(&self, run: &str) -> Result<Run, Status> {
        let run_id = run.to_owned();
        let retried = self.runs().retry_run(RetryRunRequest { run_id }).await?;
        Ok(retried.into_inner().run.expect("an answer has its run"))
    }

    /// Sends a message into a run.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn reply(&self, run: &str, message: &str) -> Result<Run, Status> {
        let request = ReplyToRunRequest {
            run_id: run.into(),
            message: message.into(),
            ..ReplyToRunRequest::default()
        };
        let replied = self.runs().reply_to_run(request).await?.into_inner();
        Ok(replied.run.expect("an answer has its run"))
    }

    /// Checks a run's hash chain.
    ///
    /// # Panics
    ///
    /// If it cannot be asked for.
    pub async fn verify(&self, run: &str) -> VerifyRunResponse {
        let run_id = run.to_owned();
        let verified = self.runs().verify_run(VerifyRunRequest { run_id }).await;
        verified.expect("a chain can be checked").into_inner()
    }

    /// Whether a run's chain and seals fit.
    ///
    /// # Panics
    ///
    /// If it cannot be verified.
    pub async fn is_verified(&self, run: &str) -> bool {
        let result = self.verify(run).await.result;
        matches!(result, Some(verify_run_response::Result::Verified(_)))
    }

    /// Watches a run from a sequence number on.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn watch(&self, run: &str, from: u64) -> Result<Streaming<WatchRunResponse>, Status> {
        let request = WatchRunRequest {
            run_id: run.into(),
            from_sequence: from,
            steps_only: false,
        };
        let watched = self.runs().watch_run(request).await?;
        Ok(watched.into_inner())
    }

    /// Watches approvals, beginning with those that are pending.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn watch_approvals(
        &self,
        run: &str,
    ) -> Result<Streaming<WatchApprovalsResponse>, Status> {
        let request = WatchApprovalsRequest {
            run_id: run.into(),
            snapshot: true,
            ..WatchApprovalsRequest::default()
        };
        let watched = self.approvals().watch_approvals(request).await?;
        Ok(watched.into_inner())
    }

    /// The feedback that decisions on a run's approvals left.
    ///
    /// # Panics
    ///
    /// If it cannot be listed.
    pub async fn feedback(&self, run: &str) -> Vec<Feedback> {
        let request = ListFeedbackRequest {
            run_id: run.into(),
            ..ListFeedbackRequest::default()
        };
        let listed = self.ratings().list_feedback(request).await;
        listed
            .expect("feedback can be listed")
            .into_inner()
            .feedback
    }

    /// Makes a role, or changes what it permits.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn put_role(&self, name: &str, permits: &[&str]) -> Result<PutRoleResponse, Status> {
        let request = PutRoleRequest {
            name: name.into(),
            permits: permits.iter().map(|pattern| (*pattern).into()).collect(),
        };
        Ok(self.roles().put_role(request).await?.into_inner())
    }

    /// Gives an agent a role: the one that it had.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn attach_role(&self, agent: &str, role: &str) -> Result<String, Status> {
        let request = AttachRoleRequest {
            agent: agent.into(),
            role: role.into(),
        };
        Ok(self
            .roles()
            .attach_role(request)
            .await?
            .into_inner()
            .replaced)
    }

    /// Takes an agent's role away: the one that it had.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub async fn detach_role(&self, agent: &str) -> Result<String, Status> {
        let request = DetachRoleRequest {
            agent: agent.into(),
        };
        Ok(self
            .roles()
            .detach_role(request)
            .await?
            .into_inner()
            .detached)
    }

    /// What the audit log holds on a subject, newest first; needs an admin.
    ///
    /// # Panics
    ///
    /// If it cannot be listed.
    pub async fn audited(&self, action: &str, subject: &str) -> Vec<AuditEntry> {
        let request = ListAuditEntriesRequest {
            action: action.into(),
            subject: subject.into(),
            ..ListAuditEntriesRequest::default()
        };
        let listed = self.audit().list_audit_entries(request).await;
        listed
            .expect("the audit log can be listed")
            .into_inner()
            .entries
    }

    /// Refused attempts on a subject in the audit log; needs an admin.
    ///
    /// # Panics
    ///
    /// If it cannot be listed.
    pub async fn refusals(&self, subject: &str) -> Vec<AuditEntry> {
        let request = ListAuditEntriesRequest {
            subject: subject.into(),
            outcome: AuditOutcome::Refused.into(),
            ..ListAuditEntriesRequest::default()
        };
        let listed = self.audit().list_audit_entries(request).await;
        listed
            .expect("the audit log can be listed")
            .into_inner()
            .entries
    }
}
