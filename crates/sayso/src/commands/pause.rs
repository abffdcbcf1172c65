//! `sayso pause` and `sayso resume`: an agent or a namespace stands still, and goes on (S10.6).

use sayso_sdk::v1;

use super::Context;
use crate::args::{PauseArgs, ResumeArgs};
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{time, visible};

pub(crate) async fn pause(context: &Context, args: PauseArgs) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    if args.list {
        return list(context, client.list_pauses().await?);
    }
    let reason = args.reason.unwrap_or_default();
    let answer = client.pause(args.agent.as_deref(), &reason).await?;
    let output = &context.output;
    if output.json {
        output.message(&answer)?;
        return Ok(Exit::Done);
    }
    let pause = answer
        .pause
        .as_ref()
        .ok_or(sayso_sdk::Error::Incomplete("pause"))?;
    output.line(if answer.already_paused {
        format!("{} was paused before: {}", whom(pause), since(pause))
    } else {
        format!("{} is paused", whom(pause))
    })?;
    output
        .aside("nothing starts and nothing acts until `sayso resume`; approvals can be decided")?;
    Ok(Exit::Done)
}

pub(crate) async fn resume(context: &Context, args: ResumeArgs) -> Result<Exit, Failure> {
    let pause = context
        .connect()
        .await?
        .resume(args.agent.as_deref())
        .await?;
    let output = &context.output;
    if output.json {
        output.message(&pause)?;
    } else {
        output.line(format!(
            "{} goes on; it was paused {}",
            whom(&pause),
            since(&pause)
        ))?;
    }
    Ok(Exit::Done)
}

fn list(context: &Context, pauses: Vec<v1::Pause>) -> Result<Exit, Failure> {
    if context.output.json {
        context.output.message(&v1::ListPausesResponse { pauses })?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["PAUSED", "BY", "SINCE", "REASON"]);
    for pause in &pauses {
        table.row([
            Entry::new(if pause.agent.is_empty() {
                "the whole namespace"
            } else {
                &pause.agent
            }),
            Entry::new(&pause.paused_by),
            Entry::new(time::second(pause.paused_at.as_ref())),
            Entry::new(&pause.reason),
        ]);
    }
    table.print(&context.output, "nothing is paused")?;
    Ok(Exit::Done)
}

fn whom(pause: &v1::Pause) -> String {
    match pause.agent.as_str() {
        "" => "the namespace".to_owned(),
        agent => format!("the agent {}", visible::line(agent)),
    }
}

/// Since when, by whom and why.
pub(crate) fn since(pause: &v1::Pause) -> String {
    let since = time::second(pause.paused_at.as_ref());
    let by = visible::line(&pause.paused_by);
    match pause.reason.as_str() {
        "" => format!("since {since} by {by}"),
        reason => format!("since {since} by {by}: {}", visible::line(reason)),
    }
}
