//! Which run an approval belongs to, as events have told.
//!
//! That never changes, so a decision whose approval was asked for a moment ago need not be looked
//! up: it goes straight to the hub, which checks everything against the timeline. What has been
//! forgotten, or was never heard, is read from the database.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sayso_run::{ApprovalId, Namespace, RunId};

/// How many approvals are remembered before the older half is forgotten.
const REMEMBERED: usize = 16_384;

/// The approvals that were asked for lately.
#[derive(Debug, Default)]
pub(super) struct Asked {
    halves: Mutex<Halves>,
}

#[derive(Debug, Default)]
struct Halves {
    newer: HashMap<ApprovalId, (Namespace, RunId)>,
    older: HashMap<ApprovalId, (Namespace, RunId)>,
}

impl Asked {
    pub(super) fn remember(&self, approval: ApprovalId, namespace: Namespace, run: RunId) {
        let mut halves = self.lock();
        if halves.newer.len() >= REMEMBERED / 2 {
            halves.older = std::mem::take(&mut halves.newer);
        }
        halves.newer.insert(approval, (namespace, run));
    }

    /// The run of an approval of this namespace, if it is remembered.
    pub(super) fn run_of(&self, namespace: &Namespace, approval: &ApprovalId) -> Option<RunId> {
        let halves = self.lock();
        let known = halves.newer.get(approval);
        let (of, run) = known.or_else(|| halves.older.get(approval))?;
        (of == namespace).then(|| run.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Halves> {
        // Every change under this lock leaves both halves whole.
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B43: what is remembered is told to its own namespace alone; memory is bounded.
    #[test]
    fn b43_only_its_own_namespace_is_told() {
        let asked = Asked::default();
        let (shop, other) = (
            Namespace::new("shop").unwrap(),
            Namespace::new("other").unwrap(),
        );
        let id = |n: usize| ApprovalId::new(format!("apr_{n}")).unwrap();
        let run = RunId::new("run_1").unwrap();
        asked.remember(id(0), shop.clone(), run.clone());
        assert_eq!(asked.run_of(&shop, &id(0)), Some(run.clone()));
        assert_eq!(asked.run_of(&other, &id(0)), None);
        assert_eq!(asked.run_of(&shop, &id(1)), None);
        for n in 0..2 * REMEMBERED {
            asked.remember(id(n), shop.clone(), run.clone());
        }
        assert_eq!(asked.run_of(&shop, &id(0)), None);
        assert_eq!(asked.run_of(&shop, &id(2 * REMEMBERED - 1)), Some(run));
        let halves = asked.lock();
        assert!(halves.newer.len() + halves.older.len() <= REMEMBERED);
    }
}
