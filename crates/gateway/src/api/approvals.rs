//! `sayso.v1.ApprovalService`.

use std::mem::take;

use futures::stream::unfold;
use sayso_driver::ApprovalRow;
use sayso_run::{AgentName, ApprovalId, PrincipalId, RunId, Timestamp};
use sayso_service::error::{Coded, Kind};
use sayso_store::{ApprovalFilter, PageRequest};
use sayso_wire::decision::BadDecision;
use sayso_wire::internal;
use sayso_wire::v1;
use sayso_wire::v1::approval_service_server::ApprovalService;
use sayso_wire::v1::decision::Target;
use sayso_wire::{code, decision};
use tonic::{Request, Response, Status};

use super::runs::{trust_lowered, within_reach};
use super::{Api, Streamed, on_behalf};
use crate::auth::{Reach, Session};
use crate::page::{ENTRIES, Pages};
use crate::request::{CHECKED, Check};
use crate::watch::Follows;
use crate::{Shared, audit, page, refuse, show};

/// How many decisions one response may hold: more than one answer can hold calls.
const MAX_DECISIONS: usize = 256;

#[tonic::async_trait]
impl ApprovalService for Api {
    async fn list_approvals(
        &self,
        request: Request<v1::ListApprovalsRequest>,
    ) -> Result<Response<v1::ListApprovalsResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let after = pages.read(&token)?;
        let Some(wanted) = Wanted::of(&session, asked)? else {
            return Ok(Response::new(v1::ListApprovalsResponse::default()));
        };
        let namespace = &session.caller().namespace;
        let approvals = self.0.store.approvals();
        let filter = &wanted.filter;
        let fetch =
            |page: PageRequest| async move { approvals.list(namespace, filter, &page).await };
        let keeps = |row: &ApprovalRow| wanted.keeps(row);
        let rows = page::read(size, after, fetch, keeps, weight).await;
        let (rows, next) = rows.map_err(|error| page::failed("listing approvals", error))?;
        Ok(Response::new(v1::ListApprovalsResponse {
            approvals: rows.iter().map(show::approval).collect(),
            next_page_token: pages.next(next),
        }))
    }

    async fn get_approval(
        &self,
        request: Request<v1::GetApprovalRequest>,
    ) -> Result<Response<v1::GetApprovalResponse>, Status> {
        let session = Session::of(&request);
        let mut check = Check::new();
        let approval = check.id::<ApprovalId>("approval_id", &request.get_ref().approval_id);
        check.done()?;
        let row = visible_approval(&self.0, &session, &approval.expect(CHECKED)).await?;
        let mut shown = show::approval(&row);
        shown.trust_lowered = trust_lowered(&self.0, &row.namespace, &row.run, row.seq).await?;
        let before = self.0.store.approvals().approved_before(&row).await;
        let before = before.map_err(|error| refuse::database("reading an approval", error))?;
        shown.approved_before = before.map(|before| show::approved_before(&row, &before));
        Ok(Response::new(v1::GetApprovalResponse {
            approval: Some(shown),
        }))
    }

    async fn decide_approval(
        &self,
        request: Request<v1::DecideApprovalRequest>,
    ) -> Result<Response<v1::DecideApprovalResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let tried = audit::Tried::approval(&asked);
        match decide(&self.0, &session, asked).await {
            Ok(response) => Ok(Response::new(response)),
            Err(refused) => Err(audit::refused(&self.0, &session, tried, refused)
                .await
                .into()),
        }
    }

    async fn respond_to_run(
        &self,
        request: Request<v1::RespondToRunRequest>,
    ) -> Result<Response<v1::RespondToRunResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let tried = audit::Tried::response(&asked);
        match respond(&self.0, &session, asked).await {
            Ok(response) => Ok(Response::new(response)),
            Err(refused) => Err(audit::refused(&self.0, &session, tried, refused)
                .await
                .into()),
        }
    }

    type WatchApprovalsStream = Streamed<v1::WatchApprovalsResponse>;

    async fn watch_approvals(
        &self,
        request: Request<v1::WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let caller = session.caller();
        let follows = Follows {
            namespace: caller.namespace.clone(),
            agent: check.filter::<AgentName>("agent", &asked.agent),
            run: check.filter::<RunId>("run_id", &asked.run_id),
            requester: match session.reach()? {
                Reach::Namespace => None,
                Reach::Own => Some(caller.principal.clone()),
            },
        };
        check.done()?;
        let watch = self
            .0
            .watching
            .approvals(follows, asked.snapshot, session.lease());
        let stream = unfold(watch, |mut watch| async move {
            let message = watch.next().await?;
            Some((message.map_err(Status::from), watch))
        });
        Ok(Response::new(Box::pin(stream)))
    }
}

/// Decides one approval. Without a message the run goes on once nothing else of its turn is
/// pending.
async fn decide(
    shared: &Shared,
    session: &Session,
    asked: v1::DecideApprovalRequest,
) -> Result<v1::DecideApprovalResponse, Coded> {
    session.reach()?;
    let mut check = Check::new();
    let approval = check.id::<ApprovalId>("approval_id", &asked.approval_id);
    if decision::verdict(asked.verdict()).is_err() {
        check.wrong("verdict", "must be approve or deny");
    }
    check.text("reason", &asked.reason);
    check.text("message", &asked.message);
    check.key(&asked.idempotency_key);
    let decided = v1::Decision {
        target: Some(Target::ApprovalId(asked.approval_id.clone())),
        verdict: asked.verdict,
        reason: asked.reason,
        edits: asked.edits,
        digest: asked.digest,
    };
    check_edits(&mut check, "", &decided);
    check.done()?;
    let run = run_of(shared, session, &approval.expect(CHECKED)).await?;
    let message = decision::given(asked.message);
    let request = internal::RespondRequest {
        caller: Some(on_behalf(session)?),
        run_id: run.to_string(),
        decisions: vec![decided],
        goes_on: message.is_some(),
        message,
        seen_sequence: None,
        idempotency_key: asked.idempotency_key,
    };
    let answer = shared.hub().respond(request).await;
    let answer = answer.map_err(|status| refuse::sibling("approval hub", &status))?;
    let answer = answer.into_inner();
    Ok(v1::DecideApprovalResponse {
        outcome: answer
            .outcomes
            .into_iter()
            .find(|outcome| outcome.approval_id == asked.approval_id),
        run_id: answer.run_id,
        run_status: answer.run_status,
        last_sequence: answer.last_sequence,
    })
}

/// Decides several calls of a run, which goes on at once.
async fn respond(
    shared: &Shared,
    session: &Session,
    asked: v1::RespondToRunRequest,
) -> Result<v1::RespondToRunResponse, Coded> {
    session.reach()?;
    check_response(&asked)?;
    let request = internal::RespondRequest {
        caller: Some(on_behalf(session)?),
        run_id: asked.run_id,
        decisions: asked.decisions,
        message: decision::given(asked.message),
        goes_on: true,
        seen_sequence: asked.seen_sequence,
        idempotency_key: asked.idempotency_key,
    };
    let answer = shared.hub().respond(request).await;
    let answer = answer.map_err(|status| refuse::sibling("approval hub", &status))?;
    let answer = answer.into_inner();
    Ok(v1::RespondToRunResponse {
        outcomes: answer.outcomes,
        later_held: answer.later_held,
        run_status: answer.run_status,
        last_sequence: answer.last_sequence,
    })
}

fn check_response(asked: &v1::RespondToRunRequest) -> Result<(), Coded> {
    let mut check = Check::new();
    check.id::<RunId>("run_id", &asked.run_id);
    check.text("message", &asked.message);
    check.key(&asked.idempotency_key);
    if asked.decisions.len() > MAX_DECISIONS {
        check.wrong("decisions", format!("must be at most {MAX_DECISIONS}"));
    }
    let (mut by_tool, mut edited) = (false, 0);
    for (at, decision) in asked.decisions.iter().take(MAX_DECISIONS).enumerate() {
        check.text(&format!("decisions[{at}].reason"), &decision.reason);
        by_tool |= matches!(decision.target, Some(Target::Tool(_)));
        edited += usize::from(!decision.edits.is_empty());
        match decision::check(decision) {
            Err(bad) => check.wrong(format!("decisions[{at}].{}", bad.field()), bad.to_string()),
            Ok(()) => check_edits(&mut check, &format!("decisions[{at}]."), decision),
        }
    }
    if edited > 1 {
        check.wrong("decisions", "must edit one call at most");
    }
    check.done()?;
    if asked.decisions.is_empty() && asked.message.is_empty() {
        return Err(refuse::empty("decisions"));
    }
    if by_tool && asked.seen_sequence.is_none() {
        return Err(Coded::new(
            Kind::Invalid,
            code::APPROVAL_SEEN_MISSING,
            "A decision by tool has to name the run's last sequence number that you saw, so that it covers nothing that was held later.",
        )
        .field("seen_sequence", "is required with a decision by tool"));
    }
    Ok(())
}

/// The edits and the digest of a decision that names what it is about.
fn check_edits(check: &mut Check, of: &str, decided: &v1::Decision) {
    if let Err(
        bad @ (BadDecision::BadDigest(_) | BadDecision::BadEdit | BadDecision::TooManyEdits),
    ) = decision::check(decided)
    {
        check.wrong(format!("{of}{}", bad.field()), bad.to_string());
    }
    for (at, edit) in decided.edits.iter().take(decision::MAX_EDITS).enumerate() {
        check.text(&format!("{of}edits[{at}].pointer"), &edit.pointer);
        check.text(&format!("{of}edits[{at}].value_json"), &edit.value_json);
    }
}

/// The run of an approval of the caller's namespace; an approver reaches all of it.
async fn run_of(shared: &Shared, session: &Session, approval: &ApprovalId) -> Result<RunId, Coded> {
    match shared
        .watching
        .run_of(&session.caller().namespace, approval)
    {
        Some(run) => Ok(run),
        None => Ok(visible_approval(shared, session, approval).await?.run),
    }
}

/// An approval that the caller may see. What is not there, another namespace's, or out of reach,
/// answers alike (B43).
async fn visible_approval(
    shared: &Shared,
    session: &Session,
    approval: &ApprovalId,
) -> Result<ApprovalRow, Coded> {
    let namespace = &session.caller().namespace;
    let row = shared.store.approvals().get(namespace, approval).await;
    let row = row.map_err(|error| refuse::database("reading an approval", error))?;
    let visible = |row: &ApprovalRow| session.sees(&row.requester);
    row.filter(visible).ok_or_else(refuse::no_approval)
}

/// Which approvals are listed.
struct Wanted {
    filter: ApprovalFilter,
    /// Filters that the store does not have.
    decided_by: Option<PrincipalId>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Wanted {
    /// `None` if nothing that the caller may see can match.
    fn of(session: &Session, asked: v1::ListApprovalsRequest) -> Result<Option<Wanted>, Coded> {
        let mut check = Check::new();
        let mut filter = ApprovalFilter {
            statuses: check
                .each::<v1::ApprovalStatus, show::StoredStatus>("statuses", &asked.statuses)
                .into_iter()
                .map(|status| status.0)
                .collect(),
            agent: check.filter::<AgentName>("agent", &asked.agent),
            run: check.filter::<RunId>("run_id", &asked.run_id),
            requester: check.filter::<PrincipalId>("requester", &asked.requester),
            tool: check.word("tool", asked.tool),
            expires_before: check.time("expires_before", asked.expires_before.as_ref()),
            group: check
                .filter::<AgentName>("group", &asked.group)
                .map(String::from),
        };
        let decided_by = check.filter::<PrincipalId>("decided_by", &asked.decided_by);
        let since = check.time("requested_after", asked.requested_after.as_ref());
        let until = check.time("requested_before", asked.requested_before.as_ref());
        check.done()?;
        let some = within_reach(session, &mut filter.requester)?;
        Ok(some.then_some(Wanted {
            filter,
            decided_by,
            since,
            until,
        }))
    }

    fn keeps(&self, row: &ApprovalRow) -> bool {
        let decided = |by: &PrincipalId| row.decided_by.as_ref() == Some(by);
        self.decided_by.as_ref().is_none_or(decided)
            && self.since.is_none_or(|since| row.requested_at >= since)
            && self.until.is_none_or(|until| row.requested_at < until)
    }
}

/// The bytes of an approval's texts; its arguments are sent in two forms.
fn weight(row: &ApprovalRow) -> usize {
    let args = row.args.len() + row.original.as_ref().map_or(0, String::len);
    row.task_input.len() + 2 * args + row.decision_reason.as_ref().map_or(0, String::len)
}
