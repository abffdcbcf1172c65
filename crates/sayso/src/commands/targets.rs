//! `sayso target`: where a namespace is told of approvals and failures (S8.2).

use sayso_sdk::v1;

use super::Context;
use crate::args::{TargetAddArgs, TargetCommand};
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{time, visible};

pub(crate) async fn run(context: &Context, command: TargetCommand) -> Result<Exit, Failure> {
    match command {
        TargetCommand::Add(args) => add(context, args).await,
        TargetCommand::Ls => list(context).await,
        TargetCommand::Test { name } => test(context, &name).await,
        TargetCommand::Rm { name } => {
            context.connect().await?.delete_target(&name).await?;
            let output = &context.output;
            if output.json {
                output.message(&v1::DeleteTargetResponse {})?;
            } else {
                output.line(format!("{} is gone", visible::line(&name)))?;
            }
            Ok(Exit::Done)
        }
    }
}

async fn add(context: &Context, args: TargetAddArgs) -> Result<Exit, Failure> {
    let given = [
        (v1::TargetKind::Webhook, args.webhook),
        (v1::TargetKind::Email, args.email),
        (v1::TargetKind::Slack, args.slack),
    ];
    let given = given
        .into_iter()
        .find_map(|(kind, address)| Some((kind, address?)));
    let (kind, address) = given.unwrap_or_default();
    let request = v1::CreateTargetRequest {
        name: args.name,
        kind: kind.into(),
        address,
        secret: args.secret.unwrap_or_default(),
        events: args.only.into_iter().map(i32::from).collect(),
    };
    let target = context.connect().await?.create_target(request).await?;
    let output = &context.output;
    if output.json {
        let target = Some(target);
        output.message(&v1::CreateTargetResponse { target })?;
        return Ok(Exit::Done);
    }
    let name = visible::line(&target.name);
    output.line(format!("{name} is told of {}", events(&target)))?;
    output.aside(format!("`sayso target test {name}` tries it out"))?;
    Ok(Exit::Done)
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let listed = context.connect().await?.list_targets().await?;
    let output = &context.output;
    if output.json {
        output.message(&listed)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new([
        "TARGET", "KIND", "ADDRESS", "TOLD OF", "SIGNED", "ADDED", "BY",
    ]);
    for target in &listed.targets {
        let signed = match target.secret.as_str() {
            "" => "no",
            secret => secret,
        };
        table.row([
            Entry::new(&target.name),
            Entry::new(target.kind().word()),
            Entry::new(&target.address),
            Entry::new(events(target)),
            Entry::new(signed),
            Entry::new(time::second(target.created_at.as_ref())),
            Entry::new(&target.created_by),
        ]);
    }
    table.print(output, "no targets")?;
    Ok(Exit::Done)
}

async fn test(context: &Context, name: &str) -> Result<Exit, Failure> {
    let tested = context.connect().await?.test_target(name).await?;
    let output = &context.output;
    let name = visible::line(name);
    if output.json {
        output.message(&tested)?;
    } else if tested.delivered {
        output.line(format!("{name} took the test message"))?;
    } else {
        output.line(format!("{name}: {}", visible::line(&tested.problem)))?;
    }
    Ok(if tested.delivered {
        Exit::Done
    } else {
        Exit::Refused
    })
}

fn events(target: &v1::Target) -> String {
    let words: Vec<&str> = target.events().map(v1::TargetEvent::word).collect();
    words.join(" and ")
}
