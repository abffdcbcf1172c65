use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::program;
use crate::watchdog;

/// What a command of `sayso` answered.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Both outputs, for searching.
    pub fn text(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// The command, if it succeeded.
    ///
    /// # Panics
    ///
    /// If it did not.
    pub fn expect_success(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.text());
        self
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {}", self.text()))
    }
}

/// Runs `sayso` to its end, without anything from the caller's own environment.
pub(crate) fn sayso<I, S>(arguments: I, environment: &[(&str, &str)], folder: &Path) -> Ran
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    sayso_reading(arguments, environment, folder, "")
}

/// The same with a text on standard input.
pub(crate) fn sayso_reading<I, S>(
    arguments: I,
    environment: &[(&str, &str)],
    folder: &Path,
    input: &str,
) -> Ran
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut child = Command::new(program("SAYSO_BIN"))
        .args(arguments)
        .env_remove("SAYSO_HOOKS")
        .env_remove("SAYSO_TOKEN")
        .env("HOME", folder)
        .env(watchdog::MARK, watchdog::folder())
        .envs(environment.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sayso can be started");
    let mut stdin = child.stdin.take().expect("it was asked for");
    match stdin.write_all(input.as_bytes()) {
        // A command that reads nothing may have ended by now.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        written => written.expect("standard input can be written"),
    }
    drop(stdin);
    let output = child.wait_with_output().expect("sayso ends");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
