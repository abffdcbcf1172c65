use std::fmt::{Arguments, Write};

/// What happened, as one number that tells two histories apart, and as text where it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    line: String,
    kept: Option<Vec<String>>,
}

/// The last lines of a kept trace that are shown.
const SHOWN: usize = 400;

impl Trace {
    pub(crate) fn new(keep: bool) -> Self {
        Self {
            hash: 0xcbf2_9ce4_8422_2325,
            kept: keep.then(Vec::new),
            ..Self::default()
        }
    }

    pub(crate) fn note(&mut self, now: u64, what: Arguments<'_>) {
        self.line.clear();
        write!(
            self.line,
            "{:>5}.{:06} {what}",
            now / 1_000_000,
            now % 1_000_000
        )
        .expect("writing to memory does not fail");
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.events += 1;
        if let Some(kept) = &mut self.kept {
            kept.push(self.line.clone());
        }
    }

    /// Adds a line to the text alone.
    pub(crate) fn say(&mut self, what: Arguments<'_>) {
        if let Some(kept) = &mut self.kept {
            kept.push(what.to_string());
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// The last lines, those that name `about` marked; empty if they were not kept.
    pub(crate) fn tail(&self, about: Option<&str>) -> String {
        let Some(kept) = &self.kept else {
            return String::new();
        };
        let concerns = |line: &&String| about.is_none_or(|about| line.contains(about));
        let mut shown: Vec<&String> = kept.iter().filter(concerns).collect();
        let cut = shown.len().saturating_sub(SHOWN);
        shown.drain(..cut);
        shown.into_iter().map(|line| format!("{line}\n")).collect()
    }
}
