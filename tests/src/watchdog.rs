//! Ends what a test process leaves behind. Shared deployments are never dropped, and a test process
//! may be killed: so a shell waits for the end of its standard input, which comes with the end of the
//! test process however it ends, and then kills every process that carries our folder's name in its
//! environment, takes away the small disks that are mounted in the folder, and removes it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The variable that marks our processes.
pub(crate) const MARK: &str = "SAYSO_TEST_FOLDER";

const SCRIPT: &str = r#"
cat > /dev/null
for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    if [ "$pid" != "$$" ] && tr '\0' '\n' < "$process/environ" 2>/dev/null | grep -qx "SAYSO_TEST_FOLDER=$1"; then
        kill -9 "$pid" 2>/dev/null
    fi
done
while read -r _ at _; do
    case "$at" in "$1"/*) umount --lazy "$at" ;; esac
done < /proc/mounts
rm -rf "$1"
"#;

struct Watchdog {
    folder: PathBuf,
    _shell: Child,
}

/// This test process's folder, watched over.
pub(crate) fn folder() -> &'static Path {
    static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();
    &WATCHDOG.get_or_init(start).folder
}

fn start() -> Watchdog {
    let folder = tempfile::Builder::new()
        .prefix("sayso-tests-")
        .tempdir()
        .expect("a temporary folder")
        .keep();
    let shell = Command::new("sh")
        .args(["-c", SCRIPT, "watchdog"])
        .arg(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh can be started");
    Watchdog {
        folder,
        _shell: shell,
    }
}
