//! `sayso secret`: values that tools and signatures need and nobody sees again (S3.10).

use sayso_sdk::v1;

use super::{Context, input};
use crate::args::SecretCommand;
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{time, visible};

pub(crate) async fn run(context: &Context, command: SecretCommand) -> Result<Exit, Failure> {
    match command {
        SecretCommand::Set { name, agent } => set(context, &name, agent.as_deref()).await,
        SecretCommand::Ls => ls(context).await,
        SecretCommand::Rm { name, agent } => rm(context, &name, agent.as_deref()).await,
        SecretCommand::RotateKey => rotate(context).await,
    }
}

async fn set(context: &Context, name: &str, agent: Option<&str>) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    if input::somebody_is_there() {
        context
            .output
            .aside("type the value, then a line end and Ctrl-D")?;
    }
    let value = input::piped()?;
    let stored = client.set_secret(name, agent, &value).await?;
    let output = &context.output;
    if output.json {
        output.message(&stored)?;
        return Ok(Exit::Done);
    }
    let whose = agent.map(|agent| format!(" of {}", visible::line(agent)));
    let what = if stored.created {
        "is set"
    } else {
        "has another value"
    };
    output.line(format!(
        "{}{} {what}",
        visible::line(name),
        whose.unwrap_or_default()
    ))?;
    if stored.trimmed {
        output.aside("the line end after it was taken off")?;
    }
    Ok(Exit::Done)
}

async fn ls(context: &Context) -> Result<Exit, Failure> {
    let listed = context.connect().await?.list_secrets().await?;
    let output = &context.output;
    if output.json {
        output.message(&listed)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["SECRET", "AGENT", "SET", "BY", "KEY"]);
    for secret in &listed.secrets {
        let agent = if secret.agent.is_empty() {
            "any"
        } else {
            &secret.agent
        };
        table.row([
            Entry::new(&secret.name),
            Entry::new(agent),
            Entry::new(time::second(secret.updated_at.as_ref())),
            Entry::new(&secret.set_by),
            Entry::new(&secret.key_id),
        ]);
    }
    table.print(output, "no secrets")?;
    Ok(Exit::Done)
}

async fn rm(context: &Context, name: &str, agent: Option<&str>) -> Result<Exit, Failure> {
    context.connect().await?.delete_secret(name, agent).await?;
    if context.output.json {
        context.output.message(&v1::DeleteSecretResponse {})?;
    } else {
        let name = visible::line(name);
        context.output.line(format!("{name} is gone"))?;
    }
    Ok(Exit::Done)
}

async fn rotate(context: &Context) -> Result<Exit, Failure> {
    let rotated = context.connect().await?.rotate_secret_key().await?;
    if context.output.json {
        context.output.message(&rotated)?;
    } else {
        context.output.line(format!(
            "{} of {} secrets were encrypted anew; all are under the key {} now",
            rotated.rotated,
            rotated.total,
            visible::line(&rotated.key_id)
        ))?;
    }
    Ok(Exit::Done)
}
