//! `sayso run`: starts a run, and shows what happens in it if that is wanted.

use sayso_sdk::v1;

use super::{Context, input, watch};
use crate::args::RunArgs;
use crate::outcome::{Exit, Failure};
use crate::output::visible;

pub(crate) async fn run(context: &Context, args: &RunArgs) -> Result<Exit, Failure> {
    let input = input::text(&args.input)?;
    let client = context.connect().await?;
    let started = client
        .start_run(&args.agent, &input, args.key.as_deref())
        .await?;
    let id = started.run.id.clone();
    let output = &context.output;
    if output.json {
        let answer = v1::StartRunResponse {
            run: Some(started.run),
            already_started: started.already_started,
        };
        if args.watch {
            output.message_line(&answer)?;
        } else {
            output.message(&answer)?;
        }
    } else {
        output.line(visible::line(&id))?;
        if started.already_started {
            output.aside("an earlier request with this key started it")?;
        }
        if !args.watch {
            output.aside(format!("watch it: sayso runs watch {}", visible::line(&id)))?;
        }
    }
    if !args.watch {
        return Ok(Exit::Done);
    }
    watch::until_end(context, &client, &id, 1, false).await
}
