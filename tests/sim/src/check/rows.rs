//! Approvals, actions and runs agree with the timeline.

use sayso_driver::{project, run_row};
use sayso_store::simulated::Run;

use super::{Broken, Checker};

impl Checker {
    /// The run's row is the one that follows from its timeline, and so is the status of each action
    /// and approval.
    pub(super) fn rows(&self, stored: &Run) -> Broken {
        let Some(state) = self.state(&stored.row.run) else {
            return Err("there is a row and no timeline".into());
        };
        let row = run_row(state);
        if row != stored.row {
            return Err(format!("its row is {:?}, not {row:?}", stored.row));
        }
        for call in state.calls() {
            let action = stored.actions.get(&call.id);
            let status = action.map(|action| action.status);
            if status != Some(call.action_status()) {
                return Err(format!(
                    "the action of {} is {status:?}, not {:?}",
                    call.id,
                    call.action_status()
                ));
            }
            let Some(held) = &call.approval else {
                continue;
            };
            let approval = stored.approvals.get(&held.id);
            let row = approval.map(|row| (row.action_status, row.decided_by.as_ref()));
            let by = held
                .outcome
                .as_ref()
                .and_then(|outcome| outcome.by.as_ref());
            if row != Some((call.action_status(), by)) {
                return Err(format!("the row of {} is {row:?}", held.id));
            }
        }
        Ok(())
    }

    /// The same to the last column.
    pub(super) fn every_column(&self, stored: &Run) -> Broken {
        let Some(state) = self.state(&stored.row.run) else {
            return Err("there is a row and no timeline".into());
        };
        let projected = project(state, &stored.steps);
        if projected.actions.len() != stored.actions.len()
            || projected.approvals.len() != stored.approvals.len()
        {
            return Err("it has actions or approvals that its timeline lacks".into());
        }
        for mut action in projected.actions {
            let row = stored.actions.get(&action.call);
            // When it last changed is told by the append, not by the state.
            action.updated_at = row.map_or(action.updated_at, |row| row.updated_at);
            if row != Some(&action) {
                return Err(format!("an action is {row:?}, not {action:?}"));
            }
        }
        for mut approval in projected.approvals {
            let row = stored.approvals.get(&approval.approval);
            // The row keeps the trust that the run had when it asked.
            approval.trust = row.map_or(approval.trust, |row| row.trust);
            if row != Some(&approval) {
                return Err(format!("an approval is {row:?}, not {approval:?}"));
            }
        }
        Ok(())
    }
}
