//! Whole runs, through the core alone.

#![expect(
    clippy::unwrap_used,
    reason = "a failing test prints the place, helpers included"
)]

mod check;
mod event;
mod world;

mod compaction;
mod edits;
mod interleavings;
mod retries;
