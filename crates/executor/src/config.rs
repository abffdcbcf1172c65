use std::time::Duration;

use sayso_driver::DelegationLimits;

/// How long to wait before a dependency that is away is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// Settings of an executor.
#[derive(Debug, Clone)]
pub struct ExecutorConfig {
    /// The worker's name: a new start of the same name ends the leases of the old one.
    pub name: String,
    /// How many runs are driven at once.
    pub concurrency: usize,
    /// How deep and wide runs may start others (S3.6).
    pub delegation: DelegationLimits,
    /// Whether traces carry arguments and results (S10.3).
    pub tells_content: bool,
}
