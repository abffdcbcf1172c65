//! MCP servers that others wrote. `cargo xtask test` installs them and says where they are.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sayso_run::ToolOutcome;

use crate::world::{World, assert_says};

/// What `cargo xtask test` sets. A missing server is a failure: a skipped test would look like a
/// passed one.
fn installed(variable: &str) -> PathBuf {
    std::env::var_os(variable).map(PathBuf::from).unwrap_or_else(|| {
        panic!("{variable} is not set; run this test through `cargo xtask test`, which installs what it needs")
    })
}

fn git(repository: &Path, args: &[&str]) {
    let done = Command::new("git")
        .arg("-C")
        .arg(repository)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args(args)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(done.success(), "git {args:?}");
}

/// S3.5: `mcp-server-git` over stdio, on a real repository.
#[tokio::test]
async fn s3_5_mcp_server_git_over_stdio() {
    let program = installed("SAYSO_TEST_GIT_MCP");
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path();
    git(repository, &["init", "-q", "-b", "main"]);
    std::fs::write(repository.join("a.txt"), "one\n").unwrap();
    git(repository, &["add", "a.txt"]);
    git(repository, &["commit", "-q", "-m", "Begin"]);
    std::fs::write(repository.join("b.txt"), "two\n").unwrap();

    let world = World::new(&format!(
        "servers:\n  git: {{ command: [{:?}, --repository, {:?}] }}\n",
        program.display().to_string(),
        repository.display().to_string(),
    ));
    let set = world.list().await;
    assert_eq!(set.tools.len(), 12, "{:?}", set.tools);
    assert_eq!(
        set.find("git_git_status").unwrap().registered,
        "git.git_status"
    );
    let args = serde_json::json!({"repo_path": repository}).to_string();
    let reply = world.call("git.git_status", &args).await;
    assert_eq!(reply.outcome, ToolOutcome::Ok, "{}", reply.content);
    assert_says(&reply.content, &["On branch main", "b.txt"]);
    // Elsewhere it does not look: the server's own answer, as an error.
    let elsewhere = serde_json::json!({"repo_path": "/nowhere"}).to_string();
    let reply = world.call("git.git_status", &elsewhere).await;
    assert_eq!(reply.outcome, ToolOutcome::Error, "{}", reply.content);
    world.toolbox.close().await;
}

/// S3.5: `@modelcontextprotocol/server-everything` over streamable HTTP.
#[tokio::test]
async fn s3_5_server_everything_over_http() {
    let program = installed("SAYSO_TEST_NPM").join("mcp-server-everything");
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let mut command = tokio::process::Command::new(program);
    if let Some(node) = std::env::var_os("SAYSO_TEST_NODE_BIN") {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(PathBuf::from(node)).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(all).unwrap());
    }
    let mut server = command
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    tokio::time::timeout(Duration::from_secs(60), async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            assert!(server.try_wait().unwrap().is_none(), "the server ended");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .expect("the server listens in time");

    let world = World::new(&format!(
        "servers: {{ every: {{ url: \"http://127.0.0.1:{port}/mcp\" }} }}\n"
    ));
    let set = world.list().await;
    assert!(set.tools.len() > 5, "{:?}", set.tools);
    assert_eq!(set.find("every_echo").unwrap().registered, "every.echo");
    let reply = world.call("every.echo", r#"{"message":"héllo"}"#).await;
    assert_eq!(reply.outcome, ToolOutcome::Ok, "{}", reply.content);
    assert_says(&reply.content, &["héllo"]);
    world.toolbox.close().await;
    server.kill().await.unwrap();
}
