//! Tasks, read and cancelled.

use std::collections::BTreeSet;

use sayso_driver::RunRow;
use sayso_run::{RunId, Source, Status as RunStatus};
use sayso_store::{PageRequest, TaskFilter};
use sayso_wire::a2a::v1::TaskState;
use sayso_wire::a2a::{self, FileArtifact, TELLING, TaskFacts, v1};
use sayso_wire::{code, internal};
use tonic::Status;

use super::fault::{Fault, no_task};
use super::offered::Offered;
use super::service::Call;
use crate::api::on_behalf;
use crate::auth::{Reach, Session};
use crate::page::{self, Pages};
use crate::request::Check;
use crate::{Shared, refuse, show};

/// The size of a page, and the largest.
const PAGE: u32 = 50;
const LARGEST: i32 = 100;

/// How much of a task is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The most recent messages; all if unsaid.
    pub(super) history: Option<usize>,
    /// Whether its artifacts are.
    pub(super) artifacts: bool,
}

impl Extent {
    /// All of it.
    pub(super) const WHOLE: Extent = Extent {
        history: None,
        artifacts: true,
    };
}

/// A length of history as it was asked for.
pub(super) fn history(check: &mut Check, field: &str, asked: Option<i32>) -> Option<usize> {
    let asked = asked?;
    let length = usize::try_from(asked).ok();
    if length.is_none() {
        check.wrong(field, "must not be negative");
    }
    length
}

pub(super) async fn get(call: &Call, asked: &v1::GetTaskRequest) -> Result<v1::Task, Status> {
    let mut check = Check::new();
    required(&mut check, "id", &asked.id);
    let history = history(&mut check, "historyLength", asked.history_length);
    check.done()?;
    let row = visible(call, &asked.id).await?;
    let extent = Extent {
        history,
        artifacts: true,
    };
    shown(call, &row, extent).await
}

/// A field that has to be there.
pub(super) fn required(check: &mut Check, field: &str, given: &str) {
    if given.is_empty() {
        check.wrong(field, "is required");
    }
}

/// The run behind a task's id, if the caller sees it. What is not there, not a task of this agent, or
/// another's, answers alike (B43).
pub(super) async fn visible(call: &Call, id: &str) -> Result<RunRow, Status> {
    seen(&call.shared, &call.session, &call.offered, id).await
}

/// The same for whoever is no call of a method.
pub(super) async fn seen(
    shared: &Shared,
    session: &Session,
    offered: &Offered,
    id: &str,
) -> Result<RunRow, Status> {
    let Ok(run) = RunId::new(id) else {
        return Err(no_task(id));
    };
    let row = shared.store.runs().get(&offered.namespace, &run).await;
    let row = row.map_err(|error| refuse::database("reading a run", error))?;
    let is_task = |row: &RunRow| {
        row.source == Source::A2a
            && row.agent == offered.agent
            && row.imported_from.is_none()
            && session.sees(&row.principal)
    };
    row.filter(is_task).ok_or_else(|| no_task(id))
}

/// A run as a task.
pub(super) async fn shown(call: &Call, row: &RunRow, extent: Extent) -> Result<v1::Task, Status> {
    let runs = call.shared.store.runs();
    let waits = matches!(
        row.status,
        RunStatus::AwaitingInput | RunStatus::AwaitingApproval | RunStatus::Failed
    );
    let steps = if waits || extent.history != Some(0) {
        let steps = runs.steps_of(&row.namespace, &row.run, &TELLING).await;
        steps.map_err(|error| refuse::database("reading steps", error))?
    } else {
        Vec::new()
    };
    let steps: Vec<_> = steps.iter().map(show::step).collect();
    let files = match extent.artifacts {
        true => files(call, &row.run, &BTreeSet::new()).await?,
        false => Vec::new(),
    };
    let mut task = a2a::task(&TaskFacts {
        run: row.run.as_str(),
        context: context(row),
        status: row.status,
        seq: row.seq,
        at: row.updated_at,
        output: row.output.as_deref().filter(|_| extent.artifacts),
        steps: &steps,
        files: &files,
    });
    if let Some(most) = extent.history {
        let older = task.history.len().saturating_sub(most);
        task.history.drain(..older);
    }
    Ok(task)
}

/// The context of a task.
pub(super) fn context(row: &RunRow) -> &str {
    row.trigger.as_deref().unwrap_or_default()
}

/// The files that a run made, but for those that are known: small ones whole, large ones by the URL
/// where they are fetched.
pub(super) async fn files(
    call: &Call,
    run: &RunId,
    known: &BTreeSet<String>,
) -> Result<Vec<v1::Artifact>, Status> {
    let (store, namespace) = (&call.shared.store, &call.offered.namespace);
    let failed = |error| refuse::database("reading artifacts", error);
    let rows = store
        .artifacts()
        .list(namespace, run)
        .await
        .map_err(failed)?;
    let mut files = Vec::new();
    for row in rows.into_iter().filter(|row| !known.contains(&row.id)) {
        let url = call.shared.a2a.public_url.as_deref();
        let content = match url.filter(|_| row.size > a2a::INLINE_BYTES) {
            Some(url) => {
                let (namespace, agent) = (namespace.as_str(), call.offered.agent.as_str());
                Err(a2a::file_url(url, namespace, agent, run.as_str(), &row.id))
            }
            None => {
                let whole = store.artifacts().get(namespace, &row.id).await;
                match whole.map_err(failed)? {
                    Some((_, bytes)) => Ok(bytes),
                    None => continue,
                }
            }
        };
        files.push(a2a::file(FileArtifact {
            id: row.id,
            name: row.name,
            mime: row.mime,
            content,
        }));
    }
    Ok(files)
}

pub(super) async fn list(
    call: &Call,
    mut asked: v1::ListTasksRequest,
) -> Result<v1::ListTasksResponse, Status> {
    let mut check = Check::new();
    // Without a number only what is listed is told, not what was said in it.
    let history = history(&mut check, "historyLength", asked.history_length).unwrap_or(0);
    let size = match asked.page_size.take() {
        None => PAGE,
        Some(size @ 1..=LARGEST) => size.unsigned_abs(),
        Some(size) => {
            check.wrong(
                "pageSize",
                format!("must be between 1 and {LARGEST}, not {size}"),
            );
            PAGE
        }
    };
    let extent = Extent {
        history: Some(history),
        artifacts: asked.include_artifacts.unwrap_or(false),
    };
    let state = TaskState::try_from(asked.status);
    if state.is_err() {
        check.wrong("status", "is no state of a task");
    }
    let since = check.time(
        "statusTimestampAfter",
        asked.status_timestamp_after.as_ref(),
    );
    check.done()?;
    let token = std::mem::take(&mut asked.page_token);
    (asked.history_length, asked.include_artifacts) = (None, None);
    let pages = Pages::of(&asked);
    let token = pages.read(&token)?;
    let mut response = v1::ListTasksResponse {
        page_size: i32::try_from(size).unwrap_or(LARGEST),
        ..v1::ListTasksResponse::default()
    };
    let Some((statuses, begun)) = statuses(state.unwrap_or_default()) else {
        return Ok(response);
    };
    let own = call.session.reach()? == Reach::Own;
    let filter = TaskFilter {
        agent: call.offered.agent.clone(),
        context: Some(asked.context_id).filter(|context| !context.is_empty()),
        statuses,
        begun,
        requester: own.then(|| call.session.caller().principal.clone()),
        since,
    };
    let (runs, namespace) = (call.shared.store.runs(), &call.offered.namespace);
    let listed = runs
        .tasks(namespace, &filter, &PageRequest { size, token })
        .await;
    let listed = listed.map_err(|error| page::failed("listing tasks", error))?;
    let total = runs.count_tasks(namespace, &filter).await;
    let total = total.map_err(|error| refuse::database("counting tasks", error))?;
    for row in &listed.items {
        response.tasks.push(shown(call, row, extent).await?);
    }
    response.total_size = i32::try_from(total).unwrap_or(i32::MAX);
    response.next_page_token = pages.next(listed.next);
    Ok(response)
}

/// The statuses of runs behind a state, and whether they have begun; `None` of a state that no run
/// has.
fn statuses(state: TaskState) -> Option<(Vec<RunStatus>, Option<bool>)> {
    Some(match state {
        TaskState::Unspecified => (Vec::new(), None),
        TaskState::Submitted => (vec![RunStatus::Pending], Some(false)),
        TaskState::Working => (vec![RunStatus::Pending, RunStatus::Running], Some(true)),
        TaskState::InputRequired => (
            vec![RunStatus::AwaitingInput, RunStatus::AwaitingApproval],
            None,
        ),
        TaskState::Completed => (vec![RunStatus::Completed], None),
        TaskState::Failed => (vec![RunStatus::Failed], None),
        TaskState::Canceled => (vec![RunStatus::Cancelled], None),
        TaskState::Rejected | TaskState::AuthRequired => return None,
    })
}

pub(super) async fn cancel(call: &Call, id: &str) -> Result<v1::Task, Status> {
    let mut check = Check::new();
    required(&mut check, "id", id);
    check.done()?;
    let row = visible(call, id).await?;
    let ended = || {
        let message = "The task has ended; there is nothing to cancel.";
        Fault::TaskNotCancelable.status(message, &[("taskId", id)])
    };
    if row.status.is_terminal() {
        return Err(ended());
    }
    let cancel = internal::CancelRunRequest {
        caller: Some(on_behalf(&call.session)?),
        run_id: id.to_owned(),
        reason: String::new(),
        idempotency_key: String::new(),
    };
    if let Err(status) = call.shared.scheduler().cancel_run(cancel).await {
        let refused = refuse::sibling("scheduler", &status);
        return Err(match refused.code.as_ref() {
            code::RUN_ENDED => ended(),
            code::RUN_NOT_FOUND => no_task(id),
            _ => refused.into(),
        });
    }
    let row = visible(call, id).await?;
    shown(call, &row, Extent::WHOLE).await
}
