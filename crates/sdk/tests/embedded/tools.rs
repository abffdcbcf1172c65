//! Tools that are code of the process.

use std::sync::{Arc, Mutex};

use sayso_sdk::embedded::{Agent, Model, Tool, ToolContext, ToolError};
use sayso_sdk::v1::RunStatus;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

use super::id;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: u32,
    b: u32,
}

const OPEN: &str =
    "name: a\nrole: unrestricted\ntools: {'*': {timeout: 1s}}\npermissions: {default: allow}";

async fn run(script: &str, tool: Tool) -> (Agent, sayso_sdk::v1::Run) {
    let agent = Agent::from_bundle(OPEN).unwrap();
    let agent = agent.model(Model::scripted(script)).tool(tool);
    let agent = agent.build().await.unwrap();
    let run = agent.run("go").await.unwrap();
    (agent, run)
}

async fn result(agent: &Agent, run: &sayso_sdk::v1::Run) -> String {
    let steps = agent.steps(&id(run)).await.unwrap();
    let result = steps.into_iter().find(|step| step.r#type == "tool_result");
    result.unwrap().content_json
}

fn adder() -> Tool {
    Tool::new("add", "Adds.", |args: Add, _| async move {
        args.a
            .checked_add(args.b)
            .ok_or_else(|| ToolError::new("too much"))
    })
}

/// S3.7: the schema of a type is what arguments are held against, before anything runs.
#[tokio::test]
async fn s3_7_arguments_are_held_against_the_type() {
    let script = "turns: [{calls: [{tool: add, args: {a: 1, b: 2}}]}, {text: '{{result.add}}'}]";
    let (_agent, run) = run(script, adder()).await;
    assert_eq!(run.output(), "3");
    let script = "turns: [{calls: [{tool: add, args: {a: -1, b: 2}}]}, {text: done}]";
    let (agent, run) = self::run(script, adder()).await;
    assert!(result(&agent, &run).await.contains("invalid_arguments"));
    let script = "turns: [{calls: [{tool: add, args: {a: 4294967295, b: 2}}]}, {text: done}]";
    let (agent, run) = self::run(script, adder()).await;
    assert!(result(&agent, &run).await.contains("too much"));
}

/// A tool that panics has an error, and its run goes on.
#[tokio::test]
async fn a_tool_that_panics_is_an_error_of_the_tool() {
    fn breaks(args: Add, _: ToolContext) -> std::future::Ready<Result<u32, ToolError>> {
        panic!("{}", args.a)
    }
    let script = "turns: [{calls: [{tool: add, args: {a: 1, b: 2}}]}, {text: done}]";
    let (agent, run) = run(script, Tool::new("add", "Breaks.", breaks)).await;
    assert_eq!(run.status(), RunStatus::Completed);
    assert!(result(&agent, &run).await.contains("it may have acted"));
}

/// S3.8: a tool that takes too long is told to stop.
#[tokio::test]
async fn s3_8_a_slow_tool_is_told_to_stop() {
    let told = Arc::new(Notify::new());
    let tells = Arc::clone(&told);
    let tool = Tool::new("add", "Is slow.", move |_: Add, cx: ToolContext| {
        let tells = Arc::clone(&tells);
        let cancelled = cx.cancelled().clone();
        tokio::spawn(async move {
            cancelled.cancelled().await;
            tells.notify_one();
        });
        std::future::pending::<Result<u32, ToolError>>()
    });
    let script = "turns: [{calls: [{tool: add, args: {a: 1, b: 2}}]}, {text: done}]";
    let (agent, run) = run(script, tool).await;
    told.notified().await;
    assert!(result(&agent, &run).await.contains("timeout"));
}

/// S1.4: a call of a cancelled run is told so, and what it answers is recorded.
#[tokio::test]
async fn s1_4_a_call_of_a_cancelled_run_is_told() {
    let (begun, keys) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let (begins, kept) = (Arc::clone(&begun), Arc::clone(&keys));
    let tool = Tool::new("add", "Waits.", move |_: Add, cx: ToolContext| {
        let (begins, kept) = (Arc::clone(&begins), Arc::clone(&kept));
        async move {
            kept.lock().unwrap().push(cx.idempotency_key().to_owned());
            begins.notify_one();
            cx.cancelled().cancelled().await;
            Ok("stopped halfway")
        }
    });
    let bundle = OPEN.replace("timeout: 1s", "timeout: 60s");
    let script = "turns: [{calls: [{tool: add, args: {a: 1, b: 2}}]}, {text: done}]";
    let agent = Agent::from_bundle(&bundle).unwrap();
    let agent = agent
        .model(Model::scripted(script))
        .tool(tool)
        .build()
        .await
        .unwrap();
    let run = agent.start("go").await.unwrap();
    begun.notified().await;
    agent.cancel(&run, "alice", "enough").await.unwrap();
    let ended = agent.finish(&run).await.unwrap();
    assert_eq!(ended.status(), RunStatus::Cancelled);
    assert!(result(&agent, &ended).await.contains("stopped halfway"));
    assert!(!keys.lock().unwrap()[0].is_empty());
}
