use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// A file outside the product with a line for each execution.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    lines: Mutex<()>,
}

/// One execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The idempotency key that came with the call: run and call.
    pub key: String,
    /// The tool, as its server names it.
    pub tool: String,
    /// The arguments.
    pub args: Value,
}

impl Entry {
    /// The number that was appended.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn n(&self) -> i64 {
        self.args["n"].as_i64().expect("the call has a number")
    }

    /// The call within its run.
    pub fn call(&self) -> &str {
        self.key.rsplit_once(':').map_or("", |(_, call)| call)
    }
}

impl Ledger {
    pub(crate) fn new(path: PathBuf) -> Self {
        File::create(&path).expect("the ledger can be made");
        Self {
            path,
            lines: Mutex::new(()),
        }
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every execution so far, in order. A line that is being written is left out.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn entries(&self) -> Vec<Entry> {
        let _one_reader = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let text = std::fs::read_to_string(&self.path).expect("the ledger can be read");
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| {
                let mut fields = line.splitn(3, '\t');
                let mut field = || fields.next().expect("a line has three fields").to_owned();
                let (key, tool, args) = (field(), field(), field());
                let args = serde_json::from_str(&args).expect("arguments are JSON");
                Entry { key, tool, args }
            })
            .collect()
    }

    /// The executions of one run.
    pub fn of(&self, run: &str) -> Vec<Entry> {
        let prefix = format!("{run}:");
        let mut entries = self.entries();
        entries.retain(|entry| entry.key.starts_with(&prefix));
        entries
    }

    /// The numbers that a run appended, sorted.
    pub fn numbers(&self, run: &str) -> Vec<i64> {
        let mut numbers: Vec<i64> = self.of(run).iter().map(Entry::n).collect();
        numbers.sort_unstable();
        numbers
    }
}
