//! One connection to one server.
//!
//! **Whether a listing still holds.** A stdio server's tools are those of its process, and a process
//! that changes them says so (`list_changed`): a listing holds until it does or the process ends. An
//! HTTP server may be replaced behind its URL, and nobody says anything: before a call its tools are
//! listed anew, so that what an approval was given for is compared with what is there now (S6.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientCapabilities, ClientConfig, ClientRequest, ErrorCode, Implementation, JsonObject,
    ListToolsRequest, PaginatedRequestParams, RequestId, RequestMetaObject, ServerResult, Tool,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, Peer, PeerRequestOptions, RunningService,
    ServiceError,
};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{ClientHandler, RoleClient, serve_client};
use sayso_rules::bundle::{Server, Transport};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::{Instrument, Span};

use super::IDEMPOTENCY_KEY_META;
use super::dispatch::Dispatch;
use super::http;
use super::listing::{self, Listing, MAX_TOOLS};
use super::mask::Mask;
use super::pool::{ConnectError, PoolLimits};
use super::process::Process;

/// How long a connection may take to close in good order.
const CLOSE: Duration = Duration::from_secs(2);

/// How long a broken connection's process may take to show how it ended.
const ACCOUNT: Duration = Duration::from_secs(1);

/// How long a sentence about a failure may be, in bytes.
const MAX_SENTENCE: usize = 3000;

/// A server of a bundle and its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerSpec<'b> {
    pub(crate) name: &'b str,
    pub(crate) server: &'b Server,
}

/// How a call failed that the server did not answer with a result.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// It did not go out, and will not.
    NotSent {
        /// What to say.
        why: String,
        /// The connection turned out to be dead, so a new one may do better.
        gone: bool,
    },
    /// No answer in time. It went out and may have acted.
    TimedOut,
    /// The connection broke. It went out and may have acted.
    Broke(String),
    /// The server answered with a protocol error.
    Refused(String),
}

/// Tools could not be listed.
#[derive(Debug)]
pub(crate) struct ListFailure {
    /// What to say.
    pub(crate) error: ConnectError,
    /// The connection turned out to be dead, so a new one may do better.
    pub(crate) gone: bool,
}

/// A connection that was made; it may have broken since.
pub(crate) struct Connection {
    server: String,
    origin: String,
    peer: Peer<RoleClient>,
    running: Mutex<Option<RunningService<RoleClient, Listener>>>,
    process: Option<Process>,
    mask: Mask,
    list_within: Duration,
    changes: Arc<AtomicU64>,
    listed: Mutex<Option<Listed>>,
    retired: AtomicBool,
}

struct Listed {
    listing: Arc<Listing>,
    changes: u64,
    begun: Instant,
}

/// Hears what a server says unasked; offers it nothing.
struct Listener {
    changes: Arc<AtomicU64>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("sayso", env!("CARGO_PKG_VERSION")),
        )
    }

    fn on_tool_list_changed(
        &self,
        _context: NotificationContext<RoleClient>,
    ) -> impl Future<Output = ()> + Send + '_ {
        self.changes.fetch_add(1, Ordering::SeqCst);
        std::future::ready(())
    }
}

/// A connection outlives the run that needed it first: it has no place in that run's trace, whose
/// spans it would keep open.
fn apart(server: &str) -> Span {
    tracing::info_span!(parent: None, "mcp_server", server)
}

impl Connection {
    /// Starts or reaches a server and shakes hands with it, within `limits.connect`.
    pub(super) async fn open(
        spec: ServerSpec<'_>,
        limits: &PoolLimits,
    ) -> Result<Self, ConnectError> {
        let changes = Arc::new(AtomicU64::new(0));
        let listener = Listener {
            changes: changes.clone(),
        };
        let within = limits.connect;
        let mask = match &spec.server.transport {
            Transport::Stdio { env, .. } => Mask::of(env.values()),
            Transport::Http { headers, .. } => Mask::of(headers.values()),
        };
        let fail = |why: String| ConnectError::new(spec.name, &bounded(&mask.hide(&why)));
        let (running, process) = match &spec.server.transport {
            Transport::Stdio { command, env } => {
                let (process, pipes) = Process::start(command, env).map_err(fail)?;
                let serving = serve_client(listener, pipes).instrument(apart(spec.name));
                let (why, patience) = match timeout(within, serving).await {
                    Ok(Ok(running)) => {
                        return Ok(Self::new(
                            spec,
                            limits,
                            running,
                            Some(process),
                            mask,
                            changes,
                        ));
                    }
                    Ok(Err(error)) => (format!("no MCP handshake: {}", handshake(&error)), ACCOUNT),
                    Err(_) => (
                        format!("no MCP handshake within {within:?}"),
                        Duration::ZERO,
                    ),
                };
                let account = process.account(patience).await;
                return Err(fail(format!("{why}; {account}")));
            }
            Transport::Http { url, headers } => {
                let transport = http::transport(url, headers).map_err(fail)?;
                let serving = serve_client(listener, transport).instrument(apart(spec.name));
                match timeout(within, serving).await {
                    Ok(Ok(running)) => (running, None),
                    Ok(Err(error)) => {
                        return Err(fail(format!("no MCP handshake: {}", handshake(&error))));
                    }
                    Err(_) => return Err(fail(format!("no MCP handshake within {within:?}"))),
                }
            }
        };
        Ok(Self::new(spec, limits, running, process, mask, changes))
    }

    fn new(
        spec: ServerSpec<'_>,
        limits: &PoolLimits,
        running: RunningService<RoleClient, Listener>,
        process: Option<Process>,
        mask: Mask,
        changes: Arc<AtomicU64>,
    ) -> Self {
        Self {
            server: spec.name.to_owned(),
            origin: listing::origin(&spec.server.transport),
            peer: running.peer().clone(),
            running: Mutex::new(Some(running)),
            process,
            mask,
            list_within: limits.list,
            changes,
            listed: Mutex::new(None),
            retired: AtomicBool::new(false),
        }
    }

    /// Whether it is worth asking anything more.
    pub(super) fn is_alive(&self) -> bool {
        !self.retired.load(Ordering::SeqCst) && !self.peer.is_transport_closed()
    }

    /// Closes it; a process is gone when this returns.
    pub(super) async fn close(&self) {
        self.retired.store(true, Ordering::SeqCst);
        let running = self.running.lock().await.take();
        if let Some(mut running) = running
            && let Err(error) = running.close_with_timeout(CLOSE).await
        {
            tracing::warn!(server = self.server, %error, "a connection's task failed");
        }
        if let Some(process) = &self.process {
            process.end().await;
        }
    }

    /// The server's tools for a run that starts.
    pub(crate) async fn listing(&self) -> Result<Arc<Listing>, ListFailure> {
        self.list(self.announces_changes()).await
    }

    /// The server's tools for a call that is about to be sent.
    pub(crate) async fn listing_for_call(&self) -> Result<Arc<Listing>, ListFailure> {
        self.list(self.process.is_some()).await
    }

    fn announces_changes(&self) -> bool {
        self.process.is_some()
            || self.peer.peer_info().is_some_and(|info| {
                let tools = info.capabilities.tools.as_ref();
                tools.is_some_and(|tools| tools.list_changed == Some(true))
            })
    }

    /// The listing that is known, if `known_holds` and nothing was announced since; otherwise one
    /// that was asked for after this was called.
    async fn list(&self, known_holds: bool) -> Result<Arc<Listing>, ListFailure> {
        let called = Instant::now();
        let mut listed = self.listed.lock().await;
        let changes = self.changes.load(Ordering::SeqCst);
        if let Some(known) = &*listed
            && known.changes == changes
            && (known_holds || known.begun >= called)
            && self.is_alive()
        {
            return Ok(known.listing.clone());
        }
        let begun = Instant::now();
        let fresh = match timeout(self.list_within, self.ask_for_tools()).await {
            Ok(Ok(tools)) => Listing::of(&self.server, &self.origin, tools),
            Ok(Err(error)) => return Err(self.list_failure(&error).await),
            Err(_) => {
                // A server that does not answer this will not do better later.
                self.retired.store(true, Ordering::SeqCst);
                let why = format!("it did not list its tools within {:?}", self.list_within);
                return Err(ListFailure {
                    error: self.error(why, Duration::ZERO).await,
                    gone: false,
                });
            }
        };
        let listing = match &*listed {
            // The same tools stay the same listing: what is put together from it is kept.
            Some(known) if *known.listing == fresh => known.listing.clone(),
            Some(_) | None => Arc::new(fresh),
        };
        *listed = Some(Listed {
            listing: listing.clone(),
            changes,
            begun,
        });
        Ok(listing)
    }

    async fn ask_for_tools(&self) -> Result<Vec<Tool>, ServiceError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ListToolsRequest {
                params: Some(params),
                ..ListToolsRequest::default()
            };
            match self
                .peer
                .send_request(ClientRequest::ListToolsRequest(request))
                .await
            {
                Ok(ServerResult::ListToolsResult(page)) => {
                    tools.extend(page.tools);
                    cursor = page.next_cursor;
                }
                Ok(_) => return Err(ServiceError::UnexpectedResponse),
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    return Ok(Vec::new());
                }
                Err(error) => return Err(error),
            }
            if cursor.is_none() || tools.len() > MAX_TOOLS {
                return Ok(tools);
            }
        }
    }

    async fn list_failure(&self, error: &ServiceError) -> ListFailure {
        let gone = !matches!(
            error,
            ServiceError::McpError(_) | ServiceError::UnexpectedResponse
        );
        if gone {
            self.retired.store(true, Ordering::SeqCst);
        }
        let why = format!("it did not list its tools: {}", service(error));
        let patience = if gone { ACCOUNT } else { Duration::ZERO };
        ListFailure {
            error: self.error(why, patience).await,
            gone,
        }
    }

    /// Calls a tool by the server's own name for it. `call` decides at the last moment whether
    /// anything is sent.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        idempotency_key: &str,
        within: Duration,
        call: &Dispatch,
    ) -> Result<ServerResult, CallFailure> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(call.clone());
        let mut meta = RequestMetaObject::new();
        meta.insert(IDEMPOTENCY_KEY_META.to_owned(), idempotency_key.into());
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let sent = self
            .peer
            .send_cancellable_request(ClientRequest::CallToolRequest(request), options)
            .await;
        let handle = match sent {
            Ok(handle) => handle,
            Err(error) => return Err(self.call_failure(&error, call).await),
        };
        let mut abandoned = Abandoned {
            peer: &self.peer,
            call,
            request: Some(handle.id.clone()),
        };
        let Ok(answer) = timeout(within, handle.await_response()).await else {
            return Err(if call.withdraw() {
                CallFailure::NotSent {
                    why: format!("it took nothing for {within:?}"),
                    gone: false,
                }
            } else {
                CallFailure::TimedOut
            });
        };
        abandoned.request = None;
        match answer {
            Ok(result) => Ok(result),
            Err(error) => Err(self.call_failure(&error, call).await),
        }
    }

    async fn call_failure(&self, error: &ServiceError, call: &Dispatch) -> CallFailure {
        if let ServiceError::McpError(error) = error {
            return CallFailure::Refused(bounded(
                &self
                    .mask
                    .hide(&format!("{} (code {})", error.message, error.code.0)),
            ));
        }
        if call.refused() {
            return CallFailure::NotSent {
                why: "this worker may no longer act for the run".to_owned(),
                gone: false,
            };
        }
        self.retired.store(true, Ordering::SeqCst);
        let why = self.error(service(error), ACCOUNT).await.why;
        if call.withdraw() {
            CallFailure::NotSent { why, gone: true }
        } else {
            CallFailure::Broke(why)
        }
    }

    /// A failure with what is known of the process behind it, without secrets. A process that seems
    /// to be ending gets `patience` to do so.
    async fn error(&self, why: String, patience: Duration) -> ConnectError {
        let why = match &self.process {
            Some(process) => format!("{why}; {}", process.account(patience).await),
            None => why,
        };
        ConnectError::new(&self.server, &bounded(&self.mask.hide(&why)))
    }
}

/// Tells the server of a request whose caller stopped waiting, so that it need not go on.
struct Abandoned<'c> {
    peer: &'c Peer<RoleClient>,
    call: &'c Dispatch,
    request: Option<RequestId>,
}

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else {
            return;
        };
        if self.call.withdraw() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let peer = self.peer.clone();
        let params = CancelledNotificationParam::new(
            Some(request),
            Some("nobody waits for the answer any more".to_owned()),
        );
        runtime.spawn(async move {
            let note = CancelledNotification::new(params);
            if let Err(error) = peer.send_notification(note.into()).await {
                tracing::debug!(%error, "a tool server was not told of a cancelled call");
            }
        });
    }
}

fn bounded(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    if text.len() > MAX_SENTENCE {
        text.truncate(text.floor_char_boundary(MAX_SENTENCE));
        text.push('…');
    }
    text
}

fn handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "the connection was closed".to_owned(),
        ClientInitializeError::TransportError { error, .. } => causes(error.error.as_ref()),
        other => causes(other),
    }
}

fn service(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => causes(error.error.as_ref()),
        ServiceError::TransportClosed => "the connection was closed".to_owned(),
        other => causes(other),
    }
}

/// An error and what caused it, each said once.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(http) = error.downcast_ref::<StreamableHttpError<reqwest::Error>>()
        && let StreamableHttpError::Client(error) = http
    {
        // It does not name this one as its source.
        return causes(error);
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}
