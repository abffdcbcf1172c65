//! `sayso.v1.FeedbackService`.

use std::mem::take;

use sayso_run::{AgentName, RunId, TaskId};
use sayso_store::{FeedbackFilter, PageRequest, StoredFeedback};
use sayso_wire::v1;
use sayso_wire::v1::feedback_service_server::FeedbackService;
use tonic::{Request, Response, Status};

use super::Api;
use crate::auth::Session;
use crate::page::{ENTRIES, Pages};
use crate::request::Check;
use crate::{page, show};

#[tonic::async_trait]
impl FeedbackService for Api {
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
        };
        let task = check.filter::<TaskId>("task_id", &asked.task_id);
        let run = check.filter::<RunId>("run_id", &asked.run_id);
        check.done()?;
        let from = pages.read(&token)?;
        let namespace = &session.caller().namespace;
        let table = self.0.store.feedback();
        let filter = &filter;
        let fetch = |page: PageRequest| async move { table.list(namespace, filter, &page).await };
        let keeps = |row: &StoredFeedback| {
            task.as_ref().is_none_or(|task| *task == row.task)
                && run.as_ref().is_none_or(|run| *run == row.run)
        };
        let weighs = |row: &StoredFeedback| row.note.as_ref().map_or(0, String::len);
        let rows = page::read(size, from, fetch, keeps, weighs).await;
        let (rows, next) = rows.map_err(|error| page::failed("listing feedback", error))?;
        Ok(Response::new(v1::ListFeedbackResponse {
            feedback: rows.into_iter().map(show::feedback).collect(),
            next_page_token: pages.next(next),
        }))
    }
}
