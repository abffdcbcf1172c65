//! Log lines as JSON, one object a line: time, level, target, service, message,
//! the fields of the event and of the spans around it, and the trace's ids
//! (`S10.3`).

use std::fmt;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// The format of the lines of one service.
pub(super) struct Lines {
    pub(super) service: &'static str,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        // Outer spans first, the event last: the nearest says it best.
        for span in ctx.event_scope().into_iter().flat_map(|s| s.from_root()) {
            let extensions = span.extensions();
            if let Some(fields) = extensions.get::<FormattedFields<N>>()
                && let Ok(fields) = serde_json::from_str::<Map<String, Value>>(&fields.fields)
            {
                line.extend(fields);
            }
        }
        event.record(&mut Fields(&mut line));
        // The trace layer keeps the entered span's context as the current one.
        let context = Context::current();
        let span = context.span();
        let span = span.span_context();
        if span.is_valid() {
            line.insert("trace_id".into(), span.trace_id().to_string().into());
            line.insert("span_id".into(), span.span_id().to_string().into());
        }
        let metadata = event.metadata();
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        line.insert("time".into(), time.into());
        line.insert("level".into(), metadata.level().as_str().into());
        line.insert("target".into(), metadata.target().into());
        line.insert("service".into(), self.service.into());
        let text = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{text}")
    }
}

/// Collects the fields of an event.
struct Fields<'a>(&'a mut Map<String, Value>);

impl Fields<'_> {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use crate::telemetry::{propagate, tests::subscriber};

    #[test]
    fn s10_3_log_lines_carry_the_trace_and_the_fields_around_them() {
        let (subscriber, log) = subscriber();
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("drive", run = "run_1", tries = 2);
            propagate::follow(
                &span,
                propagate::from_traceparent(
                    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                ),
            );
            span.in_scope(|| tracing::warn!(call = 7, "model {} failed", "fast"));
            tracing::info!("outside");
        });
        let lines = log.lines();
        let line = &lines[0];
        assert_eq!(line["message"], "model fast failed");
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["service"], "tests");
        assert_eq!(
            (&line["run"], &line["tries"], &line["call"]),
            (&"run_1".into(), &2.into(), &7.into())
        );
        assert_eq!(line["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(line["span_id"].as_str().map(str::len), Some(16));
        assert!(line["time"].as_str().is_some_and(|t| t.ends_with('Z')));
        assert!(lines[1].get("trace_id").is_none());
    }
}
