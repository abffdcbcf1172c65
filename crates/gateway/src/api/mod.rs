//! The public services, one file each. They check what comes in, read from the store, ask siblings
//! to write, and show rows as the API's messages.

mod agents;
mod approvals;
mod audit;
mod budgets;
mod conversations;
mod events;
mod feedback;
mod groups;
mod import;
mod pauses;
mod policy;
mod roles;
mod runs;
mod secrets;
mod targets;
mod tokens;

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use sayso_service::error::Coded;
use sayso_wire::internal::Caller;
use sayso_wire::v1;
use sayso_wire::v1::agent_service_server::AgentServiceServer;
use sayso_wire::v1::approval_service_server::ApprovalServiceServer;
use sayso_wire::v1::audit_service_server::AuditServiceServer;
use sayso_wire::v1::budget_service_server::BudgetServiceServer;
use sayso_wire::v1::conversation_service_server::ConversationServiceServer;
use sayso_wire::v1::event_service_server::EventServiceServer;
use sayso_wire::v1::feedback_service_server::FeedbackServiceServer;
use sayso_wire::v1::group_service_server::GroupServiceServer;
use sayso_wire::v1::pause_service_server::PauseServiceServer;
use sayso_wire::v1::policy_service_server::PolicyServiceServer;
use sayso_wire::v1::role_service_server::RoleServiceServer;
use sayso_wire::v1::run_service_server::RunServiceServer;
use sayso_wire::v1::secret_service_server::SecretServiceServer;
use sayso_wire::v1::target_service_server::TargetServiceServer;
use sayso_wire::v1::token_service_server::TokenServiceServer;
use serde_json::Value;
use tonic::Status;
use tonic::service::Routes;

use crate::Shared;
use crate::auth::{Guarded, Reach, Session};

/// The names of the services, as gRPC health knows them.
pub(crate) const SERVICES: [&str; 15] = [
    "sayso.v1.RunService",
    "sayso.v1.ApprovalService",
    "sayso.v1.ConversationService",
    "sayso.v1.EventService",
    "sayso.v1.AgentService",
    "sayso.v1.RoleService",
    "sayso.v1.PolicyService",
    "sayso.v1.SecretService",
    "sayso.v1.GroupService",
    "sayso.v1.TargetService",
    "sayso.v1.FeedbackService",
    "sayso.v1.TokenService",
    "sayso.v1.AuditService",
    "sayso.v1.PauseService",
    "sayso.v1.BudgetService",
];

/// The largest request, in bytes: a response with several texts of 1 MiB. What is larger is refused
/// before it is read.
pub(crate) const MAX_REQUEST: usize = 8 * 1024 * 1024;

/// What a server streams.
type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// One public service: all of them are this, over what the gateway shares.
#[derive(Clone)]
pub(crate) struct Api(pub(crate) Arc<Shared>);

/// Every public service behind authentication.
pub(crate) fn routes(shared: &Arc<Shared>) -> Routes {
    let api = || Api(Arc::clone(shared));
    let auth = &shared.auth;
    macro_rules! guarded {
        ($server:ident) => {
            Guarded::new(
                $server::new(api()).max_decoding_message_size(MAX_REQUEST),
                auth,
                &shared.cors,
            )
        };
    }
    Routes::default()
        .add_service(guarded!(RunServiceServer))
        .add_service(guarded!(ApprovalServiceServer))
        .add_service(guarded!(ConversationServiceServer))
        .add_service(guarded!(EventServiceServer))
        .add_service(guarded!(AgentServiceServer))
        .add_service(guarded!(RoleServiceServer))
        .add_service(guarded!(PolicyServiceServer))
        .add_service(guarded!(SecretServiceServer))
        .add_service(guarded!(GroupServiceServer))
        .add_service(guarded!(TargetServiceServer))
        .add_service(guarded!(FeedbackServiceServer))
        .add_service(guarded!(TokenServiceServer))
        .add_service(guarded!(AuditServiceServer))
        .add_service(guarded!(PauseServiceServer))
        .add_service(guarded!(BudgetServiceServer))
        .prepare()
}

/// On whose behalf a sibling is asked.
fn on_behalf(session: &Session) -> Result<Caller, Coded> {
    let caller = session.caller();
    let reach = match session.reach()? {
        Reach::Own => sayso_wire::internal::Reach::Own,
        Reach::Namespace => sayso_wire::internal::Reach::Namespace,
    };
    Ok(Caller {
        namespace: caller.namespace.to_string(),
        principal: caller.principal.to_string(),
        trust: v1::Trust::from(caller.trust).into(),
        reach: reach.into(),
    })
}

/// Writes down that the caller did something (S10.8).
async fn record(
    shared: &Shared,
    session: &Session,
    action: &'static str,
    subject: &str,
    details: Value,
) -> Result<(), Coded> {
    let caller = session.caller();
    let actor = crate::audit::actor(caller);
    let (store, key) = (&shared.store, &shared.key);
    let done = crate::audit::done(
        store,
        key,
        &caller.namespace,
        &actor,
        action,
        subject,
        details,
    );
    done.await.map_err(crate::audit::failed)
}
