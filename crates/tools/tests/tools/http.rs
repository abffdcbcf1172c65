//! MCP servers over streamable HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sayso_driver::{Fence, Tools};
use sayso_run::ToolOutcome;
use tokio::net::TcpListener;

use crate::handler::TestServer;
use crate::world::{self, Limits, World, assert_ok, assert_says};

/// A server on a port of this machine, stopped when dropped.
struct Host {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Host {
    async fn start(server: &TestServer, sessions: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, server, sessions)
    }

    fn on(listener: TcpListener, server: &TestServer, sessions: bool) -> Self {
        let server = server.clone();
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(sessions)
            .with_json_response(!sessions);
        let service = StreamableHttpService::new(
            move || Ok(server.clone()),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .nest_service("/mcp", service)
            .layer(middleware::from_fn(guard));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, task }
    }

    fn world(&self) -> World {
        self.world_with("Bearer s3cr3t-token")
    }

    fn world_with(&self, authorization: &str) -> World {
        World::new(&format!(
            "servers: {{ h: {{ url: \"http://{}/mcp\", headers: {{ authorization: {authorization:?} }} }} }}\n",
            self.address
        ))
    }
}

/// Lets in who has the token, and repeats to others what they sent, as bad servers do.
async fn guard(request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .unwrap_or("")
        .to_owned();
    if given == "Bearer s3cr3t-token" {
        next.run(request).await
    } else {
        let page = format!("who is `{given}`?");
        (StatusCode::INTERNAL_SERVER_ERROR, page).into_response()
    }
}

/// S3.5: the same over streamable HTTP, with sessions and without.
#[tokio::test]
async fn s3_5_a_server_over_http_is_listed_and_called() {
    for sessions in [true, false] {
        let server = TestServer::default();
        let host = Host::start(&server, sessions).await;
        let world = host.world();
        let set = world.list().await;
        assert_eq!(set.tools.len(), 16);
        let tool = set.find("h_echo").unwrap();
        assert_eq!(tool.origin, format!("http://{}/mcp", host.address));
        let args = r#"{"a":[1,2.5],"b":"é"}"#;
        assert_ok(&world.call("h.echo", args).await, args);
        let reply = world.call("h.fail", "{}").await;
        assert_eq!(reply.outcome, ToolOutcome::Error);
        assert_eq!(reply.content, "the shelf is empty");
        world.toolbox.close().await;
    }
}

/// S6.1: an HTTP server that changes without a word is found out before the call.
#[tokio::test]
async fn s6_1_a_quiet_change_fails_closed() {
    let server = TestServer::default();
    let host = Host::start(&server, false).await;
    let world = host.world();
    let set = world.list().await;
    server.state.lock().unwrap().redefined = true;
    let request = world.request(&set, "h.echo", "{}", Limits::default());
    let reply = world.send(request).await;
    assert_eq!(reply.outcome, ToolOutcome::Mismatch);
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
    world.toolbox.close().await;
}

/// Nothing goes out without a lease.
#[tokio::test]
async fn a_lost_lease_posts_nothing() {
    let server = TestServer::default();
    let host = Host::start(&server, true).await;
    let world = host.world();
    let set = world.list().await;
    let request = world.request(&set, "h.echo", "{}", Limits::default());
    let reply = world
        .toolbox
        .call(&world.revision, request, Fence::new(|| false))
        .await;
    assert_eq!(reply.outcome, ToolOutcome::Unreachable);
    assert_says(&reply.content, &["nothing was sent"]);
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
    world.toolbox.close().await;
}

/// S3.8: time is limited over HTTP too.
#[tokio::test]
async fn s3_8_a_slow_tool_over_http_times_out() {
    let server = TestServer::default();
    let host = Host::start(&server, true).await;
    let world = host.world();
    let limits = Limits {
        timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let reply = world
        .call_within("h.sleep", r#"{"ms":600000}"#, limits)
        .await;
    assert_eq!(reply.outcome, ToolOutcome::Timeout);
    assert_says(&reply.content, &["may have acted"]);
    world.toolbox.close().await;
}

/// A server that is away is unreachable, says so without secrets, and is found again when it is back.
#[tokio::test]
async fn a_server_that_went_away_is_unreachable_until_it_is_back() {
    let server = TestServer::default();
    let host = Host::start(&server, true).await;
    let (address, world) = (host.address, host.world());
    let set = world.list().await;
    drop(host);
    let request = world.request(&set, "h.echo", "{}", Limits::default());
    let reply = world.send(request.clone()).await;
    assert_eq!(reply.outcome, ToolOutcome::Unreachable);
    assert_says(&reply.content, &["`h`", "nothing was sent"]);
    assert!(!reply.content.contains("s3cr3t"), "{}", reply.content);
    let listener = bind(address).await;
    let _host = Host::on(listener, &server, true);
    assert_ok(&world.send(request).await, "{}");
    world.toolbox.close().await;
}

/// A server that restarted has forgotten the session; that costs a handshake and no call.
#[tokio::test]
async fn a_forgotten_session_is_made_anew_before_the_call() {
    let server = TestServer::default();
    let host = Host::start(&server, true).await;
    let (address, world) = (host.address, host.world());
    let set = world.list().await;
    drop(host);
    let listener = bind(address).await;
    let _host = Host::on(listener, &server, true);
    let request = world.request(&set, "h.count", "{}", Limits::default());
    assert_ok(&world.send(request).await, "1");
    world.toolbox.close().await;
}

/// Takes a port again once the server that had it has let it go.
async fn bind(address: SocketAddr) -> TcpListener {
    tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await
    .expect("the port becomes free")
}

/// S3.10: a token that a server repeats in its error is not told.
#[tokio::test]
async fn a_repeated_token_is_not_told() {
    let host = Host::start(&TestServer::default(), true).await;
    let world = host.world_with("Bearer wr0ng-token");
    let error = world.list_error().await;
    assert_says(&error, &["`h`", "500"]);
    assert!(!error.contains("wr0ng"), "{error}");
}

/// Nobody listens: refused at once.
#[tokio::test]
async fn a_port_without_a_server_is_refused() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let world = World::new(&format!(
        "servers: {{ h: {{ url: \"http://{address}/mcp\" }} }}\n"
    ));
    assert_says(&world.list_error().await, &["`h`", "refused"]);
}

/// A server that accepts and says nothing is given up.
#[tokio::test]
async fn a_silent_host_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let mut impatient = world::settings();
    impatient.connect_timeout = Duration::from_millis(500);
    let world = World::with(
        &format!("servers: {{ h: {{ url: \"http://{address}/mcp\" }} }}\n"),
        &impatient,
    );
    assert_says(&world.list_error().await, &["handshake within 500ms"]);
}
