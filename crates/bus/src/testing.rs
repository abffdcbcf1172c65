//! A real nats-server for tests and benchmarks (feature `testing`).
//!
//! Each [`NatsServer`] is a process of its own on a private port of 127.0.0.1 with its store in a
//! temporary folder. It can be killed, paused and started again on the same port and store, and it
//! ends when it is dropped. The calls block the thread for some tens of milliseconds.
//!
//! The binary is the one that `SAYSO_NATS_SERVER` names, else `.tools/nats/bin/nats-server` in the
//! workspace, else `nats-server` on the PATH if it is 2.10 or newer.

use std::{
    env,
    fs::File,
    io::{self, BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use thiserror::Error;

/// Ports below what systems hand out by themselves, so that a server that is down keeps its own.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const START: Duration = Duration::from_secs(20);
const ATTEMPTS: usize = 20;

/// Why there is no server.
#[derive(Debug, Error)]
pub enum NatsServerError {
    /// There is no nats-server that would do.
    #[error("no nats-server of 2.10 or newer was found; run cargo xtask test, which installs one")]
    NoBinary,
    /// The process could not be started, signalled or waited for.
    #[error("could not {what} nats-server")]
    Process {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// It started and did not serve. Its log is given.
    #[error("nats-server did not get ready: {log}")]
    NotReady {
        /// What it wrote.
        log: String,
    },
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> NatsServerError {
    move |source| NatsServerError::Process { what, source }
}

/// What the server should be like.
#[derive(Clone, Debug, Default)]
pub struct NatsServerOptions {
    /// The largest message in bytes; the server's own default is 1 MiB.
    pub max_payload: Option<usize>,
    /// A token that clients have to show.
    pub token: Option<String>,
}

/// A running nats-server with JetStream.
#[derive(Debug)]
pub struct NatsServer {
    binary: PathBuf,
    folder: TempDir,
    name: String,
    port: u16,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts a server and waits until it serves.
    ///
    /// # Errors
    ///
    /// When there is no binary, or it does not come up.
    pub fn start() -> Result<Self, NatsServerError> {
        Self::start_with(&NatsServerOptions::default())
    }

    /// Starts a server with options.
    ///
    /// # Errors
    ///
    /// The same.
    pub fn start_with(options: &NatsServerOptions) -> Result<Self, NatsServerError> {
        let mut server = Self::prepare(options)?;
        // Another process may take the port between its choice and its use.
        for _ in 1..ATTEMPTS {
            if server.resume_process().is_ok() {
                return Ok(server);
            }
            server = Self::prepare(options)?;
        }
        server.resume_process()?;
        Ok(server)
    }

    /// Chooses a port and a folder, and starts nothing: a server that is away until
    /// [`NatsServer::restart`].
    ///
    /// # Errors
    ///
    /// When there is no binary, or no folder or port for it.
    pub fn prepare(options: &NatsServerOptions) -> Result<Self, NatsServerError> {
        let binary = find_binary()?;
        let folder = tempfile::Builder::new()
            .prefix("sayso-nats-")
            .tempdir()
            .map_err(failed("make a folder for"))?;
        let port = free_port().map_err(failed("find a port for"))?;
        let name = format!("sayso-test-{}-{port}", std::process::id());
        let config = configuration(&name, port, folder.path(), options);
        std::fs::write(folder.path().join("server.conf"), config).map_err(failed("configure"))?;
        Ok(Self {
            binary,
            folder,
            name,
            port,
            child: None,
        })
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// The process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Ends it properly and waits for the end.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn stop(&mut self) -> Result<(), NatsServerError> {
        self.signal("TERM")?;
        self.reap()
    }

    /// Ends it by SIGKILL.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn kill(&mut self) -> Result<(), NatsServerError> {
        if let Some(child) = &mut self.child {
            child.kill().map_err(failed("kill"))?;
        }
        self.reap()
    }

    /// Stops it in its tracks (SIGSTOP), with its connections open.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn pause(&self) -> Result<(), NatsServerError> {
        self.signal("STOP")
    }

    /// Lets a paused one go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn resume(&self) -> Result<(), NatsServerError> {
        self.signal("CONT")
    }

    /// Starts it again on the same port and store, after killing it if it runs.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn restart(&mut self) -> Result<(), NatsServerError> {
        self.kill()?;
        self.resume_process()
    }

    /// Removes everything it stored. To be used while it is down.
    ///
    /// # Errors
    ///
    /// When the folder cannot be removed.
    pub fn forget(&mut self) -> Result<(), NatsServerError> {
        self.kill()?;
        match std::fs::remove_dir_all(self.folder.path().join("store")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove the store of")(error))
            }
            _ => Ok(()),
        }
    }

    fn resume_process(&mut self) -> Result<(), NatsServerError> {
        let log = self.folder.path().join("server.log");
        let output = File::create(&log).map_err(failed("open the log of"))?;
        let errors = output.try_clone().map_err(failed("open the log of"))?;
        let child = Command::new(&self.binary)
            .arg("-c")
            .arg(self.folder.path().join("server.conf"))
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(failed("start"))?;
        let child = self.child.insert(child);
        let deadline = Instant::now() + START;
        while Instant::now() < deadline {
            if serves(self.port, &self.name) {
                return Ok(());
            }
            if child.try_wait().map_err(failed("wait for"))?.is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.kill()?;
        let log = std::fs::read_to_string(&log).unwrap_or_else(|error| error.to_string());
        Err(NatsServerError::NotReady { log })
    }

    fn signal(&self, signal: &'static str) -> Result<(), NatsServerError> {
        let Some(child) = &self.child else {
            return Ok(());
        };
        let status = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{signal} {}", child.id()))
            .status()
            .map_err(failed("signal"))?;
        if status.success() {
            Ok(())
        } else {
            Err(failed("signal")(io::Error::other(status.to_string())))
        }
    }

    fn reap(&mut self) -> Result<(), NatsServerError> {
        match self.child.take() {
            Some(mut child) => child.wait().map(drop).map_err(failed("wait for")),
            None => Ok(()),
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(%error, "a nats-server is left running");
        }
    }
}

fn configuration(name: &str, port: u16, folder: &Path, options: &NatsServerOptions) -> String {
    let store = folder.join("store");
    let mut text = format!(
        "server_name: {name}\nhost: 127.0.0.1\nport: {port}\njetstream {{ store_dir: {store:?} }}\n"
    );
    if let Some(bytes) = options.max_payload {
        text.push_str(&format!("max_payload: {bytes}\n"));
    }
    if let Some(token) = &options.token {
        text.push_str(&format!("authorization {{ token: {token:?} }}\n"));
    }
    text
}

/// Whether the server that answers on the port is the one meant, with JetStream on.
fn serves(port: u16, name: &str) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else {
        return false;
    };
    if stream
        .set_read_timeout(Some(Duration::from_secs(1)))
        .is_err()
    {
        return false;
    }
    let mut greeting = String::new();
    BufReader::new(stream).read_line(&mut greeting).is_ok()
        && greeting.contains(&format!("\"server_name\":\"{name}\""))
        && greeting.contains("\"jetstream\":true")
}

/// A port that nobody listens on. Calls of one process never get the same one twice in a row.
fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    // Processes begin at different places.
    let begin = (std::process::id() % u32::from(count)) as u16 / 16 * 16;
    let mut last = io::Error::other("no port is free");
    for _ in 0..count {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + begin.wrapping_mul(37).wrapping_add(step) % count;
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn find_binary() -> Result<PathBuf, NatsServerError> {
    if let Some(named) = env::var_os("SAYSO_NATS_SERVER") {
        return Ok(named.into());
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let installed = workspace.join(".tools/nats/bin/nats-server");
    if installed.is_file() {
        return Ok(installed);
    }
    let on_path = PathBuf::from("nats-server");
    match Command::new(&on_path).arg("--version").output() {
        Ok(output) if is_recent(&String::from_utf8_lossy(&output.stdout)) => Ok(on_path),
        _ => Err(NatsServerError::NoBinary),
    }
}

/// Whether `nats-server: v2.15.1` is 2.10 or newer.
fn is_recent(version: &str) -> bool {
    let Some((_, numbers)) = version.trim().rsplit_once('v') else {
        return false;
    };
    let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= (2, 10),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_recent;

    #[test]
    fn versions_from_2_10_on_will_do() {
        assert!(is_recent("nats-server: v2.15.1\n"));
        assert!(is_recent("nats-server: v2.10.0"));
        assert!(is_recent("nats-server: v3.0.0-RC.1"));
        assert!(!is_recent("nats-server: v2.9.25"));
        assert!(!is_recent("something else"));
    }
}
