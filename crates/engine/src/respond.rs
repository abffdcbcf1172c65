//! Carries a response to its run.

use std::sync::{Arc, Mutex, PoisonError};

use sayso_driver::{
    AppendError, Decided, Herald, Journal, LoadError, WriteError, Wrote, write, write_redacted,
};
use sayso_rules::Redaction;
#[cfg(feature = "hooks")]
use sayso_run::hooks::planted;
use sayso_run::{
    Actor, ApprovalId, Ballot, CallId, ChainKey, Decision, Digest, IdempotencyKey, Input,
    Namespace, OpenVote, PrincipalId, Refusal, Response, RunId, RunState, Saying, Step, Target,
    Timestamp, Trust,
};

use crate::ballots::Ballots;

/// A response as it was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The caller's namespace.
    pub namespace: Namespace,
    /// Whether the caller may write into runs that others started.
    pub reaches_all: bool,
    /// The run that it is for.
    pub run: RunId,
    /// What the caller says.
    pub response: Response,
    /// How far the caller is trusted: a message alone lowers a run to that (S5.7).
    pub trust: Trust,
    /// What readers of an edit are not shown; none if nothing is edited.
    pub redaction: Option<Arc<Redaction>>,
}

/// What came of it.
#[derive(Debug)]
pub struct Answered {
    /// What was written.
    pub wrote: Wrote,
    /// The calls that were named, in call order.
    pub decided: Vec<CallId>,
    /// Pending calls of a tool named that were held later than what the person saw.
    pub later: Vec<CallId>,
}

/// How often the ballot is read again because others vote meanwhile: each time one of them did.
const MAX_BALLOTS: u32 = 64;

/// Takes decisions and message into the run. If the approval expires while this is under way the
/// expiry is recorded and the response refused (S6.8). `salt` is random.
///
/// Where it takes several people, or members of a group, what a vote needs is read first (S6.12); all
/// other decisions are taken without.
///
/// # Errors
///
/// The run's refusal, or that the journal could not be read or written; nothing is half done.
pub async fn respond<J: Journal, H: Herald, B: Ballots>(
    journal: &J,
    herald: &H,
    ballots: &B,
    key: &ChainKey,
    asked: Asked,
    salt: &str,
) -> Result<Answered, WriteError> {
    let mut asked = asked;
    let mut kept: Vec<ApprovalId> = Vec::new();
    let mut read = false;
    for _ in 0..MAX_BALLOTS {
        let need = Mutex::new(None);
        let taken = take(journal, herald, key, &asked, (read, &kept, &need)).await;
        let need = need.into_inner().unwrap_or_else(PoisonError::into_inner);
        let away = |error: B::Error| LoadError::Unavailable(error.to_string());
        match (taken, need) {
            (Err(WriteError::Refused(_)), Some(Need::Ballot(approvals))) => {
                let fresh = ballot(ballots, &asked, &approvals, salt).await;
                asked.response.ballot = fresh.map_err(away)?;
                read = true;
            }
            (Err(WriteError::Refused(_)), Some(Need::Words(votes))) => {
                for (approval, reason) in votes {
                    let vote = OpenVote {
                        by: asked.response.by.clone(),
                        reason,
                        salt: salt.to_owned(),
                        at: journal.now(),
                    };
                    ballots.keep(&approval, &vote).await.map_err(away)?;
                    kept.push(approval);
                }
            }
            (taken, _) => return taken,
        }
    }
    Err(WriteError::Append(AppendError::Conflict(asked.run)))
}

/// What has to be done before a response can be taken.
enum Need {
    /// What votes on these approvals need has to be read: it is not, or others have voted since.
    Ballot(Vec<ApprovalId>),
    /// These words have to be kept: their votes are about to be cast.
    Words(Vec<(ApprovalId, Option<String>)>),
}

/// What a response needs to be taken as votes.
async fn ballot<B: Ballots>(
    ballots: &B,
    asked: &Asked,
    approvals: &[ApprovalId],
    salt: &str,
) -> Result<Ballot, B::Error> {
    let groups = ballots.groups(&asked.namespace, &asked.response.by).await?;
    let mut votes = Vec::new();
    for approval in approvals {
        let said = ballots.said(approval).await?.into_iter();
        votes.extend(said.map(|vote| (approval.clone(), vote)));
    }
    Ok(Ballot {
        groups,
        salt: salt.to_owned(),
        votes,
    })
}

/// Takes a response with the ballot that is there, or says what it needs first.
async fn take<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    asked: &Asked,
    (read, kept, needed): (bool, &[ApprovalId], &Mutex<Option<Need>>),
) -> Result<Answered, WriteError> {
    let Asked {
        namespace,
        reaches_all,
        run,
        response,
        trust,
        redaction,
    } = asked;
    let redaction = redaction.as_deref();
    let reaches_all = *reaches_all;
    let decide = |state: &RunState, now: Timestamp| {
        check_reach(state, namespace, reaches_all, response)?;
        let votes = state.votes_of(response);
        let need = |need: Need| {
            let mut needed = needed.lock().unwrap_or_else(PoisonError::into_inner);
            *needed = Some(need);
            Refusal::Stale("what votes need has to be there first")
        };
        let ballot = || Need::Ballot(votes.iter().map(|(approval, _)| approval.clone()).collect());
        let not_after = state.decides_before(response);
        #[cfg(feature = "hooks")]
        let not_after = not_after.filter(|_| !planted(sayso_run::hooks::Fault::ExpiryByLocalClock));
        let steps = match state.decide(input(response, *trust), now) {
            // Without a ballot nobody is in a group, and no vote can be opened.
            Ok(_) | Err(Refusal::NotInGroup(_) | Refusal::BrokenVote(_))
                if !read && !votes.is_empty() =>
            {
                return Err(need(ballot()));
            }
            // Whoever voted since the ballot was read said something that is not in it.
            Err(Refusal::BrokenVote(approval)) if has_moved(state, &approval, response) => {
                return Err(need(ballot()));
            }
            steps => steps?,
        };
        let unkept = unkept(&steps, &votes, kept);
        if !unkept.is_empty() {
            return Err(need(Need::Words(unkept)));
        }
        Ok(Decided { steps, not_after })
    };
    let written = async || match redaction {
        Some(redaction) => write_redacted(journal, herald, key, run, redaction, decide).await,
        None => write(journal, herald, key, run, decide).await,
    };
    let wrote = match written().await {
        Err(WriteError::Append(AppendError::TooLate)) => {
            expire(journal, herald, key, run).await?;
            written().await
        }
        other => other,
    };
    let wrote = wrote.map_err(|error| hide_foreign(error, run))?;
    let decided = decided(&wrote, response);
    let later = later(&wrote.state, response);
    Ok(Answered {
        decided,
        later,
        wrote,
    })
}

/// A message alone carries the trust of whoever wrote it.
fn input(response: &Response, trust: Trust) -> Input {
    match &response.message {
        Some(text) if response.decisions.is_empty() => Input::Say(Saying {
            by: response.by.clone(),
            text: text.clone(),
            trust,
            outside: None,
            idempotency: response.idempotency.clone(),
        }),
        Some(_) | None => Input::Respond(response.clone()),
    }
}

/// What is said with votes that are about to be cast, and is not kept yet.
fn unkept(
    steps: &[(Actor, Step)],
    votes: &[(ApprovalId, Decision)],
    kept: &[ApprovalId],
) -> Vec<(ApprovalId, Option<String>)> {
    let cast = steps.iter().filter_map(|(_, step)| match step {
        Step::VoteCast(vote) if !kept.contains(&vote.approval) => Some(&vote.approval),
        _ => None,
    });
    let said = cast.filter_map(|approval| votes.iter().find(|(of, _)| of == approval));
    said.map(|(approval, decision)| (approval.clone(), decision.reason.clone()))
        .collect()
}

/// Whether a vote is on the timeline of whose voter nothing was said when the ballot was read.
fn has_moved(state: &RunState, approval: &ApprovalId, response: &Response) -> bool {
    let held = state.held().filter_map(|call| call.approval.as_ref());
    let cast = held
        .filter(|held| held.id == *approval)
        .flat_map(|held| &held.votes);
    let known = |voter: &PrincipalId| {
        let mut said = response.ballot.votes.iter();
        said.any(|(of, vote)| of == approval && vote.by == *voter)
    };
    cast.into_iter().any(|vote| !known(&vote.by))
}

/// Records what has expired by the database's clock.
async fn expire<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    run: &RunId,
) -> Result<(), WriteError> {
    journal.catch_up().await?;
    let tick = |state: &RunState, now: Timestamp| {
        Ok(Decided {
            steps: state.decide(Input::Tick, now)?,
            not_after: None,
        })
    };
    write(journal, herald, key, run, tick).await.map(|_| ())
}

/// A run of another namespace is as good as none (S6.11, B43). A plain message needs a run that the
/// caller may write to; whoever may decide, may decide any run's calls but their own.
pub fn check_reach(
    state: &RunState,
    namespace: &Namespace,
    reaches_all: bool,
    response: &Response,
) -> Result<(), Refusal> {
    let trigger = state.trigger();
    let only_writes = response.decisions.is_empty();
    let reaches = !only_writes || reaches_all || trigger.principal == response.by;
    if trigger.namespace == *namespace && reaches {
        Ok(())
    } else {
        Err(Refusal::UnknownTarget(state.run().to_string()))
    }
}

fn hide_foreign(error: WriteError, run: &RunId) -> WriteError {
    match error {
        WriteError::Refused(Refusal::UnknownTarget(target)) if target == run.as_str() => {
            WriteError::NotFound(run.clone())
        }
        other => other,
    }
}

/// The calls that the response has decided, now or before, in call order. Those named by their tool
/// are known from the steps alone: once decided they are not pending any more.
fn decided(wrote: &Wrote, response: &Response) -> Vec<CallId> {
    let mut decided = wrote.state.decided_calls(response);
    decided.extend(
        wrote
            .steps
            .iter()
            .filter_map(|written| match &written.recorded.step {
                Step::VoteCast(vote) => Some(vote.call.clone()),
                Step::ToolApproved(approved) => Some(approved.call.clone()),
                Step::ToolDenied(denied) => Some(denied.call.clone()),
                _ => None,
            }),
    );
    let calls = wrote.state.calls().iter().map(|call| call.id.clone());
    calls.filter(|call| decided.contains(call)).collect()
}

fn later(state: &RunState, response: &Response) -> Vec<CallId> {
    let Some(seen) = response.seen else {
        return Vec::new();
    };
    let mut later: Vec<CallId> = response
        .decisions
        .iter()
        .filter_map(|item| match &item.target {
            Target::Tool(tool) => Some(state.held_later(tool, seen)),
            Target::Approval(_) | Target::Call(_) => None,
        })
        .flatten()
        .collect();
    later.sort();
    later.dedup();
    later
}

/// The idempotency key of a response, bound to its content; `edits` is what it changes, as text.
pub fn idempotency(
    key: String,
    run: &RunId,
    response: &Response,
    edits: &str,
) -> Option<IdempotencyKey> {
    if key.is_empty() {
        return None;
    }
    let request = Digest::of(
        format!(
            "respond {run} {:?} {:?}{edits}",
            response.decisions, response.message
        )
        .as_bytes(),
    );
    Some(IdempotencyKey { key, request })
}
