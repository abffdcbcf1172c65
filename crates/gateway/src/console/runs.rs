//! The newest runs.

use axum::extract::{Query, State};
use maud::{Markup, html};
use sayso_service::error::Coded;
use sayso_wire::v1;
use sayso_wire::v1::run_service_server::RunService;

use super::Console;
use super::inbox::Part;
use super::page::{Refused, page};
use super::text::{cut, distance, shown, spoken};
use super::visitor::Visitor;

const LIST: &str = "/sayso.v1.RunService/ListRuns";

/// How much of an input stands in the list, in bytes.
const GLANCE: usize = 160;

/// The page.
pub(super) async fn show(
    State(console): State<Console>,
    Query(part): Query<Part>,
    visitor: Visitor,
) -> Result<Markup, Refused> {
    let request = v1::ListRunsRequest {
        page_token: part.page,
        ..v1::ListRunsRequest::default()
    };
    let listed = console.api.list_runs(visitor.ask(LIST, request)?).await;
    let listed = listed.map_err(|status| Coded::from_status(&status))?;
    let listed = listed.into_inner();
    let now = console.now();
    let body = html! {
        h1 { "Runs" }
        @if listed.runs.is_empty() {
            p { "There are no runs yet. " code { "sayso run AGENT INPUT" } " starts one." }
        } @else {
            ul.cards {
                @for run in &listed.runs {
                    li { (card(run, now)) }
                }
            }
        }
        @if !listed.next_page_token.is_empty() {
            p { a href=(format!("/runs?page={}", listed.next_page_token)) { "Older ones" } }
        }
    };
    Ok(page("Runs", &visitor, &body))
}

fn card(run: &v1::Run, now: sayso_run::Timestamp) -> Markup {
    let word = run.status().word();
    html! {
        article.card {
            h2 {
                a href=(format!("/runs/{}", run.id)) {
                    @if run.input.is_empty() { "(no input)" } @else { bdi { (cut(&run.input, GLANCE)) } }
                }
            }
            dl.facts {
                div { dt { "Status" } dd { span class=(format!("badge {word}")) { (spoken(word)) } @if run.pause.is_some() { " paused" } } }
                div { dt { "Agent" } dd { (shown(&run.agent)) } }
                div { dt { "Asked by" } dd { (shown(&run.requester)) } }
                div { dt { "Started" } dd { (distance(run.created_at.as_ref(), now)) } }
            }
        }
    }
}
