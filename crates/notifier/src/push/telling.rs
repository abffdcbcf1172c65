//! What one receiver is told, and what came of it.

use reqwest::Url;
use sayso_driver::{Journal, RunRow};
use sayso_store::{DatabaseError, LogLevel, NewLogEntry, Push, Told};
use sayso_wire::a2a::v1::stream_response::Payload;
use sayso_wire::a2a::{self, FileArtifact, TELLING, TaskFacts, v1};
use sayso_wire::json::to_json;
use sayso_wire::step::StepView;
use sayso_wire::v1::RunStep;

use super::receiver::{is_hidden, send};
use crate::Notifier;
use crate::plan::{RETRIES, next_try};
use crate::post::Answer;

/// Tells a claimed push's receiver of its task, if there is something to tell, and records what came
/// of it.
pub(super) async fn tell(
    notifier: &Notifier,
    push: &Push,
    holder: &str,
) -> Result<(), DatabaseError> {
    let runs = notifier.store.runs();
    let Some(row) = runs.get(&push.namespace, &push.run).await? else {
        return fail(notifier, push, holder, "the task is gone").await;
    };
    let steps = runs.steps_of(&push.namespace, &push.run, &TELLING).await?;
    let steps: Vec<RunStep> = steps
        .iter()
        .map(|step| {
            RunStep::from(StepView {
                seq: step.seq,
                at: step.at,
                actor: &step.actor,
                kind: &step.kind,
                version: step.version,
                content: step.shown(),
                content_sha256: &step.content_sha256,
                hash: &step.hash,
                seal: step.seal.as_ref(),
            })
        })
        .collect();
    let state = a2a::state(row.status, row.seq);
    let told = Told::UpTo {
        seq: row.seq,
        status: row.status,
        last: a2a::is_over(state),
    };
    if state == a2a::state(push.told_status, push.told_seq) && !waits_anew(push, &steps) {
        return record(notifier, push, holder, &told).await;
    }
    let url = Url::parse(&push.target.url).ok();
    let Some(url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
        return fail(
            notifier,
            push,
            holder,
            "its URL is not an http or https URL",
        )
        .await;
    };
    if is_hidden(&url) && !notifier.config.private_receivers {
        return fail(notifier, push, holder, "its address is not a public one").await;
    }
    let place = url.origin().ascii_serialization();
    let body = body(notifier, &row, &steps).await?;
    let id = format!("{}:{}:{}", push.run, push.id, row.seq);
    let answer = send(&notifier.push_client, url, &push.target, id, body).await;
    match answer {
        Answer::Taken => record(notifier, push, holder, &told).await,
        Answer::Refused { why } => {
            let why = format!("{place} refused it: {why}");
            fail(notifier, push, holder, &why).await
        }
        Answer::Failed { why, wait } => {
            let failed = push.attempts + 1;
            let id = format!("{}:{}", push.run, push.id);
            let Some(delay) = next_try(&id, failed, wait) else {
                let why = format!("{place} did not take it: {why}; after {failed} tries");
                return fail(notifier, push, holder, &why).await;
            };
            let error = format!(
                "{place} did not take it: {why}; that was try {failed} of {}, the next one is in \
                 about {} s",
                RETRIES.len() + 1,
                delay.as_secs()
            );
            log(notifier, push, LogLevel::Warning, "notify.retrying", &error).await?;
            let due_at = notifier.store.now().plus(delay);
            record(notifier, push, holder, &Told::Again { due_at, error }).await
        }
    }
}

/// Whether the run began to wait again since its receiver was told, even if it waited then too.
fn waits_anew(push: &Push, steps: &[RunStep]) -> bool {
    let waits =
        |step: &&RunStep| matches!(step.r#type.as_str(), "awaiting_input" | "awaiting_approval");
    let last = steps.iter().rev().find(waits);
    last.is_some_and(|step| step.sequence > push.told_seq)
}

/// The whole task, as a stream would begin.
async fn body(
    notifier: &Notifier,
    row: &RunRow,
    steps: &[RunStep],
) -> Result<String, DatabaseError> {
    let task = a2a::task(&TaskFacts {
        run: row.run.as_str(),
        context: row.trigger.as_deref().unwrap_or_default(),
        status: row.status,
        seq: row.seq,
        at: row.updated_at,
        output: row.output.as_deref(),
        steps,
        files: &files(notifier, row).await?,
    });
    Ok(to_json(&v1::StreamResponse {
        payload: Some(Payload::Task(task)),
    }))
}

async fn files(notifier: &Notifier, row: &RunRow) -> Result<Vec<v1::Artifact>, DatabaseError> {
    let artifacts = notifier.store.artifacts();
    let mut files = Vec::new();
    for file in artifacts.list(&row.namespace, &row.run).await? {
        let url = notifier.config.a2a_url.as_deref();
        let content = match url.filter(|_| file.size > a2a::INLINE_BYTES) {
            Some(url) => {
                let (namespace, agent) = (row.namespace.as_str(), row.agent.as_str());
                Err(a2a::file_url(
                    url,
                    namespace,
                    agent,
                    row.run.as_str(),
                    &file.id,
                ))
            }
            None => match artifacts.get(&row.namespace, &file.id).await? {
                Some((_, bytes)) => Ok(bytes),
                None => continue,
            },
        };
        files.push(a2a::file(FileArtifact {
            id: file.id,
            name: file.name,
            mime: file.mime,
            content,
        }));
    }
    Ok(files)
}

/// Gives a push up.
async fn fail(
    notifier: &Notifier,
    push: &Push,
    holder: &str,
    why: &str,
) -> Result<(), DatabaseError> {
    let error = format!("{why}; its receiver is told no more of it");
    log(notifier, push, LogLevel::Error, "notify.failed", &error).await?;
    record(notifier, push, holder, &Told::Failed { error }).await
}

async fn log(
    notifier: &Notifier,
    push: &Push,
    level: LogLevel,
    code: &str,
    what: &str,
) -> Result<(), DatabaseError> {
    let entry = NewLogEntry {
        namespace: push.namespace.clone(),
        agent: push.agent.clone(),
        run: Some(push.run.clone()),
        level,
        code: code.to_owned(),
        message: format!("Push {} of an A2A task: {what}.", push.id),
    };
    notifier.store.agent_logs().append(&entry).await
}

async fn record(
    notifier: &Notifier,
    push: &Push,
    holder: &str,
    told: &Told,
) -> Result<(), DatabaseError> {
    let held = notifier
        .store
        .a2a_pushes()
        .record(push, holder, told)
        .await?;
    if !held {
        tracing::warn!(run = %push.run, "a push was removed or taken by another notifier meanwhile");
    }
    Ok(())
}
