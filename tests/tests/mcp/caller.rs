use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientConfig, JsonObject,
    ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::Value;

/// Both revisions of the protocol that clients in the field speak.
pub(crate) const REVISIONS: [ProtocolVersion; 2] =
    [ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// A client of the protocol's Rust SDK.
pub(crate) struct Caller(RunningService<RoleClient, ClientConfig>);

/// How a client begins in this revision.
pub(crate) fn lifecycle(revision: &ProtocolVersion) -> ClientLifecycleMode {
    if *revision == ProtocolVersion::V_2026_07_28 {
        ClientLifecycleMode::Discover {
            preferred_versions: vec![revision.clone()],
        }
    } else {
        ClientLifecycleMode::Initialize
    }
}

impl Caller {
    pub(crate) async fn connect(url: &str, token: &str, revision: &ProtocolVersion) -> Self {
        let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(token);
        let transport = StreamableHttpClientTransport::from_config(config);
        let info = ClientConfig::default().with_protocol_version(revision.clone());
        let serving = info.serve_with_lifecycle(transport, lifecycle(revision));
        Self(serving.await.unwrap())
    }

    pub(crate) async fn over(
        transport: rmcp::transport::TokioChildProcess,
        revision: &ProtocolVersion,
    ) -> Self {
        let info = ClientConfig::default().with_protocol_version(revision.clone());
        let serving = info.serve_with_lifecycle(transport, lifecycle(revision));
        Self(serving.await.unwrap())
    }

    pub(crate) fn client(&self) -> &RunningService<RoleClient, ClientConfig> {
        &self.0
    }

    pub(crate) async fn close(self) {
        self.0.cancel().await.unwrap();
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let arguments: JsonObject = arguments.as_object().unwrap().clone();
        let request = CallToolRequestParams::new(tool).with_arguments(arguments);
        match self.0.call_tool_once(request).await.unwrap() {
            CallToolResponse::Complete(result) => result,
            other => panic!("{other:?}"),
        }
    }

    /// Calls a tool that succeeds; its structured answer, which is its text too.
    pub(crate) async fn told(&self, tool: &'static str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert_ne!(result.is_error, Some(true), "{result:?}");
        let told = result.structured_content.clone().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text(&result)).unwrap(), told);
        told
    }

    /// Calls a tool that refuses; the stable code and the sentence.
    pub(crate) async fn refused(&self, tool: &'static str, arguments: Value) -> (String, String) {
        let result = self.call(tool, arguments).await;
        assert_eq!(result.is_error, Some(true), "{result:?}");
        let told: Value = serde_json::from_str(text(&result)).unwrap();
        let word = |key: &str| told[key].as_str().unwrap().to_owned();
        (word("code"), word("message"))
    }

    /// The approvals of a run that wait.
    pub(crate) async fn pending(&self, run: &str) -> Vec<String> {
        let told = self
            .told("list_approvals", serde_json::json!({"run_id": run}))
            .await;
        let approvals = told["approvals"].as_array().unwrap().iter();
        approvals
            .map(|approval| approval["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn text(result: &CallToolResult) -> &str {
    &result.content[0].as_text().unwrap().text
}
