//! Carries a response to its run.

use sayso_driver::{AppendError, Decided, WriteError, Wrote, write};
use sayso_run::{
    CallId, Digest, IdempotencyKey, Input, Namespace, Refusal, Response, RunId, RunState, Step,
    Target, Timestamp,
};

use crate::ApprovalHub;

/// A response as it was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) namespace: Namespace,
    /// Whether the caller may write into runs that others started.
    pub(crate) reaches_all: bool,
    pub(crate) run: RunId,
    pub(crate) response: Response,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) wrote: Wrote,
    /// The calls that were named, in call order.
    pub(crate) decided: Vec<CallId>,
    /// Pending calls of a tool named that were held later than what the person saw.
    pub(crate) later: Vec<CallId>,
}

/// Takes decisions and message into the run. If the approval expires while this is under way the
/// expiry is recorded and the response refused (S6.8).
pub(crate) async fn respond(hub: &ApprovalHub, asked: Asked) -> Result<Answered, WriteError> {
    let Asked {
        namespace,
        reaches_all,
        run,
        response,
    } = asked;
    let decide = |state: &RunState, now: Timestamp| {
        check_reach(state, &namespace, reaches_all, &response)?;
        let not_after = state.decides_before(&response);
        let steps = state.decide(Input::Respond(response.clone()), now)?;
        Ok(Decided { steps, not_after })
    };
    let written = write(&hub.store, &*hub.herald, &hub.key, &run, decide).await;
    let wrote = match written {
        Err(WriteError::Append(AppendError::TooLate)) => {
            expire(hub, &run).await?;
            write(&hub.store, &*hub.herald, &hub.key, &run, decide).await
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
async fn expire(hub: &ApprovalHub, run: &RunId) -> Result<(), WriteError> {
    hub.store
        .sync_clock()
        .await
        .map_err(|error| WriteError::Append(AppendError::Unavailable(error.to_string())))?;
    let tick = |state: &RunState, now: Timestamp| {
        Ok(Decided {
            steps: state.decide(Input::Tick, now)?,
            not_after: None,
        })
    };
    write(&hub.store, &*hub.herald, &hub.key, run, tick)
        .await
        .map(|_| ())
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
