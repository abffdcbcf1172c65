//! An MCP server whose tools do nothing but write down that they ran.
//!
//! `TOOLS` lists the tools to offer, separated by commas, in that order; `LEDGER` names the file that
//! gets a line for each execution: idempotency key, tool and arguments, separated by tabs, appended
//! and synced before the tool answers. All tools take any object; by their names some do more:
//!
//! * `append` and `append_once` need an integer `n`; `append_once` leaves out an execution whose
//!   idempotency key it has seen, also in another process;
//! * with the variable `STRICT` every tool's schema is another one;
//! * any tool sleeps `sleep_ms` milliseconds before it writes and `linger_ms` after it has;
//! * a tool whose name ends in `_closed` says of itself that it only reads and touches nothing outside,
//!   one whose name ends in `_open` that it touches the world outside; others say nothing;
//! * a tool whose name begins with `reveal` writes down what the variable `SECRET` holds in the place
//!   of its arguments, and answers with it;
//! * a tool whose name begins with `read` or ends in `.read` writes too, and answers `page` if it is
//!   given one, or `answer_bytes` bytes of text if it is told how many;
//! * `crash` kills the process that asked, and does not answer.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, serve_server};
use serde_json::{Value, json};

#[derive(Debug, Clone)]
struct Server {
    tools: Arc<Vec<String>>,
    ledger: Arc<std::path::PathBuf>,
}

impl Server {
    fn definition(name: &str) -> Tool {
        let schema = if name.starts_with("append") {
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
        } else {
            json!({"type": "object"})
        };
        let Value::Object(mut schema) = schema else {
            unreachable!("schemas are objects");
        };
        if std::env::var("STRICT").is_ok_and(|strict| !strict.is_empty()) {
            schema.insert("title".to_owned(), "strict".into());
        }
        let tool = Tool::new(
            name.to_owned(),
            format!("Writes down that {name} ran."),
            schema,
        );
        if name.ends_with("_closed") {
            tool.annotate(ToolAnnotations::new().read_only(true).open_world(false))
        } else if name.ends_with("_open") {
            tool.annotate(ToolAnnotations::new().open_world(true))
        } else {
            tool
        }
    }

    fn open(&self) -> File {
        OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .open(self.ledger.as_path())
            .expect("the ledger can be opened")
    }

    fn write(&self, key: &str, tool: &str, arguments: &JsonObject) {
        let arguments = Value::Object(arguments.clone());
        let mut file = self.open();
        if tool == "append_once" {
            file.lock().expect("the ledger can be locked");
            let mut text = String::new();
            file.seek(SeekFrom::Start(0))
                .expect("the ledger can be searched");
            file.read_to_string(&mut text)
                .expect("the ledger can be read");
            let seen = format!("{key}\t");
            if text.lines().any(|line| line.starts_with(&seen)) {
                return;
            }
        }
        file.write_all(format!("{key}\t{tool}\t{arguments}\n").as_bytes())
            .expect("the ledger can be written");
        file.sync_data().expect("the ledger can be synced");
    }
}

async fn nap(arguments: &JsonObject, name: &str) {
    let millis = arguments.get(name).and_then(Value::as_u64).unwrap_or(0);
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

/// Kills the process that started this one.
fn kill_the_caller() {
    let parent = std::os::unix::process::parent_id().to_string();
    let killed = std::process::Command::new("kill")
        .args(["-9", &parent])
        .status();
    assert!(killed.expect("the command `kill` exists").success());
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(|name| Self::definition(name));
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        if !self.tools.contains(&name) {
            return Err(ErrorData::invalid_params(format!("no tool {name}"), None));
        }
        let mut arguments = request.arguments.unwrap_or_default();
        if name.starts_with("reveal") {
            let secret = std::env::var("SECRET").unwrap_or_default();
            arguments = JsonObject::from_iter([("secret".to_owned(), secret.into())]);
        }
        let key = context
            .meta
            .get("sayso/idempotencyKey")
            .and_then(Value::as_str)
            .unwrap_or("no key")
            .to_owned();
        nap(&arguments, "sleep_ms").await;
        let (server, tool, written) = (self.clone(), name.clone(), arguments.clone());
        tokio::task::spawn_blocking(move || server.write(&key, &tool, &written))
            .await
            .expect("the ledger can be written");
        nap(&arguments, "linger_ms").await;
        if name == "crash" {
            kill_the_caller();
            std::future::pending::<()>().await;
        }
        let page = arguments.get("page").and_then(Value::as_str);
        let bytes = arguments.get("answer_bytes").and_then(Value::as_u64);
        let answer = match (page, bytes) {
            (Some(page), _) => page.to_owned(),
            (None, Some(bytes)) => "x".repeat(usize::try_from(bytes).expect("it fits")),
            (None, None) => format!("{name} ran with {}", Value::Object(arguments.clone())),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(answer)]).into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let variable = |name: &str| {
        std::env::var(name).unwrap_or_else(|_| panic!("the variable {name} is needed"))
    };
    let server = Server {
        tools: Arc::new(variable("TOOLS").split(',').map(str::to_owned).collect()),
        ledger: Arc::new(variable("LEDGER").into()),
    };
    let running = serve_server(server, stdio())
        .await
        .expect("the client shakes hands");
    running.waiting().await.expect("the session ends in order");
}
