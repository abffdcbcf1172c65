use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sqlx::{Connection, PgConnection};

use crate::process::Process;
use crate::program::{free_port, program};
use crate::wait::until;
use crate::watchdog;

/// A PostgreSQL server of one deployment's own, which can be killed and started again. Its
/// write-ahead log is kept small, so that it fits on a small disk with the data.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    url: String,
}

impl Server {
    /// Makes a cluster in `folder`/postgres, which exists, and starts nothing yet.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub(crate) fn prepare(folder: &Path) -> Self {
        let data = folder.join("postgres");
        let secret = folder.join("postgres.password");
        let password = uuid::Uuid::now_v7().simple().to_string();
        fs::write(&secret, &password).expect("a password can be written");
        hand_over(folder, &data, &secret);
        let initdb = [
            "--username=postgres".into(),
            "--auth=scram-sha-256".into(),
            "--no-sync".into(),
            "--encoding=UTF8".into(),
            "--no-locale".into(),
            "--wal-segsize=1".into(),
            format!("--pwfile={}", secret.display()).into(),
            format!("--pgdata={}", data.display()).into(),
        ];
        let (program, arguments) = unprivileged("initdb", initdb.into());
        let made = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .output()
            .expect("initdb can be started");
        assert!(made.status.success(), "{made:?}");
        let port = free_port();
        let (program, arguments) = unprivileged("postgres", arguments_of(&data, port));
        Self {
            process: Process::new("postgres", program, arguments, folder),
            url: format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres"),
        }
    }

    /// The URL of the database.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Starts it if it does not run, as often as it takes: one that was killed leaves memory behind
    /// that its children hold until they notice. Waits until it takes connections.
    pub(crate) async fn up(&self) {
        until("the database to take connections", async || {
            self.process.start();
            let connection = PgConnection::connect(&self.url).await.ok()?;
            connection.close().await.ok()
        })
        .await;
    }
}

fn arguments_of(data: &Path, port: u16) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-D".into(), data.into()];
    arguments.extend(
        [
            &format!("--port={port}"),
            "--unix_socket_directories=",
            "--listen_addresses=127.0.0.1",
            "--max_connections=200",
            "--fsync=on",
            "--shared_buffers=32MB",
            "--min_wal_size=2MB",
            "--max_wal_size=8MB",
        ]
        .map(OsString::from),
    );
    arguments
}

/// The server's own user, if it needs one: `user:group` by number.
fn account() -> Option<(String, String)> {
    let account = std::env::var("SAYSO_TEST_POSTGRES_ACCOUNT").ok()?;
    let (user, group) = account.split_once(':').expect("a user and a group");
    Some((user.to_owned(), group.to_owned()))
}

/// One of PostgreSQL's programs, which refuse to run as root.
fn unprivileged(name: &str, arguments: Vec<OsString>) -> (std::path::PathBuf, Vec<OsString>) {
    let program = program("SAYSO_TEST_POSTGRES_BIN").join(name);
    let Some((user, group)) = account() else {
        return (program, arguments);
    };
    let mut all: Vec<OsString> = vec![
        format!("--reuid={user}").into(),
        format!("--regid={group}").into(),
        "--clear-groups".into(),
        "--".into(),
        program.into(),
    ];
    all.extend(arguments);
    ("setpriv".into(), all)
}

/// Gives the server's user what it needs, and lets it reach that.
fn hand_over(folder: &Path, data: &Path, secret: &Path) {
    fs::set_permissions(secret, Permissions::from_mode(0o600)).expect("it is ours");
    if let Some((user, group)) = account() {
        let number = |text: &str| text.parse().expect("accounts are named by number");
        for path in [data, secret] {
            std::os::unix::fs::chown(path, Some(number(&user)), Some(number(&group)))
                .expect("root may give away");
        }
        for path in [watchdog::folder(), folder] {
            fs::set_permissions(path, Permissions::from_mode(0o711)).expect("it is ours");
        }
    }
    fs::set_permissions(data, Permissions::from_mode(0o700)).expect("it is ours or root's");
}
