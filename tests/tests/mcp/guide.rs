//! The MCP part of docs/integrations.md does what it says.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sayso_tests::{Case, Shape, program};
use sayso_wire::v1::ApprovalStatus;

use crate::{WORLD, gated};

const PAGE: &str = include_str!("../../../docs/integrations.md");

/// The blocks of a language in the part about MCP.
fn blocks(language: &str) -> Vec<String> {
    let part = PAGE.split("\n## ").find(|part| part.starts_with("MCP\n"));
    let part = part.expect("the page has the part");
    let begin = format!("\n```{language}\n");
    let blocks = part.split(&begin).skip(1);
    blocks
        .map(|rest| rest.split("\n```").next().unwrap().to_owned())
        .collect()
}

struct Reader<'c> {
    case: &'c Case,
    folder: PathBuf,
    approval: String,
}

impl Reader<'_> {
    /// A program that finds everything that the page names.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let sayso = self::program("SAYSO_BIN");
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", sayso.parent().unwrap().display());
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env("PATH", path)
            .env("SAYSO_SERVER", self.case.address(0))
            .env("SAYSO_TOKEN", self.case.token("app"))
            .env("APPROVAL", &self.approval);
        command
    }
}

async fn run(mut command: Command) -> String {
    let run = move || command.output().unwrap();
    let output: Output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn write(folder: &Path, file: &str, text: &str) {
    std::fs::write(folder.join(file), text).unwrap();
}

/// S6.13: every command, file and program of the page works, and its settings are settings.
#[test]
fn s6_13_the_page_does_what_it_says() {
    WORLD.alone(Shape::Embedded, async |case| {
        let run_id = case.begin(&gated("guide")).await;
        let held = case.app.held(&run_id, 1).await.remove(0);
        let folder = tempfile::tempdir().unwrap();
        let reader = Reader {
            case: &case,
            folder: folder.path().to_owned(),
            approval: held.id.clone(),
        };
        let [file] = blocks("json").try_into().unwrap();
        let file = file
            .replace("http://127.0.0.1:7400", &case.address(0))
            .replace("sayso_…", &case.token("app"));
        write(folder.path(), "mcp.json", &file);

        let [script] = blocks("python").try_into().unwrap();
        let mut python = reader.command(program("SAYSO_TEST_PYTHON"));
        python.args(["-c", &script]);
        assert!(run(python).await.contains(&held.id));

        let mut said = Vec::new();
        for block in blocks("sh") {
            let mut shell = reader.command("sh");
            shell.args(["-euc", &block]);
            said.push(run(shell).await);
        }
        assert!(said[0].contains(&held.id), "{said:?}");
        assert!(said[1].contains("decide_approval"), "{said:?}");
        let decided = case.app.approval(&held.id).await.unwrap();
        assert_eq!(decided.status(), ApprovalStatus::Denied);
        assert_eq!(decided.decision_reason.as_deref(), Some("not on a Friday"));

        let [settings] = blocks("yaml").try_into().unwrap();
        write(folder.path(), "sayso.yaml", &settings);
        let config = folder.path().join("sayso.yaml");
        let mut doctor = reader.command(program("SAYSO_BIN"));
        doctor.args(["doctor", "--config"]).arg(config);
        let judged = doctor.output().unwrap();
        let judged = String::from_utf8_lossy(&judged.stderr).into_owned();
        assert!(!judged.contains("mcp"), "{judged}");
    });
}
