//! Shows a run until it ends, over broken connections.

use sayso_run::Step;
use sayso_sdk::v1::watch_run_response::Event;
use sayso_sdk::{Client, RunEvent, WatchOptions, v1};

use super::Context;
use crate::outcome::{Exit, Failure};
use crate::output::timeline::Timeline;
use crate::output::{Output, run, step, visible};

/// Shows the steps from a sequence number on as they come, then how the run ended. The exit says
/// whether it completed.
pub(crate) async fn until_end(
    context: &Context,
    client: &Client,
    run_id: &str,
    from: u64,
    full: bool,
) -> Result<Exit, Failure> {
    let output = &context.output;
    let options = WatchOptions {
        from,
        ..WatchOptions::default()
    };
    let mut watch = client.watch_run(run_id, options);
    let mut timeline = Timeline::new(output.style, full);
    let mut interrupted = false;
    while let Some(event) = watch.next().await {
        match event {
            Ok(RunEvent::Message(message)) => {
                interrupted = false;
                if output.json {
                    output.message_line(&message)?;
                } else {
                    output.part(&timeline.message(&message))?;
                    say_what_to_type(output, run_id, &message)?;
                }
            }
            Ok(RunEvent::Interrupted(why)) => {
                if !output.json {
                    output.part(&timeline.void("the connection is lost"))?;
                }
                if !interrupted {
                    let why = visible::line(&why.to_string());
                    output.aside(format!("the connection is lost and made again ({why})"))?;
                }
                interrupted = true;
            }
            Err(error) => {
                if !output.json {
                    output.part(&timeline.void("the connection is lost"))?;
                }
                return Err(error.into());
            }
        }
    }
    ended(output, &client.get_run(run_id).await?)
}

fn ended(output: &Output, ended: &v1::Run) -> Result<Exit, Failure> {
    if !output.json {
        output.line(run::ending(ended, output))?;
    }
    Ok(match ended.status() {
        v1::RunStatus::Failed | v1::RunStatus::Cancelled => Exit::RunLost,
        v1::RunStatus::Unspecified
        | v1::RunStatus::Pending
        | v1::RunStatus::Running
        | v1::RunStatus::AwaitingInput
        | v1::RunStatus::AwaitingApproval
        | v1::RunStatus::Completed => Exit::Done,
    })
}

/// Says how a person goes on with a run that waits for one; only while it does: a timeline that is
/// read later has the decisions right behind.
fn say_what_to_type(
    output: &Output,
    run_id: &str,
    message: &v1::WatchRunResponse,
) -> Result<(), Failure> {
    let Some(Event::Step(last)) = &message.event else {
        return Ok(());
    };
    let run_id = visible::line(run_id);
    match message.run_status() {
        v1::RunStatus::AwaitingApproval => {
            let Some(Step::AwaitingApproval(waits)) = step::decode(last) else {
                return Ok(());
            };
            let ids: Vec<String> = waits.approvals.iter().map(ToString::to_string).collect();
            let ids = ids.join(" ");
            output.aside(format!(
                "        It waits for a person who did not ask for it. That person looks with\n          sayso approvals --run {run_id}\n        and decides with one of\n          sayso approve {ids}\n          sayso deny {ids} --reason \"…\""
            ))?;
        }
        v1::RunStatus::AwaitingInput => {
            output.aside(format!(
                "        It waits for an answer: sayso runs reply {run_id} \"…\""
            ))?;
        }
        v1::RunStatus::Unspecified
        | v1::RunStatus::Pending
        | v1::RunStatus::Running
        | v1::RunStatus::Completed
        | v1::RunStatus::Failed
        | v1::RunStatus::Cancelled => {}
    }
    Ok(())
}
