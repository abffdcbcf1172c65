//! A collector of traces, as OpenTelemetry's protocol has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// A span as it was exported.
#[derive(Debug, Clone)]
pub struct Span {
    /// The service that exported it, such as `sayso-gateway`.
    pub service: String,
    /// Its name.
    pub name: String,
    /// The trace, 32 hexadecimal digits.
    pub trace: String,
    /// Its id, 16 hexadecimal digits.
    pub id: String,
    /// The id of the span around it; empty for a trace's first.
    pub parent: String,
    /// Its attributes as text.
    pub attributes: BTreeMap<String, String>,
}

/// Takes in spans on a port of its own, until it is dropped.
#[derive(Debug)]
pub struct Collector {
    port: u16,
    spans: Spans,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

impl Collector {
    /// Starts one.
    ///
    /// # Panics
    ///
    /// If there is no port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let spans = Spans::default();
        let service = TraceServiceServer::new(spans.clone());
        let server = tokio::spawn(async move {
            let serving = tonic::transport::Server::builder().add_service(service);
            let served = serving.serve_with_incoming(TcpIncoming::from(listener));
            served.await.expect("the collector serves");
        });
        Self {
            port,
            spans,
            server,
        }
    }

    /// Its URL.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The spans of one trace so far.
    ///
    /// # Panics
    ///
    /// Never: nothing panics while it holds the spans.
    pub fn trace(&self, trace: &str) -> Vec<Span> {
        let spans = self.spans.0.lock().expect("nothing panics meanwhile");
        let of_trace = spans.iter().filter(|span| span.trace == trace);
        of_trace.cloned().collect()
    }

    /// Every span that has come, as text.
    pub fn text(&self) -> String {
        let spans = self.spans.0.lock().expect("nothing panics with the spans");
        format!("{spans:#?}")
    }

    /// The services that took part in a trace so far.
    pub fn services(&self, trace: &str) -> BTreeSet<String> {
        let spans = self.trace(trace).into_iter();
        spans.map(|span| span.service).collect()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.0.lock().expect("nothing panics meanwhile");
        for of_process in request.into_inner().resource_spans {
            let resource = of_process.resource.unwrap_or_default();
            let service = attributes(resource.attributes).remove("service.name");
            let exported = of_process.scope_spans.into_iter().flat_map(|of| of.spans);
            spans.extend(exported.map(|span| Span {
                service: service.clone().unwrap_or_default(),
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                attributes: attributes(span.attributes),
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attributes(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(other) => format!("{other:?}"),
        None => String::new(),
    };
    let attributes = attributes.into_iter();
    attributes.map(|of| (of.key, text(of.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
