//! A NATS server of our own: on loopback, on a free port, with JetStream in a temporary folder.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::process::{Processes, Server, free_port, server_command};
use crate::tools::{numbers, version_of};

/// The oldest version that serves.
const OLDEST: (u32, u32) = (2, 10);
/// A port may be taken by another process between the look for a free one and its use.
const ATTEMPTS: usize = 3;

/// The server on the `PATH` and its version, if it is new enough.
pub(crate) fn on_path(processes: &Processes) -> Result<Option<(PathBuf, String)>> {
    let Some(path) = crate::process::on_path("nats-server") else {
        return Ok(None);
    };
    let version = version_of(&path, processes)?;
    Ok(version
        .filter(|version| numbers(version) >= Some(OLDEST))
        .map(|version| (path, version)))
}

/// A running server. Dropping it stops the server and removes its folder.
pub(crate) struct Nats {
    // Dropped in this order: first the server, then what it lives on.
    server: Server,
    _folder: TempDir,
    url: String,
    monitor: u16,
}

impl Nats {
    /// Starts `program` with JetStream on files.
    pub(crate) fn start(processes: &Processes, program: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("sayso-nats-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let (port, monitor) = (free_port()?, free_port()?);
            match serve(processes, program, folder.path(), port, monitor) {
                Ok(server) => {
                    eprintln!(
                        "nats: 127.0.0.1:{port}, data in {}",
                        folder.path().display()
                    );
                    return Ok(Self {
                        server,
                        _folder: folder,
                        url: format!("nats://127.0.0.1:{port}"),
                        monitor,
                    });
                }
                Err(error) => last = Some(error),
            }
            processes.go_on()?;
        }
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        let error = last.context("at least one attempt was made")?;
        bail!("nats-server does not start: {error:#}. Its log:\n{log}");
    }

    /// The address for clients.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The port on which the server tells what it does, over HTTP.
    pub(crate) fn monitor(&self) -> u16 {
        self.monitor
    }

    /// The server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }
}

fn serve(
    processes: &Processes,
    program: &Path,
    folder: &Path,
    port: u16,
    monitor: u16,
) -> Result<Server> {
    let log = File::create(folder.join("log")).context("cannot make the log")?;
    let mut command = server_command(program, None)?;
    command
        .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
        .args(["--http_port", &monitor.to_string()])
        .arg("--jetstream")
        .arg("--store_dir")
        .arg(folder.join("jetstream"))
        .stdout(log.try_clone()?)
        .stderr(log);
    let grace = Duration::from_secs(10);
    let mut server = Server::start("nats-server", &mut command, Signal::INT, grace)?;
    server.wait_until(processes, Duration::from_secs(30), || {
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    })?;
    Ok(server)
}
