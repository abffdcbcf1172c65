//! What the numbers were measured on.

use std::fs;
use std::process::Command;

use anyhow::Result;
use serde_json::{Value, json};

use crate::process::Processes;

/// Processor, cores, memory and kernel, as far as the system tells.
pub(super) fn described() -> Value {
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "processor": value_of("/proc/cpuinfo", "model name"),
        "memory": value_of("/proc/meminfo", "MemTotal"),
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()).ok(),
    })
}

/// The first value of a key in a file of `key: value` lines.
fn value_of(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// Today, in UTC.
pub(super) fn today(processes: &Processes) -> Result<String> {
    let said = processes.capture(Command::new("date").args(["-u", "+%F"]))?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
