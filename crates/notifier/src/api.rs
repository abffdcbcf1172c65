//! The internal gRPC API: tries a target out, for whoever set it (S8.2).

use sayso_run::Namespace;
use sayso_service::error::{Coded, Kind};
use sayso_wire::internal::notifier_service_server::NotifierService;
use sayso_wire::internal::{TestTargetRequest, TestTargetResponse};
use sayso_wire::{code, v1};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::Notifier;
use crate::channel::Channel;
use crate::message;
use crate::post::Answer;

pub(crate) struct Api(pub(crate) Notifier);

#[tonic::async_trait]
impl NotifierService for Api {
    async fn test_target(
        &self,
        request: Request<TestTargetRequest>,
    ) -> Result<Response<TestTargetResponse>, Status> {
        let request = request.into_inner();
        let caller = request.caller.unwrap_or_default();
        let namespace = Namespace::new(&caller.namespace).map_err(|_| unsaid())?;
        let asked = request.request.unwrap_or_default();
        let problem = test(&self.0, &namespace, &asked.name).await?;
        Ok(Response::new(TestTargetResponse {
            response: Some(v1::TestTargetResponse {
                delivered: problem.is_none(),
                problem: problem.unwrap_or_default(),
            }),
        }))
    }
}

/// Sends one message to a target, once: what went wrong, if something did.
async fn test(
    notifier: &Notifier,
    namespace: &Namespace,
    name: &str,
) -> Result<Option<String>, Coded> {
    let failed = |error| Coded::unavailable("database.unavailable", "looking for a target", &error);
    let found = notifier.store.targets().get(namespace, name).await;
    let Some(target) = found.map_err(failed)? else {
        return Err(no_target());
    };
    let channel = Channel::to_target(notifier, namespace, &target).await;
    let channel = match channel.map_err(failed)? {
        Ok(channel) => channel,
        Err(unsendable) => return Ok(Some(format!("it was not sent: {unsendable}"))),
    };
    let (id, message) = (
        format!("test_{}", Uuid::now_v7().simple()),
        message::test(namespace, name),
    );
    let sent = match channel.written(notifier, &id, &message) {
        Ok(body) => channel.send(notifier, &id, message.event, body).await,
        Err(unsendable) => Err(unsendable),
    };
    let place = channel.place();
    Ok(match sent {
        Ok(Answer::Taken) => None,
        Ok(Answer::Failed { why, .. }) => Some(format!("{place} did not take it: {why}")),
        Ok(Answer::Refused { why }) => Some(format!("{place} refused it: {why}")),
        Err(unsendable) => Some(format!("it was not sent: {unsendable}")),
    })
}

fn no_target() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::TARGET_NOT_FOUND,
        "There is no such target here; `sayso target ls` lists them.",
    )
}

fn unsaid() -> Coded {
    Coded::new(
        Kind::Invalid,
        "request.invalid",
        "The call does not say on whose behalf it is made.",
    )
}
