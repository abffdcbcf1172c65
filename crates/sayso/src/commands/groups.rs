//! `sayso group`: who decides what a rule leaves to them (S6.12).

use sayso_sdk::v1;

use super::Context;
use crate::args::GroupCommand;
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{time, visible};

pub(crate) async fn run(context: &Context, command: GroupCommand) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let output = &context.output;
    match command {
        GroupCommand::Add { group, principals } => {
            for principal in &principals {
                let added = client.add_to_group(&group, principal).await?;
                if output.json {
                    output.message(&v1::AddToGroupResponse { added })?;
                    continue;
                }
                let (principal, group) = (visible::line(principal), visible::line(&group));
                output.line(if added {
                    format!("{principal} is in {group}")
                } else {
                    format!("{principal} was in {group} already")
                })?;
            }
        }
        GroupCommand::Rm { group, principals } => {
            for principal in &principals {
                client.remove_from_group(&group, principal).await?;
                if output.json {
                    output.message(&v1::RemoveFromGroupResponse {})?;
                    continue;
                }
                let (principal, group) = (visible::line(principal), visible::line(&group));
                output.line(format!("{principal} is no longer in {group}"))?;
            }
        }
        GroupCommand::Ls => list(context, &client.list_groups().await?)?,
    }
    Ok(Exit::Done)
}

fn list(context: &Context, listed: &v1::ListGroupsResponse) -> Result<(), Failure> {
    let output = &context.output;
    if output.json {
        return Ok(output.message(listed)?);
    }
    let mut table = Table::new(["GROUP", "PRINCIPAL", "ADDED", "BY"]);
    for group in &listed.groups {
        for member in &group.members {
            table.row([
                Entry::new(&group.name),
                Entry::new(&member.principal),
                Entry::new(time::second(member.added_at.as_ref())),
                Entry::new(&member.added_by),
            ]);
        }
    }
    table.print(output, "no groups")?;
    Ok(())
}
