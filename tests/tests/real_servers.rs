//! Servers that no one here wrote: MCP over stdio and over streamable HTTP, and a third party's model
//! provider in two wire formats.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sayso_tests::{Bundle, Case, Options, Shape, free_port, on_runtime, program, until};
use sayso_wire::v1::ActionStatus;
use serde_json::json;
use tokio::net::TcpStream;

/// A git repository made for one test.
struct Repository {
    folder: tempfile::TempDir,
    git: PathBuf,
}

impl Repository {
    /// One commit, and a staged change.
    fn new() -> Self {
        let repository = Self {
            folder: tempfile::tempdir().unwrap(),
            git: program("SAYSO_TEST_GIT"),
        };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.git(&["config", "user.name", "Test"]);
        repository.git(&["config", "user.email", "test@example.org"]);
        std::fs::write(repository.path().join("a.txt"), "one\n").unwrap();
        repository.git(&["add", "a.txt"]);
        repository.git(&["commit", "--quiet", "-m", "Begin"]);
        std::fs::write(repository.path().join("a.txt"), "two\n").unwrap();
        repository.git(&["add", "a.txt"]);
        repository
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.git)
            .arg("-C")
            .arg(self.path())
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn commits(&self) -> Vec<String> {
        let log = self.git(&["log", "--format=%s"]);
        log.lines().map(str::to_owned).collect()
    }

    /// All that a denied commit must leave as it is.
    fn state(&self) -> String {
        self.git(&["status", "--porcelain=v2", "--branch"]) + &self.git(&["log", "--format=%H"])
    }
}

fn committer(repository: &Repository) -> (Bundle, String) {
    let path = repository.path().display();
    let script = format!(
        "turns:
  - calls:
      - {{tool: git.git_status, args: {{repo_path: '{path}'}}}}
      - {{tool: git.git_log, args: {{repo_path: '{path}'}}}}
      - {{tool: git.git_commit, args: {{repo_path: '{path}', message: Change a line}}}}
  - when: {{result_contains: denied by user}}
    text: was denied
  - text: committed"
    );
    let command = [
        program("SAYSO_TEST_GIT_MCP").display().to_string(),
        "--repository".to_owned(),
        path.to_string(),
    ];
    let bundle = Bundle::new("committer")
        .server("git", json!({"command": command}))
        .allow("git.git_status")
        .allow("git.git_log")
        .ask("git.git_commit");
    (bundle, script)
}

/// A real MCP server over stdio: reading runs by rule, the commit does not exist before the approval
/// and exists once after it.
fn commit(shape: Shape) {
    on_runtime(async {
        let repository = Repository::new();
        let (bundle, script) = committer(&repository);
        let case = Case::alone(shape, Options::new().script("committer", &script)).await;
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 1).await.remove(0);
        assert_eq!(held.tool, "git.git_commit");
        let actions = case.app.actions(&run).await;
        assert!(
            actions["call_1_1"]
                .result
                .as_ref()
                .unwrap()
                .contains("a.txt"),
            "{actions:#?}"
        );
        assert!(
            actions["call_1_2"]
                .result
                .as_ref()
                .unwrap()
                .contains("Begin"),
            "{actions:#?}"
        );
        assert_eq!(actions["call_1_1"].cleared_by.as_deref(), Some("rules#0"));
        assert_eq!(repository.commits(), ["Begin"]);

        case.app.approve(&held).await;
        let done = case.completed(&run).await;

        assert_eq!(done.output.as_deref(), Some("committed"));
        assert_eq!(repository.commits(), ["Change a line", "Begin"]);
        let actions = case.app.actions(&run).await;
        assert_eq!(actions["call_1_3"].status(), ActionStatus::Executed);
        assert_eq!(
            actions["call_1_3"].cleared_by.as_deref(),
            Some("principal:app")
        );
    });
}

#[test]
fn git_commits_once_when_it_is_approved_embedded() {
    commit(Shape::Embedded);
}

#[test]
fn git_commits_once_when_it_is_approved_apart() {
    commit(Shape::APART);
}

/// A denial leaves the repository untouched while the run goes on.
#[test]
fn git_is_untouched_when_the_commit_is_denied() {
    on_runtime(async {
        let repository = Repository::new();
        let before = repository.state();
        let (bundle, script) = committer(&repository);
        let case = Case::alone(Shape::Embedded, Options::new().script("committer", &script)).await;
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 1).await.remove(0);
        case.app.deny(&held, "not on a Friday").await;
        let done = case.completed(&run).await;
        assert_eq!(done.output.as_deref(), Some("was denied"));
        assert_eq!(repository.state(), before);
    });
}

/// A program from npm, killed when it is dropped.
struct Served(Child);

impl Served {
    async fn start(port: u16, program: &str, arguments: &[&str], log: &Path) -> Self {
        let mut command = Command::new(self::program("SAYSO_TEST_NPM").join(program));
        let child = command
            .args(arguments)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(log).unwrap())
            .stderr(std::fs::File::create(log.with_extension("errors")).unwrap())
            .spawn()
            .unwrap();
        let served = Self(child);
        until(&format!("{program} to listen"), async || {
            TcpStream::connect(("127.0.0.1", port)).await.ok()
        })
        .await;
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A real MCP server over streamable HTTP: a gated tool runs once it is approved, a denied one does
/// not, and the run goes on.
#[test]
fn everything_over_streamable_http() {
    on_runtime(async {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let log = folder.path().join("everything.log");
        let _server = Served::start(port, "mcp-server-everything", &["streamableHttp"], &log).await;
        let script = "turns:
  - calls:
      - {tool: everything.echo, args: {message: hello}}
      - {tool: everything.get-sum, args: {a: 20, b: 22}}
  - when: {result_contains: '42'}
    text: summed
  - text: not summed";
        let case = Case::alone(Shape::APART, Options::new().script("everything", script)).await;
        let url = format!("http://127.0.0.1:{port}/mcp");
        let bundle = Bundle::new("everything")
            .server("everything", json!({"url": url}))
            .allow("everything.echo")
            .ask("everything.get-sum");
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 1).await.remove(0);
        assert_eq!(held.tool, "everything.get-sum");
        let actions = case.app.actions(&run).await;
        assert!(
            actions["call_1_1"]
                .result
                .as_ref()
                .unwrap()
                .contains("hello"),
            "{actions:#?}"
        );
        case.app.approve(&held).await;
        assert_eq!(case.completed(&run).await.output.as_deref(), Some("summed"));

        let run = case.sub.start("everything", "again").await;
        let held = case.app.held(&run, 1).await.remove(0);
        case.app.deny(&held, "").await;
        assert_eq!(
            case.completed(&run).await.output.as_deref(),
            Some("not summed")
        );
        assert!(
            !case
                .app
                .timeline(&run)
                .await
                .has("tool_started", "call_1_2")
        );
    });
}

const FIXTURES: &str = r#"{"fixtures": [
  {"match": {"userMessage": "append two", "hasToolResult": false},
   "response": {"content": "Two numbers.", "toolCalls": [
     {"name": "ledger_append", "arguments": "{\"n\": 1}"},
     {"name": "ledger_append", "arguments": "{\"n\": 2}"}]}},
  {"match": {"userMessage": "append two", "hasToolResult": true},
   "response": {"content": "Both are handled."}}
]}"#;

/// A third party's provider: a full gated run with parallel calls through each wire format.
#[test]
fn a_gated_run_through_both_wire_formats() {
    on_runtime(async {
        let folder = tempfile::tempdir().unwrap();
        let fixtures = folder.path().join("fixtures.json");
        std::fs::write(&fixtures, FIXTURES).unwrap();
        let port = free_port();
        let log = folder.path().join("provider.log");
        let (port_text, fixtures) = (port.to_string(), fixtures.display().to_string());
        let arguments = ["-p", &port_text, "-f", &fixtures, "--strict"];
        let _provider = Served::start(port, "llmock", &arguments, &log).await;
        let model = |provider: &str| {
            json!({
                "provider": provider,
                "base_url": format!("http://127.0.0.1:{port}/v1/"),
                "model": "test-model",
                "api_key": "test",
            })
        };
        let options = Options::new()
            .model("openai", model("openai"))
            .model("anthropic", model("anthropic"))
            .tier("openai", &["openai"])
            .tier("anthropic", &["anthropic"]);
        let case = Case::alone(Shape::APART, options).await;
        for tier in ["openai", "anthropic"] {
            let bundle = Bundle::new(tier)
                .ledger("ledger", "append")
                .ask("ledger.append");
            case.deploy(&bundle).await;
            let run = case.sub.start(tier, "append two").await;
            let held = case.app.held(&run, 2).await;
            case.app.deny(&held[0], "").await;
            case.app.approve(&held[1]).await;
            let done = case.completed(&run).await;
            assert_eq!(done.output.as_deref(), Some("Both are handled."), "{tier}");
            assert_eq!(case.ledger.numbers(&run), [2], "{tier}");
        }
    });
}
