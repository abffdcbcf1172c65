//! The command line of the protocol's inspector.

use std::process::Command;

use sayso_tests::{Case, Ran, both, program};
use serde_json::Value;

use crate::{WORLD, gated};

async fn inspect(arguments: Vec<String>) -> Ran {
    let run = move || {
        Command::new(program("SAYSO_TEST_NPM").join("mcp-inspector"))
            .arg("--cli")
            .args(arguments)
            .output()
            .unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// How the inspector reaches the server: over HTTP, and by starting `sayso mcp`.
fn ways(case: &Case, holder: &str) -> [Vec<String>; 2] {
    let token = case.token(holder);
    let over_http = [
        format!("{}/mcp", case.address(0)),
        "--transport".into(),
        "http".into(),
        "--header".into(),
        format!("Authorization: Bearer {token}"),
    ];
    let over_stdio = [
        "-e".into(),
        format!("SAYSO_TOKEN={token}"),
        "-e".into(),
        format!("SAYSO_SERVER={}", case.address(0)),
        program("SAYSO_BIN").display().to_string(),
        "mcp".into(),
    ];
    [over_http.into(), over_stdio.into()]
}

fn with(way: &[String], more: &[&str]) -> Vec<String> {
    let more = more.iter().map(|word| (*word).to_owned());
    way.iter().cloned().chain(more).collect()
}

both! {
    /// S6.13: the inspector lists the tools and decides, over HTTP and over standard input and output;
    /// its exit code tells a refusal.
    async fn s6_13_the_inspector_decides(case: Case) {
        case.deploy(&gated("mcp-inspector")).await;
        let own = ways(&case, "both");
        for (at, way) in ways(&case, "app").iter().enumerate() {
            let listed = with(way, &["--method", "tools/list", "--strict"]);
            let listed = inspect(listed).await.expect_success().json();
            assert_eq!(listed["tools"].as_array().unwrap().len(), 4);

            let run = case.both.start("mcp-inspector", "go").await;
            let held = case.app.held(&run, 1).await.remove(0);
            let id = format!("id={}", held.id);
            let decide = [
                "--method", "tools/call", "--tool-name", "decide_approval",
                "--tool-arg", &id, "--tool-arg", "decision=approve",
            ];
            let refused = inspect(with(&own[at], &decide)).await;
            assert_ne!(refused.code, Some(0), "{}", refused.text());
            assert!(refused.text().contains("approval.own_request"), "{}", refused.text());
            assert_eq!(case.ledger.of(&run), []);

            let decided = inspect(with(way, &decide)).await.expect_success().json();
            let outcome: &Value = &decided["structuredContent"]["outcome"];
            assert_eq!(outcome["decidedBy"], "app", "{decided}");
            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);
        }
    }
}
