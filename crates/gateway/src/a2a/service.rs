//! The methods, behind the guard of every public service.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use sayso_run::AgentName;
use sayso_service::error::{Coded, Kind};
use sayso_wire::a2a::v1::a2a_service_server::A2aService;
use sayso_wire::a2a::{VERSION, v1};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::fault::Fault;
use super::offered::Offered;
use super::{pushes, send, stream, tasks};
use crate::Shared;
use crate::api::Api;
use crate::auth::Session;
use crate::request::Check;

/// The header in which clients say which version they speak.
pub(super) const VERSION_HEADER: &str = "a2a-version";

/// What is meant by a client that says no version.
const UNSAID: &str = "0.3";

/// What a server streams.
type Streamed = Pin<Box<dyn Stream<Item = Result<v1::StreamResponse, Status>> + Send>>;

/// A call that was let in: by whom, and which agent it is about.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    pub(super) session: Session,
    pub(super) offered: Arc<Offered>,
    pub(super) traceparent: String,
}

impl Api {
    /// Lets a call in that speaks this version and names an agent that is offered to its caller.
    async fn enter<M>(&self, request: &Request<M>, tenant: &str) -> Result<Call, Status> {
        let session = Session::of(request);
        check_version(request.metadata())?;
        let caller = session.caller();
        let config = &self.0.a2a;
        let agent = match (tenant, &config.root) {
            ("", Some((namespace, agent))) if *namespace == caller.namespace => agent.clone(),
            ("", _) => {
                let mut check = Check::new();
                check.wrong(
                    "tenant",
                    "is required: the interface in the agent's card names it",
                );
                check.done()?;
                return Err(not_offered());
            }
            (named, _) => AgentName::new(named).map_err(|_| not_offered())?,
        };
        let offered = self
            .0
            .offered
            .get(&self.0, &caller.namespace, &agent)
            .await?;
        Ok(Call {
            traceparent: crate::api::traceparent(request),
            shared: Arc::clone(&self.0),
            offered: offered.ok_or_else(not_offered)?,
            session,
        })
    }
}

fn not_offered() -> Status {
    let sentence = "No agent of this name is offered to A2A clients here.";
    Coded::new(Kind::NotFound, "agent.not_found", sentence).into()
}

/// Only the version that is spoken here; patches of it are the same.
fn check_version(metadata: &MetadataMap) -> Result<(), Status> {
    let said = metadata
        .get(VERSION_HEADER)
        .and_then(|said| said.to_str().ok());
    let said = said.map(str::trim).filter(|said| !said.is_empty());
    let said = said.unwrap_or(UNSAID);
    let rest = said.strip_prefix(VERSION);
    if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
        return Ok(());
    }
    let said: String = said.chars().take(32).collect();
    let message = format!(
        "Version {said} of the protocol is not spoken here; send `A2A-Version: {VERSION}`."
    );
    let facts = [
        ("requestedVersion", said.as_str()),
        ("supportedVersions", VERSION),
    ];
    Err(Fault::VersionNotSupported.status(message, &facts))
}

#[tonic::async_trait]
impl A2aService for Api {
    async fn send_message(
        &self,
        request: Request<v1::SendMessageRequest>,
    ) -> Result<Response<v1::SendMessageResponse>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let task = send::send(&call, request.into_inner()).await?;
        Ok(Response::new(v1::SendMessageResponse {
            payload: Some(v1::send_message_response::Payload::Task(task)),
        }))
    }

    type SendStreamingMessageStream = Streamed;

    async fn send_streaming_message(
        &self,
        request: Request<v1::SendMessageRequest>,
    ) -> Result<Response<Self::SendStreamingMessageStream>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let row = send::accept(&call, &request.into_inner()).await?;
        let watched = stream::watch(&call, row, stream::Ends::AtWaiting).await?;
        Ok(Response::new(Box::pin(watched)))
    }

    async fn get_task(
        &self,
        request: Request<v1::GetTaskRequest>,
    ) -> Result<Response<v1::Task>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let task = tasks::get(&call, &request.into_inner()).await?;
        Ok(Response::new(task))
    }

    async fn list_tasks(
        &self,
        request: Request<v1::ListTasksRequest>,
    ) -> Result<Response<v1::ListTasksResponse>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let listed = tasks::list(&call, request.into_inner()).await?;
        Ok(Response::new(listed))
    }

    async fn cancel_task(
        &self,
        request: Request<v1::CancelTaskRequest>,
    ) -> Result<Response<v1::Task>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let task = tasks::cancel(&call, &request.get_ref().id).await?;
        Ok(Response::new(task))
    }

    type SubscribeToTaskStream = Streamed;

    async fn subscribe_to_task(
        &self,
        request: Request<v1::SubscribeToTaskRequest>,
    ) -> Result<Response<Self::SubscribeToTaskStream>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let watched = stream::subscribe(&call, &request.get_ref().id).await?;
        Ok(Response::new(Box::pin(watched)))
    }

    async fn create_task_push_notification_config(
        &self,
        request: Request<v1::TaskPushNotificationConfig>,
    ) -> Result<Response<v1::TaskPushNotificationConfig>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let made = pushes::create(&call, request.into_inner()).await?;
        Ok(Response::new(made))
    }

    async fn get_task_push_notification_config(
        &self,
        request: Request<v1::GetTaskPushNotificationConfigRequest>,
    ) -> Result<Response<v1::TaskPushNotificationConfig>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let found = pushes::get(&call, &request.into_inner()).await?;
        Ok(Response::new(found))
    }

    async fn list_task_push_notification_configs(
        &self,
        request: Request<v1::ListTaskPushNotificationConfigsRequest>,
    ) -> Result<Response<v1::ListTaskPushNotificationConfigsResponse>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        let configs = pushes::list(&call, &request.get_ref().task_id).await?;
        Ok(Response::new(v1::ListTaskPushNotificationConfigsResponse {
            configs,
            next_page_token: String::new(),
        }))
    }

    async fn get_extended_agent_card(
        &self,
        request: Request<v1::GetExtendedAgentCardRequest>,
    ) -> Result<Response<v1::AgentCard>, Status> {
        self.enter(&request, &request.get_ref().tenant).await?;
        let message = "There is no card for those who are known; the public one says everything.";
        Err(Fault::UnsupportedOperation.status(message, &[]))
    }

    async fn delete_task_push_notification_config(
        &self,
        request: Request<v1::DeleteTaskPushNotificationConfigRequest>,
    ) -> Result<Response<()>, Status> {
        let call = self.enter(&request, &request.get_ref().tenant).await?;
        pushes::delete(&call, &request.into_inner()).await?;
        Ok(Response::new(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6.13: an unsaid version is 0.3, and patches do not count.
    #[test]
    fn s6_13_one_version_is_spoken() {
        let check = |said: Option<&'static str>| {
            let mut metadata = MetadataMap::new();
            if let Some(said) = said {
                metadata.insert(VERSION_HEADER, said.parse().unwrap());
            }
            check_version(&metadata).is_ok()
        };
        assert!(check(Some("1.0")) && check(Some(" 1.0.1 ")));
        for other in [
            None,
            Some(""),
            Some("0.3"),
            Some("1.01"),
            Some("2.0"),
            Some("x"),
        ] {
            assert!(!check(other), "{other:?}");
        }
    }
}
