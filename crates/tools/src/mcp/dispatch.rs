//! The first byte of a call.
//!
//! A request waits in several queues between the dispatcher and the wire: rmcp's channel, the lock
//! of a pipe that a busy server does not drain, the connection to a host. A lease that held when the
//! call was queued may be lost when it leaves. So the dispatcher puts a [`Dispatch`] into the
//! request, and the transport itself asks it right before it writes. The answer is given once:
//!
//! ```text
//! Waiting --begin, fence holds---> Sent
//! Waiting --begin, fence broken--> Refused
//! Waiting --withdraw-------------> Undelivered   (time is up, or nobody waits any more)
//! Sent    --undelivered----------> Undelivered   (no connection was made, or it broke before the
//!                                                 last byte of the request: that is no request)
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use sayso_driver::Fence;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Sent,
    Refused,
    Undelivered,
}

/// Knows whether a call went out. Travels in the request, is never serialized.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    fence: Fence,
    stage: Arc<Mutex<Stage>>,
}

impl Dispatch {
    pub(crate) fn new(fence: Fence) -> Self {
        Self {
            fence,
            stage: Arc::new(Mutex::new(Stage::Waiting)),
        }
    }

    fn stage(&self) -> std::sync::MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asked by a transport right before the first byte: whether it may write.
    pub(super) fn begin(&self) -> bool {
        let mut stage = self.stage();
        if *stage == Stage::Waiting {
            *stage = if self.fence.holds() {
                Stage::Sent
            } else {
                Stage::Refused
            };
        }
        *stage == Stage::Sent
    }

    /// Told by a transport that could not get the whole request out.
    pub(super) fn undelivered(&self) {
        *self.stage() = Stage::Undelivered;
    }

    /// Makes sure that a call which has not gone out never does. Whether it stayed in.
    pub(super) fn withdraw(&self) -> bool {
        let mut stage = self.stage();
        if *stage == Stage::Waiting {
            *stage = Stage::Undelivered;
        }
        *stage != Stage::Sent
    }

    /// Whether the fence kept it in.
    pub(super) fn refused(&self) -> bool {
        *self.stage() == Stage::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_goes_out_once_or_never() {
        let sent = Dispatch::new(Fence::new(|| true));
        assert!(sent.begin());
        assert!(!sent.withdraw());

        let withdrawn = Dispatch::new(Fence::new(|| true));
        assert!(withdrawn.withdraw());
        assert!(!withdrawn.begin());

        let fenced = Dispatch::new(Fence::new(|| false));
        assert!(!fenced.begin());
        assert!(fenced.withdraw() && fenced.refused());

        let unconnected = Dispatch::new(Fence::new(|| true));
        assert!(unconnected.begin());
        unconnected.undelivered();
        assert!(unconnected.withdraw() && !unconnected.refused());
        assert!(!unconnected.begin());
    }
}
