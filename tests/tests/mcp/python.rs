//! The protocol's Python SDK.

use std::process::Command;

use sayso_tests::{Case, both, program};

use crate::{WORLD, gated};

/// Lists what waits for the run that it is told, and approves it: over HTTP in the revision that it is
/// told, or over standard input and output.
const SCRIPT: &str = r#"
import asyncio, os, sys
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

async def main(way, run):
    if way == "stdio":
        server = StdioServerParameters(
            command=os.environ["SAYSO_BIN"], args=["mcp"],
            env={name: os.environ[name] for name in ("SAYSO_SERVER", "SAYSO_TOKEN")})
        mode = "auto"
    else:
        headers = {"Authorization": "Bearer " + os.environ["SAYSO_TOKEN"]}
        server = streamable_http_client(
            os.environ["SAYSO_SERVER"] + "/mcp", http_client=httpx2.AsyncClient(headers=headers))
        mode = way
    async with Client(server, mode=mode) as client:
        print(client.protocol_version)
        listed = await client.call_tool("list_approvals", {"run_id": run})
        held = listed.structured_content["approvals"][0]["id"]
        decided = await client.call_tool("decide_approval", {"id": held, "decision": "approve"})
        print(decided.structured_content["outcome"]["decidedBy"])
        again = await client.call_tool("decide_approval", {"id": held, "decision": "deny"})
        print(again.is_error, "approval.already_decided" in again.content[0].text)

asyncio.run(main(*sys.argv[1:]))
"#;

async fn approve(case: &Case, way: &'static str, run: &str) -> Vec<String> {
    let mut command = Command::new(program("SAYSO_TEST_PYTHON"));
    command
        .args(["-c", SCRIPT, way, run])
        .env("SAYSO_SERVER", case.address(0))
        .env("SAYSO_TOKEN", case.token("app"));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    assert!(output.status.success(), "{way}: {output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(str::to_owned).collect()
}

both! {
    /// S6.13: the Python SDK, which checks every answer against the shape that the tools announce,
    /// approves in both revisions and over standard input and output.
    async fn s6_13_the_python_sdk_approves(case: Case) {
        case.deploy(&gated("mcp-python")).await;
        for (way, revision) in [
            ("legacy", "2025-11-25"),
            ("2026-07-28", "2026-07-28"),
            ("auto", "2026-07-28"),
            ("stdio", "2026-07-28"),
        ] {
            let run = case.sub.start("mcp-python", "go").await;
            case.app.held(&run, 1).await;
            let said = approve(&case, way, &run).await;
            assert_eq!(said, [revision, "app", "True True"], "{way}");
            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);
        }
    }
}
