use std::sync::Arc;
use std::time::Duration;

use sayso_wire::v1::agent_service_client::AgentServiceClient;
use sayso_wire::v1::approval_service_client::ApprovalServiceClient;
use sayso_wire::v1::audit_service_client::AuditServiceClient;
use sayso_wire::v1::budget_service_client::BudgetServiceClient;
use sayso_wire::v1::conversation_service_client::ConversationServiceClient;
use sayso_wire::v1::event_service_client::EventServiceClient;
use sayso_wire::v1::feedback_service_client::FeedbackServiceClient;
use sayso_wire::v1::group_service_client::GroupServiceClient;
use sayso_wire::v1::pause_service_client::PauseServiceClient;
use sayso_wire::v1::policy_service_client::PolicyServiceClient;
use sayso_wire::v1::role_service_client::RoleServiceClient;
use sayso_wire::v1::run_service_client::RunServiceClient;
use sayso_wire::v1::secret_service_client::SecretServiceClient;
use sayso_wire::v1::target_service_client::TargetServiceClient;
use sayso_wire::v1::token_service_client::TokenServiceClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::Error;

/// How long making a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long the server may take to begin an answer.
const ANSWER: Duration = Duration::from_secs(60);

/// A quiet connection is asked whether it lives this often, and given up without an answer.
const PING_EVERY: Duration = Duration::from_secs(15);
const PING_PATIENCE: Duration = Duration::from_secs(10);

/// The largest answer that is taken.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// What carries the calls of a [`Client`] and brings its token along.
pub type Service = InterceptedService<Channel, Credentials>;

/// A connection to one server with one token. Cheap to clone; it connects again by itself.
#[derive(Clone, Debug)]
pub struct Client {
    server: Arc<str>,
    channel: Channel,
    credentials: Credentials,
}

/// What goes with every call of a [`Client`]: its token, and the namespace that it means.
#[derive(Clone)]
pub struct Credentials {
    bearer: MetadataValue<Ascii>,
    namespace: Option<MetadataValue<Ascii>>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials(…)")
    }
}

impl Interceptor for Credentials {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        metadata.insert("authorization", self.bearer.clone());
        if let Some(namespace) = &self.namespace {
            metadata.insert(Client::NAMESPACE_HEADER, namespace.clone());
        }
        Ok(request)
    }
}

impl Client {
    /// The metadata that names the namespace which the caller expects the token to open.
    pub const NAMESPACE_HEADER: &'static str = "sayso-namespace";

    /// Connects to `http://host:port`, or `https://…` where a proxy adds TLS, with a token's
    /// secret.
    ///
    /// # Errors
    ///
    /// When the address or the token cannot be used, or nobody answers there. Whether the token is
    /// valid shows with the first call.
    pub async fn connect(server: &str, token: &str) -> Result<Client, Error> {
        let mut bearer = MetadataValue::try_from(format!("Bearer {token}"))
            .map_err(|_| Error::BadText("token"))?;
        bearer.set_sensitive(true);
        let endpoint = endpoint(server)?;
        let connected = endpoint.connect().await;
        let channel = connected.map_err(|error| Error::connecting(server, &error))?;
        let credentials = Credentials {
            bearer,
            namespace: None,
        };
        Ok(Client {
            server: server.into(),
            channel,
            credentials,
        })
    }

    /// The same connection for a caller who means this namespace: a token of another one is refused
    /// with `token.other_namespace` before anything is done.
    ///
    /// # Errors
    ///
    /// When the name cannot be sent.
    pub fn in_namespace(&self, namespace: &str) -> Result<Client, Error> {
        let namespace =
            MetadataValue::try_from(namespace).map_err(|_| Error::BadText("namespace"))?;
        let mut client = self.clone();
        client.credentials.namespace = Some(namespace);
        Ok(client)
    }

    /// The server's address as it was given.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// What carries the calls, for whoever speaks gRPC otherwise than through these methods.
    pub fn service(&self) -> Service {
        InterceptedService::new(self.channel.clone(), self.credentials.clone())
    }

    pub(crate) fn failed(&self, status: &Status) -> Error {
        Error::of(&self.server, status)
    }
}

macro_rules! services {
    ($($name:ident: $client:ident),* $(,)?) => {
        impl Client {
            $(pub(crate) fn $name(&self) -> $client<Service> {
                $client::new(self.service()).max_decoding_message_size(MAX_ANSWER)
            })*
        }
    };
}

services! {
    runs: RunServiceClient,
    approvals: ApprovalServiceClient,
    agents: AgentServiceClient,
    talks: ConversationServiceClient,
    events: EventServiceClient,
    roles: RoleServiceClient,
    policies: PolicyServiceClient,
    tokens: TokenServiceClient,
    audit: AuditServiceClient,
    feedback: FeedbackServiceClient,
    secrets: SecretServiceClient,
    groups: GroupServiceClient,
    targets: TargetServiceClient,
    pauses: PauseServiceClient,
    budgets: BudgetServiceClient,
}

fn endpoint(server: &str) -> Result<Endpoint, Error> {
    let bad = || Error::BadServer(server.to_owned());
    let secure = server.starts_with("https://");
    if !secure && !server.starts_with("http://") {
        return Err(bad());
    }
    let endpoint = Endpoint::from_shared(server.to_owned()).map_err(|_| bad())?;
    if endpoint.uri().authority().is_none() {
        return Err(bad());
    }
    let endpoint = endpoint
        .user_agent(concat!("sayso-sdk/", env!("CARGO_PKG_VERSION")))
        .map_err(|_| bad())?
        .connect_timeout(CONNECT)
        .timeout(ANSWER)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_PATIENCE);
    if !secure {
        return Ok(endpoint);
    }
    let tls = ClientTlsConfig::new().with_native_roots();
    let secured = endpoint.tls_config(tls);
    secured.map_err(|error| Error::connecting(server, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_an_address_or_a_token_is_refused_before_anything_is_sent() {
        for bad in ["", "127.0.0.1:7400", "ftp://host", "http://", "http://a b"] {
            let error = Client::connect(bad, "sayso_x").await.unwrap_err();
            assert_eq!(error.code(), "client.bad_server", "{bad}");
        }
        let error = Client::connect("http://127.0.0.1:1", "a\nb")
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the token holds a character that cannot be sent"
        );
    }

    #[tokio::test]
    async fn a_server_that_is_away_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let error = Client::connect(&server, "sayso_x").await.unwrap_err();
        assert!(error.is_unreachable(), "{error}");
        assert!(error.to_string().contains("onnection refused"), "{error}");
    }
}
