//! Trace context in and out of a process, as W3C `traceparent` and
//! `tracestate`: in headers, in pairs (for the bus), and as the one string that
//! is stored beside a run.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::{OpenTelemetrySpanExt, SetParentError};

static W3C: LazyLock<TraceContextPropagator> = LazyLock::new(TraceContextPropagator::new);

const TRACEPARENT: &str = "traceparent";

/// Writes the current span's context into headers; nothing when there is none.
pub fn inject(headers: &mut HeaderMap) {
    let context = Span::current().context();
    if context.span().span_context().is_valid() {
        W3C.inject_context(&context, &mut Headers(headers));
    }
}

/// The context that headers carry; an empty one when they carry none.
pub fn extract(headers: &HeaderMap) -> Context {
    read(&FromHeaders(headers))
}

/// The current span's context as pairs, for the headers of a message.
pub fn inject_pairs() -> Vec<(String, String)> {
    let mut pairs = Pairs(Vec::new());
    let context = Span::current().context();
    if context.span().span_context().is_valid() {
        W3C.inject_context(&context, &mut pairs);
    }
    pairs.0
}

/// The context that pairs carry; an empty one when they carry none.
pub fn extract_pairs(pairs: &[(String, String)]) -> Context {
    read(&FromPairs(pairs))
}

/// The current span's context as one `traceparent`, to be stored.
pub fn traceparent() -> Option<String> {
    inject_pairs()
        .into_iter()
        .find_map(|(key, value)| (key == TRACEPARENT).then_some(value))
}

/// The context of a stored `traceparent`; an empty one when it is malformed.
pub fn from_traceparent(traceparent: &str) -> Context {
    extract_pairs(&[(TRACEPARENT.to_owned(), traceparent.to_owned())])
}

/// Makes a span that was not entered yet a child of a context from elsewhere.
/// An empty context leaves it as it is, as does a span that nobody records.
pub fn follow(span: &Span, parent: Context) {
    if !parent.span().span_context().is_valid() {
        return;
    }
    match span.set_parent(parent) {
        Ok(()) | Err(SetParentError::LayerNotFound | SetParentError::SpanDisabled) => {}
        Err(SetParentError::AlreadyStarted) => {
            tracing::debug!("a span was begun before it was given its parent");
        }
    }
}

/// Makes a span that was not entered yet part of the trace of a stored `traceparent`. Where the
/// current span is part of that trace already, the span stays its child.
pub fn join(span: &Span, traceparent: &str) {
    let joined = from_traceparent(traceparent);
    let current = Span::current().context();
    if current.span().span_context().trace_id() != joined.span().span_context().trace_id() {
        follow(span, joined);
    }
}

fn read(from: &dyn Extractor) -> Context {
    match from.get(TRACEPARENT) {
        Some(traceparent) if has_w3c_form(traceparent) => {
            W3C.extract_with_context(&Context::new(), from)
        }
        Some(_) | None => Context::new(),
    }
}

/// Whether it is `vv-<32 digits>-<16 digits>-ff`; the propagator reads shorter
/// numbers too, which nobody else would take for the same trace.
fn has_w3c_form(traceparent: &str) -> bool {
    let mut parts = traceparent.trim().split('-').map(str::len);
    [2, 32, 16, 2]
        .into_iter()
        .all(|len| parts.next() == Some(len))
}

struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
    fn set(&mut self, key: &str, value: String) {
        let name = HeaderName::try_from(key);
        let value = HeaderValue::try_from(value);
        // An empty `tracestate` says nothing: spared.
        if let (Ok(name), Ok(value)) = (name, value)
            && !value.is_empty()
        {
            self.0.insert(name, value);
        }
    }
}

struct FromHeaders<'a>(&'a HeaderMap);

impl Extractor for FromHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct Pairs(Vec<(String, String)>);

impl Injector for Pairs {
    fn set(&mut self, key: &str, value: String) {
        if !value.is_empty() {
            self.0.push((key.to_owned(), value));
        }
    }
}

struct FromPairs<'a>(&'a [(String, String)]);

impl Extractor for FromPairs<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(k, _)| k.eq_ignore_ascii_case(key));
        found.map(|(_, value)| value.as_str())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(key, _)| key.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tests::subscriber;

    const SENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn trace_of(context: &Context) -> String {
        context.span().span_context().trace_id().to_string()
    }

    #[test]
    fn s10_3_one_trace_goes_through_headers_pairs_and_storage() {
        let (subscriber, _log) = subscriber();
        tracing::subscriber::with_default(subscriber, || {
            let mut arrived = HeaderMap::new();
            arrived.insert(TRACEPARENT, HeaderValue::from_static(SENT));
            let span = tracing::info_span!("handle");
            follow(&span, extract(&arrived));
            let _entered = span.enter();
            let trace = "0af7651916cd43dd8448eb211c80319c";

            let mut headers = HeaderMap::new();
            inject(&mut headers);
            assert_eq!(trace_of(&extract(&headers)), trace);
            assert!(!headers.contains_key("tracestate"));
            assert_eq!(trace_of(&extract_pairs(&inject_pairs())), trace);
            let stored = traceparent().expect("in a trace");
            assert_eq!(trace_of(&from_traceparent(&stored)), trace);
            assert_ne!(stored, SENT, "a span of its own");
        });
    }

    #[test]
    fn s10_3_no_trace_and_malformed_traces_are_empty() {
        let mut headers = HeaderMap::new();
        inject(&mut headers);
        assert!(headers.is_empty() && inject_pairs().is_empty() && traceparent().is_none());
        for bad in [
            "",
            "00-1-2-3",
            "garbage",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        ] {
            assert!(
                !from_traceparent(bad).span().span_context().is_valid(),
                "{bad}"
            );
        }
    }
}
