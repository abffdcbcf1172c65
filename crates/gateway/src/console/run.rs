//! One run: where it stands, its timeline, and its cancel.

use std::collections::HashMap;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use sayso_service::error::Coded;
use sayso_wire::v1;
use sayso_wire::v1::approval_service_server::ApprovalService;
use sayso_wire::v1::run_service_server::RunService;
use serde::Deserialize;

use super::page::{Refused, form_value, notice, once, page};
use super::posted::Posted;
use super::text::{LONG, SHORT, cut, distance, shown, spell, spoken};
use super::timeline::{Calls, entry};
use super::visitor::Visitor;
use super::{Console, inbox};

const GET: &str = "/sayso.v1.RunService/GetRun";
const STEPS: &str = "/sayso.v1.RunService/ListRunSteps";
const ACTIONS: &str = "/sayso.v1.RunService/ListRunActions";
const CANCEL: &str = "/sayso.v1.RunService/CancelRun";

/// How many steps a page shows.
const STEPS_A_PAGE: u32 = 500;

/// Which steps are shown.
#[derive(Debug, Default, Deserialize)]
pub(super) struct From {
    /// The first one; 0 and 1 mean from the start.
    #[serde(default)]
    from: u64,
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    Path(id): Path<String>,
    Query(From { from }): Query<From>,
    visitor: Visitor,
) -> Result<Markup, Refused> {
    Ok(view(&console, &visitor, &id, from, None).await?)
}

/// One step, all of it, as it was recorded.
pub(super) async fn step(
    State(console): State<Console>,
    Path((id, number)): Path<(String, u64)>,
    visitor: Visitor,
) -> Result<Markup, Refused> {
    let steps = steps(&console, &visitor, &id, number, 1).await?.steps;
    let step = steps.into_iter().find(|step| step.sequence == number);
    let step = step.ok_or_else(crate::refuse::no_run)?;
    let body = html! {
        p.trail { a href=(format!("/runs/{id}#step-{number}")) { "Timeline" } }
        h1 { "Step " (number) ": " (shown(&step.r#type)) }
        dl.facts {
            div { dt { "Who" } dd { (shown(&step.actor)) } }
            div { dt { "When" } dd { (distance(step.at.as_ref(), console.now())) } }
            div { dt { "Version" } dd { (step.version) } }
            div.wide { dt { "Content, SHA-256" } dd { code.digest { (step.content_sha256) } } }
            div.wide { dt { "Chain" } dd { code.digest { (step.hash) } } }
        }
        pre.text dir="ltr" tabindex="0" aria-label="Content" { (shown(&step.content_json)) }
    };
    Ok(page("Step", &visitor, &body))
}

/// Cancels the run, and shows it.
pub(super) async fn cancel(
    State(console): State<Console>,
    Path(id): Path<String>,
    posted: Posted,
) -> Result<Response, Refused> {
    let Posted {
        visitor,
        mut fields,
    } = posted;
    let request = v1::CancelRunRequest {
        run_id: id.clone(),
        reason: fields.take("reason"),
        idempotency_key: fields.take("key"),
    };
    match console.api.cancel_run(visitor.ask(CANCEL, request)?).await {
        Ok(_) => Ok(Redirect::to(&format!("/runs/{id}")).into_response()),
        Err(status) => {
            let refused = Coded::from_status(&status);
            let shown = view(&console, &visitor, &id, 0, Some(&refused)).await?;
            Ok((refused.kind.http(), shown).into_response())
        }
    }
}

async fn view(
    console: &Console,
    visitor: &Visitor,
    id: &str,
    from: u64,
    refused: Option<&Coded>,
) -> Result<Markup, Coded> {
    let run = get(console, visitor, id).await?;
    let head = head(console, visitor, &run).await?;
    let calls = calls(console, visitor, id).await?;
    let listed = steps(console, visitor, id, from, STEPS_A_PAGE).await?;
    let last = listed.steps.last().map(|step| step.sequence);
    let next = last.map_or(from.max(1), |last| last + 1);
    let is_last = listed.next_page_token.is_empty();
    let live = is_last && run.imported_from.is_empty() && (!is_over(&run) || run.has_open_calls);
    let events = format!("/events/runs/{id}?from={next}");
    let body = html! {
        p.trail { a href="/runs" { "Runs" } }
        h1 { "Run of " (shown(&run.agent)) }
        @if let Some(refused) = refused { (notice(refused)) }
        div #head { (head) }
        @if !is_over(&run) && run.imported_from.is_empty() && visitor.reaches(CANCEL, &run.requester) {
            div #controls { (cancel_form(id, visitor)) }
        }
        h2 { "Timeline" }
        noscript { p.hint { "Reload the page to see what is new." } }
        @if from > 1 {
            p { a href=(format!("/runs/{id}")) { "From the start" } }
        }
        ol.timeline #timeline data-events=[live.then_some(events)] {
            @for step in &listed.steps { (entry(&run.id, step, &calls)) }
        }
        p.text.provisional #provisional dir="auto" aria-label="Being written" hidden {}
        @if !is_last {
            p { a href=(format!("/runs/{id}?from={next}")) { "Later steps" } }
        }
    };
    Ok(page(&format!("Run of {}", run.agent), visitor, &body))
}

/// A run that this visitor may see.
pub(super) async fn get(console: &Console, visitor: &Visitor, id: &str) -> Result<v1::Run, Coded> {
    let request = v1::GetRunRequest {
        run_id: id.to_owned(),
    };
    let got = console.api.get_run(visitor.ask(GET, request)?).await;
    let got = got.map_err(|status| Coded::from_status(&status))?;
    got.into_inner().run.ok_or_else(crate::refuse::no_run)
}

async fn steps(
    console: &Console,
    visitor: &Visitor,
    id: &str,
    from: u64,
    size: u32,
) -> Result<v1::ListRunStepsResponse, Coded> {
    let request = v1::ListRunStepsRequest {
        run_id: id.to_owned(),
        from_sequence: from,
        page_size: size,
        page_token: String::new(),
    };
    let listed = console
        .api
        .list_run_steps(visitor.ask(STEPS, request)?)
        .await;
    let listed = listed.map_err(|status| Coded::from_status(&status))?;
    Ok(listed.into_inner())
}

/// The tools behind the calls of a run, by the calls' ids.
pub(super) async fn calls(console: &Console, visitor: &Visitor, id: &str) -> Result<Calls, Coded> {
    let mut calls = HashMap::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListRunActionsRequest {
            run_id: id.to_owned(),
            page_size: STEPS_A_PAGE,
            page_token,
        };
        let listed = console
            .api
            .list_run_actions(visitor.ask(ACTIONS, request)?)
            .await;
        let listed = listed.map_err(|status| Coded::from_status(&status))?;
        let listed = listed.into_inner();
        let named = listed.actions.into_iter();
        calls.extend(named.map(|action| (action.call_id, action.tool)));
        page_token = listed.next_page_token;
        if page_token.is_empty() {
            return Ok(calls);
        }
    }
}

/// Where the run stands: the top of the page, also on its own as it changes.
pub(super) async fn head(
    console: &Console,
    visitor: &Visitor,
    run: &v1::Run,
) -> Result<Markup, Coded> {
    let word = run.status().word();
    let waiting = waiting(console, visitor, run).await?;
    let usage = run.usage.unwrap_or_default();
    let seconds = run
        .duration
        .map_or(0, |duration| duration.seconds.unsigned_abs());
    let now = console.now();
    Ok(html! {
        p.standing role="status" { span class=(format!("badge {word}")) { (spoken(word)) } }
        @if !run.imported_from.is_empty() {
            p.hint #copy { "This is a read-only copy of " code { (shown(&run.imported_from)) } "." }
        }
        @if !run.parent_run_id.is_empty() {
            p.hint #parent {
                "Started by the run "
                a href=(format!("/runs/{}", run.parent_run_id)) { (shown(&run.parent_run_id)) } "."
            }
        }
        @if let Some(pause) = &run.pause {
            p.hint #paused {
                "It stands still: "
                @if pause.agent.is_empty() { "the namespace" } @else { "the agent" }
                " was paused by " bdi { (shown(&pause.paused_by)) } " "
                (distance(pause.paused_at.as_ref(), now)) "."
                @if !pause.reason.is_empty() { " " q { bdi { (cut(&pause.reason, SHORT)) } } }
            }
        }
        @if !waiting.is_empty() {
            ul.waiting {
                @for approval in &waiting {
                    li {
                        a #(format!("waits-{}", approval.id)) href=(format!("/approvals/{}", approval.id)) {
                            "Review: " bdi { (cut(&approval.summary, SHORT)) }
                        }
                    }
                }
            }
        }
        (outcome(run))
        dl.facts {
            div { dt { "Asked by" } dd { (shown(&run.requester)) } }
            div { dt { "Started" } dd { (distance(run.created_at.as_ref(), now)) } }
            div { dt { "Duration" } dd { (spell(seconds)) } }
            (trust(run.trust(), run.trust_lowered.as_ref(), &run.id))
            div { dt { "Cycles" } dd { (run.cycles) " of 20" } }
            div { dt { "Tokens" } dd { (usage.input_tokens) " in, " (usage.output_tokens) " out" } }
            @if !run.cost.is_empty() { div { dt { "Cost" } dd { (shown(&run.cost)) } } }
            @if run.retries > 0 { div { dt { "Retries" } dd { (run.retries) " of 5" } } }
            div.wide { dt { "Run" } dd { code.digest { (shown(&run.id)) } } }
            div.wide { dt { "Revision" } dd { code.digest { (shown(&run.revision_id)) } } }
        }
    })
}

/// How far a run is trusted, and what lowered that.
pub(super) fn trust(now: v1::Trust, lowered: Option<&v1::TrustLowered>, run: &str) -> Markup {
    html! {
        div {
            dt { "Trust" }
            dd {
                (now.word())
                @if let Some(lowered) = lowered {
                    ", " (lowered.before().word()) " until "
                    a href=(format!("/runs/{run}#step-{}", lowered.sequence)) {
                        @if lowered.call_id.is_empty() { "a message" } @else { code { (shown(&lowered.tool)) } }
                    }
                    @if lowered.call_id.is_empty() { ", whose writer is trusted no further" }
                    @else { ", whose result may be an outsider's words" }
                }
            }
        }
    }
}

/// The approvals that the run waits for.
async fn waiting(
    console: &Console,
    visitor: &Visitor,
    run: &v1::Run,
) -> Result<Vec<v1::Approval>, Coded> {
    if is_over(run) {
        return Ok(Vec::new());
    }
    let request = v1::ListApprovalsRequest {
        statuses: vec![v1::ApprovalStatus::Pending.into()],
        run_id: run.id.clone(),
        ..v1::ListApprovalsRequest::default()
    };
    let listed = console
        .api
        .list_approvals(visitor.ask(inbox::LIST, request)?)
        .await;
    let listed = listed.map_err(|status| Coded::from_status(&status))?;
    Ok(listed.into_inner().approvals)
}

/// What came of the run.
fn outcome(run: &v1::Run) -> Markup {
    html! {
        @if let Some(failure) = &run.failure {
            div.notice.bad {
                p.text { (cut(&failure.message, LONG)) }
                p { (shown(&failure.advice)) }
                p.code { code { (shown(&failure.code)) } }
            }
        }
        @if let Some(output) = &run.output {
            div.text.output dir="auto" { (cut(output, LONG)) }
        }
        @if !run.hint.is_empty() { p.notice { (shown(&run.hint)) } }
    }
}

/// Whether the run has ended; a cancelled one may still record late results.
pub(super) fn is_over(run: &v1::Run) -> bool {
    match run.status() {
        v1::RunStatus::Completed | v1::RunStatus::Failed | v1::RunStatus::Cancelled => true,
        v1::RunStatus::Unspecified
        | v1::RunStatus::Pending
        | v1::RunStatus::Running
        | v1::RunStatus::AwaitingInput
        | v1::RunStatus::AwaitingApproval => false,
    }
}

fn cancel_form(id: &str, visitor: &Visitor) -> Markup {
    html! {
        details {
            summary { "Cancel this run" }
            form method="post" action=(format!("/runs/{id}/cancel")) {
                (form_value(visitor))
                (once())
                p.hint { "What is done stays done; calls that wait for a decision are rejected." }
                label for="reason" { "Reason " span.hint { "optional; recorded" } }
                textarea #reason name="reason" rows="2" {}
                div.buttons { button.bad { "Cancel the run" } }
            }
        }
    }
}
