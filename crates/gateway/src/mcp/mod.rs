//! sayso as an MCP server: the approvals and runs of a namespace as tools (S6.13), at `/mcp` over
//! streamable HTTP, and over standard input and output (`sayso mcp`).
//!
//! | tool | does | method behind it |
//! |---|---|---|
//! | `list_approvals` | lists what waits for a decision, or did | `ApprovalService.ListApprovals` |
//! | `decide_approval` | approves or denies one call | `ApprovalService.DecideApproval` |
//! | `start_run` | gives an agent a task | `RunService.StartRun` |
//! | `get_run` | tells how a run stands | `RunService.GetRun` |
//!
//! **Nothing is decided here.** A tool is a call of the public API in this process, or over the
//! connection of the command, with the token that came along: scopes, namespaces, four-eyes and the
//! audit of refused decisions are those of gRPC. A result is the method's answer in canonical JSON;
//! a refusal is a tool's error whose text is a JSON object with the stable `code`.
//!
//! **Nobody is remembered.** Each request stands for itself, in the revision of 2026-07-28 by its
//! nature, and in those before because a session is a name that stands for nothing: any gateway answers any request, and
//! the token is checked with each.
//!
//! # Modules
//!
//! | module | holds |
//! |---|---|
//! | `door` | who may come in over HTTP: names of this server, origins of pages, tokens |
//! | `server` | the protocol |
//! | `tools`, `arguments`, `schema` | what is offered: names, hints, arguments, shapes of answers |
//! | `call` | calls of the API |
//! | `answer` | answers and refusals as results |

mod answer;
mod arguments;
mod call;
mod door;
mod schema;
mod server;
mod tools;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use http::{Request, Response};
use rmcp::serve_server;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sayso_service::BoxError;
use sayso_service::peer::Peer;
use tonic::body::Body;
use tonic::service::Routes;
use tower::Service;

use crate::auth::Authenticator;
use call::Calls;
use door::Door;
use server::Server;

/// The path of the server.
const PATH: &str = "/mcp";

/// The largest request, in bytes: texts of 1 MiB, as JSON may write them.
const MAX_REQUEST: usize = 8 * 1024 * 1024;

/// Why no client could be served over standard input and output.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// What is there does not speak MCP.
    #[error("no MCP client on standard input")]
    Handshake(#[source] Box<ServerInitializeError>),
    /// The server's task failed.
    #[error("the MCP server broke off")]
    Broke(#[source] tokio::task::JoinError),
}

/// The server over HTTP, on top of the public API in this process. `names` are those by which this
/// server is called beside its addresses.
pub(crate) fn router(routes: Routes, auth: &Authenticator, names: &[String]) -> Router {
    let server = Server::new(Calls::new(Peer::unsigned(routes)));
    let sessions = Arc::new(NeverSessionManager::default());
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // The door has its own.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MAX_REQUEST);
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    Router::new()
        .route_service(PATH, service)
        .layer(from_fn_with_state(Door::new(auth, names), door::enter))
}

/// Serves one client over standard input and output until it closes them. `api` carries the calls
/// and brings the token along.
///
/// # Errors
///
/// When there is no client that speaks MCP. One that goes away before it has said anything is no
/// error.
pub async fn serve_stdio<S>(api: S) -> Result<(), StdioError>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    let server = Server::new(Calls::new(Peer::unsigned(api)));
    match serve_server(server, stdio_pipes()).await {
        Ok(running) => {
            running.waiting().await.map_err(StdioError::Broke)?;
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(StdioError::Handshake(Box::new(error))),
    }
}
