//! `sayso runs`: what ran and runs.

use std::time::SystemTime;

use prost_types::Timestamp;
use sayso_sdk::v1::verify_run_response::Result as Verified;
use sayso_sdk::{Client, v1};

use super::{Context, export, input, list, watch};
use crate::args::{ListRunsArgs, RunsCommand, ShowRunArgs, VerifyArgs};
use crate::outcome::{Exit, Failure};
use crate::output::timeline::Timeline;
use crate::output::{run, style::Tone, time, visible};

pub(crate) async fn run(context: &Context, command: RunsCommand) -> Result<Exit, Failure> {
    if let RunsCommand::Reply(args) = &command
        && args.message.is_empty()
    {
        return Err(Failure::usage(
            "the message is empty",
            "say something: sayso runs reply RUN \"…\"",
        ));
    }
    if let RunsCommand::Verify(VerifyArgs {
        file: Some(file), ..
    }) = &command
    {
        return export::verify(context, file);
    }
    let client = context.connect().await?;
    match command {
        RunsCommand::Ls(args) => ls(context, &client, args).await,
        RunsCommand::Show(args) => show(context, &client, &args).await,
        RunsCommand::Watch(args) => {
            watch::until_end(context, &client, &args.run.id, args.from, args.full).await
        }
        RunsCommand::Cancel(args) => {
            let request = v1::CancelRunRequest {
                run_id: args.run.id,
                reason: args.reason.unwrap_or_default(),
                idempotency_key: String::new(),
            };
            now(context, &client.cancel_run(request).await?)
        }
        RunsCommand::Retry(args) => now(context, &client.retry_run(&args.id).await?),
        RunsCommand::Reply(args) => {
            let request = v1::ReplyToRunRequest {
                run_id: args.run.id,
                message: input::text(&args.message)?,
                idempotency_key: args.key.unwrap_or_default(),
            };
            now(context, &client.reply_to_run(request).await?)
        }
        RunsCommand::Verify(args) => verify(context, &client, &args.id.unwrap_or_default()).await,
        RunsCommand::Export(args) => {
            export::export(context, &client, &args.run.id, args.redacted).await
        }
        RunsCommand::Import { file } => export::import(context, &client, &file).await,
    }
}

async fn ls(context: &Context, client: &Client, args: ListRunsArgs) -> Result<Exit, Failure> {
    let filter = v1::ListRunsRequest {
        agent: args.agent.unwrap_or_default(),
        statuses: args.status.into_iter().map(i32::from).collect(),
        ended_by: args.ended_by.into_iter().map(i32::from).collect(),
        requester: args.requester.unwrap_or_default(),
        created_after: timestamp(args.after),
        created_before: timestamp(args.before),
        task_id: args.task.unwrap_or_default(),
        page_size: 0,
        page_token: String::new(),
        parent_run_id: args.parent.unwrap_or_default(),
    };
    let fetch = async |page_size: u32, page_token: String| {
        let request = v1::ListRunsRequest {
            page_size,
            page_token,
            ..filter.clone()
        };
        let page = client.list_runs(request).await?;
        Ok((page.runs, page.next_page_token))
    };
    let (runs, next_page_token) = list::up_to(args.limit.limit, fetch).await?;
    if context.output.json {
        context.output.message(&v1::ListRunsResponse {
            runs,
            next_page_token,
        })?;
        return Ok(Exit::Done);
    }
    run::table(&runs).print(&context.output, "no runs")?;
    if !next_page_token.is_empty() {
        context.output.aside(format!(
            "there are more: --limit {}",
            args.limit.limit.saturating_mul(2)
        ))?;
    }
    Ok(Exit::Done)
}

pub(crate) fn timestamp(time: Option<SystemTime>) -> Option<Timestamp> {
    time.map(Timestamp::from)
}

/// The run, then its timeline; with `--json` the run on the first line and each step on its own.
async fn show(context: &Context, client: &Client, args: &ShowRunArgs) -> Result<Exit, Failure> {
    let output = &context.output;
    let shown = client.get_run(&args.run.id).await?;
    let steps = client.run_steps(&args.run.id, 1).await?;
    if output.json {
        output.message_line(&shown)?;
        steps
            .iter()
            .try_for_each(|step| output.message_line(step))?;
        return Ok(Exit::Done);
    }
    output.line(run::details(&shown, output))?;
    output.line("")?;
    let mut timeline = Timeline::new(output.style, args.full);
    steps
        .iter()
        .try_for_each(|step| output.part(&timeline.step(step)))?;
    Ok(Exit::Done)
}

/// Where a run stands after something was asked of it.
fn now(context: &Context, run: &v1::Run) -> Result<Exit, Failure> {
    let output = &context.output;
    if output.json {
        output.message(run)?;
    } else {
        output.line(format!(
            "{}  {}",
            visible::line(&run.id),
            run.status().word()
        ))?;
    }
    Ok(Exit::Done)
}

async fn verify(context: &Context, client: &Client, run_id: &str) -> Result<Exit, Failure> {
    let output = &context.output;
    let answer = client.verify_run(run_id).await?;
    let exit = match &answer.result {
        Some(Verified::Verified(_)) => Exit::Done,
        Some(Verified::Broken(_)) => Exit::NotVerified,
        None => return Err(sayso_sdk::Error::Incomplete("result").into()),
    };
    if output.json {
        output.message(&answer)?;
    } else {
        output.line(verified(context, &answer))?;
    }
    Ok(exit)
}

/// What verifying found, in a line.
fn verified(context: &Context, answer: &v1::VerifyRunResponse) -> String {
    let style = context.output.style;
    match &answer.result {
        Some(Verified::Verified(head)) => format!(
            "{}: {} steps up to {}, head {}",
            style.paint(Tone::Good, "verified"),
            head.sequence,
            time::second(head.at.as_ref()),
            visible::line(&head.hash)
        ),
        Some(Verified::Broken(broken)) => format!(
            "{} at step {}: {}",
            style.paint(Tone::Bad, "not verified"),
            broken.sequence,
            visible::line(&broken.reason)
        ),
        None => String::new(),
    }
}
