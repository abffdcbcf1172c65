//! Every live run waits for something that will come, or is owed work that will be done.

use sayso_run::{Next, RunId, RunState, WaitFor, WorkerId};
use sayso_store::simulated::{Run, Tables};

use super::{Broken, Checker};
use crate::world::World;

/// Who looks after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// Nobody holds it.
    Nobody,
    /// Its worker is marked dead, or its process is gone and it will be.
    Lost,
    /// Its worker drives it.
    Drives,
    /// Its worker lives, and has forgotten it.
    Idle,
}

impl Checker {
    /// Whether somebody will go on with the run.
    pub(crate) fn check_care(&self, world: &World, run: &RunId) {
        let Some(state) = self.state(run) else {
            return;
        };
        let checked = world.disk.look(|tables| {
            let Some(stored) = tables.runs.get(run) else {
                return Ok(());
            };
            if stored.row.seq != state.seq() || state.status().is_terminal() {
                return Ok(());
            }
            let holder = match &stored.worker {
                None => Holder::Nobody,
                Some(worker) => holder(world, tables, run, worker),
            };
            cared_for(state, stored, holder, has_children(tables, run))
        });
        if let Err(promise) = checked {
            world.kernel.broken(format!("{run}: {promise}"));
        }
    }
}

fn holder(world: &World, tables: &Tables, run: &RunId, worker: &WorkerId) -> Holder {
    let alive = tables
        .workers
        .get(worker)
        .is_some_and(|row| row.ended_at.is_none());
    let who = world.who();
    let Some(pid) = who.workers.get(worker).filter(|_| alive) else {
        return Holder::Lost;
    };
    let drives = who.drives.get(pid).is_some_and(|runs| runs.contains(run));
    match (world.kernel.is_alive(*pid), drives) {
        (false, _) => Holder::Lost,
        (true, true) => Holder::Drives,
        (true, false) => Holder::Idle,
    }
}

/// Whether something will come of a run's children: one lives, or its end waits to be taken.
fn has_children(tables: &Tables, run: &RunId) -> bool {
    let mut runs = tables.runs.values();
    let lives = runs.any(|child| {
        let parent = child.row.lineage.as_ref().map(|of| &of.parent_run);
        parent == Some(run) && child.row.ended_at.is_none()
    });
    lives || tables.child_ends.values().any(|parent| parent == run)
}

fn cared_for(state: &RunState, stored: &Run, holder: Holder, has_children: bool) -> Broken {
    match (state.next(), holder) {
        (Next::Done, _)
        | (Next::Wait(WaitFor::Approval { .. } | WaitFor::Input), _)
        | (_, Holder::Drives | Holder::Lost) => Ok(()),
        (Next::Wait(WaitFor::Child), Holder::Nobody) if has_children => Ok(()),
        (Next::Owed(_) | Next::Wait(WaitFor::Retry { .. }), Holder::Nobody)
            if stored.ready_at.is_some() =>
        {
            Ok(())
        }
        (next, holder) => Err(format!(
            "nobody will go on: {next:?}, ready at {:?}, {holder:?} at epoch {}",
            stored.ready_at, stored.epoch
        )),
    }
}
