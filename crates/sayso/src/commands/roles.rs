//! `sayso role`: the ceiling over everything that an agent may do (S3.9).

use sayso_sdk::{Error, v1};

use super::{Context, list};
use crate::args::RoleCommand;
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{time, visible};

pub(crate) async fn run(context: &Context, command: RoleCommand) -> Result<Exit, Failure> {
    match command {
        RoleCommand::Ls { limit } => ls(context, limit.limit).await,
        RoleCommand::Show { role } => show(context, &role).await,
        RoleCommand::Set { role, permits } => set(context, &role, permits).await,
        RoleCommand::Rm { role } => rm(context, &role).await,
        RoleCommand::Attach { agent, role } => attach(context, &agent, &role).await,
        RoleCommand::Detach { agent } => detach(context, &agent).await,
    }
}

async fn ls(context: &Context, limit: u32) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let fetch = async |page_size: u32, page_token: String| {
        let request = v1::ListRolesRequest {
            page_size,
            page_token,
        };
        let page = client.list_roles(request).await?;
        Ok((page.roles, page.next_page_token))
    };
    let (roles, next_page_token) = list::up_to(limit, fetch).await?;
    if context.output.json {
        context.output.message(&v1::ListRolesResponse {
            roles,
            next_page_token,
        })?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["ROLE", "CHANGED", "PERMITS"]);
    for role in &roles {
        table.row([
            Entry::new(&role.name),
            Entry::new(time::second(role.updated_at.as_ref())),
            Entry::new(permitted(&role.permits)),
        ]);
    }
    table.print(&context.output, "no roles")?;
    Ok(Exit::Done)
}

async fn show(context: &Context, name: &str) -> Result<Exit, Failure> {
    let shown = context.connect().await?.get_role(name).await?;
    let output = &context.output;
    if output.json {
        output.message(&shown)?;
        return Ok(Exit::Done);
    }
    let role = shown.role.as_ref().ok_or(Error::Incomplete("role"))?;
    output.line(visible::line(&role.name))?;
    if role.permits.is_empty() {
        output.line("  permits    nothing")?;
    }
    for pattern in &role.permits {
        output.line(format!("  permits    {}", visible::line(pattern)))?;
    }
    for agent in &shown.agents {
        output.line(format!("  agent      {}", visible::line(agent)))?;
    }
    if shown.agents.is_empty() {
        output.line("  agent      none has it")?;
    }
    Ok(Exit::Done)
}

async fn set(context: &Context, name: &str, permits: Vec<String>) -> Result<Exit, Failure> {
    let changed = context.connect().await?.put_role(name, permits).await?;
    let output = &context.output;
    if output.json {
        output.message(&changed)?;
        return Ok(Exit::Done);
    }
    let role = changed.role.as_ref().ok_or(Error::Incomplete("role"))?;
    let name = visible::line(&role.name);
    output.line(
        match (changed.created, changed.added.len(), changed.removed.len()) {
            (true, ..) => format!("{name} is new; it permits {}", permitted(&role.permits)),
            (false, 0, 0) => format!("{name} permits what it did"),
            (false, ..) => format!("{name} permits {}", permitted(&role.permits)),
        },
    )?;
    if !changed.created {
        for pattern in &changed.added {
            output.line(format!("  + {}", visible::line(pattern)))?;
        }
        for pattern in &changed.removed {
            output.line(format!("  - {}", visible::line(pattern)))?;
        }
    }
    Ok(Exit::Done)
}

async fn rm(context: &Context, name: &str) -> Result<Exit, Failure> {
    context.connect().await?.delete_role(name).await?;
    if context.output.json {
        context.output.message(&v1::DeleteRoleResponse {})?;
    } else {
        context
            .output
            .line(format!("{} is gone", visible::line(name)))?;
    }
    Ok(Exit::Done)
}

async fn attach(context: &Context, agent: &str, role: &str) -> Result<Exit, Failure> {
    let answer = context.connect().await?.attach_role(agent, role).await?;
    let output = &context.output;
    if output.json {
        output.message(&answer)?;
        return Ok(Exit::Done);
    }
    let (agent, role) = (visible::line(agent), visible::line(role));
    output.line(match answer.replaced.as_str() {
        "" => format!("{agent} has the role {role}; it had none"),
        before if before == role => format!("{agent} had the role {role} already"),
        before => format!(
            "{agent} has the role {role} in place of {}",
            visible::line(before)
        ),
    })?;
    output.aside("it acts within a second on every live run of the agent")?;
    Ok(Exit::Done)
}

async fn detach(context: &Context, agent: &str) -> Result<Exit, Failure> {
    let answer = context.connect().await?.detach_role(agent).await?;
    let output = &context.output;
    if output.json {
        output.message(&answer)?;
        return Ok(Exit::Done);
    }
    let agent = visible::line(agent);
    output.line(match answer.detached.as_str() {
        "" => format!("{agent} had no role"),
        before => format!(
            "{agent} no longer has the role {}: its runs fail until it has another one",
            visible::line(before)
        ),
    })?;
    Ok(Exit::Done)
}

fn permitted(permits: &[String]) -> String {
    if permits.is_empty() {
        "nothing".to_owned()
    } else {
        visible::line(&permits.join(" "))
    }
}
