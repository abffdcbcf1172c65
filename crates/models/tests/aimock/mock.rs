//! aimock as a child process, and a wire in front of it that keeps what goes over it.

use std::env;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// A value that `cargo xtask test` sets.
pub(crate) fn given(variable: &str) -> OsString {
    env::var_os(variable).unwrap_or_else(|| panic!("{variable} is not set: run `cargo xtask test`"))
}

/// A running aimock; it ends with this value.
pub(crate) struct Mock {
    pub(crate) address: SocketAddr,
    _child: Child,
    _fixtures: TempDir,
}

impl Mock {
    pub(crate) async fn start(fixtures: &str, flags: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("fixtures.json");
        std::fs::write(&file, fixtures).unwrap();
        let mut command = Command::new(PathBuf::from(given("SAYSO_TEST_NPM")).join("llmock"));
        if let Some(node) = env::var_os("SAYSO_TEST_NODE_BIN") {
            let path = env::var_os("PATH").unwrap_or_default();
            let folders = std::iter::once(PathBuf::from(node)).chain(env::split_paths(&path));
            command.env("PATH", env::join_paths(folders).unwrap());
        }
        let mut child = command
            .args(["--port", "0", "--strict", "--fixtures"])
            .arg(&file)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("aimock starts");
        let output = child.stdout.take().expect("piped");
        let mut lines = BufReader::new(output).lines();
        let address = loop {
            let line = lines
                .next_line()
                .await
                .unwrap()
                .expect("aimock says where it listens");
            if let Some((_, address)) = line.split_once("listening on http://") {
                break address.trim().parse().unwrap();
            }
        };
        // Whatever else it says is read, so that it never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            address,
            _child: child,
            _fixtures: folder,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/", self.address)
    }

    /// The statuses that it answered, in order.
    pub(crate) async fn journal_statuses(&self) -> Vec<u64> {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        socket
            .write_all(b"GET /__aimock/journal HTTP/1.0\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let journal: Value = serde_json::from_str(body).unwrap();
        let entries = journal.as_array().unwrap().iter();
        entries
            .map(|entry| entry["response"]["status"].as_u64().unwrap())
            .collect()
    }
}

/// A wire to the mock that keeps every byte of the requests. (aimock's own journal holds them after
/// it has translated them.)
pub(crate) struct Recorder {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Recorder {
    pub(crate) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                tokio::spawn(pass_on(client, target, number, Arc::clone(&kept)));
            }
        });
        Self {
            address,
            connections,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/", self.address)
    }

    /// Path and body of every request.
    pub(crate) fn bodies(&self) -> Vec<(String, String)> {
        let connections = self.connections.lock().unwrap();
        connections
            .iter()
            .flat_map(|bytes| requests(bytes))
            .collect()
    }
}

async fn pass_on(
    client: TcpStream,
    target: SocketAddr,
    number: usize,
    kept: Arc<Mutex<Vec<Vec<u8>>>>,
) {
    let server = TcpStream::connect(target).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = async move {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(read) = from_client.read(&mut buffer).await
            && read > 0
        {
            kept.lock().unwrap()[number].extend_from_slice(&buffer[..read]);
            if to_server.write_all(&buffer[..read]).await.is_err() {
                break;
            }
        }
    };
    let down = async move { copy(&mut from_server, &mut to_client).await };
    let _ended = tokio::join!(up, down);
}

/// The requests in the bytes of one connection.
fn requests(mut bytes: &[u8]) -> Vec<(String, String)> {
    let mut requests = Vec::new();
    while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let length: usize = head
            .lines()
            .find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then_some(value)
            })
            .unwrap()
            .parse()
            .unwrap();
        let (body, rest) = bytes[end + 4..].split_at(length);
        requests.push((path, String::from_utf8(body.to_vec()).unwrap()));
        bytes = rest;
    }
    requests
}
