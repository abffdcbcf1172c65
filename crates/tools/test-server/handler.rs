//! Tools that do what tests need: misbehave in one way each.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

/// The environment variable that names the ledger: a file to which effects are appended.
pub(crate) const LEDGER_ENV: &str = "TEST_MCP_LEDGER";

/// Appends a line to the ledger, if there is one.
pub(crate) fn note(line: &str) {
    use std::io::Write;
    let Some(path) = std::env::var_os(LEDGER_ENV) else {
        return;
    };
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("the ledger can be opened");
    writeln!(file, "{line}").expect("the ledger can be written");
}

/// What changes while the server runs, shared by all its sessions.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Tools that were added.
    pub(crate) extra: BTreeSet<String>,
    /// Whether `echo` has its second definition.
    pub(crate) redefined: bool,
}

/// The server.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestServer {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) calls: Arc<AtomicU64>,
    pub(crate) lists: Arc<AtomicU64>,
}

impl TestServer {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with the state")
    }

    fn tools(&self) -> Vec<Tool> {
        let any = || json!({"type": "object"});
        let echo = if self.state().redefined {
            json!({"type": "object", "properties": {"force": {"type": "boolean"}}})
        } else {
            any()
        };
        let mut tools = vec![
            tool("echo", echo).with_annotations(ToolAnnotations::new().read_only(true)),
            tool(
                "append",
                json!({"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]}),
            ),
            tool(
                "sleep",
                json!({"type": "object", "properties": {"ms": {"type": "integer"}}}),
            ),
            tool("not a name", any()),
        ];
        for name in [
            "big",
            "fail",
            "refuse",
            "die",
            "grow",
            "redefine",
            "count",
            "env",
            "pid",
            "picture",
            "structured",
            "update.contact",
            "update_contact",
        ] {
            tools.push(tool(name, any()));
        }
        tools.extend(self.state().extra.iter().map(|name| tool(name, any())));
        tools
    }
}

fn tool(name: &str, schema: Value) -> Tool {
    let Value::Object(schema) = schema else {
        unreachable!("schemas are objects");
    };
    Tool::new(name.to_owned(), format!("The tool {name}."), schema)
}

fn number(arguments: &JsonObject, name: &str) -> u64 {
    arguments.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn ok(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text.into())])
}

impl ServerHandler for TestServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
    }

    /// In pages of five.
    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let start: usize = page
            .and_then(|page| page.cursor)
            .map_or(0, |cursor| cursor.parse().expect("a cursor of ours"));
        let all = self.tools();
        let end = (start + 5).min(all.len());
        let mut result = ListToolsResult::with_all_items(all[start..end].to_vec());
        result.next_cursor = (end < all.len()).then(|| end.to_string());
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let count = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let key = context
            .meta
            .get("sayso/idempotencyKey")
            .and_then(Value::as_str)
            .unwrap_or("no key")
            .to_owned();
        let result = match request.name.as_ref() {
            "echo" => ok(Value::Object(arguments).to_string()),
            "append" => {
                let line = arguments.get("line").and_then(Value::as_str);
                note(&format!("{key} {}", line.unwrap_or("")));
                ok("noted")
            }
            "sleep" => {
                note("sleeping");
                let nap = Duration::from_millis(number(&arguments, "ms"));
                tokio::select! {
                    () = tokio::time::sleep(nap) => {
                        note("rested");
                        ok("rested")
                    }
                    () = context.ct.cancelled() => {
                        note("cancelled");
                        ok("woken")
                    }
                }
            }
            "big" => ok("é".repeat(number(&arguments, "chars") as usize)),
            "fail" => CallToolResult::error(vec![ContentBlock::text("the shelf is empty")]),
            "refuse" => return Err(ErrorData::invalid_params("not like this", None)),
            "die" => {
                eprintln!("out of memory");
                std::process::exit(7);
            }
            "grow" => {
                let name = arguments
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or("extra");
                self.state().extra.insert(name.to_owned());
                tell(&context).await;
                ok("grown")
            }
            "redefine" => {
                self.state().redefined = true;
                if arguments.get("quietly") != Some(&Value::Bool(true)) {
                    tell(&context).await;
                }
                ok("redefined")
            }
            "count" => ok(count.to_string()),
            "env" => ok(std::env::vars()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
                .join("\n")),
            "pid" => ok(std::process::id().to_string()),
            "picture" => CallToolResult::success(vec![
                ContentBlock::text("a cat"),
                ContentBlock::image("aGVsbG8=", "image/png"),
            ]),
            "structured" => {
                let mut result = CallToolResult::structured(json!({"left": 3}));
                result.content.clear();
                result
            }
            name @ ("update.contact" | "update_contact") => ok(format!("this is {name}")),
            name => return Err(ErrorData::invalid_params(format!("no tool {name}"), None)),
        };
        Ok(result.into())
    }
}

async fn tell(context: &RequestContext<RoleServer>) {
    context
        .peer
        .notify_tool_list_changed()
        .await
        .expect("the client can be told");
}
