//! Faults that tests plant, to prove that they would find them.
//!
//! Compiled in with the cargo feature `hooks` only, which is never part of a release build. A fault
//! is planted for one thread, since a simulation is one thread; each check that a fault takes away
//! asks [`planted`] where it stands.

use std::cell::Cell;

/// A check that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Appends do not look at the epoch of the lease.
    NoEpochCheck,
    /// A lease is given back whatever was written meanwhile.
    ReleaseWithoutSequence,
    /// A call is sent although the last renewal is too old.
    SendWithoutFence,
    /// Whether a decision comes in time is decided by the clock of whoever takes it.
    ExpiryByLocalClock,
    /// Runs that stay ready are not woken again.
    NoSweep,
    /// A decided approval takes another decision.
    DecisionTwice,
    /// What comes of a call is dropped if another worker has the run by now.
    ResultRefusedForEpoch,
    /// A run completes although the model has not seen everything.
    CompletionWithUnseenMessage,
    /// A run is taken over from a worker that lives.
    TakeoverOfLiveWorker,
    /// A group of appends is committed without its last member.
    GroupDropsMember,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 10] = [
        Fault::NoEpochCheck,
        Fault::ReleaseWithoutSequence,
        Fault::SendWithoutFence,
        Fault::ExpiryByLocalClock,
        Fault::NoSweep,
        Fault::DecisionTwice,
        Fault::ResultRefusedForEpoch,
        Fault::CompletionWithUnseenMessage,
        Fault::TakeoverOfLiveWorker,
        Fault::GroupDropsMember,
    ];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fault::NoEpochCheck => "no-epoch-check",
            Fault::ReleaseWithoutSequence => "release-without-sequence",
            Fault::SendWithoutFence => "send-without-fence",
            Fault::ExpiryByLocalClock => "expiry-by-local-clock",
            Fault::NoSweep => "no-sweep",
            Fault::DecisionTwice => "decision-twice",
            Fault::ResultRefusedForEpoch => "result-refused-for-epoch",
            Fault::CompletionWithUnseenMessage => "completion-with-unseen-message",
            Fault::TakeoverOfLiveWorker => "takeover-of-live-worker",
            Fault::GroupDropsMember => "group-drops-member",
        }
    }

    /// The fault of this name.
    pub fn parse(name: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.as_str() == name)
    }
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Plants a fault on this thread, or takes it away.
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// Whether this check is to be left out.
pub fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}
