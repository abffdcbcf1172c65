//! The agents, and one of them: what it is and how well its tasks went (S7.1).

use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use sayso_service::error::Coded;
use sayso_wire::v1;
use sayso_wire::v1::agent_service_server::AgentService;
use sayso_wire::v1::feedback_service_server::FeedbackService;

use super::Console;
use super::inbox::Part;
use super::page::{Refused, page};
use super::text::{LONG, SHORT, cut, distance, shown, spoken};
use super::visitor::Visitor;

const LIST: &str = "/sayso.v1.AgentService/ListAgents";
const GET: &str = "/sayso.v1.AgentService/GetAgent";
const FEEDBACK: &str = "/sayso.v1.FeedbackService/ListFeedback";

/// How many of the newest ratings are shown.
const RATINGS: u32 = 20;

/// The page of all.
pub(super) async fn show(
    State(console): State<Console>,
    Query(part): Query<Part>,
    visitor: Visitor,
) -> Result<Markup, Refused> {
    let request = v1::ListAgentsRequest {
        page_token: part.page,
        ..v1::ListAgentsRequest::default()
    };
    let listed = console.api.list_agents(visitor.ask(LIST, request)?).await;
    let listed = listed.map_err(|status| Coded::from_status(&status))?;
    let listed = listed.into_inner();
    let body = html! {
        h1 { "Agents" }
        @if listed.agents.is_empty() {
            p { "There are no agents yet. " code { "sayso deploy FILE" } " deploys one." }
        } @else {
            ul.cards {
                @for agent in &listed.agents {
                    li { article.card {
                        h2 { a href=(format!("/agents/{}", agent.name)) { (shown(&agent.name)) } }
                        @if !agent.description.is_empty() { p { (cut(&agent.description, SHORT)) } }
                    } }
                }
            }
        }
        @if !listed.next_page_token.is_empty() {
            p { a href=(format!("/agents?page={}", listed.next_page_token)) { "More" } }
        }
    };
    Ok(page("Agents", &visitor, &body))
}

/// The page of one.
pub(super) async fn one(
    State(console): State<Console>,
    Path(name): Path<String>,
    visitor: Visitor,
) -> Result<Markup, Refused> {
    let request = v1::GetAgentRequest {
        name: name.clone(),
        ..v1::GetAgentRequest::default()
    };
    let got = console.api.get_agent(visitor.ask(GET, request)?).await;
    let got = got.map_err(|status| Coded::from_status(&status))?;
    let got = got.into_inner();
    let request = v1::ListFeedbackRequest {
        agent: name,
        page_size: RATINGS,
        ..v1::ListFeedbackRequest::default()
    };
    let rated = console.api.list_feedback(visitor.ask(FEEDBACK, request)?);
    let rated = rated.await.map_err(|status| Coded::from_status(&status))?;
    let rated = rated.into_inner();
    let agent = got.agent.unwrap_or_default();
    let now = console.now();
    let body = html! {
        h1 { (shown(&agent.name)) }
        @if !agent.description.is_empty() { p { (cut(&agent.description, LONG)) } }
        dl.facts {
            div { dt { "Role" } dd { @if agent.role.is_empty() { "none: its runs fail" } @else { (shown(&agent.role)) } } }
            div { dt { "Models" } dd { (shown(&agent.tier)) } }
            div { dt { "Deployed" } dd { (distance(agent.updated_at.as_ref(), now)) } }
            div.wide { dt { "Revision" } dd { code.digest { (shown(&agent.revision_id)) } } }
        }
        h2 #feedback { "Feedback" }
        (feedback(&rated, now))
    };
    Ok(page(&agent.name, &visitor, &body))
}

fn feedback(rated: &v1::ListFeedbackResponse, now: sayso_run::Timestamp) -> Markup {
    html! {
        @if rated.summaries.is_empty() {
            p { "Nobody has rated its tasks yet. " code { "sayso feedback record TASK --score 0.8" } " does." }
        } @else {
            table {
                thead { tr { th { "Source" } th { "Ratings" } th { "Mean" } } }
                tbody {
                    @for sum in &rated.summaries {
                        tr { td { (spoken(sum.source().word())) } td { (sum.count) } td { (format!("{:.3}", sum.mean)) } }
                    }
                }
            }
            ul.cards {
                @for rating in &rated.feedback {
                    li { article.card {
                        h3 { a href=(format!("/runs/{}", rating.run_id)) { (rating.score) } " by " bdi { (shown(&rating.by)) } }
                        @if !rating.note.is_empty() { p { bdi { (cut(&rating.note, SHORT)) } } }
                        @if !rating.labels.is_empty() { p.hint { (cut(&rating.labels.join(" "), SHORT)) } }
                        p.hint { (spoken(rating.source().word())) ", " (distance(rating.at.as_ref(), now)) }
                    } }
                }
            }
        }
    }
}
