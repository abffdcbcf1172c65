//! One model's address: sending a request, and reading the event stream that answers it.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, Url};
use serde::Serialize;
use sse_stream::{Sse, SseStream};
use thiserror::Error;

use crate::config::ModelConfig;
use crate::fault::{self, Fault, Veil};

/// How long a connection may take; the answer has its own ceiling (S4.2).
const CONNECT: Duration = Duration::from_secs(10);

/// The largest answer that is read, in bytes of the stream: a provider that never ends does not
/// fill the memory before the ceiling does.
const LARGEST_ANSWER: usize = 64 << 20;

/// How much of an error's body is read, in bytes.
const LARGEST_COMPLAINT: usize = 64 << 10;

/// The client that all models share. It follows no redirects: they would carry keys elsewhere.
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .user_agent(concat!("sayso/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
}

/// Where a model's requests go.
pub(crate) struct Endpoint {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    veil: Veil,
}

/// A mistake in what an endpoint is made of.
#[derive(Debug, Error)]
pub(crate) enum BadEndpoint {
    #[error("is not a URL such as {example}")]
    Url { example: &'static str },
    #[error("must be set: the provider's own server wants a key")]
    NoKey,
    #[error("holds characters that no HTTP header may carry")]
    Key,
}

/// What the two formats differ in, as far as addresses go.
pub(crate) struct Address {
    /// The provider's own base URL.
    pub(crate) own: &'static str,
    /// What follows the base, such as `messages`.
    pub(crate) path: &'static [&'static str],
    /// What follows a base URL without a path of its own.
    pub(crate) bare_path: &'static [&'static str],
    /// The header that carries the key, and what stands before it.
    pub(crate) key: (HeaderName, &'static str),
}

impl Endpoint {
    /// Checks the configuration of a model.
    pub(crate) fn new(
        http: reqwest::Client,
        config: &ModelConfig,
        address: &Address,
    ) -> Result<Self, BadEndpoint> {
        let bad = || BadEndpoint::Url {
            example: address.own,
        };
        let own: Url = address.own.parse().map_err(|_invalid| bad())?;
        let base = match &config.base_url {
            Some(base) => base.parse().map_err(|_invalid| bad())?,
            None => own.clone(),
        };
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(bad());
        }
        let mut url = base.clone();
        let bare = matches!(base.path(), "" | "/");
        url.path_segments_mut()
            .map_err(|()| bad())?
            .pop_if_empty()
            .extend(if bare {
                address.bare_path
            } else {
                address.path
            });
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match &config.api_key {
            Some(key) => {
                let (name, scheme) = &address.key;
                let mut value = HeaderValue::try_from(format!("{scheme}{}", key.expose()))
                    .map_err(|_invalid| BadEndpoint::Key)?;
                value.set_sensitive(true);
                headers.insert(name, value);
            }
            None if base.host() == own.host() => return Err(BadEndpoint::NoKey),
            None => {}
        }
        let key = config.api_key.iter().map(|key| key.expose().to_owned());
        let veil = Veil::new(key.chain(secrets_of(&base)));
        Ok(Self {
            http,
            url,
            headers,
            veil,
        })
    }

    /// Adds a header that every request carries.
    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// The host that is asked.
    pub(crate) fn host(&self) -> &str {
        self.url
            .host_str()
            .expect("a URL without a host is refused")
    }

    /// Hides what must not be quoted.
    pub(crate) fn veil(&self) -> &Veil {
        &self.veil
    }

    /// Sends a request; its answer is an event stream.
    pub(crate) async fn ask(&self, body: &impl Serialize) -> Result<Events, Fault> {
        let body = serde_json::to_vec(body).expect("a request holds only strings and JSON");
        let sent = self
            .http
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(body)
            .send();
        let response = sent.await.map_err(|error| {
            let error = error.without_url();
            Fault::Unavailable(format!("could not be reached: {}", self.causes(&error)))
        })?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            let body = self.complaint(response).await?;
            return Err(fault::of_status(status, &body, &self.veil));
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        if kind.starts_with("text/html") || kind.starts_with("application/json") {
            let body = self.complaint(response).await?;
            return Err(self.no_stream(&kind, &body));
        }
        Ok(Events::of(response, self.veil.clone()))
    }

    /// A success that is no event stream: an error that a gateway dressed up, a page of a proxy.
    fn no_stream(&self, kind: &str, body: &str) -> Fault {
        let is_error = serde_json::from_str::<serde_json::Value>(body)
            .is_ok_and(|value| value.get("error").is_some_and(|error| !error.is_null()));
        if is_error {
            fault::of_event(body, &self.veil)
        } else {
            Fault::Unavailable(format!(
                "answered with {} in place of an event stream",
                self.veil.over(kind)
            ))
        }
    }

    /// The beginning of a body that is not an answer.
    async fn complaint(&self, response: Response) -> Result<String, Fault> {
        let mut stream = response.bytes_stream();
        let mut body = Vec::new();
        while body.len() < LARGEST_COMPLAINT {
            match stream.next().await {
                Some(Ok(chunk)) => body.extend_from_slice(&chunk),
                // What came so far says more than that it was cut.
                Some(Err(_)) if !body.is_empty() => break,
                Some(Err(error)) => {
                    let error = error.without_url();
                    return Err(Fault::Unavailable(format!(
                        "broke off its answer: {}",
                        self.causes(&error)
                    )));
                }
                None => break,
            }
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    fn causes(&self, error: &dyn Error) -> String {
        causes(error, &self.veil)
    }
}

/// An error with its causes, on one line.
fn causes(error: &dyn Error, veil: &Veil) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let said = source.to_string();
        if !text.contains(&said) {
            let _infallible = write!(text, ": {said}");
        }
        cause = source.source();
    }
    veil.over(&text)
}

/// What a URL carries that is nobody's business: its user, password and query.
fn secrets_of(url: &Url) -> Vec<String> {
    let mut secrets: Vec<String> = url.password().map(str::to_owned).into_iter().collect();
    secrets.extend(visible_part(url.username()));
    secrets.extend(url.query().map(str::to_owned));
    for (_, value) in url.query_pairs() {
        secrets.push(value.into_owned());
    }
    secrets
}

fn visible_part(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[derive(Debug, Error)]
enum BodyError {
    #[error("the answer is larger than {} MiB", LARGEST_ANSWER >> 20)]
    TooLarge,
    #[error("the connection broke")]
    Broken(#[source] reqwest::Error),
}

/// The events of one answer.
pub(crate) struct Events {
    stream: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    veil: Veil,
}

impl Events {
    fn of(response: Response, veil: Veil) -> Self {
        let mut left = LARGEST_ANSWER;
        let bytes = response
            .bytes_stream()
            .map(move |chunk| -> Result<Bytes, BodyError> {
                let chunk = chunk.map_err(|error| BodyError::Broken(error.without_url()))?;
                left = left.checked_sub(chunk.len()).ok_or(BodyError::TooLarge)?;
                Ok(chunk)
            });
        Self {
            stream: SseStream::from_bytes_stream(bytes).boxed(),
            veil,
        }
    }

    /// The data of the next event that has any; `None` where the stream ends.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, Fault> {
        while let Some(event) = self.stream.next().await {
            match event {
                Ok(event) => {
                    if let Some(data) = event.data {
                        return Ok(Some(data));
                    }
                }
                Err(error @ sse_stream::Error::Body(_)) => {
                    return Err(Fault::Unavailable(format!(
                        "broke off its answer: {}",
                        causes(&error, &self.veil)
                    )));
                }
                Err(error) => {
                    return Err(Fault::Unavailable(format!(
                        "sent an event stream that cannot be read: {}",
                        causes(&error, &self.veil)
                    )));
                }
            }
        }
        Ok(None)
    }
}

/// The fault of an event whose data is not what the format says.
pub(crate) fn unreadable(error: &serde_json::Error, veil: &Veil) -> Fault {
    Fault::Unavailable(format!(
        "sent an event that cannot be read: {}",
        causes(error, veil)
    ))
}
