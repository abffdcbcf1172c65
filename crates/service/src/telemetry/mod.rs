//! Logs and traces (`S10.3`).
//!
//! Logs go to standard error, as text for people or as one JSON object a line
//! for machines. Spans become OpenTelemetry spans and go to a collector over
//! OTLP when one is configured; without one they still have trace ids, so that
//! log lines of one run belong together and so that a trace begun by a caller
//! goes on through every service (nothing is recorded then: ids alone cost
//! little).
//!
//! Trace context travels as W3C `traceparent` and `tracestate`, in gRPC and bus
//! headers and, for a run, in its row: see [`propagate`].

mod json;
pub mod propagate;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider,
};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{LogFormat, Telemetry};

/// Spans kept until they are exported; more in a burst are dropped, with one
/// warning.
const QUEUE: usize = 16_384;

/// How long the last spans may take to leave when the process ends.
const FLUSH: Duration = Duration::from_secs(3);

/// Telemetry that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// `telemetry.log_filter` does not parse.
    #[error("telemetry.log_filter is not a level or a list of directives")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// The exporter cannot be built for `telemetry.otlp_endpoint`.
    #[error("the exporter to telemetry.otlp_endpoint cannot be built")]
    Exporter(#[source] ExporterBuildError),
    /// This process has telemetry already.
    #[error("telemetry was started twice in this process")]
    Twice(#[source] TryInitError),
}

/// Keeps telemetry running. [`Guard::shutdown`] sends what is left; dropping it
/// does so too, blocking the thread for up to three seconds.
#[must_use = "telemetry ends when the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    provider: Option<SdkTracerProvider>,
}

/// Starts logs and traces for this process, as `service` (`executor`, `up`).
/// Must be called within a tokio runtime, once.
///
/// # Errors
///
/// When the filter does not parse, the exporter cannot be built, or the process
/// has telemetry already. An unreachable collector is no error: it is tried
/// again with every batch.
pub fn init(config: &Telemetry, service: &'static str) -> Result<Guard, TelemetryError> {
    let provider = provider(config, service)?;
    let filter = EnvFilter::try_new(&config.log_filter).map_err(TelemetryError::Filter)?;
    tracing_subscriber::registry()
        .with(traces(&provider))
        .with(logs(config.log_format, service, std::io::stderr).with_filter(filter))
        .try_init()
        .map_err(TelemetryError::Twice)?;
    Ok(Guard {
        provider: Some(provider),
    })
}

impl Guard {
    /// Sends the spans that are left, for up to three seconds.
    pub async fn shutdown(mut self) {
        let Some(provider) = self.provider.take() else {
            return;
        };
        // Blocks until the exporter's own thread is done.
        let ended = tokio::task::spawn_blocking(move || flush(&provider)).await;
        if let Err(error) = ended {
            tracing::warn!("the last spans were not sent: {error}");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take() {
            flush(&provider);
        }
    }
}

fn flush(provider: &SdkTracerProvider) {
    if let Err(error) = provider.shutdown_with_timeout(FLUSH) {
        tracing::warn!("the last spans were not sent: {error}");
    }
}

fn provider(
    config: &Telemetry,
    service: &'static str,
) -> Result<SdkTracerProvider, TelemetryError> {
    let resource = Resource::builder()
        .with_service_name(format!("sayso-{service}"))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let builder = SdkTracerProvider::builder().with_resource(resource);
    let Some(endpoint) = &config.otlp_endpoint else {
        return Ok(builder.with_sampler(Sampler::AlwaysOff).build());
    };
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .build()
        .map_err(TelemetryError::Exporter)?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .build();
    let processor = BatchSpanProcessor::builder(exporter)
        .with_batch_config(batches)
        .build();
    let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(config.sampling)));
    Ok(builder
        .with_sampler(sampler)
        .with_span_processor(processor)
        .build())
}

/// The layer that turns spans into OpenTelemetry spans.
fn traces<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    // The exporter's own traffic must not make spans of its own.
    let filter = Targets::new()
        .with_default(LevelFilter::from_level(Level::INFO))
        .with_target("h2", LevelFilter::OFF)
        .with_target("hyper", LevelFilter::OFF)
        .with_target("tonic", LevelFilter::OFF)
        .with_target("tower", LevelFilter::OFF)
        .with_target("opentelemetry", LevelFilter::OFF);
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("sayso"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(filter)
}

/// The layer that writes log lines.
fn logs<S, W>(
    format: LogFormat,
    service: &'static str,
    writer: W,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    use std::io::IsTerminal;
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => layer.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => layer
            .fmt_fields(tracing_subscriber::fmt::format::JsonFields::new())
            .event_format(json::Lines { service })
            .boxed(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A subscriber as [`init`] builds it, for one test, with its JSON log.
    pub(crate) fn subscriber() -> (impl Subscriber + Send + Sync, Log) {
        let log = Log::default();
        let written = log.clone();
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOff)
            .build();
        let subscriber = tracing_subscriber::registry()
            .with(traces(&provider))
            .with(logs(LogFormat::Json, "tests", move || written.clone()));
        (subscriber, log)
    }

    #[derive(Clone, Default)]
    pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

    impl Log {
        pub(crate) fn lines(&self) -> Vec<serde_json::Value> {
            let text = self.0.lock().expect("no panic").clone();
            let text = String::from_utf8(text).expect("text");
            let parse = |line| serde_json::from_str(line).expect("a JSON object");
            text.lines().map(parse).collect()
        }
    }

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_dead_collector_neither_stops_the_start_nor_holds_up_the_end() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let config = Telemetry {
            otlp_endpoint: Some(format!("http://127.0.0.1:{port}")),
            sampling: 1.0,
            log_format: LogFormat::Text,
            log_filter: "info".into(),
            content: false,
        };
        let provider = provider(&config, "tests").expect("built");
        let subscriber = tracing_subscriber::registry().with(traces(&provider));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info_span!("work").in_scope(|| {});
        });
        let begun = std::time::Instant::now();
        Guard {
            provider: Some(provider),
        }
        .shutdown()
        .await;
        assert!(begun.elapsed() < FLUSH + Duration::from_secs(2));
    }
}
