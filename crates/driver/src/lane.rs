//! The lane of runs that may be what kills their workers.
//!
//! When a worker dies, every run that it held is taken over, and any of them may be the reason. The
//! count of takeovers alone cannot tell which: the neighbours of a run that kills each of its workers
//! would be failed with it. So a run that was taken over twice without progress is suspected
//! ([`RunState::is_suspected`](sayso_run::RunState::is_suspected)), and a worker drives one suspected
//! run at a time: it stands in the lane until it has come further. If the worker dies meanwhile, of
//! all suspected runs only this one's count grows.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

/// One worker's lane. Cheap to share.
#[derive(Debug, Clone, Default)]
pub struct Lane(Arc<Mutex<()>>);

/// The place in the lane; it is given up when this is dropped.
pub(crate) type Place = OwnedMutexGuard<()>;

impl Lane {
    /// Waits until nobody stands in the lane; none if the worker hands its runs back before.
    pub(crate) async fn enter(&self, drain: &CancellationToken) -> Option<Place> {
        tokio::select! {
            place = Arc::clone(&self.0).lock_owned() => Some(place),
            () = drain.cancelled() => None,
        }
    }
}
