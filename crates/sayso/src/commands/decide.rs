//! `sayso approve` and `sayso deny` (S6.4).
//!
//! Approvals named by their ids are decided one by one: each stands for itself, so one that cannot be
//! decided keeps nobody from deciding the next. Calls and tools of a run go in one response, all or
//! nothing. A decision by tool means what the person saw: the run's last sequence number is read
//! *before* the calls that wait, and sent along, so a call that is held in between is shown or not,
//! but never covered (B12).
//!
//! Before it approves, the command shows what would run, exactly, and asks; but only where somebody
//! sits: a script has said what it wants.

use sayso_sdk::v1::decision::Target;
use sayso_sdk::{Client, Error, v1};

use super::{Context, input};
use crate::args::DecideArgs;
use crate::outcome::{Exit, Failure};
use crate::output::{card, failure, style::Tone, visible};

/// Approve or deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Approve,
    Deny,
}

impl Which {
    fn verdict(self) -> v1::Verdict {
        match self {
            Which::Approve => v1::Verdict::Approve,
            Which::Deny => v1::Verdict::Deny,
        }
    }
}

pub(crate) async fn run(
    context: &Context,
    which: Which,
    args: DecideArgs,
) -> Result<Exit, Failure> {
    let single = !args.set.is_empty() || args.digest.is_some();
    if single && (args.ids.len() != 1 || (which == Which::Deny && !args.set.is_empty())) {
        return Err(Failure::usage(
            "--set and --digest go with one approval, and --set with approving it",
            "edit one call: sayso approve APPROVAL --set /amount=50",
        ));
    }
    if args.message.is_some() && args.ids.len() > 1 {
        return Err(Failure::usage(
            "a message goes along with one approval",
            "decide several calls of a run in one response: --run RUN --call CALL --call CALL --message \"…\"",
        ));
    }
    let asks =
        which == Which::Approve && !args.yes && !context.output.json && input::somebody_is_there();
    let client = context.connect().await?;
    match &args.run {
        Some(run) => by_run(context, &client, which, run, &args, asks).await,
        None => by_id(context, &client, which, &args, asks).await,
    }
}

async fn by_id(
    context: &Context,
    client: &Client,
    which: Which,
    args: &DecideArgs,
    asks: bool,
) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    for id in &args.ids {
        match decide_one(context, client, which, id, args, asks).await {
            Ok(true) => {}
            Ok(false) => exit = Exit::Refused,
            Err(Failure::Api(error)) if args.ids.len() > 1 => {
                let failed = Failure::Api(error);
                if !context.output.json {
                    context.output.aside(format!("{}:", visible::line(id)))?;
                }
                failure::say(&context.output, &failed)?;
                let unreachable = matches!(&failed, Failure::Api(error) if error.is_unreachable());
                if unreachable {
                    // Nobody would answer for the rest either.
                    return Err(failed);
                }
                exit = Exit::Refused;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(exit)
}

/// Decides one approval; false if the person did not want to.
async fn decide_one(
    context: &Context,
    client: &Client,
    which: Which,
    id: &str,
    args: &DecideArgs,
    asks: bool,
) -> Result<bool, Failure> {
    let edits: Vec<v1::ArgumentEdit> = args.set.iter().map(edit).collect();
    let mut digest = args.digest.clone().unwrap_or_default();
    if asks {
        let approval = client.get_approval(id).await?;
        if digest.is_empty() {
            digest.clone_from(&approval.digest);
        }
        // What is not pending is refused with the record, which says more than a question.
        let pending = approval.status() == v1::ApprovalStatus::Pending;
        if pending && !agreed(context, &[approval], &edits).await? {
            context.output.aside("not approved; it still waits")?;
            return Ok(false);
        }
    }
    let request = v1::DecideApprovalRequest {
        approval_id: id.to_owned(),
        verdict: which.verdict().into(),
        reason: args.reason.clone().unwrap_or_default(),
        message: args.message.clone().unwrap_or_default(),
        idempotency_key: String::new(),
        edits,
        digest,
    };
    let answer = client.decide_approval(request).await?;
    let output = &context.output;
    if output.json {
        output.message_line(&answer)?;
        return Ok(true);
    }
    let outcome = answer
        .outcome
        .as_ref()
        .ok_or(Error::Incomplete("outcome"))?;
    output.line(card::outcome(outcome, output))?;
    output.aside(format!(
        "the run is {}: sayso runs watch {}",
        answer.run_status().word().replace('_', " "),
        visible::line(&answer.run_id)
    ))?;
    Ok(true)
}

async fn by_run(
    context: &Context,
    client: &Client,
    which: Which,
    run: &str,
    args: &DecideArgs,
    asks: bool,
) -> Result<Exit, Failure> {
    let seen = client.get_run(run).await?.last_sequence;
    if asks {
        let pending = client.pending_approvals(run).await?;
        let meant: Vec<v1::Approval> = pending
            .into_iter()
            .filter(|approval| is_meant(approval, args, seen))
            .collect();
        if !meant.is_empty() && !agreed(context, &meant, &[]).await? {
            context.output.aside("not approved; nothing has changed")?;
            return Ok(Exit::Refused);
        }
    }
    let decision = |target| v1::Decision {
        target: Some(target),
        verdict: which.verdict().into(),
        reason: args.reason.clone().unwrap_or_default(),
        ..v1::Decision::default()
    };
    let calls = args.call.iter().cloned().map(Target::CallId);
    let tools = args.tool.iter().cloned().map(Target::Tool);
    let request = v1::RespondToRunRequest {
        run_id: run.to_owned(),
        decisions: calls.chain(tools).map(decision).collect(),
        message: args.message.clone().unwrap_or_default(),
        seen_sequence: Some(seen),
        idempotency_key: String::new(),
    };
    let answer = client.respond_to_run(request).await?;
    responded(context, run, &answer)?;
    Ok(Exit::Done)
}

fn responded(
    context: &Context,
    run: &str,
    answer: &v1::RespondToRunResponse,
) -> Result<(), Failure> {
    let output = &context.output;
    if output.json {
        output.message(answer)?;
        return Ok(());
    }
    for outcome in &answer.outcomes {
        output.line(card::outcome(outcome, output))?;
    }
    for later in &answer.later_held {
        output.line(format!(
            "{} {}  {} ({}) was held later and is not covered: look at it, then decide it",
            output.style.paint(Tone::Waits, "pending"),
            visible::line(&later.approval_id),
            visible::line(&later.tool),
            visible::line(&later.call_id)
        ))?;
    }
    output.aside(format!(
        "the run is {}: sayso runs watch {}",
        answer.run_status().word().replace('_', " "),
        visible::line(run)
    ))?;
    Ok(())
}

/// Whether a response covers a pending call. A tool may be named as registered or as the model sees
/// it, where what is no letter or digit is `_`.
fn is_meant(approval: &v1::Approval, args: &DecideArgs, seen: u64) -> bool {
    let safe = |name: &str| -> String {
        let chars = name.chars();
        chars
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect()
    };
    args.call.contains(&approval.call_id)
        || (approval.sequence <= seen
            && args
                .tool
                .iter()
                .any(|tool| safe(tool) == safe(&approval.tool)))
}

/// A change as it was typed: a value that is no JSON is taken as a text.
fn edit((pointer, value): &(String, String)) -> v1::ArgumentEdit {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok();
    let value_json = if is_json {
        value.clone()
    } else {
        serde_json::to_string(value).expect("a string has a JSON form")
    };
    v1::ArgumentEdit {
        pointer: pointer.clone(),
        value_json,
    }
}

/// Shows what would run, with these changes, and asks.
async fn agreed(
    context: &Context,
    approvals: &[v1::Approval],
    edits: &[v1::ArgumentEdit],
) -> Result<bool, Failure> {
    for approval in approvals {
        context
            .output
            .aside(card::card(approval, &context.output))?;
    }
    for edit in edits {
        let (pointer, value) = (
            visible::line(&edit.pointer),
            visible::line(&edit.value_json),
        );
        context
            .output
            .aside(format!("changed: {pointer} to {value}"))?;
    }
    let question = match approvals.len() {
        1 => "Approve? [y/N]".to_owned(),
        several => format!("Approve these {several} calls? [y/N]"),
    };
    let answer = input::ask(&question).await?.to_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(call: &[&str], tool: &[&str]) -> DecideArgs {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        DecideArgs {
            ids: Vec::new(),
            run: Some("run_1".into()),
            call: owned(call),
            tool: owned(tool),
            reason: None,
            message: None,
            yes: false,
            set: Vec::new(),
            digest: None,
        }
    }

    /// S6.7: a value is JSON if it is, and a text if not; numbers stay as they are typed.
    #[test]
    fn s6_7_a_value_is_json_or_a_text() {
        for (typed, sent) in [
            ("50", "50"),
            ("0.10000000000000000001", "0.10000000000000000001"),
            ("\"50\"", "\"50\""),
            ("ann@x.example", "\"ann@x.example\""),
            ("[1,", "\"[1,\""),
            ("", "\"\""),
        ] {
            let made = edit(&("/amount".to_owned(), typed.to_owned()));
            assert_eq!(made.value_json, sent, "{typed}");
        }
    }

    /// S6.4, B12: a decision by tool covers what the person saw.
    #[test]
    fn b12_a_tool_covers_what_was_seen() {
        let held = |call: &str, sequence| v1::Approval {
            call_id: call.into(),
            tool: "shop.refund_order".into(),
            sequence,
            ..v1::Approval::default()
        };
        for slug in ["shop.refund_order", "shop_refund_order"] {
            assert!(
                is_meant(&held("call_1_1", 5), &args(&[], &[slug]), 5),
                "{slug}"
            );
            assert!(
                !is_meant(&held("call_2_1", 6), &args(&[], &[slug]), 5),
                "{slug}"
            );
        }
        assert!(!is_meant(
            &held("call_1_1", 5),
            &args(&[], &["shop.refund"]),
            5
        ));
        assert!(is_meant(&held("call_2_1", 6), &args(&["call_2_1"], &[]), 5));
    }
}
