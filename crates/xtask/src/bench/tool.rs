//! The call that is gated.
//!
//! By default it is a call of an MCP server over stdio that answers at once and does nothing: a
//! real tool as far as sayso can tell, with two pipes and JSON-RPC between, and no work of its own
//! that would be measured along. The server is this program (`xtask bench-tool`), written without
//! an MCP library, so it costs little; what it costs counts as the executor's.
//!
//! The other choice is the built-in `create_artifact`, which has no process and no pipes, and
//! writes a row in a transaction of its own.

use std::io::{self, BufRead, Write};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Value, json};

/// The version of MCP that the server speaks.
const PROTOCOL: &str = "2025-11-25";

/// What is asked for in each run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum GatedTool {
    /// A call of an MCP server over stdio that does nothing.
    #[default]
    Mcp,
    /// The built-in that writes a row.
    Artifact,
}

impl GatedTool {
    /// The word for it on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// What it is, for the report.
    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Mcp => "MCP over stdio, does nothing",
            Self::Artifact => "create_artifact, writes a row",
        }
    }

    /// The bundle of the agent that has it. `program` serves [`GatedTool::Mcp`].
    pub(super) fn bundle(self, program: &str) -> String {
        let mut bundle = json!({
            "name": super::drive::AGENT,
            "description": "Files one order for each request.",
            "role": "unrestricted",
            "tier": "balanced",
            "instructions": "You file orders. Every order is seen by a person first.",
            "permissions": {
                "default": "deny",
                "rules": [{ "tool": self.registered(), "action": "ask" }],
                "approvalTimeout": "1d",
            },
        });
        match self {
            Self::Mcp => {
                bundle["servers"] = json!({ "desk": { "command": [program, "bench-tool"] } });
                // Our own tool: nothing that outsiders wrote comes back.
                bundle["tools"] = json!({ "desk.*": { "untrustedOutput": false } });
            }
            Self::Artifact => bundle["builtins"] = json!(["create_artifact"]),
        }
        bundle.to_string()
    }

    /// The bundle of the agent whose model takes its time.
    pub(super) fn slow_bundle() -> String {
        json!({
            "name": super::drive::SLOW_AGENT,
            "role": "unrestricted",
            "tier": "slow",
            "instructions": "You think before you answer.",
        })
        .to_string()
    }

    /// The script of the model that takes its time: less than it may, and longer than any kill.
    pub(super) fn slow_script() -> String {
        json!({ "turns": [{ "text": "So be it.", "delay": "4m" }] }).to_string()
    }

    /// The script of the model: it asks for the call, then says that it is done.
    pub(super) fn script(self) -> String {
        let args = match self {
            Self::Mcp => json!({ "order": "A-17", "amount": 1250, "note": "as agreed by phone" }),
            Self::Artifact => json!({
                "name": "order.txt",
                "mime_type": "text/plain",
                "content": "order A-17, amount 1250, as agreed by phone",
            }),
        };
        json!({
            "turns": [
                {
                    "text": "I file the order as you asked; a person has to agree first.",
                    "calls": [{ "tool": self.registered(), "args": args }],
                    "usage": { "input": 900, "output": 40 },
                },
                {
                    "text": "The order is filed.",
                    "usage": { "input": 980, "output": 12 },
                },
            ],
        })
        .to_string()
    }

    fn registered(self) -> &'static str {
        match self {
            Self::Mcp => "desk.file_order",
            Self::Artifact => "create_artifact",
        }
    }
}

/// Serves the tool over standard input and output until the input ends.
pub(crate) fn serve() -> Result<()> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line.context("cannot read standard input")?;
        let Some(answer) = answer(&line)? else {
            continue;
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

/// The answer to one message; `None` if it wants none.
fn answer(line: &str) -> Result<Option<Value>> {
    let message: Value = serde_json::from_str(line).context("a message is not JSON")?;
    let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
        return Ok(None);
    };
    let result = match method {
        "initialize" => json!({
            "protocolVersion": PROTOCOL,
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "desk", "version": "1" },
        }),
        "tools/list" => json!({ "tools": [tool()] }),
        "tools/call" => json!({ "content": [{ "type": "text", "text": "filed as number 4711" }] }),
        "ping" => json!({}),
        _ => {
            let error = json!({ "code": -32601, "message": "no such method" });
            return Ok(Some(json!({ "jsonrpc": "2.0", "id": id, "error": error })));
        }
    };
    Ok(Some(
        json!({ "jsonrpc": "2.0", "id": id, "result": result }),
    ))
}

fn tool() -> Value {
    json!({
        "name": "file_order",
        "description": "Files an order.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "order": { "type": "string" },
                "amount": { "type": "integer", "minimum": 1 },
                "note": { "type": "string" },
            },
            "required": ["order", "amount"],
            "additionalProperties": false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_and_notifications_are_not() {
        let called = answer(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#);
        let called = called.expect("JSON").expect("a request");
        assert_eq!(called["id"], 7);
        assert_eq!(called["result"]["content"][0]["type"], "text");
        let told = answer(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(told.expect("JSON"), None);
        let unknown = answer(r#"{"jsonrpc":"2.0","id":"a","method":"server/discover"}"#);
        let unknown = unknown.expect("JSON").expect("a request");
        assert_eq!(unknown["error"]["code"], -32601);
    }
}
