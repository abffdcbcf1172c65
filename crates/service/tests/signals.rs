//! S10.2: the first SIGTERM drains, a second one ends the process at once.
//!
//! Signals reach whole processes, so each test starts this test binary again
//! as a child that does nothing but wait for them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use tokio_util::sync::CancellationToken;

const ROLE: &str = "SAYSO_TEST_SIGNAL_ROLE";

/// The child: says when it is ready and when it was told to stop. Without a
/// role this is a test that has nothing to do.
#[tokio::test]
async fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let shutdown = CancellationToken::new();
    sayso_service::serve::signals(shutdown.clone()).expect("installed");
    println!("\nready");
    shutdown.cancelled().await;
    println!("\nstopping");
    if role == "stubborn" {
        std::future::pending::<()>().await;
    }
}

struct Started {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Started {
    fn new(role: &str) -> Started {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "child", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut started = Started { child, output };
        started.wait_for("ready");
        started
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while line.trim() != word {
            line.clear();
            let read = self.output.read_line(&mut line).expect("output");
            assert!(read > 0, "the child ended before it said {word}");
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    fn exit_code(mut self) -> Option<i32> {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("output");
        self.child.wait().expect("ended").code()
    }
}

#[test]
fn s10_2_the_first_signal_drains_and_the_process_exits_with_0() {
    for signal in ["TERM", "INT"] {
        let mut started = Started::new("polite");
        started.signal(signal);
        started.wait_for("stopping");
        assert_eq!(started.exit_code(), Some(0));
    }
}

#[test]
fn s10_2_the_second_signal_ends_the_process_at_once() {
    let mut started = Started::new("stubborn");
    started.signal("TERM");
    started.wait_for("stopping");
    started.signal("INT");
    assert_eq!(started.exit_code(), Some(130));
}
