//! Traces (S10.3), as a collector of OpenTelemetry's gets them.

use std::collections::BTreeSet;

use sayso_tests::{Bundle, Case, Collector, Options, Shape, Span, on_runtime, until};
use sayso_wire::v1::{RunStatus, StartRunRequest};
use tonic::Request;

const SCRIPT: &str = "turns:
  - calls: [{tool: ledger.append, args: {n: 424242}}]
  - text: done";

const CALLERS_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLERS_SPAN: &str = "00f067aa0ba902b7";

/// S10.3: a run is one trace, begun by whoever started it, through every service that has a part in
/// it: admission, driving, the decision in between, and driving by whoever goes on. Model and tool
/// spans have the names and attributes of the GenAI conventions, and nothing that was said or passed
/// is in them.
fn one_trace_a_run(shape: Shape, services: &[&str]) {
    on_runtime(async {
        let collector = Collector::start().await;
        let options = Options::new()
            .script("traced", SCRIPT)
            .collector(&collector);
        let case = Case::alone(shape, options).await;
        let bundle = Bundle::new("traced").ledger("ledger", "append").ask("*");
        case.deploy(&bundle).await;
        let run = start_in_trace(&case).await;
        let held = case.app.held(&run, 1).await;
        case.app.approve(&held[0]).await;
        case.completed(&run).await;

        let spans = until("the run's spans", async || {
            let spans = collector.trace(CALLERS_TRACE);
            let chats = named(&spans, "chat ").len();
            let drives = named(&spans, "invoke_agent traced").len();
            let seen = collector.services(CALLERS_TRACE);
            let all = services.iter().all(|service| seen.contains(*service));
            (all && chats == 2 && drives >= 2 && is_whole(&spans)).then_some(spans)
        })
        .await;

        let chat = named(&spans, "chat ")[0];
        assert_eq!(chat.attributes["gen_ai.operation.name"], "chat");
        assert!(chat.attributes.contains_key("gen_ai.request.model"));
        let tools = named(&spans, "execute_tool ");
        assert_eq!(tools.len(), 1, "one call, one span: {tools:?}");
        assert_eq!(tools[0].attributes["gen_ai.operation.name"], "execute_tool");
        assert_eq!(tools[0].attributes["gen_ai.tool.name"], "ledger.append");
        // S5.8: the call whose result may be an outsider's words says that it lowered the trust.
        assert_eq!(tools[0].attributes["sayso.trust.lowered"], "untrusted");
        for span in &spans {
            let told = format!("{:?}", span.attributes);
            let silent = ["confidential", "424242"]
                .iter()
                .all(|said| !told.contains(said));
            assert!(silent, "{span:?} tells content");
        }
    });
}

async fn start_in_trace(case: &Case) -> String {
    let mut request = Request::new(StartRunRequest {
        agent: "traced".into(),
        input: "confidential".into(),
        idempotency_key: String::new(),
    });
    let traceparent = format!("00-{CALLERS_TRACE}-{CALLERS_SPAN}-01");
    let traceparent = traceparent.parse().expect("ASCII");
    request.metadata_mut().insert("traceparent", traceparent);
    let started = case.sub.runs().start_run(request).await;
    let run = started.expect("the run starts").into_inner().run;
    let run = run.expect("a start answers with the run");
    assert_ne!(run.status(), RunStatus::Failed);
    run.id
}

fn named<'s>(spans: &'s [Span], prefix: &str) -> Vec<&'s Span> {
    let spans = spans.iter();
    spans.filter(|span| span.name.starts_with(prefix)).collect()
}

/// Whether each span hangs under another of the trace, or under the caller's.
fn is_whole(spans: &[Span]) -> bool {
    let ids: BTreeSet<_> = spans.iter().map(|span| span.id.as_str()).collect();
    let mut parents = spans.iter().map(|span| span.parent.as_str());
    parents.all(|parent| parent == CALLERS_SPAN || ids.contains(parent))
}

#[test]
fn s10_3_one_trace_a_run_embedded() {
    one_trace_a_run(Shape::Embedded, &["sayso-up"]);
}

#[test]
fn s10_3_one_trace_a_run_across_services() {
    let services = [
        "sayso-gateway",
        "sayso-scheduler",
        "sayso-executor",
        "sayso-approval-hub",
    ];
    one_trace_a_run(Shape::APART, &services);
}
