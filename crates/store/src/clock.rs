//! The database's clock, as well as this process knows it.
//!
//! Between two looks at the database the process's monotonic clock goes on from the last one, so
//! reading the time costs no round trip and does not jump when somebody sets this machine's clock.
//! It is never ahead of the database, only behind by what an answer took to arrive: what this
//! process says is due now is due for the database as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use sayso_run::Timestamp;

#[derive(Debug, Clone)]
pub(crate) struct Clock {
    start: Instant,
    /// The database's time minus the time since `start`, in microseconds.
    offset: Arc<AtomicI64>,
}

impl Clock {
    /// A clock that is set by its first [`Clock::observe`].
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            offset: Arc::new(AtomicI64::new(0)),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let since = self.elapsed(Instant::now());
        Timestamp::from_micros(since.saturating_add(self.offset.load(Ordering::Relaxed)))
    }

    /// Takes what the database has just said.
    pub(crate) fn observe(&self, database: i64) {
        let since = self.elapsed(Instant::now());
        self.offset.store(database - since, Ordering::Relaxed);
    }

    fn elapsed(&self, at: Instant) -> i64 {
        let micros = at.saturating_duration_since(self.start).as_micros();
        i64::try_from(micros).expect("no process runs for 292,000 years")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_from_what_the_database_said() {
        let clock = Clock::new();
        clock.observe(1_000_000_000);
        let first = clock.now();
        assert!((1_000_000_000..1_001_000_000).contains(&first.micros()));
        assert!(clock.now() >= first);
    }
}
