//! The part of docs/integrations.md about targets does what it says.

use std::process::Command;

use sayso_tests::{Case, Shape, program};
use serde_json::Value;

use crate::receiver::{Receiver, told};
use crate::{KEY, WORLD};

const PAGE: &str = include_str!("../../../docs/integrations.md");

/// The blocks of a language in the part.
fn blocks(language: &str) -> Vec<String> {
    let part = PAGE
        .split("\n## ")
        .find(|part| part.starts_with("Targets\n"));
    let begin = format!("\n```{language}\n");
    let blocks = part.expect("the page has the part").split(&begin).skip(1);
    blocks
        .map(|rest| rest.split("\n```").next().unwrap().to_owned())
        .collect()
}

fn reader(case: &Case, with: impl AsRef<std::ffi::OsStr>) -> Command {
    let sayso = program("SAYSO_BIN");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", sayso.parent().unwrap().display());
    let mut command = Command::new(with);
    command
        .current_dir(case.folder())
        .env("PATH", path)
        .env("SAYSO_SERVER", case.address(0))
        .env("SAYSO_TOKEN", case.token("admin"))
        .env("HOOK_KEY", KEY);
    command
}

async fn run(mut command: Command) -> String {
    let run = tokio::task::spawn_blocking(move || command.output());
    let output = run.await.unwrap().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = said(&output.stdout) + &said(&output.stderr);
    assert!(output.status.success(), "{text}");
    text
}

/// S8.2, S8.3: every command, setting and program of the page works.
#[test]
fn s8_2_the_page_does_what_it_says() {
    WORLD.alone(Shape::Embedded, async |case| {
        let (hook, chat) = (Receiver::http(KEY, &[]), Receiver::http(KEY, &[]));
        for block in blocks("sh") {
            let mut shell = reader(&case, "sh");
            shell
                .args(["-euc", &block])
                .env("HOOK_URL", hook.url())
                .env("CHAT_URL", chat.url());
            run(shell).await;
        }
        chat.reached(1).await;
        let [rule, settings] = blocks("yaml").try_into().unwrap();
        let server = case.ledger_server("append");
        let bundle = format!(
            "name: one\nrole: unrestricted\nservers: {{ledger: {server}}}\ntier: one\n{rule}\n"
        );
        let deployed = case.admin.try_deploy(&bundle).await.unwrap();
        assert_eq!(deployed.warnings, [], "the rule names a target of the page");
        let id = case.sub.start("one", "go").await;
        let held = case.app.held(&id, 1).await.remove(0);
        let got = hook.reached(2).await;
        let body = told(&got[1]);
        assert_eq!(body["approval"]["id"], held.id.as_str());

        let [shape] = blocks("json").try_into().unwrap();
        let shape: Value = serde_json::from_str(&shape).unwrap();
        for field in shape["approval"].as_object().unwrap().keys() {
            assert!(body["approval"].get(field).is_some(), "{field}");
        }
        let [script] = blocks("python").try_into().unwrap();
        let script = format!(
            "{script}\nimport json, sys\ngot = json.loads(sys.argv[1])\n\
             headers = {{name.title(): value for name, value in got['headers'].items()}}\n\
             print(verified(headers, got['body'].encode())['type'])"
        );
        let mut python = reader(&case, program("SAYSO_TEST_PYTHON"));
        python.args(["-c", &script, &got[1].to_string()]);
        assert_eq!(run(python).await, "approval.pending\n");

        std::fs::write(case.folder().join("mail.yaml"), settings).unwrap();
        let config = case.folder().join("mail.yaml");
        let mut doctor = reader(&case, program("SAYSO_BIN"));
        doctor.args(["doctor", "--config"]).arg(config);
        let judged = doctor.output().unwrap();
        let judged = String::from_utf8_lossy(&judged.stderr).into_owned();
        assert!(!judged.contains("smtp"), "{judged}");
    });
}
