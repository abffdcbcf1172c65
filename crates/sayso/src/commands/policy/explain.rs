//! `sayso policy explain`: why a call is judged as it is.

use sayso_policy::explain::{Imagined, imagined};
use sayso_rules::Trust;
use sayso_rules::judge::Hints;
use sayso_rules::trace::Annotations;
use sayso_sdk::v1::explain_call_request::Call;
use sayso_sdk::{Coded, Kind, v1};
use sayso_wire::code;
use serde_json::value::RawValue;

use super::{bundle, tone};
use crate::args::ExplainArgs;
use crate::commands::Context;
use crate::outcome::{Exit, Failure};
use crate::output::style::Tone;
use crate::output::visible;

pub(super) async fn run(context: &Context, args: ExplainArgs) -> Result<Exit, Failure> {
    let answer = answer(context, args).await?;
    if context.output.json {
        context.output.message(&answer)?;
    } else {
        print(context, &answer)?;
    }
    Ok(Exit::Done)
}

async fn answer(context: &Context, args: ExplainArgs) -> Result<v1::ExplainCallResponse, Failure> {
    if let (Some(run_id), Some(call_id)) = (args.run, args.call) {
        let recorded = Call::Recorded(v1::RecordedCall { run_id, call_id });
        return ask(context, recorded).await;
    }
    let hints = annotations(args.annotations.as_deref())?;
    let args_json = args.args.unwrap_or_else(|| "{}".to_owned());
    if let Err(error) = serde_json::from_str::<&RawValue>(&args_json) {
        return Err(no_json("ARGS", &error));
    }
    let tool = args.tool.unwrap_or_default();
    let trust = args.trust.unwrap_or(v1::Trust::Trusted);
    let Some(file) = &args.bundle else {
        let imagined = v1::ImaginedCall {
            bundle: args.agent.map(v1::imagined_call::Bundle::Agent),
            revision_id: args.revision.unwrap_or_default(),
            tool,
            args_json,
            prompt: args.prompt,
            own_addresses: args.own,
            trust: trust.into(),
            secret_read: args.secret_read,
            annotations: Some(v1::ToolAnnotations {
                read_only_hint: hints.read_only,
                destructive_hint: hints.destructive,
                open_world_hint: hints.open_world,
            }),
        };
        return ask(context, Call::Imagined(imagined)).await;
    };
    let call = Imagined {
        tool: &tool,
        args: &args_json,
        prompt: &args.prompt,
        own_addresses: &args.own,
        trust: match trust {
            v1::Trust::Untrusted => Trust::Untrusted,
            v1::Trust::Unspecified | v1::Trust::Trusted => Trust::Trusted,
            v1::Trust::Operator => Trust::Operator,
        },
        secret_read: args.secret_read,
        hints,
    };
    Ok(imagined(&bundle(file)?, &call))
}

async fn ask(context: &Context, call: Call) -> Result<v1::ExplainCallResponse, Failure> {
    let request = v1::ExplainCallRequest { call: Some(call) };
    Ok(context.connect().await?.explain_call(request).await?)
}

fn annotations(given: Option<&str>) -> Result<Hints, Failure> {
    let Some(text) = given else {
        return Ok(Hints::default());
    };
    let said: Annotations =
        serde_json::from_str(text).map_err(|error| no_json("--annotations", &error))?;
    Ok(Hints {
        read_only: said.read_only_hint,
        destructive: said.destructive_hint,
        open_world: said.open_world_hint,
    })
}

fn no_json(what: &str, error: &serde_json::Error) -> Failure {
    let message = format!("{what} cannot be read: {error}");
    let coded = Coded::new(Kind::Invalid, code::POLICY_BAD_ARGUMENTS, message);
    Failure::Given(coded)
}

fn print(context: &Context, answer: &v1::ExplainCallResponse) -> Result<(), Failure> {
    let output = &context.output;
    let paint = |action: v1::PolicyAction| output.style.paint(tone(action), action.word());
    output.line(format!(
        "{} of {}: {} ({})",
        paint(answer.action()),
        visible::line(&answer.tool),
        visible::line(&answer.reason),
        visible::line(&answer.rule)
    ))?;
    let offered = match answer.offered {
        true => "a model is offered it",
        false => "no model is offered it",
    };
    let lowers = match answer.untrusted_output {
        true => "its result lowers the run's trust",
        false => "its result lowers no trust",
    };
    output.line(format!(
        "  the run is {}; the tool's effect is {}; {lowers}; {offered}",
        answer.trust().word(),
        visible::line(&answer.effect)
    ))?;
    if let Some(role) = &answer.role {
        let permits = match answer.role_permits {
            true => "permits it",
            false => "does not permit it",
        };
        output.line(format!("  the role {} {permits}", visible::line(role)))?;
    }
    output.line("voices, the strictest counts:")?;
    for voice in &answer.voices {
        let (action, rule) = (voice.action(), visible::line(&voice.rule));
        output.line(format!(
            "  {} {rule}: {}",
            paint(action),
            visible::line(&voice.reason)
        ))?;
    }
    if !answer.rules.is_empty() {
        output.line("rules that speak of it, in the order in which they are judged:")?;
    }
    for rule in &answer.rules {
        let holds = match rule.holds {
            true => output.style.paint(Tone::Strong, "holds"),
            false => output.style.paint(Tone::Faint, "does not hold"),
        };
        output.line(format!(
            "  {} {}: {holds}, {}",
            visible::line(&rule.rule),
            rule.action().word(),
            visible::line(&rule.why)
        ))?;
        for (at, alternative) in rule.alternatives.iter().enumerate() {
            let lifts = match alternative.lifts {
                true => "lifts it",
                false => "does not lift it",
            };
            output.line(format!(
                "    alternative {} {lifts}: {}",
                at + 1,
                visible::line(&alternative.why)
            ))?;
        }
    }
    Ok(())
}
