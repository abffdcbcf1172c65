//! One approval: all that a reviewer needs (S6.3), and the decision.

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use sayso_run::Timestamp;
use sayso_service::error::{Coded, Kind};
use sayso_wire::v1;
use sayso_wire::v1::approval_service_server::ApprovalService;
use serde::Deserialize;

use super::page::{Refused, form_value, notice, once, page};
use super::posted::Posted;
use super::run::trust;
use super::text::{LONG, cut, distance, shown, spoken};
use super::visitor::Visitor;
use super::{Console, editing};

const GET: &str = "/sayso.v1.ApprovalService/GetApproval";
const DECIDE: &str = "/sayso.v1.ApprovalService/DecideApproval";

/// How much is shown.
#[derive(Debug, Default, Deserialize)]
pub(super) struct HowMuch {
    /// All of it, if it says anything.
    #[serde(default)]
    all: String,
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    Path(id): Path<String>,
    Query(how_much): Query<HowMuch>,
    visitor: Visitor,
) -> Result<Markup, Refused> {
    let all = !how_much.all.is_empty();
    Ok(view(&console, &visitor, id, all, None).await?)
}

/// Decides it, and shows what came of it.
pub(super) async fn decide(
    State(console): State<Console>,
    Path(id): Path<String>,
    posted: Posted,
) -> Result<Response, Refused> {
    let Posted {
        visitor,
        mut fields,
    } = posted;
    let verdict = v1::Verdict::from_word(&fields.take("verdict"));
    let request = v1::DecideApprovalRequest {
        approval_id: id.clone(),
        verdict: verdict.unwrap_or_default().into(),
        reason: fields.take("reason"),
        message: fields.take("message"),
        idempotency_key: fields.take("key"),
        edits: Vec::new(),
        digest: fields.take("digest"),
    };
    send(&console, &visitor, request).await
}

/// Approves it with other values, and shows what came of it (S6.7).
pub(super) async fn edit(
    State(console): State<Console>,
    Path(id): Path<String>,
    posted: Posted,
) -> Result<Response, Refused> {
    let Posted {
        visitor,
        mut fields,
    } = posted;
    let approval = get(&console, &visitor, &id).await?;
    let edits = editing::changes(&approval.args_json, &mut fields);
    if edits.is_empty() {
        let message = "No value is changed, so nothing was done; to approve the call as it is, use `Approve`.";
        let refused = Coded::new(Kind::Invalid, "edit.empty", message);
        return answer(&console, &visitor, id, &refused).await;
    }
    let request = v1::DecideApprovalRequest {
        approval_id: id,
        verdict: v1::Verdict::Approve.into(),
        reason: fields.take("reason"),
        message: String::new(),
        idempotency_key: fields.take("key"),
        edits,
        digest: fields.take("digest"),
    };
    send(&console, &visitor, request).await
}

async fn send(
    console: &Console,
    visitor: &Visitor,
    request: v1::DecideApprovalRequest,
) -> Result<Response, Refused> {
    let id = request.approval_id.clone();
    let decided = console.api.decide_approval(visitor.ask(DECIDE, request)?);
    match decided.await {
        Ok(_) => Ok(Redirect::to(&format!("/approvals/{id}")).into_response()),
        Err(status) => answer(console, visitor, id, &Coded::from_status(&status)).await,
    }
}

async fn answer(
    console: &Console,
    visitor: &Visitor,
    id: String,
    refused: &Coded,
) -> Result<Response, Refused> {
    let shown = view(console, visitor, id, false, Some(refused)).await?;
    Ok((refused.kind.http(), shown).into_response())
}

async fn get(console: &Console, visitor: &Visitor, id: &str) -> Result<v1::Approval, Coded> {
    let request = v1::GetApprovalRequest {
        approval_id: id.to_owned(),
    };
    let got = console.api.get_approval(visitor.ask(GET, request)?).await;
    let got = got.map_err(|status| Coded::from_status(&status))?;
    got.into_inner()
        .approval
        .ok_or_else(crate::refuse::no_approval)
}

async fn view(
    console: &Console,
    visitor: &Visitor,
    id: String,
    all: bool,
    refused: Option<&Coded>,
) -> Result<Markup, Coded> {
    let approval = get(console, visitor, &id).await?;
    let now = console.now();
    let body = html! {
        p.trail { a href="/" { "Inbox" } }
        h1 { bdi { (cut(&approval.summary, LONG)) } }
        @if let Some(refused) = refused { (notice(refused)) }
        (standing(&approval, now))
        (written(&approval))
        (arguments(&approval, all))
        (origins(&approval))
        (before(&approval))
        (facts(&approval, all, now))
        (decision(&approval, visitor))
    };
    Ok(page("Approval", visitor, &body))
}

/// Where it stands; once decided, who decided, when, why, and what came of it.
fn standing(approval: &v1::Approval, now: Timestamp) -> Markup {
    let word = approval.status().word();
    html! {
        p.standing role="status" {
            span class=(format!("badge {word}")) { (spoken(word)) }
            @if is_pending(approval) {
                " Asked " (distance(approval.requested_at.as_ref(), now))
                ", expires " (distance(approval.expires_at.as_ref(), now)) "."
            } @else {
                @match &approval.decided_by {
                    Some(by) => { " by " strong { (shown(by)) } ", " }
                    None => " ",
                }
                (distance(approval.decided_at.as_ref(), now))
                @let cause = approval.closed_cause().word();
                @if !cause.is_empty() && cause != "person" { ", because: " (spoken(cause)) }
                ". The call: " strong { (spoken(approval.action_status().word())) } "."
            }
        }
        @if let Some(reason) = &approval.decision_reason {
            blockquote.text { (cut(reason, LONG)) }
        }
    }
}

/// What a model wrote of it, with what nothing supports.
fn written(approval: &v1::Approval) -> Markup {
    html! {
        @if let Some(written) = &approval.written_summary {
            p { (shown(&written.model)) " writes: " bdi { (cut(&written.text, LONG)) } }
            @if !written.unsupported.is_empty() {
                p.notice role="note" {
                    "Neither the arguments nor the run have: "
                    @for (at, flag) in written.unsupported.iter().enumerate() {
                        @if at > 0 { ", " }
                        strong { bdi { (shown(flag)) } }
                    }
                    ". Go by the arguments."
                }
            }
        }
    }
}

/// The exact arguments. They are laid out from left to right, whatever they hold.
fn arguments(approval: &v1::Approval, all: bool) -> Markup {
    let args = cut(&approval.args_json, if all { usize::MAX } else { LONG });
    html! {
        section {
            h2 { @if is_pending(approval) { "What would run" } @else { "The call" } }
            p { code.tool { (shown(&approval.tool)) } }
            pre.text dir="ltr" tabindex="0" aria-label="Exact arguments" { (args) }
            @if args.is_cut() { (show_all(approval)) }
        }
        @if let (Some(original), Some(by)) = (&approval.original_args_json, &approval.edited_by) {
            @let original = cut(original, if all { usize::MAX } else { LONG });
            section {
                h2 { "What the agent had asked for" }
                p { "Edited by " strong { (shown(by)) } "; what stands above counts." }
                pre.text dir="ltr" tabindex="0" aria-label="Original arguments" { (original) }
                @if original.is_cut() { (show_all(approval)) }
            }
        }
    }
}

fn show_all(approval: &v1::Approval) -> Markup {
    html! { p { a href=(format!("/approvals/{}?all=yes", approval.id)) { "Show all" } } }
}

/// Where each value came from (S6.3).
fn origins(approval: &v1::Approval) -> Markup {
    html! {
        @if !approval.origins.is_empty() {
            section {
                h2 { "Where its values come from" }
                table {
                    tbody {
                        @for origin in &approval.origins {
                            tr {
                                td { code { (shown(&origin.pointer)) } }
                                td { (spoken(origin.from().word())) }
                                td { @if !origin.tool.is_empty() { code { (shown(&origin.tool)) } " " (shown(&origin.call_id)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How it differs from the last call of the same tool that was approved (S6.3).
fn before(approval: &v1::Approval) -> Markup {
    html! {
        @if let Some(before) = &approval.approved_before {
            section {
                h2 { "The last one that was approved" }
                p { a href=(format!("/approvals/{}", before.approval_id)) { "By " (shown(&before.decided_by)) } }
                @if before.changes.is_empty() { p { "Its arguments were the same." } }
                @else {
                    table {
                        thead { tr { th { "Value" } th { "Then" } th { "Now" } } }
                        tbody {
                            @for change in &before.changes {
                                tr {
                                    td { code { (shown(&change.pointer)) } }
                                    td { bdi { (shown(change.before.as_deref().unwrap_or_default())) } }
                                    td { bdi { (shown(change.after.as_deref().unwrap_or_default())) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn facts(approval: &v1::Approval, all: bool, now: Timestamp) -> Markup {
    let task = cut(&approval.task_input, if all { usize::MAX } else { LONG });
    html! {
        section {
            h2 { "Why it asks" }
            p { bdi { (cut(&approval.reason, LONG)) } }
            dl.facts {
                div { dt { "Rule" } dd { code { (shown(&approval.rule)) } } }
                div { dt { "Agent" } dd { (shown(&approval.agent)) } }
                div { dt { "Asked by" } dd { (shown(&approval.requester)) } }
                (trust(approval.trust(), approval.trust_lowered.as_ref(), &approval.run_id))
                div { dt { "Asked" } dd { (distance(approval.requested_at.as_ref(), now)) } }
                div { dt { "Expires" } dd { (distance(approval.expires_at.as_ref(), now)) } }
                @if let Some(deciders) = &approval.deciders { (who_decides(deciders)) }
                div { dt { "Call" } dd { code { (shown(&approval.call_id)) } } }
                div.wide {
                    dt { "Run" }
                    dd { a href=(format!("/runs/{}", approval.run_id)) { (shown(&approval.run_id)) } }
                }
                div.wide { dt { "Bound to" } dd { code.digest { (approval.digest) } } }
            }
        }
        section {
            h2 { "The task" }
            div.text dir="auto" { (task) }
            @if task.is_cut() { (show_all(approval)) }
        }
    }
}

/// Who may decide, how many it takes, and who has voted.
fn who_decides(deciders: &v1::Deciders) -> Markup {
    html! {
        div {
            dt { "Decided by" }
            dd {
                (deciders.needed) " of "
                @if deciders.group.is_empty() { "whoever may approve" } @else { (shown(&deciders.group)) }
                @for group in &deciders.escalated_to { ", " (shown(group)) }
            }
        }
        @if deciders.author_excluded || deciders.writers_excluded {
            div {
                dt { "Barred" }
                dd {
                    @if deciders.author_excluded { "whoever deployed the agent " }
                    @if deciders.writers_excluded { "whoever wrote into the run" }
                }
            }
        }
        @if !deciders.voters.is_empty() {
            div { dt { "Approved so far by" } dd { bdi { (shown(&deciders.voters.join(", "))) } } }
        }
    }
}

/// The form, or why there is none.
fn decision(approval: &v1::Approval, visitor: &Visitor) -> Markup {
    if !is_pending(approval) {
        return html! {};
    }
    if approval.requester == visitor.caller().principal.as_str() {
        return own_request();
    }
    if let Some(lacks) = visitor.lacks(DECIDE) {
        return html! { section { h2 { "Decide" } p.notice { (shown(&lacks.message)) } } };
    }
    html! {
        section.decide {
            h2 #decide { "Decide" }
            form method="post" action=(format!("/approvals/{}/decide", approval.id))
                aria-labelledby="decide" {
                (form_value(visitor))
                (once())
                input type="hidden" name="digest" value=(approval.digest);
                label for="reason" { "Reason " span.hint { "optional; recorded, and told to the agent if you deny" } }
                textarea #reason name="reason" rows="2" {}
                label for="message" { "Message to the agent " span.hint { "optional; the run goes on with it" } }
                textarea #message name="message" rows="2" {}
                div.buttons {
                    button.good name="verdict" value="approve" { "Approve" }
                    button.bad name="verdict" value="deny" { "Deny" }
                }
            }
            (editing::form(approval, visitor))
        }
    }
}

fn is_pending(approval: &v1::Approval) -> bool {
    approval.status() == v1::ApprovalStatus::Pending
}

fn own_request() -> Markup {
    html! {
        section {
            h2 { "Decide" }
            div.notice {
                p { "You asked for this run, and nobody decides their own request." }
                p { "Another person can, with a token of their own:" }
                code.command { "sayso token create --name NAME --scope approver" }
            }
        }
    }
}
