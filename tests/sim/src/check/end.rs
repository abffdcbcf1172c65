//! What holds when everything has come to rest.

use std::collections::BTreeMap;

use sayso_driver::ApprovalStatus;
use sayso_run::{Actor, ChainKeys, Money, RunId, Step, StoredLink, verify};
use sayso_store::simulated::{Run, Tables};

use super::{Broken, Checker};
use crate::world::World;

impl Checker {
    /// Every run has ended, everybody was told, and what was heard is on record.
    pub(crate) fn is_at_rest(&self, world: &World) -> bool {
        let (_, live) = self.counts();
        live == 0
            && self.results(world).is_ok()
            && world.disk.look(|tables| {
                let mut runs = tables.runs.values();
                runs.all(|run| run.published == run.row.seq && !run.row.open_calls)
            })
    }

    /// What has not come to rest.
    pub(crate) fn restless(&self, world: &World) -> String {
        if let Err(missing) = self.results(world) {
            return missing;
        }
        world.disk.look(|tables| {
            let runs = tables.runs.values().filter(|run| {
                !run.row.status.is_terminal() || run.published < run.row.seq || run.row.open_calls
            });
            let told = runs.map(|run| {
                format!(
                    "{} is {} at {} (published {}), ready at {:?}, held by {:?}",
                    run.row.run,
                    run.row.status.as_str(),
                    run.row.seq,
                    run.published,
                    run.ready_at,
                    run.worker
                )
            });
            told.collect::<Vec<_>>().join("; ")
        })
    }

    /// The last look.
    pub(crate) fn check_end(&self, world: &World) {
        let checked = world.disk.look(|tables| {
            for run in tables.runs.values() {
                let about = |promise| format!("{}: {promise}", run.row.run);
                self.every_column(run).map_err(about)?;
                self.whole_chain(run).map_err(about)?;
                feedback(tables, run).map_err(about)?;
            }
            spending(tables)?;
            crate::talks::all_was_said_once(tables)?;
            self.results(world)
        });
        if let Err(promise) = checked {
            world.kernel.broken(promise);
        }
    }

    /// The timeline as anybody would verify it.
    fn whole_chain(&self, stored: &Run) -> Broken {
        let keys: ChainKeys = [self.key.clone()].into_iter().collect();
        let links: Vec<StoredLink> = stored
            .steps
            .iter()
            .map(|step| StoredLink {
                seq: step.recorded.seq,
                at: step.recorded.at,
                actor: step.recorded.actor.clone(),
                kind: step.recorded.step.kind().to_string(),
                version: step.recorded.step.kind().version(),
                content: Some(step.content.clone()),
                content_sha256: step.recorded.content_sha256,
                hash: step.recorded.hash,
                seal: step.recorded.seal.clone(),
            })
            .collect();
        verify(&stored.row.run, &links, &keys)
            .map(|_| ())
            .map_err(|broken| broken.to_string())
    }

    /// A result is a fact: what a process has heard and lived to tell is on record.
    fn results(&self, world: &World) -> Broken {
        for (run, call) in world.ledger.heard_by_living(world) {
            let state = self.state(&run);
            let recorded = state
                .and_then(|state| state.call(&call))
                .is_some_and(sayso_run::Call::is_finished);
            if !recorded {
                return Err(format!(
                    "{run} {call}: its result was heard and is not recorded"
                ));
            }
        }
        Ok(())
    }
}

/// What was spent is what the timelines say (S4.6).
fn spending(tables: &Tables) -> Broken {
    let costs = tables.runs.values().filter_map(|run| run.row.cost);
    let costs: u64 = costs.map(Money::millionths).sum();
    if costs == tables.spent {
        Ok(())
    } else {
        Err(format!("{} was spent for answers of {costs}", tables.spent))
    }
}

/// Every decision of a person is feedback, and nothing else is; nothing stays pending.
fn feedback(tables: &Tables, stored: &Run) -> Broken {
    let mut decided = BTreeMap::new();
    for step in &stored.steps {
        let approval = match &step.recorded.step {
            Step::ToolApproved(step) => Some(step.approval.clone()),
            Step::ToolDenied(step) if step.cause == sayso_run::DenyCause::Person => {
                step.approval.clone()
            }
            _ => None,
        };
        if let (Some(approval), Actor::Principal(by)) = (approval, &step.recorded.actor) {
            decided.insert(approval, by.clone());
        }
    }
    let run: &RunId = &stored.row.run;
    let given = tables.feedback.values().filter(|row| row.run == *run);
    let given: BTreeMap<_, _> = given
        .map(|row| (row.approval.clone(), row.by.clone()))
        .collect();
    if given != decided {
        return Err(format!("decided by {decided:?}, rated by {given:?}"));
    }
    let pending = |row: &&sayso_driver::ApprovalRow| row.status == ApprovalStatus::Pending;
    match stored.approvals.values().find(pending) {
        Some(row) => Err(format!("{} is pending after the end", row.approval)),
        None => Ok(()),
    }
}
