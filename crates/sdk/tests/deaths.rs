//! An embedded agent's process dies before and after every single append, and the next one goes on
//! (S6.14, S4.5). Each death is a process of its own: this program, started again as the agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use sayso_sdk::embedded::{Agent, Decision, Journal, Model, RunId, Start, Tool};
use sayso_sdk::v1::{self, RunStatus, verify_run_response::Result::Verified};
use sayso_store::hooks::{Then, Window};
use serde_json::{Value, json};

const FOLDER: &str = "SAYSO_DEATHS_FOLDER";
const DIE_AT: &str = "SAYSO_DEATHS_AT";

const BUNDLE: &str = r#"
name: clerk
role: unrestricted
permissions: {default: allow, rules: [{tool: refund, action: ask}]}
tools: {look: {effect: read, untrustedOutput: false}}
"#;

const SCRIPT: &str = r#"
turns:
  - calls: [{tool: look, args: {}}]
  - calls: [{tool: refund, args: {order: "A-17"}}]
  - text: "Refunded."
"#;

/// What really happened, outside the journal: one line a call, each durable before it is answered.
fn note(folder: &Path, line: &str) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new();
    let mut file = file
        .create(true)
        .append(true)
        .open(folder.join("ledger"))
        .unwrap();
    writeln!(file, "{line}").unwrap();
    file.sync_all().unwrap();
}

fn ledger(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("ledger")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn agent(folder: &Path) -> Agent {
    let noting = |tool: &'static str| {
        let folder = folder.to_owned();
        Tool::with_schema(tool, tool, json!({"type": "object"}), move |_: Value, _| {
            note(&folder, tool);
            async { Ok("done") }
        })
    };
    let agent = Agent::from_bundle(BUNDLE)
        .unwrap()
        .model(Model::scripted(SCRIPT))
        .tool(noting("look"))
        .tool(noting("refund"))
        .on_approval("desk-lead", |_| async { Decision::approve() })
        .journal(Journal::sqlite(folder.join("agent.db")));
    agent.build().await.unwrap()
}

/// The agent's process: starts the run, unless an earlier process has, and sees it to its end. It dies
/// at the named passage of a window.
#[tokio::test]
async fn the_agents_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let agent = agent(&folder).await;
    let die_at = std::env::var(DIE_AT).ok().map(|at| {
        let (window, passage) = at.split_once('@').unwrap();
        (window.to_owned(), passage.parse::<u32>().unwrap())
    });
    let mut passages = 0;
    agent.store().hook(move |window, _| {
        if let Some((wanted, at)) = &die_at
            && format!("{window:?}") == *wanted
        {
            passages += 1;
            if passages == *at {
                std::process::abort();
            }
        }
        Then::Proceed
    });
    let start = Start::new("Refund order A-17").by("alice").key("the one");
    let run = agent.start(start).await.unwrap();
    let ended = agent.finish(&run).await.unwrap();
    fs::write(folder.join("ended"), ended.id).unwrap();
    agent.stop().await;
}

fn process(folder: &Path, die_at: Option<&str>) -> ExitStatus {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process
        .args(["--exact", "the_agents_process"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(at) = die_at {
        process.env(DIE_AT, at);
    }
    process.status().unwrap()
}

/// Kills at every passage of a window, one process after the other, until one lives to its end.
async fn at_every(window: Window) {
    let mut deaths = 0;
    for passage in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let at = format!("{window:?}@{passage}");
        if process(folder.path(), Some(&at)).success() {
            break;
        }
        deaths += 1;
        assert!(process(folder.path(), None).success(), "after {at}");
        held(folder.path(), &at).await;
    }
    assert!(deaths >= 5, "it died {deaths} times");
}

/// What holds wherever it died: each call at most once, and a timeline that verifies. The run is done, or
/// has failed since a call that was sent has no answer, which a retry tells the model.
async fn held(folder: &Path, at: &str) {
    let run = RunId::new(fs::read_to_string(folder.join("ended")).unwrap()).unwrap();
    let ledger = ledger(folder);
    let refunds = ledger.iter().filter(|line| *line == "refund").count();
    assert!(refunds <= 1, "{at}: {ledger:?}");
    let agent = agent(folder).await;
    assert_eq!(agent.list().await.unwrap().len(), 1, "{at}");
    let ended = agent.get(&run).await.unwrap();
    match ended.status() {
        RunStatus::Completed => assert_eq!((ended.output(), refunds), ("Refunded.", 1), "{at}"),
        RunStatus::Failed => {
            let failure = ended.failure.unwrap();
            assert!(failure.message.contains("refund"), "{at}: {failure:?}");
            agent.retry(&run, "alice").await.unwrap();
            let ended = agent.finish(&run).await.unwrap();
            assert_eq!(ended.status(), RunStatus::Completed, "{at}: {ended:?}");
            let refunds = self::ledger(folder);
            let refunds = refunds.iter().filter(|line| *line == "refund").count();
            assert!(refunds <= 1, "{at}: it ran again unasked");
        }
        other => panic!("{at}: {other:?}"),
    }
    let verified: v1::VerifyRunResponse = agent.verify(&run).await.unwrap();
    assert!(
        matches!(verified.result, Some(Verified(_))),
        "{at}: {verified:?}"
    );
    agent.stop().await;
}

/// S6.14, S4.5: the process dies before any of its appends.
#[tokio::test]
async fn s6_14_death_before_every_append() {
    at_every(Window::BeforeCommit).await;
}

/// S6.14, S4.5: the process dies after any of its appends, before anybody hears of it.
#[tokio::test]
async fn s6_14_death_after_every_append() {
    at_every(Window::AfterCommit).await;
}
