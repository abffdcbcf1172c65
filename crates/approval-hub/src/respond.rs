//! Carries a response to its run.

use sayso_driver::{AppendError, Decided, Herald, Journal, WriteError, Wrote, write};
#[cfg(feature = "hooks")]
use sayso_run::hooks::planted;
use sayso_run::{
    CallId, ChainKey, Digest, IdempotencyKey, Input, Namespace, Refusal, Response, RunId, RunState,
    Step, Target, Timestamp,
};

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

/// Takes decisions and message into the run. If the approval expires while this is under way the
/// expiry is recorded and the response refused (S6.8).
///
/// # Errors
///
/// The run's refusal, or that the journal could not be read or written; nothing is half done.
pub async fn respond<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    asked: Asked,
) -> Result<Answered, WriteError> {
    let Asked {
        namespace,
        reaches_all,
        run,
        response,
    } = asked;
    let decide = |state: &RunState, now: Timestamp| {
        check_reach(state, &namespace, reaches_all, &response)?;
        let not_after = state.decides_before(&response);
        #[cfg(feature = "hooks")]
        let not_after = not_after.filter(|_| !planted(sayso_run::hooks::Fault::ExpiryByLocalClock));
        let steps = state.decide(Input::Respond(response.clone()), now)?;
        Ok(Decided { steps, not_after })
    };
    let written = write(journal, herald, key, &run, decide).await;
    let wrote = match written {
        Err(WriteError::Append(AppendError::TooLate)) => {
            expire(journal, herald, key, &run).await?;
            write(journal, herald, key, &run, decide).await
        }
        other => other,
    };
    let wrote = wrote.map_err(|error| hide_foreign(error, &run))?;
    let decided = decided(&wrote, &response);
    let later = later(&wrote.state, &response);
    Ok(Answered {
        decided,
        later,
        wrote,
    })
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
fn check_reach(
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

/// The idempotency key of a response, bound to its content.
pub(crate) fn idempotency(key: String, run: &RunId, response: &Response) -> Option<IdempotencyKey> {
    if key.is_empty() {
        return None;
    }
    let request = Digest::of(
        format!(
            "respond {run} {:?} {:?}",
            response.decisions, response.message
        )
        .as_bytes(),
    );
    Some(IdempotencyKey { key, request })
}
