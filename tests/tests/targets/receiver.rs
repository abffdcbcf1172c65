//! A receiver that no one here wrote what it verifies with: `receiver.py`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use sayso_tests::{program, until};
use serde_json::Value;

/// It ends when it is dropped.
pub(crate) struct Receiver {
    child: Child,
    port: u64,
    got: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    /// Over HTTP, verifying with a key; answers as scripted, then takes everything.
    pub(crate) fn http(key: &str, answers: &[&str]) -> Self {
        Self::start(&[&["http", key], answers].concat())
    }

    /// Over SMTP likewise.
    pub(crate) fn smtp(replies: &[&str]) -> Self {
        Self::start(&[&["smtp"], replies].concat())
    }

    fn start(arguments: &[&str]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets/receiver.py");
        let mut child = Command::new(program("SAYSO_TEST_PYTHON"))
            .arg(script)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let got: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&got);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock()
                    .unwrap()
                    .push(serde_json::from_str(&line).unwrap());
            }
        });
        Self {
            child,
            port: first["port"].as_u64().unwrap(),
            got,
        }
    }

    pub(crate) fn port(&self) -> u64 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks/secret-path?token=t", self.port)
    }

    /// All that has come so far.
    pub(crate) fn got(&self) -> Vec<Value> {
        self.got.lock().unwrap().clone()
    }

    /// Waits for so many in all.
    pub(crate) async fn reached(&self, count: usize) -> Vec<Value> {
        let got = until(&format!("{count} notifications"), async || {
            Some(self.got()).filter(|got| got.len() >= count)
        })
        .await;
        assert_eq!(got.len(), count, "{got:#?}");
        got
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.expect("it can be ended");
    }
}

/// The body of a notification, which must have verified.
pub(crate) fn told(got: &Value) -> Value {
    assert_eq!(got["verdict"], "verified", "{got:#}");
    serde_json::from_str(got["body"].as_str().unwrap()).unwrap()
}
