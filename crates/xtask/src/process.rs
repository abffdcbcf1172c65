//! Child processes, and how each of them comes to an end.
//!
//! Every child is put into a process group of its own. So Ctrl-C at a terminal reaches this
//! program alone, which passes it on to the command in the foreground and then leaves by its
//! usual way out: values are dropped, and a [`Server`] that is dropped is stopped. A second
//! Ctrl-C kills what did not go at the first.
//!
//! If this program is killed outright nothing is dropped. Servers are therefore started through
//! `setpriv`, where there is one, with the wish to be signalled when their parent dies. The
//! kernel's parent is the *thread* that started them: start servers from the main thread.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::account::Account;

/// How often a condition that only another process can bring about is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Starts commands in the foreground, and ends them on Ctrl-C or a termination signal.
#[derive(Clone)]
pub(crate) struct Processes {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    interrupted: AtomicBool,
    foreground: Mutex<BTreeSet<i32>>,
}

impl Shared {
    /// The groups in the foreground. A panic elsewhere cannot leave the set half changed.
    fn foreground(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.foreground
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processes {
    /// Takes over SIGINT, SIGTERM and SIGHUP for this program.
    pub(crate) fn install() -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        ctrlc::set_handler(move || {
            let again = seen.interrupted.swap(true, Ordering::SeqCst);
            let signal = if again { Signal::KILL } else { Signal::INT };
            for group in seen.foreground().iter() {
                signal_group(*group, signal);
            }
        })
        .context("cannot handle signals")?;
        Ok(Self { shared })
    }

    /// Whether someone asked this program to stop.
    pub(crate) fn interrupted(&self) -> bool {
        self.shared.interrupted.load(Ordering::SeqCst)
    }

    /// An error if someone asked this program to stop.
    pub(crate) fn go_on(&self) -> Result<()> {
        ensure!(!self.interrupted(), "interrupted");
        Ok(())
    }

    /// Runs a command to its end with its output left as it is.
    pub(crate) fn run(&self, command: &mut Command) -> Result<ExitStatus> {
        let mut foreground = self.start(command)?;
        let status = foreground.child.wait().context("cannot wait")?;
        self.go_on()?;
        Ok(status)
    }

    /// Runs a command and keeps what it says.
    pub(crate) fn capture(&self, command: &mut Command) -> Result<Output> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (child, _foreground) = self.start(command)?.into_parts();
        let output = child.wait_with_output().context("cannot wait")?;
        self.go_on()?;
        Ok(output)
    }

    /// Runs a command that has to succeed, and shows what it said only if it does not.
    pub(crate) fn succeed(&self, command: &mut Command) -> Result<()> {
        let output = self.capture(command)?;
        if output.status.success() {
            return Ok(());
        }
        let mut said = output.stdout;
        said.extend(output.stderr);
        std::io::stderr().write_all(&said)?;
        bail!("`{}` failed: {}", shown(command), output.status);
    }

    /// Runs a command, hands on each line of its standard output as it comes, and kills what the
    /// command left behind in its group. Says whether anything was left.
    pub(crate) fn run_by_line(
        &self,
        command: &mut Command,
        mut each: impl FnMut(&str),
    ) -> Result<(ExitStatus, bool)> {
        command.stdout(Stdio::piped());
        let mut foreground = self.start(command)?;
        let stdout = foreground.child.stdout.take().expect("stdout is piped");
        let (lines, arriving) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n') {
                let Ok(line) = line else { return };
                if lines
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    return;
                }
            }
        });
        // The pipe ends only when every process that inherited it is gone, so the command's own
        // end is watched as well: what it left behind is killed, and that closes the pipe.
        let mut ended: Option<(ExitStatus, bool, Instant)> = None;
        loop {
            match arriving.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => each(&line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => match ended {
                    Some((_, _, at)) if at.elapsed() > Duration::from_secs(2) => break,
                    Some(_) => {}
                    None => {
                        if let Some(status) = foreground.child.try_wait()? {
                            ended = Some((status, foreground.kill_rest(), Instant::now()));
                        }
                    }
                },
            }
        }
        let (status, left) = match ended {
            Some((status, left, _)) => (status, left),
            None => (foreground.child.wait()?, foreground.kill_rest()),
        };
        self.go_on()?;
        Ok((status, left))
    }

    fn start(&self, command: &mut Command) -> Result<Foreground> {
        self.go_on()?;
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start `{}`", shown(command)))?;
        let group = raw_pid(&child);
        self.shared.foreground().insert(group);
        if self.interrupted() {
            // The signal came between the first look and the entry into the set.
            signal_group(group, Signal::INT);
        }
        Ok(Foreground {
            child,
            registered: Registered {
                group,
                shared: Arc::clone(&self.shared),
            },
        })
    }
}

/// A command in the foreground: signals to this program reach it too.
struct Foreground {
    child: Child,
    registered: Registered,
}

impl Foreground {
    fn into_parts(self) -> (Child, Registered) {
        (self.child, self.registered)
    }

    /// Kills what is left of the command's group. Says whether anything was.
    fn kill_rest(&self) -> bool {
        signal_group(self.registered.group, Signal::KILL)
    }
}

/// The entry of a command in the set of groups that signals are passed on to.
struct Registered {
    group: i32,
    shared: Arc<Shared>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.foreground().remove(&self.group);
    }
}

/// A server in the background: it is stopped when this value is dropped.
pub(crate) struct Server {
    name: &'static str,
    child: Child,
    stop: Signal,
    grace: Duration,
}

impl Server {
    /// Starts a server whose command came from [`server_command`]. `stop` is the signal that asks
    /// it to end; after `grace` it is killed with its whole group.
    pub(crate) fn start(
        name: &'static str,
        command: &mut Command,
        stop: Signal,
        grace: Duration,
    ) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name} with `{}`", shown(command)))?;
        Ok(Self {
            name,
            child,
            stop,
            grace,
        })
    }

    /// Kills it without warning and waits for its end.
    pub(crate) fn kill(mut self) {
        self.stop = Signal::KILL;
        drop(self);
    }

    /// The server's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `ready` says so. An error if the server ends first, at the deadline, or if
    /// someone asked this program to stop.
    pub(crate) fn wait_until(
        &mut self,
        processes: &Processes,
        deadline: Duration,
        mut ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let started = Instant::now();
        while !ready() {
            processes.go_on()?;
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended while it started: {status}", self.name);
            }
            ensure!(
                started.elapsed() < deadline,
                "{} was not ready after {} s",
                self.name,
                deadline.as_secs()
            );
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = raw_pid(&self.child);
        if let Some(pid) = Pid::from_raw(group) {
            // An error means that it is gone already.
            let _gone = kill_process(pid, self.stop);
        }
        let asked = Instant::now();
        while asked.elapsed() < self.grace {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(LOOK_AGAIN),
                Ok(Some(_)) | Err(_) => break,
            }
        }
        signal_group(group, Signal::KILL);
        if let Err(error) = self.child.wait() {
            eprintln!("cannot tell whether {} ended: {error}", self.name);
        }
    }
}

/// The command of a server: as another account if one is given, and signalled with `INT` when
/// this program dies, where `setpriv` is there to arrange it.
pub(crate) fn server_command(program: &Path, account: Option<Account>) -> Result<Command> {
    let Some(setpriv) = on_path("setpriv") else {
        ensure!(
            account.is_none(),
            "`setpriv` (of util-linux) is needed to run {} as another user; \
             or run this as a user who is not root",
            program.display()
        );
        return Ok(Command::new(program));
    };
    let mut command = Command::new(setpriv);
    if let Some(account) = account {
        command
            .arg(format!("--reuid={}", account.user))
            .arg(format!("--regid={}", account.group))
            .arg("--clear-groups");
    }
    command.arg("--pdeathsig=INT").arg("--").arg(program);
    Ok(command)
}

/// A port of loopback that nobody listens on at this moment.
pub(crate) fn free_port() -> Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port of loopback is free")?;
    Ok(listener.local_addr()?.port())
}

/// The first program of this name on the `PATH`.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|candidate| is_program(candidate))
}

/// Whether there is a file here that may be run.
pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// A command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

fn raw_pid(child: &Child) -> i32 {
    i32::try_from(child.id()).expect("process ids fit into i32")
}

/// Signals a whole group. False if nothing is left of it.
fn signal_group(group: i32, signal: Signal) -> bool {
    Pid::from_raw(group).is_some_and(|group| kill_process_group(group, signal).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_leaves_behind_is_killed_and_does_not_hold_up_its_end() {
        let processes = Processes {
            shared: Arc::default(),
        };
        let mut lines = Vec::new();
        let (status, left) = processes
            .run_by_line(
                Command::new("sh").args(["-c", "sleep 1000 & echo $!"]),
                |line| lines.push(line.to_owned()),
            )
            .expect("sh runs");
        assert!(status.success());
        assert!(left, "the sleeper was in the group");
        assert_eq!(lines.len(), 1);
    }

    #[test]
    fn a_server_is_gone_once_it_is_dropped() {
        let mut command = server_command(Path::new("/bin/sleep"), None).expect("no account");
        let server = Server::start(
            "sleep",
            command.arg("1000"),
            Signal::INT,
            Duration::from_secs(5),
        )
        .expect("sleep starts");
        let group = raw_pid(&server.child);
        drop(server);
        assert!(!signal_group(group, Signal::CONT));
    }

    #[test]
    fn after_an_interruption_nothing_starts() {
        let processes = Processes {
            shared: Arc::default(),
        };
        processes.shared.interrupted.store(true, Ordering::SeqCst);
        let refused = processes.run(&mut Command::new("true"));
        assert_eq!(refused.expect_err("interrupted").to_string(), "interrupted");
    }
}
