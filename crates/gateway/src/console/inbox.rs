//! The inbox: what waits for a decision.

use axum::extract::{Query, State};
use maud::{Markup, html};
use sayso_service::error::Coded;
use sayso_wire::v1;
use sayso_wire::v1::approval_service_server::ApprovalService;
use serde::Deserialize;

use super::Console;
use super::page::{Refused, page};
use super::text::{SHORT, cut, distance, shown};
use super::visitor::Visitor;

/// The method that lists approvals.
pub(super) const LIST: &str = "/sayso.v1.ApprovalService/ListApprovals";

/// Which part of a list is shown.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Part {
    /// The token of the part; empty for the first.
    #[serde(default)]
    pub(super) page: String,
}

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    Query(part): Query<Part>,
    visitor: Visitor,
) -> Result<Markup, Refused> {
    let is_first = part.page.is_empty();
    let list = list(&console, &visitor, part.page).await?;
    let body = html! {
        h1 { "Inbox" }
        noscript { p.hint { "Reload the page to see what is new." } }
        div #inbox data-events=[is_first.then_some("/events/inbox")] { (list) }
        p.announce #announce role="status" {}
    };
    Ok(page("Inbox", &visitor, &body))
}

/// What waits, newest first: the inside of the page, also on its own as it changes.
pub(super) async fn list(
    console: &Console,
    visitor: &Visitor,
    part: String,
) -> Result<Markup, Coded> {
    let request = v1::ListApprovalsRequest {
        statuses: vec![v1::ApprovalStatus::Pending.into()],
        page_token: part,
        ..v1::ListApprovalsRequest::default()
    };
    let listed = console
        .api
        .list_approvals(visitor.ask(LIST, request)?)
        .await;
    let listed = listed.map_err(|status| Coded::from_status(&status))?;
    let listed = listed.into_inner();
    let more = !listed.next_page_token.is_empty();
    let count = listed.approvals.len();
    let now = console.now();
    Ok(html! {
        p.count data-count=(count) {
            @match count {
                0 => "Nothing waits for a decision.",
                1 => "1 call waits for a decision.",
                count => { (count) @if more { " and more" } " calls wait for a decision." }
            }
        }
        @if count > 0 {
            ul.cards {
                @for approval in &listed.approvals {
                    li { (card(approval, visitor, now)) }
                }
            }
        }
        @if more {
            p { a href=(format!("/?page={}", listed.next_page_token)) { "Older ones" } }
        }
    })
}

fn card(approval: &v1::Approval, visitor: &Visitor, now: sayso_run::Timestamp) -> Markup {
    let own = approval.requester == visitor.caller().principal.as_str();
    html! {
        article.card {
            h2 {
                a #(approval.id) href=(format!("/approvals/{}", approval.id)) {
                    bdi { (cut(&approval.summary, SHORT)) }
                }
            }
            dl.facts {
                div { dt { "Tool" } dd { code { (cut(&approval.tool, SHORT)) } } }
                div { dt { "Agent" } dd { (shown(&approval.agent)) } }
                div {
                    dt { "Asked by" }
                    dd { (shown(&approval.requester)) @if own { " (you)" } }
                }
                div { dt { "Waiting since" } dd { (distance(approval.requested_at.as_ref(), now)) } }
                div { dt { "Expires" } dd { (distance(approval.expires_at.as_ref(), now)) } }
            }
        }
    }
}
