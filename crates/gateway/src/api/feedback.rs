//! `sayso.v1.FeedbackService` (S7).

use std::collections::BTreeSet;
use std::mem::take;

use sayso_driver::Journal;
use sayso_run::{AgentName, Namespace, RunId, TaskId};
use sayso_service::error::{Coded, Kind};
use sayso_store::{FeedbackFilter, PageRequest, RatedTask, StoredFeedback, TaskOf};
use sayso_wire::v1::feedback_service_server::FeedbackService;
use sayso_wire::{code, v1};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::Api;
use crate::auth::{Reach, Session};
use crate::page::{ENTRIES, Pages};
use crate::request::Check;
use crate::{Shared, page, refuse, show};

/// How many labels a rating has at most.
const MAX_LABELS: usize = 16;
/// The longest key of a label, in bytes.
const KEY_BYTES: usize = 63;
/// The longest value of a label, in bytes.
const VALUE_BYTES: usize = 255;

#[tonic::async_trait]
impl FeedbackService for Api {
    async fn record_feedback(
        &self,
        request: Request<v1::RecordFeedbackRequest>,
    ) -> Result<Response<v1::RecordFeedbackResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let task = check.filter::<TaskId>("task_id", &asked.task_id);
        let run = check.filter::<RunId>("run_id", &asked.run_id);
        if asked.task_id.is_empty() && asked.run_id.is_empty() {
            check.wrong("task_id", "is required, or the run");
        }
        let source = match asked.source() {
            v1::FeedbackSource::Unspecified => v1::FeedbackSource::Person,
            v1::FeedbackSource::Approval => {
                check.wrong("source", "is that of decisions, which rate by themselves");
                v1::FeedbackSource::Approval
            }
            source => source,
        };
        if v1::FeedbackSource::try_from(asked.source).is_err() {
            check.wrong("source", "is none that this version knows");
        }
        if !(0.0..=1.0).contains(&asked.score) {
            check.wrong("score", "must be a number from 0.0 to 1.0");
        }
        let labels = labels(&mut check, asked.labels);
        check.text("note", &asked.note);
        check.done()?;
        let caller = session.caller();
        let rated = find(&self.0, &caller.namespace, task.as_ref(), run.as_ref()).await?;
        let reaches = session.reach()? == Reach::Namespace || rated.principal == caller.principal;
        if !reaches {
            return Err(no_task().into());
        }
        let rating = StoredFeedback {
            id: format!("fbk_{}", Uuid::now_v7().simple()),
            task: rated.task,
            agent: rated.agent,
            run: rated.run,
            approval: None,
            source: source.word().to_owned(),
            by: caller.principal.clone(),
            score_millionths: millionths(asked.score),
            note: (!asked.note.is_empty()).then_some(asked.note),
            labels,
            at: self.0.store.now(),
        };
        let table = self.0.store.feedback();
        let added = table.add(&caller.namespace, &rating).await;
        added.map_err(|error| refuse::database("recording feedback", error))?;
        Ok(Response::new(v1::RecordFeedbackResponse {
            feedback: Some(show::feedback(rating)),
        }))
    }

    async fn list_feedback(
        &self,
        request: Request<v1::ListFeedbackRequest>,
    ) -> Result<Response<v1::ListFeedbackResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let mut check = Check::new();
        if v1::FeedbackSource::try_from(asked.source).is_err() {
            check.wrong("source", "is none that this version knows");
        }
        let source = asked.source().word();
        let filter = FeedbackFilter {
            agent: check.filter::<AgentName>("agent", &asked.agent),
            source: (!source.is_empty()).then(|| source.to_owned()),
            since: check.time("after", asked.after.as_ref()),
            until: check.time("before", asked.before.as_ref()),
            task: check.filter::<TaskId>("task_id", &asked.task_id),
            run: check.filter::<RunId>("run_id", &asked.run_id),
            labels: labels(&mut check, asked.labels),
        };
        check.done()?;
        let from = pages.read(&token)?;
        let namespace = &session.caller().namespace;
        let table = self.0.store.feedback();
        let filter = &filter;
        let fetch = |page: PageRequest| async move { table.list(namespace, filter, &page).await };
        let weighs = |row: &StoredFeedback| row.note.as_ref().map_or(0, String::len);
        let rows = page::read(size, from, fetch, |_| true, weighs).await;
        let (rows, next) = rows.map_err(|error| page::failed("listing feedback", error))?;
        let sums = table.sums(namespace, filter).await;
        let sums = sums.map_err(|error| refuse::database("summing up feedback", error))?;
        Ok(Response::new(v1::ListFeedbackResponse {
            feedback: rows.into_iter().map(show::feedback).collect(),
            next_page_token: pages.next(next),
            summaries: sums.into_iter().map(show::feedback_summary).collect(),
        }))
    }
}

/// The task that is meant. Where task and run are both named they have to belong together.
async fn find(
    shared: &Shared,
    namespace: &Namespace,
    task: Option<&TaskId>,
    run: Option<&RunId>,
) -> Result<RatedTask, Coded> {
    let table = shared.store.feedback();
    let of = match (task, run) {
        (Some(task), _) => TaskOf::Task(task),
        (None, Some(run)) => TaskOf::Run(run),
        (None, None) => return Err(no_task()),
    };
    let found = table.task(namespace, of).await;
    let found = found.map_err(|error| refuse::database("looking for the task", error))?;
    found
        .filter(|found| run.is_none_or(|run| *run == found.run))
        .ok_or_else(no_task)
}

/// Labels in order, each once.
fn labels(check: &mut Check, given: Vec<String>) -> Vec<String> {
    if given.len() > MAX_LABELS {
        check.wrong("labels", format!("are at most {MAX_LABELS}"));
    }
    let mut keys = BTreeSet::new();
    for (index, label) in given.iter().enumerate() {
        let field = format!("labels[{index}]");
        match label.split_once('=') {
            Some((key, value)) if is_key(key) && is_value(value) => {
                if !keys.insert(key) {
                    check.wrong(field, "has a key that another label has");
                }
            }
            _ => check.wrong(field, "must be key=value, such as judge=rubric-v1"),
        }
    }
    let mut labels = given;
    labels.sort_unstable();
    labels
}

fn is_key(key: &str) -> bool {
    (1..=KEY_BYTES).contains(&key.len())
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

fn is_value(value: &str) -> bool {
    value.len() <= VALUE_BYTES && !value.chars().any(char::is_control)
}

/// A score from 0.0 to 1.0 in millionths.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the score was checked to be from 0.0 to 1.0"
)]
fn millionths(score: f64) -> i64 {
    (score * 1_000_000.0).round() as i64
}

fn no_task() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::TASK_NOT_FOUND,
        "There is no such task here; `sayso runs ls` lists the runs that you can see.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S7.1: labels are `key=value`.
    #[test]
    fn s7_1_labels_are_pairs() {
        let wrong = |labels: &[&str]| {
            let mut check = Check::new();
            let given = labels.iter().map(|&label| label.to_owned()).collect();
            super::labels(&mut check, given);
            check.done().is_err()
        };
        assert!(!wrong(&[]) && !wrong(&["judge=rubric-v1", "a.b-c_1="]));
        for bad in ["judge", "=x", "a b=c", "a=\n"] {
            assert!(wrong(&[bad]), "{bad}");
        }
        assert!(wrong(&["a=1", "a=2"]));
        assert_eq!([0.0, 0.8, 1.0].map(millionths), [0, 800_000, 1_000_000]);
    }
}
