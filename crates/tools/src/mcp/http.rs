//! MCP over streamable HTTP.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, JsonRpcMessage};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use super::dispatch::Dispatch;

/// How long it may take to connect to a host.
const CONNECT: Duration = Duration::from_secs(10);

/// Requests in progress on one connection; the toolbox has the limit that matters.
const IN_PROGRESS: usize = 4096;

/// How many redirects are followed, all on the same host.
const MAX_REDIRECTS: usize = 5;

type Failure = StreamableHttpError<reqwest::Error>;

/// The transport to a server of a bundle.
pub(super) fn transport(
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<StreamableHttpClientTransport<Caller>, String> {
    let mut named = HashMap::new();
    for (name, value) in headers {
        let bad = |what: &str| format!("the header `{name}` has {what}");
        let header: HeaderName = name.parse().map_err(|_| bad("a name that HTTP lacks"))?;
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| bad("a value that HTTP cannot carry"))?;
        value.set_sensitive(true);
        named.insert(header, value);
    }
    // A session that ended is not made anew beneath a call: the toolbox looks at the tools first.
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(named)
        .max_concurrent_requests(IN_PROGRESS)
        .reinit_on_expired_session(false);
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .pool_max_idle_per_host(0)
        .retry(reqwest::retry::never())
        .redirect(Policy::custom(same_host))
        .build()
        .map_err(|error| format!("no HTTP client: {error}"))?;
    Ok(StreamableHttpClientTransport::with_client(
        Caller(client),
        config,
    ))
}

/// A redirect that changes method or host would lose the message or show the headers to a stranger.
fn same_host(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_message = matches!(attempt.status().as_u16(), 307 | 308);
    let same = attempt
        .previous()
        .first()
        .is_some_and(|first| first.origin() == attempt.url().origin());
    if keeps_message && same && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

/// reqwest, asking a call's [`Dispatch`] before it posts.
#[derive(Debug, Clone)]
pub(super) struct Caller(reqwest::Client);

fn dispatch_of(message: &ClientJsonRpcMessage) -> Option<Dispatch> {
    match message {
        JsonRpcMessage::Request(request) => request.request.extensions().get().cloned(),
        _ => None,
    }
}

impl StreamableHttpClient for Caller {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            StreamableHttpResponseLimits::default(),
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let dispatch = dispatch_of(&message);
        if dispatch.as_ref().is_some_and(|dispatch| !dispatch.begin()) {
            return Err(StreamableHttpError::Io(std::io::Error::other(
                "the call was withheld",
            )));
        }
        let answer = self
            .0
            .post_message_with_response_limits(
                uri,
                message,
                session_id,
                auth_header,
                custom_headers,
                limits,
            )
            .await;
        if let (Some(dispatch), Err(StreamableHttpError::Client(error))) = (dispatch, &answer)
            && error.is_connect()
        {
            dispatch.undelivered();
        }
        answer
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.0
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.0
            .get_stream(uri, session_id, last_event_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.0
            .get_stream_with_max_sse_event_size(
                uri,
                session_id,
                last_event_id,
                auth_header,
                custom_headers,
                max_sse_event_size,
            )
            .await
    }
}
