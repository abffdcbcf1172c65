//! Tasks that are watched. A watcher stands at the desk of all watchers of runs, and what it is told
//! is made of each step in order, so all of a task are told the same.

use std::collections::{BTreeSet, VecDeque};

use futures::Stream;
use futures::stream::unfold;
use sayso_driver::RunRow;
use sayso_run::PrincipalId;
use sayso_wire::a2a::v1::TaskState;
use sayso_wire::a2a::v1::stream_response::Payload;
use sayso_wire::a2a::{Updates, is_over, state, v1, waits};
use sayso_wire::v1::RunStep;
use sayso_wire::v1::watch_run_response::Event;
use tonic::Status;

use super::fault::Fault;
use super::service::Call;
use super::tasks::{self, Extent, context, visible};
use crate::request::Check;
use crate::watch::{Follow, Position};

/// When a stream ends, beside with its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// Whenever the task waits for somebody: whoever asked has to do something first.
    AtWaiting,
    /// Only with the task.
    WithTask,
}

/// Steps of a run from behind the one that a row shows.
async fn follow(call: &Call, row: &RunRow) -> Result<Follow, Status> {
    let position = Position {
        from: row.seq + 1,
        steps_only: true,
    };
    let sees =
        |requester: &PrincipalId| call.session.sees(requester) || *requester == row.principal;
    let lease = call.session.lease();
    let watching = &call.shared.watching;
    Ok(watching.follow(&row.run, lease, position, sees).await?)
}

/// The next step; none after the last.
async fn next(follow: &mut Follow) -> Option<Result<RunStep, Status>> {
    loop {
        match follow.next().await? {
            Err(coded) => return Some(Err(coded.into())),
            Ok(message) => {
                if let Some(Event::Step(step)) = message.event {
                    return Some(Ok(step));
                }
            }
        }
    }
}

fn updates(row: &RunRow) -> Updates {
    Updates::new(row.run.as_str(), context(row), state(row.status, row.seq))
}

/// The run once it waits for somebody or has ended.
pub(super) async fn until_it_waits(call: &Call, row: RunRow) -> Result<RunRow, Status> {
    let mut updates = updates(&row);
    if rests(updates.state()) {
        return Ok(row);
    }
    let mut follow = follow(call, &row).await?;
    while !rests(updates.state()) {
        match next(&mut follow).await {
            Some(step) => {
                updates.status(&step?);
            }
            None => break,
        }
    }
    visible(call, row.run.as_str()).await
}

fn rests(state: TaskState) -> bool {
    waits(state) || is_over(state)
}

/// A task that somebody subscribes to.
pub(super) async fn subscribe(
    call: &Call,
    id: &str,
) -> Result<impl Stream<Item = Result<v1::StreamResponse, Status>> + use<>, Status> {
    let mut check = Check::new();
    tasks::required(&mut check, "id", id);
    check.done()?;
    let row = visible(call, id).await?;
    if row.status.is_terminal() {
        let message = "The task has ended: there is nothing to watch; get it instead.";
        return Err(Fault::UnsupportedOperation.status(message, &[("taskId", id)]));
    }
    watch(call, row, Ends::WithTask).await
}

/// A task as it is, and then whatever comes of it.
pub(super) async fn watch(
    call: &Call,
    row: RunRow,
    ends: Ends,
) -> Result<impl Stream<Item = Result<v1::StreamResponse, Status>> + use<>, Status> {
    let task = tasks::shown(call, &row, Extent::WHOLE).await?;
    let updates = updates(&row);
    let files = task.artifacts.iter().map(|file| file.artifact_id.clone());
    let mut watched = Watched {
        call: call.clone(),
        follow: None,
        files: files.collect(),
        ends,
        ready: VecDeque::new(),
        row,
        updates,
    };
    if !watched.is_done() {
        watched.follow = Some(follow(call, &watched.row).await?);
    }
    watched.ready.push_back(v1::StreamResponse {
        payload: Some(Payload::Task(task)),
    });
    Ok(unfold(watched, |mut watched| async move {
        let response = watched.next().await?;
        Some((response, watched))
    }))
}

/// A watcher's stream.
struct Watched {
    call: Call,
    row: RunRow,
    /// None once nothing follows.
    follow: Option<Follow>,
    updates: Updates,
    /// The artifacts that were told.
    files: BTreeSet<String>,
    ends: Ends,
    ready: VecDeque<v1::StreamResponse>,
}

impl Watched {
    fn is_done(&self) -> bool {
        let state = self.updates.state();
        is_over(state) || waits(state) && self.ends == Ends::AtWaiting
    }

    async fn next(&mut self) -> Option<Result<v1::StreamResponse, Status>> {
        loop {
            if let Some(response) = self.ready.pop_front() {
                return Some(Ok(response));
            }
            let heard = next(self.follow.as_mut()?).await?;
            let told = match heard {
                Ok(step) => self.tell(&step).await,
                Err(status) => Err(status),
            };
            if let Err(status) = told {
                self.follow = None;
                return Some(Err(status));
            }
            if self.is_done() {
                self.follow = None;
            }
        }
    }

    async fn tell(&mut self, step: &RunStep) -> Result<(), Status> {
        if matches!(step.r#type.as_str(), "tool_result" | "completion") {
            let files = tasks::files(&self.call, &self.row.run, &self.files).await?;
            for file in files.into_iter().chain(self.updates.output(step)) {
                self.files.insert(file.artifact_id.clone());
                self.ready.push_back(self.updates.artifact(file));
            }
        }
        self.ready.extend(self.updates.status(step));
        Ok(())
    }
}
