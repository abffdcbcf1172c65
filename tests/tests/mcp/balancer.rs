use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use tokio::net::TcpListener;

/// Stands before gateways and sends each request to the next one, whoever it comes from: nothing is
/// sticky. It can put a token into requests, for clients that cannot. It ends with the runtime that
/// started it.
pub(crate) struct Balancer {
    url: String,
    passing: Arc<Passing>,
}

struct Passing {
    gateways: Vec<String>,
    served: Vec<AtomicUsize>,
    next: AtomicUsize,
    token: Option<String>,
    client: reqwest::Client,
}

impl Balancer {
    pub(crate) async fn start(gateways: Vec<String>, token: Option<String>) -> Self {
        let passing = Arc::new(Passing {
            served: gateways.iter().map(|_| AtomicUsize::new(0)).collect(),
            gateways,
            next: AtomicUsize::new(0),
            token,
            client: reqwest::Client::new(),
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = Router::new()
            .fallback(pass)
            .with_state(Arc::clone(&passing));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, passing }
    }

    /// Where MCP clients find it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// How many requests each gateway has answered.
    pub(crate) fn served(&self) -> Vec<usize> {
        let served = self.passing.served.iter();
        served.map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

async fn pass(State(passing): State<Arc<Passing>>, request: Request) -> Response {
    let turn = passing.next.fetch_add(1, Ordering::Relaxed) % passing.gateways.len();
    passing.served[turn].fetch_add(1, Ordering::Relaxed);
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let url = format!("{}{}", passing.gateways[turn], parts.uri.path());
    // The name by which the client called goes along.
    let mut sent = passing
        .client
        .request(parts.method, url)
        .headers(parts.headers)
        .body(body);
    if let Some(token) = &passing.token {
        sent = sent.bearer_auth(token);
    }
    let answer = sent.send().await.unwrap();
    let mut response = Response::builder().status(answer.status());
    *response.headers_mut().unwrap() = answer.headers().clone();
    response
        .body(Body::from(answer.bytes().await.unwrap()))
        .unwrap()
}
