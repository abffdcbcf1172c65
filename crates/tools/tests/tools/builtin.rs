//! Built-in and control tools.

use sayso_driver::{Fence, ToolKind, Tools};
use sayso_run::ToolOutcome;

use crate::world::{Limits, World, assert_ok, assert_says};

const GRANTS: &str = "interaction: true\nbuiltins: [create_artifact]\n";

/// S3.1: `create_artifact` keeps a file; S9.4: once, however often the call is sent.
#[tokio::test]
async fn s3_1_an_artifact_is_kept_once() {
    let world = World::new(GRANTS);
    let args = r##"{"name":"../r.md","mime_type":"text/markdown","content":"# é"}"##;
    for _ in 0..2 {
        let reply = world.call("create_artifact", args).await;
        assert_ok(
            &reply,
            &serde_json::json!({"artifact": "art_0", "name": "_r.md", "bytes": 4}).to_string(),
        );
        assert_eq!(reply.artifact.as_deref(), Some("art_0"));
    }
    let kept = world.memory.artifacts.lock().unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].content, "# é");
    assert_eq!(kept[0].run, world.run);
}

/// S3.7: what does not fit is refused before anyone is asked.
#[tokio::test]
async fn s3_7_an_artifact_that_does_not_fit_is_refused() {
    let world = World::new(GRANTS);
    let set = world.list().await;
    let tool = set.find("create_artifact").unwrap();
    let args = |content: &str| {
        serde_json::json!({"name": "a", "mime_type": "text/plain", "content": content}).to_string()
    };
    assert_eq!(world.toolbox.check(tool, &args("x")), Ok(()));
    let large = args(&"é".repeat(600_000));
    assert_says(
        &world.toolbox.check(tool, &large).unwrap_err(),
        &["/content: 1200000 bytes"],
    );
    let reply = world.call("create_artifact", &large).await;
    assert_eq!(reply.outcome, ToolOutcome::InvalidArguments);
    assert!(world.toolbox.check(tool, r#"{"name":"a"}"#).is_err());
    assert!(world.memory.artifacts.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_artifact_is_not_kept_without_lease_definition_or_store() {
    let world = World::new(GRANTS);
    let set = world.list().await;
    let args = r#"{"name":"a","mime_type":"text/plain","content":""}"#;
    let request = world.request(&set, "create_artifact", args, Limits::default());
    let fenced = world
        .toolbox
        .call(&world.revision, request.clone(), Fence::new(|| false))
        .await;
    assert_eq!(fenced.outcome, ToolOutcome::Unreachable);
    let mut other = request.clone();
    other.tool.input_schema = "{}".to_owned();
    assert_eq!(world.send(other).await.outcome, ToolOutcome::Mismatch);
    *world.memory.broken.lock().unwrap() = true;
    let reply = world.send(request).await;
    assert_eq!(reply.outcome, ToolOutcome::Error);
    assert_says(&reply.content, &["no disk"]);
    assert!(world.memory.artifacts.lock().unwrap().is_empty());
}

/// S1.8: `ask_person` is listed for agents that may ask, checked, and never sent.
#[tokio::test]
async fn s1_8_ask_person_is_listed_and_never_sent() {
    assert_eq!(World::new("").list().await.tools.len(), 0);
    let world = World::new(GRANTS);
    let set = world.list().await;
    let tool = set.find("ask_person").unwrap();
    assert_eq!(tool.kind, ToolKind::Control);
    assert_eq!(
        world.toolbox.check(tool, r#"{"question":"Which one?"}"#),
        Ok(())
    );
    assert!(world.toolbox.check(tool, r#"{"question":""}"#).is_err());
    let reply = world.call("ask_person", r#"{"question":"?"}"#).await;
    assert_eq!(reply.outcome, ToolOutcome::Mismatch);
}
