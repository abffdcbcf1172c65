//! Every window that the driver's hooks name, forced: the worker is killed or stopped there.

use std::path::PathBuf;
use std::time::Duration;

use sayso_tests::{Case, on_runtime};
use tokio::time::Instant;

use crate::kills::{check, settle};
use crate::{SHAPE, careful, idempotent, options};

/// The windows that the driver names.
const WINDOWS: [&str; 5] = [
    "driver.before_append",
    "driver.before_flush",
    "driver.before_send",
    "driver.after_send",
    "driver.before_park",
];

/// One run through a forced fault at a window: the first executor has the hook and takes the run, the
/// second one comes when the first is gone.
async fn through(case: &Case, agent: &str, hook: &str) {
    let (first, second) = (case.executor(0), case.executor(1));
    first.kill();
    second.kill();
    first.set("SAYSO_HOOKS", Some(hook));
    first.start();
    let run = case.sub.start(agent, "go").await;
    let mut approved = false;
    let mut resumed = false;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < deadline, "{hook}: {run} does not end");
        let now = case.sub.run(&run).await;
        if now.ended_at.is_some() {
            break;
        }
        if !approved && let Some(approval) = case.app.pending(&run).await.pop() {
            case.app.approve(&approval).await;
            approved = true;
        }
        let gone = !first.is_running() || first.is_frozen();
        if gone && !resumed {
            second.start();
            resumed = true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    settle(case, &run, agent == "careful").await;
    assert!(resumed, "{hook} is passed");
    if first.is_running() {
        first.thaw();
    }
    let next = case.sub.start(agent, "again").await;
    let held = case.app.held(&next, 1).await.remove(0);
    case.app.approve(&held).await;
    settle(case, &next, true).await;
    case.ready().await;
    check(case, &[run, next]).await;
    first.set("SAYSO_HOOKS", None);
}

fn windows(agent: &'static str, action: &'static str) {
    on_runtime(async {
        let case = Case::alone(SHAPE, options()).await;
        let bundle = if agent == "careful" {
            careful()
        } else {
            idempotent()
        };
        case.deploy(&bundle).await;
        for window in WINDOWS {
            through(&case, agent, &format!("{window}={action}@1")).await;
        }
    });
}

/// B24: a kill at every window: nothing runs twice, and the run ends as it should.
#[test]
fn a_kill_at_every_window() {
    windows("careful", "kill");
}

/// The same with a tool that may be sent again: every run completes by itself.
#[test]
fn a_kill_at_every_window_with_an_idempotent_tool() {
    windows("idempotent", "kill");
}

/// A worker that is stopped at a window, replaced, and goes on afterwards.
#[test]
fn a_freeze_at_every_window() {
    windows("careful", "stop");
}

/// The list of windows is the one in the driver's sources.
#[test]
fn every_window_of_the_driver_is_forced() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/driver/src");
    let mut named = Vec::new();
    let mut folders = vec![PathBuf::from(sources)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let names = text.split('"').filter(|word| {
                word.strip_prefix("driver.").is_some_and(|rest| {
                    !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                })
            });
            named.extend(names.map(str::to_owned));
        }
    }
    named.sort();
    named.dedup();
    let mut forced = WINDOWS.map(str::to_owned).to_vec();
    forced.sort();
    assert_eq!(named, forced);
}
