//! `sayso mcp`: the server over standard input and output, as every command of a server.

use rmcp::transport::TokioChildProcess;
use sayso_tests::{Case, both, program};
use serde_json::json;
use tokio::process::Command;

use crate::caller::{Caller, REVISIONS};
use crate::{WORLD, gated};

fn command(case: &Case, holder: &str) -> Command {
    let mut command = Command::new(program("SAYSO_BIN"));
    command
        .arg("mcp")
        .env("SAYSO_SERVER", case.address(0))
        .env("SAYSO_TOKEN", case.token(holder));
    command
}

both! {
    /// S6.13, B42: the same tools over standard input and output, with the token of the command; who
    /// asked cannot decide here either.
    async fn s6_13_an_approval_is_decided_over_stdio(case: Case) {
        case.deploy(&gated("mcp-stdio")).await;
        for revision in REVISIONS {
            let child = |holder: &str| TokioChildProcess::new(command(&case, holder)).unwrap();
            let both = Caller::over(child("both"), &revision).await;
            let start = json!({"agent": "mcp-stdio", "input": "go"});
            let started = both.told("start_run", start).await;
            let run = started["run"]["id"].as_str().unwrap().to_owned();
            let held = case.app.held(&run, 1).await.remove(0);
            let approve = json!({"id": held.id, "decision": "approve"});
            let (code, _) = both.refused("decide_approval", approve.clone()).await;
            assert_eq!(code, "approval.own_request");

            let app = Caller::over(child("app"), &revision).await;
            assert_eq!(app.pending(&run).await, std::slice::from_ref(&held.id));
            app.told("decide_approval", approve).await;
            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);

            let foreigner = Caller::over(child("foreigner"), &revision).await;
            assert_eq!(foreigner.pending(&run).await, [""; 0]);
            for caller in [both, app, foreigner] {
                caller.close().await;
            }
        }
    }

    /// A client that closes its end at once leaves nothing behind, and one that finds no server is
    /// told so by the exit code.
    async fn the_command_ends_with_its_client(case: Case) {
        let ended = case.sayso_as("app", ["mcp"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.text());
        let nobody = case.sayso_as("app", ["mcp", "--server", "http://127.0.0.1:1"]);
        assert_eq!(nobody.code, Some(3), "{}", nobody.text());
    }
}
