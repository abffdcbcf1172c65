//! The runs that this worker drives now, so that a wake-up for one of them nudges its hold.

use std::collections::HashMap;
use std::sync::Mutex;

use sayso_driver::Lane;
use sayso_run::RunId;
use tokio::sync::mpsc;

/// What a wake-up meets.
#[derive(Debug)]
pub enum Entry {
    /// The run is driven already: its hold was nudged.
    Nudged,
    /// The run is to be driven; nudges come here.
    New(mpsc::Receiver<()>),
}

/// The runs that this worker drives now.
#[derive(Debug, Default)]
pub struct Holds {
    runs: Mutex<HashMap<RunId, mpsc::Sender<()>>>,
    lane: Lane,
}

impl Holds {
    /// Where runs are driven alone that may be what kills their workers.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Enters a run, or nudges its hold. One pending nudge is enough: it makes the hold read all.
    pub fn enter(&self, run: &RunId) -> Entry {
        let mut runs = self
            .runs
            .lock()
            .expect("no code panics while it holds the runs");
        if let Some(nudges) = runs.get(run) {
            // A full channel holds a nudge already; it is never closed while the run is entered.
            let _already_nudged = nudges.try_send(()).is_err();
            return Entry::Nudged;
        }
        let (sender, receiver) = mpsc::channel(1);
        runs.insert(run.clone(), sender);
        Entry::New(receiver)
    }

    /// Leaves a run. False if it was nudged after its hold looked for the last time: it stays
    /// entered and has to be driven again.
    pub fn leave(&self, run: &RunId, nudges: &mut mpsc::Receiver<()>) -> bool {
        let mut runs = self
            .runs
            .lock()
            .expect("no code panics while it holds the runs");
        if nudges.try_recv().is_ok() {
            return false;
        }
        runs.remove(run);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A nudge that comes between a hold's last look and its leaving is not lost.
    #[test]
    fn a_late_nudge_makes_the_run_be_driven_again() {
        let (holds, run) = (Holds::default(), RunId::new("run_1").unwrap());
        let Entry::New(mut nudges) = holds.enter(&run) else {
            panic!("the run is new")
        };
        assert!(matches!(holds.enter(&run), Entry::Nudged));
        assert!(matches!(holds.enter(&run), Entry::Nudged));
        assert!(!holds.leave(&run, &mut nudges));
        assert!(holds.leave(&run, &mut nudges));
        assert!(matches!(holds.enter(&run), Entry::New(_)));
    }
}
