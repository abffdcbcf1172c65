//! `sayso deploy`: an agent from its bundle.

use sayso_sdk::v1::{BundleFinding, DeployAgentResponse, ValidateAgentResponse};

use super::{Context, input};
use crate::args::DeployArgs;
use crate::outcome::{Exit, Failure};
use crate::output::style::Tone;
use crate::output::{run, visible};

pub(crate) async fn run(context: &Context, args: &DeployArgs) -> Result<Exit, Failure> {
    let bundle = input::file(&args.file)?;
    let client = context.connect().await?;
    if args.validate {
        return validated(context, &client.validate_agent(&bundle).await?);
    }
    deployed(context, &client.deploy_agent(&bundle).await?)
}

fn deployed(context: &Context, answer: &DeployAgentResponse) -> Result<Exit, Failure> {
    let output = &context.output;
    if output.json {
        output.message(answer)?;
        return Ok(Exit::Done);
    }
    let revision = answer.revision.as_ref();
    let revision = revision.ok_or(sayso_sdk::Error::Incomplete("revision"))?;
    let (agent, id) = (visible::line(&revision.agent), run::short(&revision.id));
    let news = if answer.created {
        "a new revision"
    } else {
        "deployed before"
    };
    output.line(format!("{agent} is deployed: revision {id}, {news}"))?;
    findings(context, "warning", Tone::Waits, &answer.warnings)?;
    output.aside(format!(
        "start a run of it: sayso run {agent} \"…\" --watch"
    ))?;
    Ok(Exit::Done)
}

fn validated(context: &Context, answer: &ValidateAgentResponse) -> Result<Exit, Failure> {
    let output = &context.output;
    let sound = answer.errors.is_empty();
    if output.json {
        output.message(answer)?;
    } else {
        findings(context, "error", Tone::Bad, &answer.errors)?;
        if answer.omitted_errors > 0 {
            output.line(format!("and {} more errors", answer.omitted_errors))?;
        }
        findings(context, "warning", Tone::Waits, &answer.warnings)?;
        if sound {
            output.line(format!(
                "the bundle is sound: revision {}",
                run::short(&answer.revision_id)
            ))?;
        }
    }
    Ok(if sound { Exit::Done } else { Exit::Refused })
}

fn findings(
    context: &Context,
    what: &str,
    tone: Tone,
    findings: &[BundleFinding],
) -> Result<(), Failure> {
    for finding in findings {
        let what = context.output.style.paint(tone, what);
        let place = match visible::line(&finding.path) {
            path if path.is_empty() => path,
            path => format!("{path}: "),
        };
        let (message, code) = (
            visible::line(&finding.message),
            visible::line(&finding.code),
        );
        context
            .output
            .line(format!("{what}: {place}{message} [{code}]"))?;
    }
    Ok(())
}
