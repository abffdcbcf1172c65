//! `sayso deploy`: an agent from its bundle.

use sayso_sdk::v1::{BundleChange, BundleFinding, DeployAgentResponse, ValidateAgentResponse};

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
    let before = &answer.replaced_revision_id;
    changes(context, before, &answer.changes, answer.omitted_changes)?;
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
            let before = &answer.current_revision_id;
            changes(context, before, &answer.changes, answer.omitted_changes)?;
        }
    }
    Ok(if sound { Exit::Done } else { Exit::Refused })
}

/// What a revision says otherwise than the one before it.
fn changes(
    context: &Context,
    before: &str,
    changes: &[BundleChange],
    omitted: u32,
) -> Result<(), Failure> {
    let output = &context.output;
    if before.is_empty() {
        return Ok(());
    }
    let before = run::short(before);
    if changes.is_empty() {
        output.line(format!("nothing changes against revision {before}"))?;
        return Ok(());
    }
    output.line(format!("against revision {before}:"))?;
    for change in changes {
        let place = format!(
            "{:<12} {}",
            change.area().word(),
            visible::line(&change.path)
        );
        let value = |json: &str| visible::cut_block(json, VALUE_BYTES).replace('\n', " ");
        let (sign, tone, told) = match (&*change.before_json, &*change.after_json) {
            ("", after) => ("+", Tone::Good, value(after)),
            (before, "") => ("-", Tone::Bad, value(before)),
            (before, after) => (
                "~",
                Tone::Waits,
                format!("{} → {}", value(before), value(after)),
            ),
        };
        let sign = output.style.paint(tone, sign);
        output.line(format!("  {sign} {place}  {told}"))?;
    }
    if omitted > 0 {
        output.line(format!("  and {omitted} more changes"))?;
    }
    Ok(())
}

/// How much of a value is shown; `--json` has all of it.
const VALUE_BYTES: usize = 300;

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
