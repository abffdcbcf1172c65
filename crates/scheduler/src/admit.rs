//! Starts, cancels and retries.

use sayso_driver::{Decided, StartOutcome, TakenTick, WriteError, Wrote, start, start_at, write};
use sayso_run::{
    AgentName, Digest, IdempotencyKey, Input, Namespace, PrincipalId, Refusal, RevisionId, RunId,
    RunState, Source, Start, TaskId, Tick, Timestamp, TriggerReceived, Trust,
};
use uuid::Uuid;

use crate::Scheduler;

/// A start as it was asked for.
#[derive(Debug)]
pub(crate) struct NewRun {
    pub(crate) namespace: Namespace,
    pub(crate) agent: AgentName,
    pub(crate) revision: RevisionId,
    pub(crate) principal: PrincipalId,
    pub(crate) trust: Trust,
    pub(crate) input: String,
    pub(crate) started: Started,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) traceparent: Option<String>,
}

/// What makes a run start.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) source: Source,
    /// The webhook, or the schedule.
    pub(crate) trigger: Option<String>,
    pub(crate) tick: Option<Tick>,
}

/// Who asks for a change of a run, and how far they reach.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) namespace: Namespace,
    pub(crate) principal: PrincipalId,
    /// Whether they may act on runs that others started.
    pub(crate) reaches_all: bool,
}

/// Stores a run as `pending`; a worker is woken for it (S1.1). With a tick the run is stored only if
/// its schedule still stands at it.
pub(crate) async fn admit(
    scheduler: &Scheduler,
    new: NewRun,
    tick: Option<TakenTick>,
) -> Result<StartOutcome, WriteError> {
    let run =
        RunId::new(format!("run_{}", Uuid::now_v7().simple())).expect("a UUID makes a valid id");
    let task =
        TaskId::new(format!("task_{}", Uuid::now_v7().simple())).expect("a UUID makes a valid id");
    let idempotency = new.idempotency_key.map(|key| IdempotencyKey {
        key,
        request: Digest::of_parts(&[
            b"start",
            new.agent.as_str().as_bytes(),
            new.input.as_bytes(),
        ]),
    });
    let trigger = TriggerReceived {
        task,
        namespace: new.namespace,
        agent: new.agent,
        revision: new.revision,
        source: new.started.source,
        input: new.input,
        principal: new.principal,
        trust: new.trust,
        trigger: new.started.trigger,
        tick: new.started.tick,
        idempotency,
        traceparent: new.traceparent,
    };
    let (store, herald, key) = (&scheduler.store, &*scheduler.herald, &scheduler.key);
    let new = Start { run, trigger };
    match tick {
        None => start(store, herald, key, new).await,
        Some(tick) => start_at(store, herald, key, new, tick).await,
    }
}

/// Cancels a run (S1.4).
pub(crate) async fn cancel(
    scheduler: &Scheduler,
    asker: Asker,
    run: &RunId,
    reason: Option<String>,
    idempotency_key: Option<String>,
) -> Result<Wrote, WriteError> {
    let idempotency = idempotency_key.map(|key| IdempotencyKey {
        key,
        request: Digest::of_parts(&[
            b"cancel",
            run.as_str().as_bytes(),
            reason.as_deref().unwrap_or_default().as_bytes(),
        ]),
    });
    change(scheduler, &asker, run, || Input::Cancel {
        by: asker.principal.clone(),
        reason: reason.clone(),
        idempotency: idempotency.clone(),
    })
    .await
}

/// Retries a failed run by hand (S1.5).
pub(crate) async fn retry(
    scheduler: &Scheduler,
    asker: Asker,
    run: &RunId,
) -> Result<Wrote, WriteError> {
    change(scheduler, &asker, run, || Input::Retry {
        by: asker.principal.clone(),
    })
    .await
}

async fn change(
    scheduler: &Scheduler,
    asker: &Asker,
    run: &RunId,
    input: impl Fn() -> Input + Send + Sync,
) -> Result<Wrote, WriteError> {
    let decide = |state: &RunState, now: Timestamp| {
        check_reach(state, asker)?;
        Ok(Decided {
            steps: state.decide(input(), now)?,
            not_after: None,
        })
    };
    let written = write(
        &scheduler.store,
        &*scheduler.herald,
        &scheduler.key,
        run,
        decide,
    )
    .await;
    written.map_err(|error| hide_foreign(error, run))
}

/// A run of another namespace, or of another person where the asker may act on their own only, is
/// as good as none (S6.11).
fn check_reach(state: &RunState, asker: &Asker) -> Result<(), Refusal> {
    let trigger = state.trigger();
    let own = asker.reaches_all || trigger.principal == asker.principal;
    if trigger.namespace == asker.namespace && own {
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
