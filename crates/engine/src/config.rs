use std::time::Duration;

/// How often and how far a [`Sweeper`](crate::Sweeper) looks. The defaults are those of the design; tests shorten them.
#[derive(Debug, Clone)]
pub struct SweepConfig {
    /// Between two looks at workers and ready runs.
    pub every: Duration,
    /// How long a worker's row may stay unchanged, by this process's monotonic clock.
    pub worker_silence: Duration,
    /// How long a run may be ready before it is woken again.
    pub ready_age: Duration,
    /// How long the published mark may lag.
    pub publish_lag: Duration,
    /// How long a run may be `running` without a worker (S4.5).
    pub reap_after: Duration,
}

impl Default for SweepConfig {
    fn default() -> Self {
        Self {
            every: Duration::from_millis(250),
            worker_silence: Duration::from_secs(3),
            ready_age: Duration::from_secs(1),
            publish_lag: Duration::from_secs(2),
            reap_after: Duration::from_secs(30 * 60),
        }
    }
}
