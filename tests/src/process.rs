use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::watchdog;

/// A process of a deployment. It can be killed and started again, and ends when it is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Mutex<BTreeMap<String, String>>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Process {
    pub(crate) fn new(
        name: impl Into<String>,
        program: PathBuf,
        arguments: Vec<OsString>,
        folder: &Path,
    ) -> Self {
        let name = name.into();
        Self {
            log: folder.join(format!("{name}.log")),
            name,
            program,
            arguments,
            environment: Mutex::default(),
            child: Mutex::new(None),
        }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The service's name, with a number where there are several.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets a variable for the next start; without a value, takes it away.
    pub fn set(&self, variable: &str, value: Option<&str>) {
        let mut environment = self
            .environment
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => environment.insert(variable.to_owned(), value.to_owned()),
            None => environment.remove(variable),
        };
    }

    /// Starts it, if it does not run.
    ///
    /// # Panics
    ///
    /// If the program cannot be started.
    pub fn start(&self) {
        if self.is_running() {
            return;
        }
        let open = || {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(&self.log)
                .expect("the log can be opened")
        };
        let environment = self
            .environment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env_remove("SAYSO_HOOKS")
            .env(watchdog::MARK, watchdog::folder())
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(open())
            .stderr(open())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("{} cannot be started: {error}", self.program.display())
            });
        *self.child() = Some(child);
    }

    /// Whether it runs; also while it is stopped by a signal.
    pub fn is_running(&self) -> bool {
        let mut child = self.child();
        child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills it without warning and waits for its end.
    pub fn kill(&self) {
        if let Some(mut child) = self.child().take() {
            // It may have ended by itself: then there is nothing to kill.
            let _ended = child.kill();
            child.wait().expect("a child can be waited for");
        }
    }

    /// Asks it to end and waits for it; its exit code, none if it was killed.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn terminate(&self) -> Option<i32> {
        self.signal("TERM");
        let mut child = self.child().take().expect("it runs");
        child.wait().expect("a child can be waited for").code()
    }

    /// Asks it to end as a terminal does, and waits for it.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn interrupt(&self) {
        self.signal("INT");
        let mut child = self.child().take().expect("it runs");
        child.wait().expect("a child can be waited for");
    }

    /// Freezes it.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets a frozen one go on.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Whether a signal has stopped it.
    pub fn is_frozen(&self) -> bool {
        let Some(pid) = self.child().as_ref().map(Child::id) else {
            return false;
        };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    fn signal(&self, signal: &str) {
        let pid = self.child().as_ref().map(Child::id).expect("it runs");
        let sent = Command::new("kill")
            .args([format!("-{signal}"), pid.to_string()])
            .status()
            .expect("the command `kill` exists");
        assert!(sent.success(), "{} takes signals", self.name);
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
