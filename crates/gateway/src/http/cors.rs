//! Pages of other origins that may call the API from a browser, over HTTP and gRPC-web.
//!
//! None may unless the configuration names it (`http.allowed_origins`). Tokens are sent in a header
//! that a page has to know, never by the browser itself, so credentials are not allowed.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;

/// What a page may send.
const SENT: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, last-event-id, sayso-namespace, traceparent, \
     tracestate, grpc-timeout, x-grpc-web, x-user-agent",
);
/// What a page may read.
const READ: HeaderValue = HeaderValue::from_static(
    "allow, retry-after, www-authenticate, grpc-status, grpc-message, grpc-status-details-bin",
);
/// How long a browser may remember the answer, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// Any origin.
const ANY: &str = "*";

/// Which origins may call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cors {
    allowed: Arc<[String]>,
}

impl Cors {
    /// These origins, such as `https://ops.example.org`; `*` is any.
    pub(crate) fn new(allowed: Vec<String>) -> Cors {
        Cors {
            allowed: allowed.into(),
        }
    }

    /// The origin of a request, if it is another's that may call.
    pub(crate) fn origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        let allows = |allowed: &String| allowed == ANY || allowed.as_bytes() == origin.as_bytes();
        self.allowed.iter().any(allows).then(|| origin.clone())
    }

    /// Tells the browser that this origin may read the answer.
    pub(crate) fn open(origin: HeaderValue, headers: &mut HeaderMap) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, READ);
        headers.append(VARY, HeaderValue::from_static("origin"));
    }

    /// Tells the browser what a page may send, if it asked for that.
    pub(crate) fn preflight(allowed: &HeaderValue, asked: &HeaderMap, headers: &mut HeaderMap) {
        if asked.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allowed.clone());
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, SENT);
            headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_that_are_named_may_call() {
        let from = |origin: &'static str| {
            HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))])
        };
        let may = |allowed: &[&str], origin| {
            let allowed = allowed.iter().map(|a| (*a).to_owned()).collect();
            Cors::new(allowed).origin(&from(origin)).is_some()
        };
        assert!(may(&["https://a.example"], "https://a.example"));
        assert!(may(&["*"], "https://b.example"));
        assert!(!may(&[], "https://a.example"));
        assert!(!may(&["https://a.example"], "https://a.example.org"));
        assert!(!may(&["https://a.example"], "null"));
        assert_eq!(Cors::new(vec!["*".into()]).origin(&HeaderMap::new()), None);
    }
}
