//! One POST: what goes out, and what the answer means.

use std::error::Error;
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use sayso_service::config::Secret;
use sayso_service::signature;

use crate::plan::may_help;

const USER_AGENT: &str = concat!("sayso/", env!("CARGO_PKG_VERSION"));

/// What is sent: every try of a delivery differs in `timestamp` alone.
pub(crate) struct Post<'a> {
    /// Where to.
    pub(crate) url: &'a Url,
    /// What it tells of.
    pub(crate) event: &'a str,
    /// The delivery's id.
    pub(crate) id: &'a str,
    /// Seconds since 1970.
    pub(crate) timestamp: i64,
    /// The key; unsigned without.
    pub(crate) secret: Option<&'a Secret>,
    /// The exact bytes.
    pub(crate) body: Vec<u8>,
}

/// What came of one POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The receiver took it.
    Taken,
    /// It did not, and another try may help, after `wait` if it asked for one.
    Failed { why: String, wait: Option<Duration> },
    /// It refuses it.
    Refused { why: String },
}

/// A client for receivers: follows no redirect, since the body is for the configured place alone.
pub(crate) fn client(timeout: Duration) -> Result<Client, reqwest::Error> {
    Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .timeout(timeout)
        .build()
}

/// Sends once. The answer's body is not read: nothing in it matters, and it could be endless.
pub(crate) async fn send(client: &Client, post: Post<'_>) -> Answer {
    let Post {
        url,
        event,
        id,
        timestamp,
        secret,
        body,
    } = post;
    let mut request = client
        .post(url.clone())
        .header(CONTENT_TYPE, "application/json")
        .header("x-sayso-event", event)
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp);
    if let Some(secret) = secret {
        request = request
            .header("x-sayso-signature", signature::sayso(secret, &body))
            .header(
                "webhook-signature",
                signature::standard(secret, id, timestamp, &body),
            );
    }
    match request.body(body).send().await {
        Ok(response) if response.status().is_success() => Answer::Taken,
        Ok(response) => {
            let status = response.status();
            let why = format!("it answered {}", status.as_u16());
            if may_help(status) {
                Answer::Failed {
                    why,
                    wait: wait(response.headers()),
                }
            } else {
                Answer::Refused { why }
            }
        }
        Err(error) => Answer::Failed {
            why: reason(error),
            wait: None,
        },
    }
}

/// Why nothing was answered, without the URL, which may hold credentials.
fn reason(error: reqwest::Error) -> String {
    if error.is_timeout() {
        return "it did not answer in time".to_owned();
    }
    let error = error.without_url();
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        why = error.to_string();
        cause = error.source();
    }
    why
}

/// What `Retry-After` asks for: seconds, or a date by the receiver's own clock if it tells it.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let asked = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !asked.is_empty() && asked.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(asked.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(asked).ok()?;
    let now = headers
        .get(DATE)
        .and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok())
        .unwrap_or_else(SystemTime::now);
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(retry_after: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, "Sun, 06 Nov 1994 08:49:00 GMT".parse().unwrap());
        headers.insert(RETRY_AFTER, retry_after.parse().unwrap());
        wait(&headers)
    }

    /// S8.1: `Retry-After` in either of its forms.
    #[test]
    fn s8_1_retry_after_is_seconds_or_a_date() {
        assert_eq!(waits("30"), Some(Duration::from_secs(30)));
        assert_eq!(
            waits("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Duration::from_secs(37))
        );
        assert_eq!(waits("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(
            waits("99999999999999999999999"),
            Some(Duration::from_secs(u64::MAX))
        );
        for odd in ["", "-1", "soon", "1.5"] {
            assert_eq!(waits(odd), None, "{odd}");
        }
    }
}
