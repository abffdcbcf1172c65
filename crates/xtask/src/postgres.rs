//! A PostgreSQL server of our own: on loopback, on a free port, in a temporary folder.
//!
//! It is durable as in production (`fsync` is on), so that what is measured on it means
//! something, and it asks for a password, since its superuser can run programs and other people
//! may be logged in on the machine.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::account::Account;
use crate::process::{Processes, Server, free_port, server_command};

/// A port may be taken by another process between the look for a free one and its use.
const ATTEMPTS: usize = 3;

/// A running server. Dropping it stops the server and removes its folder.
pub(crate) struct Postgres {
    // Dropped in this order: first the server, then what it lives on.
    server: Server,
    _folder: TempDir,
    port: u16,
    password: String,
    url: String,
}

impl Postgres {
    /// Starts a server with the programs in `programs` (`postgres`, `initdb`).
    pub(crate) fn start(processes: &Processes, programs: &Path) -> Result<Self> {
        Self::start_with(processes, programs, &[])
    }

    /// Starts a server with further arguments.
    pub(crate) fn start_with(
        processes: &Processes,
        programs: &Path,
        arguments: &[&str],
    ) -> Result<Self> {
        let account = Account::unprivileged()?;
        let folder = tempfile::Builder::new()
            .prefix("sayso-postgres-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        let password = random_word()?;
        let home = Home {
            programs,
            folder: folder.path(),
            account,
        };
        home.make_cluster(processes, &password)?;
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let port = free_port()?;
            match home.serve(processes, port, arguments) {
                Ok(server) => {
                    eprintln!(
                        "postgres: 127.0.0.1:{port}, data in {}",
                        folder.path().display()
                    );
                    return Ok(Self {
                        server,
                        _folder: folder,
                        port,
                        url: format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres"),
                        password,
                    });
                }
                Err(error) => last = Some(error),
            }
            processes.go_on()?;
        }
        let log = fs::read_to_string(home.log()).unwrap_or_default();
        let error = last.context("at least one attempt was made")?;
        bail!("PostgreSQL does not start: {error:#}. Its log:\n{log}");
    }

    /// The address of the superuser's database.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The address of another database, for the superuser.
    pub(crate) fn url_of(&self, database: &str) -> String {
        let Self { port, password, .. } = self;
        format!("postgres://postgres:{password}@127.0.0.1:{port}/{database}")
    }

    /// The variables by which PostgreSQL's own programs find the server and get in.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("PGHOST", "127.0.0.1".to_owned()),
            ("PGPORT", self.port.to_string()),
            ("PGUSER", "postgres".to_owned()),
            ("PGPASSWORD", self.password.clone()),
        ]
    }

    /// The process that all of the server's processes come from.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }
}

/// Where a cluster lives and whose it is.
struct Home<'a> {
    programs: &'a Path,
    folder: &'a Path,
    account: Option<Account>,
}

impl Home<'_> {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn make_cluster(&self, processes: &Processes, password: &str) -> Result<()> {
        let secret = self.folder.join("password");
        fs::write(&secret, password)?;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
        for path in [self.folder, &secret] {
            self.hand_over(path)?;
        }
        // What initdb writes need not survive a power cut; what the server writes is synced.
        let mut initdb = server_command(&self.programs.join("initdb"), self.account)?;
        processes
            .succeed(
                initdb
                    .args(["--username=postgres", "--auth=scram-sha-256", "--no-sync"])
                    .args(["--encoding=UTF8", "--no-locale"])
                    .arg(format!("--pwfile={}", secret.display()))
                    .arg(format!("--pgdata={}", self.data().display()))
                    .current_dir(self.folder),
            )
            .context("cannot make a PostgreSQL cluster")
    }

    fn serve(&self, processes: &Processes, port: u16, arguments: &[&str]) -> Result<Server> {
        let log = File::create(self.log()).context("cannot make the log")?;
        let mut command = server_command(&self.programs.join("postgres"), self.account)?;
        command
            .arg("-D")
            .arg(self.data())
            .arg(format!("--port={port}"))
            .arg(format!(
                "--unix_socket_directories={}",
                self.folder.display()
            ))
            .args(["--listen_addresses=127.0.0.1", "--max_connections=400"])
            .args([
                "--fsync=on",
                "--synchronous_commit=on",
                "--full_page_writes=on",
            ])
            .args(["--shared_buffers=256MB", "--max_wal_size=4GB"])
            .args(arguments)
            .current_dir(self.folder)
            .stdout(log.try_clone()?)
            .stderr(log);
        // SIGINT: no new clients, open transactions rolled back, a clean end.
        let grace = Duration::from_secs(10);
        let mut server = Server::start("PostgreSQL", &mut command, Signal::INT, grace)?;
        let status = self.data().join("postmaster.pid");
        server.wait_until(processes, Duration::from_secs(60), || is_ready(&status))?;
        Ok(server)
    }

    fn hand_over(&self, path: &Path) -> Result<()> {
        if let Some(account) = self.account {
            chown(path, Some(account.user), Some(account.group))
                .with_context(|| format!("cannot hand {} over", path.display()))?;
        }
        Ok(())
    }
}

/// The server says on the eighth line of its status file whether it takes connections.
fn is_ready(status: &Path) -> bool {
    fs::read_to_string(status)
        .is_ok_and(|lines| lines.lines().nth(7).map(str::trim) == Some("ready"))
}

/// 128 bits from the operating system, in hexadecimal digits.
pub(crate) fn random_word() -> Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
