//! `sayso up` in a folder of its own, and the program run against it.

use std::cell::RefCell;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sayso");
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shop");

/// The program, with nothing of the caller's environment that speaks of sayso, and no terminal.
pub(crate) fn sayso() -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SAYSO_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// What a command answered.
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(command: &mut Command) -> Answer {
        let output = command.output().unwrap();
        Answer {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Answer {
        assert_eq!(self.code, 0, "{self}");
        self
    }

    /// The first line.
    pub(crate) fn id(&self) -> String {
        self.out.lines().next().unwrap().to_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "exit {}\n--- out\n{}\n--- err\n{}",
            self.code, self.out, self.err
        )
    }
}

/// A running `sayso up`.
pub(crate) struct World {
    folder: TempDir,
    server: String,
    up: RefCell<Child>,
}

impl World {
    pub(crate) fn start() -> World {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("{EXAMPLES}/model.yaml");
        let config = format!(
            "models: {{ scripted: {{ provider: scripted, script: {script:?} }} }}\ntiers: {{ balanced: [scripted] }}\n"
        );
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let mut up = sayso()
            .args(["up", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder.path().join("data"))
            .arg("--config")
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(up.stdout.take().unwrap());
        let mut server = None;
        let mut line = String::new();
        while server.is_none() {
            line.clear();
            assert_ne!(out.read_line(&mut line).unwrap(), 0, "`sayso up` ended");
            let found = line
                .find("http://")
                .map(|at| line[at..].split_whitespace().next().unwrap());
            server = found.map(str::to_owned);
        }
        // What it says later is read, so that it never waits for a reader.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        World {
            server: server.unwrap(),
            folder,
            up: RefCell::new(up),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = sayso();
        command
            .env("SAYSO_SERVER", &self.server)
            .env("SAYSO_DATA", self.folder.path().join("data"))
            .args(arguments);
        command
    }

    /// As the local admin.
    pub(crate) fn admin(&self, arguments: &[&str]) -> Answer {
        Answer::of(&mut self.command(arguments))
    }

    /// With a token.
    pub(crate) fn by(&self, token: &str, arguments: &[&str]) -> Answer {
        Answer::of(self.command(arguments).env("SAYSO_TOKEN", token))
    }

    /// The secret of a new token.
    pub(crate) fn token(&self, name: &str, more: &[&str]) -> String {
        let mut arguments = vec!["token", "create", "--name", name];
        arguments.extend(more);
        self.admin(&arguments).ok().id()
    }

    /// Watches a run, as JSON.
    pub(crate) fn watch(&self, run: &str) -> Watch {
        let mut child = self
            .command(&["runs", "watch", run, "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Watch {
            child,
            lines: RefCell::new(lines),
            steps: RefCell::new(Vec::new()),
        }
    }

    /// The example's bundle with this program as its shop.
    pub(crate) fn bundle(&self) -> String {
        let bundle = std::fs::read_to_string(format!("{EXAMPLES}/agent.yaml")).unwrap();
        let bundle = bundle
            .replace("[sayso, demo-shop]", &format!("[{PROGRAM:?}, demo-shop]"))
            .replace("/tmp/sayso-demo-shop.json", &format!("{:?}", self.shop()));
        self.write("agent.yaml", &bundle)
    }

    /// The shop's file.
    pub(crate) fn shop(&self) -> PathBuf {
        self.folder.path().join("shop.json")
    }

    /// Writes a file and says where.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// S10.2: SIGTERM drains and exits 0.
    pub(crate) fn stop_gently(&self) {
        let mut up = self.up.borrow_mut();
        let told = Command::new("kill")
            .args(["-TERM", &up.id().to_string()])
            .status()
            .unwrap();
        assert!(told.success());
        assert!(
            up.wait().unwrap().success(),
            "`sayso up` drains and exits 0"
        );
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let up = self.up.get_mut();
        if let Ok(None) = up.try_wait() {
            up.kill().unwrap();
            up.wait().unwrap();
        }
    }
}

/// A watched run.
pub(crate) struct Watch {
    child: Child,
    lines: RefCell<BufReader<ChildStdout>>,
    steps: RefCell<Vec<String>>,
}

impl Watch {
    /// The next message; none at the end.
    fn next(&self) -> Option<Value> {
        let mut line = String::new();
        if self.lines.borrow_mut().read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let message: Value = serde_json::from_str(&line).unwrap();
        if let Some(step) = message["step"]["type"].as_str() {
            self.steps.borrow_mut().push(step.to_owned());
        }
        Some(message)
    }

    /// Reads until the run waits for a person; the approval.
    pub(crate) fn until_held(&self) -> String {
        loop {
            let message = self.next().expect("the run waits before it ends");
            if message["step"]["type"] == "awaiting_approval" {
                let content = message["step"]["contentJson"].as_str().unwrap();
                let content: Value = serde_json::from_str(content).unwrap();
                return content["approvals"][0].as_str().unwrap().to_owned();
            }
        }
    }

    /// Reads to the end: the exit code and the types of all steps.
    pub(crate) fn finish(mut self) -> (i32, Vec<String>) {
        while self.next().is_some() {}
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.steps.take())
    }
}
