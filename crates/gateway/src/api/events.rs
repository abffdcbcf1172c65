//! `sayso.v1.EventService` (S8.4).

use futures::stream::unfold;
use sayso_run::AgentName;
use sayso_wire::v1;
use sayso_wire::v1::event_service_server::EventService;
use tonic::{Request, Response, Status};

use super::{Api, Streamed};
use crate::auth::Session;
use crate::request::Check;
use crate::watch::Wants;

/// How many types a watcher may name.
const MAX_TYPES: usize = 32;
/// The longest type, in bytes.
const TYPE_BYTES: usize = 128;

#[tonic::async_trait]
impl EventService for Api {
    type WatchEventsStream = Streamed<v1::WatchEventsResponse>;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let agent = check.filter::<AgentName>("agent", &asked.agent);
        if asked.types.len() > MAX_TYPES {
            check.wrong("types", format!("are at most {MAX_TYPES}"));
        }
        for (index, kind) in asked.types.iter().enumerate() {
            let fits = |b: u8| b.is_ascii_alphanumeric() || b"._*".contains(&b);
            if kind.is_empty() || kind.len() > TYPE_BYTES || !kind.bytes().all(fits) {
                let field = format!("types[{index}]");
                check.wrong(field, "must be a type such as sayso.step.completion.v1");
            }
        }
        check.done()?;
        let wants = Wants {
            namespace: session.caller().namespace.clone(),
            agent,
            types: asked.types,
        };
        let watch = self.0.watching.news(wants, session.lease());
        let stream = unfold(watch, |mut watch| async move {
            let message = watch.next().await?;
            Some((message.map_err(Status::from), watch))
        });
        Ok(Response::new(Box::pin(stream)))
    }
}
