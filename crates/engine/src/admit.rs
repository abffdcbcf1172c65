//! Starts, cancels and retries.

use sayso_driver::{
    Conversations, Decided, Herald, Journal, StartOutcome, TakenTick, WriteError, Wrote, start,
    start_at, write,
};
use sayso_run::{
    AgentName, ChainKey, Digest, IdempotencyKey, Input, Namespace, PrincipalId, Refusal,
    RevisionId, RunId, RunState, Source, Start, TaskId, Tick, Timestamp, TriggerReceived, Trust,
};
use uuid::Uuid;

/// A start as it was asked for.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The id that the run gets, and that of its task.
    pub ids: (RunId, TaskId),
    /// The caller's namespace.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// Its revision now.
    pub revision: RevisionId,
    /// Who asks, or stands behind what does.
    pub principal: PrincipalId,
    /// How far the origin is trusted.
    pub trust: Trust,
    /// What is asked.
    pub input: String,
    /// What makes it start.
    pub origin: StartOrigin,
    /// The caller's key.
    pub idempotency_key: Option<String>,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

/// What makes a run start.
#[derive(Debug, Clone, Default)]
pub enum StartOrigin {
    /// Somebody asks for it.
    #[default]
    Asked,
    /// A call of this webhook.
    Webhook(String),
    /// A schedule, as in `30 2 * * * Europe/Berlin`, and its tick.
    Schedule(String, TakenTick),
}

/// Who asks for a change of a run, and how far they reach.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Their namespace.
    pub namespace: Namespace,
    /// Who they are.
    pub principal: PrincipalId,
    /// Whether they may act on runs that others started.
    pub reaches_all: bool,
}

/// Ids for a new run and its task.
pub fn new_ids() -> (RunId, TaskId) {
    let run =
        RunId::new(format!("run_{}", Uuid::now_v7().simple())).expect("a UUID makes a valid id");
    let task =
        TaskId::new(format!("task_{}", Uuid::now_v7().simple())).expect("a UUID makes a valid id");
    (run, task)
}

/// Stores a run as `pending`; a worker is woken for it (S1.1). The run of a tick is stored only if the
/// schedule still stands at it.
///
/// # Errors
///
/// As [`sayso_driver::start()`] and [`start_at()`].
pub async fn admit<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    new: NewRun,
) -> Result<StartOutcome, WriteError> {
    let (run, task) = new.ids;
    let idempotency = new.idempotency_key.map(|key| IdempotencyKey {
        key,
        request: Digest::of_parts(&[
            b"start",
            new.agent.as_str().as_bytes(),
            new.input.as_bytes(),
        ]),
    });
    let (source, trigger, new_tick) = match new.origin {
        StartOrigin::Asked => (Source::Start, None, None),
        StartOrigin::Webhook(name) => (Source::Webhook, Some(name), None),
        StartOrigin::Schedule(times, tick) => (Source::Cron, Some(times), Some(tick)),
    };
    let tick = new_tick.as_ref().map(|taken| Tick {
        due_at: taken.due_at,
        skipped: taken.skipped,
    });
    let trigger = TriggerReceived {
        task,
        namespace: new.namespace,
        agent: new.agent,
        revision: new.revision,
        source,
        input: new.input,
        principal: new.principal,
        trust: new.trust,
        trigger,
        tick,
        idempotency,
        traceparent: new.traceparent,
        parent: None,
        conversation: None,
    };
    let new = Start { run, trigger };
    match new_tick {
        None => start(journal, herald, key, new).await,
        Some(tick) => start_at(journal, herald, key, new, tick).await,
    }
}

/// Cancels a run, and then every live run below it (S1.4). What is not reached now, since the
/// database goes away, is found by the sweep.
///
/// # Errors
///
/// As [`sayso_driver::write()`].
pub async fn cancel<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
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
    let wrote = change(journal, herald, key, &asker, run, || Input::Cancel {
        by: asker.principal.clone(),
        reason: reason.clone(),
        idempotency: idempotency.clone(),
    })
    .await?;
    cancel_below(journal, herald, key, &asker, run, reason.as_deref()).await;
    Ok(wrote)
}

async fn cancel_below<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    asker: &Asker,
    root: &RunId,
    reason: Option<&str>,
) {
    let mut above = vec![root.clone()];
    while let Some(parent) = above.pop() {
        let children = match journal.live_children(&parent).await {
            Ok(children) => children,
            Err(error) => {
                tracing::warn!(run = %parent, %error, "its children are cancelled later");
                continue;
            }
        };
        for child in children {
            let input = || Input::Cancel {
                by: asker.principal.clone(),
                reason: reason.map(str::to_owned),
                idempotency: None,
            };
            match change(journal, herald, key, asker, &child, input).await {
                // It may have ended by itself meanwhile.
                Ok(_) | Err(WriteError::Refused(_)) => {}
                Err(error) => tracing::warn!(run = %child, %error, "it is cancelled later"),
            }
            above.push(child);
        }
    }
}

/// Retries a failed run by hand (S1.5).
///
/// # Errors
///
/// As [`sayso_driver::retry()`].
pub async fn retry<J: Conversations, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    asker: Asker,
    run: &RunId,
) -> Result<Wrote, WriteError> {
    let decide = |state: &RunState, now: Timestamp| {
        check_reach(state, &asker)?;
        let retry = Input::Retry {
            by: asker.principal.clone(),
        };
        Ok(Decided {
            steps: state.decide(retry, now)?,
            not_after: None,
        })
    };
    let retried = sayso_driver::retry(journal, herald, key, run, decide).await;
    retried.map_err(|error| hide_foreign(error, run))
}

async fn change<J: Journal, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
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
    let written = write(journal, herald, key, run, decide).await;
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
