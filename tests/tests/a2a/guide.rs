//! The A2A part of docs/integrations.md does what it says.

use std::process::Command;

use sayso_tests::{Shape, program};
use serde_json::Value;

use crate::{WORLD, offered};

const PAGE: &str = include_str!("../../../docs/integrations.md");

/// The blocks of a language in the part about A2A.
fn blocks(language: &str) -> Vec<String> {
    let part = PAGE.split("\n## ").find(|part| part.starts_with("A2A\n"));
    let part = part.expect("the page has the part");
    let begin = format!("\n```{language}\n");
    let blocks = part.split(&begin).skip(1);
    blocks
        .map(|rest| rest.split("\n```").next().unwrap().to_owned())
        .collect()
}

/// S6.13: every command, file and program of the page works, and its settings are settings.
#[test]
fn s6_13_the_page_does_what_it_says() {
    WORLD.alone(Shape::Embedded, async |case| {
        let folder = tempfile::tempdir().unwrap();
        let [bundle, settings] = blocks("yaml").try_into().unwrap();
        case.deploy(&offered("desk", "plain")).await;
        let command = |program: &std::path::Path| {
            let sayso = self::program("SAYSO_BIN");
            let path = std::env::var("PATH").unwrap();
            let mut command = Command::new(program);
            command
                .current_dir(folder.path())
                .env(
                    "PATH",
                    format!("{}:{path}", sayso.parent().unwrap().display()),
                )
                .env("SAYSO_SERVER", case.address(0))
                .env("SAYSO_TOKEN", case.token("sub"));
            command
        };
        for block in blocks("sh") {
            let mut shell = command(std::path::Path::new("sh"));
            let ran = shell.args(["-euc", &block]).output().unwrap();
            let said = String::from_utf8(ran.stdout).unwrap();
            assert!(ran.status.success(), "{block}: {said} {:?}", ran.stderr);
            let last: Value = serde_json::from_str(said.trim()).unwrap();
            let is_card = last["name"] == "desk";
            assert!(is_card || said.contains("TASK_STATE_COMPLETED"), "{said}");
        }
        let [script] = blocks("python").try_into().unwrap();
        let mut python = command(&program("SAYSO_TEST_PYTHON"));
        let ran = python.args(["-c", &script]).output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(
            said.contains("hello"),
            "{said} {:?}",
            String::from_utf8(ran.stderr)
        );

        let file = folder.path().join("desk.yaml");
        std::fs::write(&file, &bundle).unwrap();
        let validated = case.sayso_as("admin", ["deploy", "--validate", file.to_str().unwrap()]);
        assert_eq!(validated.code, Some(0), "{validated:?}");
        std::fs::write(folder.path().join("sayso.yaml"), settings).unwrap();
        let mut doctor = command(&program("SAYSO_BIN"));
        let judged = doctor
            .args(["doctor", "--config", "sayso.yaml"])
            .output()
            .unwrap();
        let judged = String::from_utf8_lossy(&judged.stderr).into_owned();
        assert!(!judged.contains("a2a"), "{judged}");
    });
}
