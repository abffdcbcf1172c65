//! The timeline: chain, fold, and what each step may be.

use std::collections::BTreeSet;

use sayso_driver::Written;
use sayso_run::{
    Actor, CallId, DenyCause, Digest, EndedBy, FailureCode, HeldCall, Message, OpenVote, Recorded,
    RunState, Status, Step, Timestamp,
};
use sayso_store::simulated::Run;

use super::{Broken, Checker, Seen};
use crate::world::World;

impl Checker {
    /// Takes in the steps that are new.
    pub(super) fn timeline(&mut self, world: &World, stored: &Run) -> Broken {
        let run = &stored.row.run;
        let mut seen = self.runs.remove(run).unwrap_or_default();
        let from = seen.state.as_ref().map_or(0, RunState::seq);
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let before = seen.state.as_ref().map(RunState::status);
        let mut checked = Ok(());
        for (written, commit) in stored.steps.iter().zip(&stored.commits).skip(from) {
            let recorded = &written.recorded;
            world.kernel.note(format_args!(
                "{run} #{} {} {} by {}",
                recorded.seq,
                recorded.step.kind(),
                about(&recorded.step),
                recorded.actor
            ));
            checked = self.step(&mut seen, written, commit.at, run);
            if checked.is_err() {
                break;
            }
        }
        if checked.is_ok()
            && let Some(state) = &seen.state
        {
            self.coverage.moved(before, state.status());
            checked = well_formed(&state.messages());
        }
        self.runs.insert(run.clone(), seen);
        checked
    }

    fn step(
        &mut self,
        seen: &mut Seen,
        written: &Written,
        committed_at: Timestamp,
        run: &sayso_run::RunId,
    ) -> Broken {
        let recorded = &written.recorded;
        self.chain(seen, written, run)?;
        let before = seen.state.as_ref().map(RunState::status);
        let phases = self.coverage.phases(seen.state.as_ref());
        match &mut seen.state {
            None => {
                let begun = RunState::begin(run.clone(), recorded);
                seen.state = Some(begun.map_err(|corrupt| corrupt.to_string())?);
            }
            Some(state) => state
                .apply(recorded)
                .map_err(|corrupt| corrupt.to_string())?,
        }
        let state = seen.state.as_ref().ok_or("there is no state")?;
        let after = state.status();
        if before.is_some_and(Status::is_terminal) {
            may_follow(before, after, &recorded.step)?;
        }
        self.coverage.step(&recorded.step, state, &phases);
        decisions(seen, recorded, committed_at, self.latest)?;
        requests(seen, recorded)?;
        starts(seen, recorded)?;
        failures(seen, recorded)?;
        last_word(seen, recorded)
    }

    fn chain(&self, seen: &Seen, written: &Written, run: &sayso_run::RunId) -> Broken {
        let recorded = &written.recorded;
        let start = sayso_run::Head::START;
        let head = seen.state.as_ref().map_or(&start, RunState::head);
        let kind = recorded.step.kind();
        let sealed = kind
            .is_sealed()
            .then(|| self.key.seal(run.as_str(), &recorded.hash));
        let holds = recorded.seq == head.seq + 1
            && recorded.at >= head.at
            && recorded.content_sha256 == Digest::of(written.content.as_bytes())
            && recorded.follows(head, kind.version())
            && recorded.seal == sealed;
        if holds {
            Ok(())
        } else {
            Err(format!("the chain breaks at {}", recorded.seq))
        }
    }
}

/// Only a retry leads out of `failed`, and only late results follow an end.
fn may_follow(before: Option<Status>, after: Status, step: &Step) -> Broken {
    match step {
        Step::ToolResult(_) | Step::ChildFinished(_) if before == Some(after) => Ok(()),
        Step::Retried(_) if before == Some(Status::Failed) => Ok(()),
        other => Err(format!("`{}` after the end ({before:?})", other.kind())),
    }
}

/// The first decision is final, comes in time by the database's clock, and is never one's own.
fn decisions(
    seen: &mut Seen,
    recorded: &Recorded,
    committed_at: Timestamp,
    latest: Timestamp,
) -> Broken {
    let Some(state) = &seen.state else {
        return Ok(());
    };
    let (approval, by_time) = match &recorded.step {
        Step::ToolApproved(step) => (&step.approval, false),
        Step::ToolDenied(step) => match (&step.approval, step.cause) {
            (Some(approval), DenyCause::Person) => (approval, false),
            (Some(approval), DenyCause::Timeout) => (approval, true),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    if !seen.decided.insert(approval.clone()) {
        return Err(format!("{approval} is decided a second time"));
    }
    let held = state
        .call_of(approval)
        .and_then(|call| call.approval.as_ref())
        .ok_or_else(|| format!("{approval} is decided and was never asked for"))?;
    if by_time {
        if latest < held.expires_at {
            return Err(format!("{approval} expired before its time"));
        }
        return Ok(());
    }
    if committed_at >= held.expires_at {
        return Err(format!("{approval} is decided after it expired"));
    }
    if recorded.actor == Actor::Principal(state.trigger().principal.clone()) {
        return Err(format!("{approval} is decided by who asked for the run"));
    }
    match &recorded.step {
        Step::ToolApproved(step) => enough(held, &recorded.actor, &step.votes),
        _ => Ok(()),
    }
}

/// Who approved are as many as it takes, each once, and each vote is the one that was sealed (S6.12).
fn enough(held: &HeldCall, last: &Actor, votes: &[OpenVote]) -> Broken {
    let mut voters: BTreeSet<String> = votes
        .iter()
        .map(|vote| Actor::Principal(vote.by.clone()).to_string())
        .collect();
    voters.insert(last.to_string());
    let (came, needed) = (voters.len(), held.quorum.needed() as usize);
    if came < needed || came != votes.len() + 1 {
        return Err(format!("{} is approved by {came} of {needed}", held.id));
    }
    for (cast, vote) in held.votes.iter().zip(votes) {
        let seal = OpenVote::seal(&held.id, &vote.by, vote.reason.as_deref(), &vote.salt);
        if cast.by != vote.by || cast.sealed != seal {
            return Err(format!("{} counts a vote that was not cast", held.id));
        }
    }
    Ok(())
}

/// A request that carries a key is taken once.
fn requests(seen: &mut Seen, recorded: &Recorded) -> Broken {
    let key = match &recorded.step {
        Step::UserMessage(step) => step.idempotency.as_ref(),
        Step::Cancelled(step) => step.idempotency.as_ref(),
        _ => None,
    };
    let Some(key) = key else {
        return Ok(());
    };
    if seen
        .keys
        .insert((recorded.actor.to_string(), key.key.clone()))
    {
        Ok(())
    } else {
        Err(format!("the request `{}` is taken twice", key.key))
    }
}

/// Nothing starts without an allow or an approval, and only what is idempotent starts twice.
fn starts(seen: &mut Seen, recorded: &Recorded) -> Broken {
    let Step::ToolStarted(step) = &recorded.step else {
        return Ok(());
    };
    let (count, idempotent) = seen.starts.entry(step.call.clone()).or_default();
    *count += 1;
    if *count > 1 && !*idempotent {
        return Err(format!("{} is started a second time", step.call));
    }
    *idempotent = step.idempotent;
    let approved = |id| seen.decided.contains(id);
    if step.rule.is_none() && !step.approval.as_ref().is_some_and(approved) {
        return Err(format!("{} is started unapproved", step.call));
    }
    Ok(())
}

/// Tools that were listed once are not unavailable because somebody cannot read the list now.
fn failures(seen: &Seen, recorded: &Recorded) -> Broken {
    let listed = seen.state.as_ref().and_then(RunState::tools).is_some();
    match &recorded.step {
        Step::Failed(step) if listed && step.code.as_str() == FailureCode::TOOLS_UNAVAILABLE => {
            Err(format!(
                "it fails over a list that is stored: {}",
                step.message
            ))
        }
        _ => Ok(()),
    }
}

/// No answer is the last one while the model has not seen everything, and each answer is to a
/// request that was sent (B23).
fn last_word(seen: &mut Seen, recorded: &Recorded) -> Broken {
    match &recorded.step {
        Step::UserMessage(_) | Step::ToolApproved(_) | Step::ToolResult(_) => {
            seen.unseen.insert(recorded.seq);
        }
        Step::AssistantMessage(step) => {
            seen.shown = step.seen;
            let shown = seen.shown;
            seen.unseen.retain(|seq| *seq > shown);
            answers_a_request(seen, step.cycle)?;
            // The next request may be under way before the answer to this one is durable.
            let cycle = step.cycle;
            seen.requests.retain(|(asked, _)| *asked > cycle);
        }
        Step::Completion(step) if step.ended_by == EndedBy::Answer => {
            if let Some(seq) = seen.unseen.first() {
                return Err(format!("it completes, and step {seq} was never shown"));
            }
        }
        _ => {}
    }
    Ok(())
}

fn answers_a_request(seen: &Seen, cycle: u32) -> Broken {
    let Some(state) = &seen.state else {
        return Ok(());
    };
    let now = state.messages();
    let same = seen.requests.iter().any(|(asked, request)| {
        *asked == cycle
            && now.get(..request.len()) == Some(request)
            && matches!(now.get(request.len()), Some(Message::Assistant { .. }))
    });
    if same {
        Ok(())
    } else {
        Err(format!(
            "the answer of cycle {cycle} follows no request that was sent"
        ))
    }
}

/// S4.8: each call has exactly one result, in order, directly after its answer; no other results.
pub(super) fn well_formed(messages: &[Message]) -> Broken {
    let mut open: Vec<&CallId> = Vec::new();
    let mut ids = BTreeSet::new();
    for message in messages {
        match message {
            Message::Results(results) => {
                let answered: Vec<&CallId> = results.iter().map(|result| &result.id).collect();
                if answered != open {
                    return Err(format!("results {answered:?} for calls {open:?}"));
                }
                open.clear();
            }
            Message::User(_) | Message::Assistant { .. } if !open.is_empty() => {
                return Err(format!("calls without results: {open:?}"));
            }
            Message::User(_) => {}
            Message::Assistant { calls, .. } => {
                open = calls.iter().map(|call| &call.id).collect();
                if !open.iter().all(|id| ids.insert(*id)) {
                    return Err("a call id stands twice".into());
                }
            }
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("the last calls have no results: {open:?}"))
    }
}

/// What a step is about, in a word.
fn about(step: &Step) -> String {
    match step {
        Step::ToolCall(step) => format!("{} {} {}", step.call, step.tool, step.args),
        Step::ToolBlocked(step) => step.call.to_string(),
        Step::ToolEdited(step) => format!("{} {}", step.call, step.args),
        Step::VoteCast(step) => step.call.to_string(),
        Step::Escalated(step) => format!("{} to {:?}", step.call, step.to),
        Step::SummaryWritten(step) => step.call.to_string(),
        Step::ToolApproved(step) => step.call.to_string(),
        Step::ToolDenied(step) => format!("{} ({})", step.call, step.cause.as_str()),
        Step::ToolStarted(step) => format!("{} on {}", step.call, step.worker),
        Step::ToolResult(step) => format!("{} {:?}", step.call, step.outcome),
        Step::RepeatLoop(step) => step.call.to_string(),
        Step::AwaitingInput(step) => step.call.to_string(),
        Step::TakenOver(step) => format!("{} at epoch {}", step.worker, step.epoch),
        Step::AssistantMessage(step) => format!("cycle {}", step.cycle),
        Step::Failed(step) => step.code.as_str().to_owned(),
        Step::Completion(step) => format!("{:?}", step.ended_by),
        _ => String::new(),
    }
}
