//! The first byte of a call.
//!
//! A request waits in several queues between the dispatcher and the wire: rmcp's channel, the lock
//! of a pipe that a busy server does not drain, the connection to a host. A lease that held when the
//! call was queued may be lost when it leaves. So the dispatcher puts a [`Dispatch`] into the
//! request, and the transport itself asks it right before it writes. The answer is given once:
//!
//! ```text
//! Waiting --begin, fence holds--> Sent
//! Waiting --begin, fence broken-> Withheld
//! Waiting --withdraw-----------> Withheld      (time is up, or nobody waits any more)
//! Sent    --not_sent-----------> Withheld      (the connection was never made)
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use sayso_driver::Fence;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Sent,
    Withheld,
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
    pub(crate) fn begin(&self) -> bool {
        let mut stage = self.stage();
        if *stage == Stage::Waiting {
            *stage = if self.fence.holds() {
                Stage::Sent
            } else {
                Stage::Withheld
            };
        }
        *stage == Stage::Sent
    }

    /// Told by a transport that could not even connect.
    pub(crate) fn not_sent(&self) {
        *self.stage() = Stage::Withheld;
    }

    /// Makes sure that a call which has not gone out never does. Whether it stayed in.
    pub(crate) fn withdraw(&self) -> bool {
        let mut stage = self.stage();
        if *stage == Stage::Waiting {
            *stage = Stage::Withheld;
        }
        *stage == Stage::Withheld
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
        assert!(fenced.withdraw());

        let unconnected = Dispatch::new(Fence::new(|| true));
        assert!(unconnected.begin());
        unconnected.not_sent();
        assert!(unconnected.withdraw());
    }
}
