//! `sayso agents`: what is deployed.

use sayso_sdk::{Error, v1};

use super::{Context, list};
use crate::args::AgentsCommand;
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{run, time, visible};

pub(crate) async fn run(context: &Context, command: AgentsCommand) -> Result<Exit, Failure> {
    match command {
        AgentsCommand::Ls { limit } => ls(context, limit.limit).await,
        AgentsCommand::Show { name, revision } => show(context, &name, revision.as_deref()).await,
    }
}

async fn ls(context: &Context, limit: u32) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let fetch = async |page_size: u32, page_token: String| {
        let request = v1::ListAgentsRequest {
            page_size,
            page_token,
        };
        let page = client.list_agents(request).await?;
        Ok((page.agents, page.next_page_token))
    };
    let (agents, next_page_token) = list::up_to(limit, fetch).await?;
    if context.output.json {
        context.output.message(&v1::ListAgentsResponse {
            agents,
            next_page_token,
        })?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new([
        "AGENT",
        "ROLE",
        "TIER",
        "REVISION",
        "DEPLOYED",
        "DESCRIPTION",
    ]);
    for agent in &agents {
        table.row([
            Entry::new(&agent.name),
            Entry::new(if agent.role.is_empty() {
                "-"
            } else {
                &agent.role
            }),
            Entry::new(&agent.tier),
            Entry::new(run::short(&agent.revision_id)),
            Entry::new(time::second(agent.updated_at.as_ref())),
            Entry::new(&agent.description),
        ]);
    }
    table.print(
        &context.output,
        "no agents: deploy one with `sayso deploy FILE`",
    )?;
    Ok(Exit::Done)
}

async fn show(context: &Context, name: &str, revision: Option<&str>) -> Result<Exit, Failure> {
    let shown = context.connect().await?.get_agent(name, revision).await?;
    let output = &context.output;
    if output.json {
        output.message(&shown)?;
        return Ok(Exit::Done);
    }
    let agent = shown.agent.as_ref().ok_or(Error::Incomplete("agent"))?;
    let revision = shown
        .revision
        .as_ref()
        .ok_or(Error::Incomplete("revision"))?;
    output.line(visible::line(&agent.name))?;
    if !agent.description.is_empty() {
        output.line(format!("  {}", visible::block(&agent.description)))?;
    }
    let role = if agent.role.is_empty() {
        "none: its runs fail with run.no_role"
    } else {
        &agent.role
    };
    output.line(format!("  role       {}", visible::line(role)))?;
    output.line(format!("  tier       {}", visible::line(&agent.tier)))?;
    let current = if revision.id == agent.revision_id {
        ", the current one"
    } else {
        ""
    };
    output.line(format!(
        "  revision   {}, by {} at {}{current}",
        visible::line(&revision.id),
        visible::line(&revision.author),
        time::second(revision.created_at.as_ref())
    ))?;
    output.line(bundle(&shown.bundle_json))?;
    Ok(Exit::Done)
}

/// The bundle, indented for people; as it stands if it is no JSON.
fn bundle(json: &str) -> String {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(json);
    let pretty = parsed
        .ok()
        .and_then(|value| serde_json::to_string_pretty(&value).ok());
    visible::block(pretty.as_deref().unwrap_or(json))
}
