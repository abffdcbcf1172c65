//! A server's process, from start to the last of its children.
//!
//! It leads a process group of its own: a signal from the terminal ends us, and we end it, in that
//! order; and what it started goes with it. It is asked to end by closing its standard input, then
//! by SIGTERM, then it is killed. If this process dies without asking, closed pipes are what it
//! sees.

use std::collections::BTreeMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::output::{Heard, Overheard, Tail};
use super::stdio::Pipes;

/// How long a process may take to end once its input is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);

/// How long the rest of standard error is waited for once the process has ended.
const DRAIN: Duration = Duration::from_millis(300);

/// What our own environment gives to a server; everything else comes from the bundle.
const INHERITED: [&str; 2] = ["PATH", "HOME"];

/// A running process, or one that ended. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Process {
    program: String,
    stderr: Arc<Tail>,
    heard: Arc<Heard>,
    ended: watch::Receiver<Option<String>>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Process {
    /// Starts a process and returns it with its pipes.
    pub(super) fn start(
        command: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<(Self, Pipes), String> {
        let program = command.first().expect("a bundle's command is never empty");
        let cannot = |error: io::Error| format!("`{program}` cannot be started: {error}");
        let mut child = spawn(program, &command[1..], env).map_err(cannot)?;
        let (stdin, stdout, stderr) =
            match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
                (Some(stdin), Some(stdout), Some(stderr)) => (stdin, stdout, stderr),
                _ => unreachable!("all three pipes were asked for"),
            };
        let group = Group::of(&child);
        let (tail, heard) = (Arc::new(Tail::default()), Arc::new(Heard::default()));
        let follower = tokio::spawn(tail.clone().follow(stderr));
        let stop = CancellationToken::new();
        let (said, ended) = watch::channel(None);
        tokio::spawn(supervise(child, group, follower, stop.clone(), said));
        let process = Self {
            program: program.clone(),
            stderr: tail,
            heard: heard.clone(),
            ended,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        };
        Ok((process, Pipes::new(Overheard::new(stdout, heard), stdin)))
    }

    /// Ends it, if need be by force, and waits until it has ended.
    pub(super) async fn end(&self) {
        self.stop.cancel();
        // The supervisor says so in any case; if it is gone, so is the process.
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// What is known of a failure: how it ended, if it does within `patience`, and what it said.
    pub(super) async fn account(&self, patience: Duration) -> String {
        let mut ended = self.ended.clone();
        let how = match timeout(patience, ended.wait_for(Option::is_some)).await {
            Ok(Ok(how)) => how.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        let mut text = match how {
            Some(how) => format!("`{}` ended with {how}", self.program),
            None => format!("`{}` is running", self.program),
        };
        if self.heard.too_long() {
            text.push_str("; it sent a message larger than 16 MiB");
        }
        if let Some(noise) = self.heard.noise() {
            text.push_str(&format!(
                "; its output is not MCP, it starts with {noise:?}"
            ));
        }
        let stderr = self.stderr.text();
        if !stderr.is_empty() {
            text.push_str(&format!("; the last of its standard error: {stderr}"));
        }
        text
    }
}

fn spawn(program: &str, args: &[String], env: &BTreeMap<String, String>) -> io::Result<Child> {
    let inherited = INHERITED
        .into_iter()
        .filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    Command::new(program)
        .args(args)
        .env_clear()
        .envs(inherited)
        .envs(env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Waits for the end, brings it about when asked, and says how it came.
async fn supervise(
    mut child: Child,
    group: Group,
    stderr: JoinHandle<()>,
    stop: CancellationToken,
    said: watch::Sender<Option<String>>,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        () = stop.cancelled() => wind_down(&mut child, &group).await,
    };
    // Children that it left behind hold its pipes and outlive nobody.
    drop(group);
    if timeout(DRAIN, stderr).await.is_err() {
        tracing::debug!("standard error stays open after its process has ended");
    }
    said.send_replace(Some(match status {
        Ok(status) => describe(status),
        Err(error) => format!("an unknown status ({error})"),
    }));
}

async fn wind_down(child: &mut Child, group: &Group) -> io::Result<ExitStatus> {
    if let Ok(status) = timeout(GRACE, child.wait()).await {
        return status;
    }
    group.signal(Signal::TERM);
    if let Ok(status) = timeout(GRACE, child.wait()).await {
        return status;
    }
    group.signal(Signal::KILL);
    child.wait().await
}

fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// A process group, killed when dropped.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(
            child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .and_then(Pid::from_raw),
        )
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(%error, "a tool server's processes cannot be signalled");
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
