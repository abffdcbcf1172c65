//! What holds after every event.

mod care;
mod end;
mod rows;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use sayso_driver::{LeaseChange, ModelRequest};
use sayso_run::{
    ApprovalId, CallId, ChainKey, Message, Phase, RunId, RunState, Status, Timestamp, WorkerId,
};
use sayso_store::simulated::{Run, Tables};

use crate::coverage::Coverage;
use crate::kernel::Kernel;
use crate::world::World;

/// Requests that are remembered: more than two only if workers were lost meanwhile.
const REMEMBERED: usize = 16;

/// What was seen of one run so far.
#[derive(Debug, Default)]
struct Seen {
    state: Option<RunState>,
    /// The lease when it was last looked at.
    epoch: u64,
    worker: Option<WorkerId>,
    /// Approvals that people or time have decided.
    decided: BTreeSet<ApprovalId>,
    /// Requests of people that carried a key.
    keys: BTreeSet<(String, String)>,
    /// How often each call was started, and whether it may be started again.
    starts: BTreeMap<CallId, (u32, bool)>,
    /// The last step that the last answer had in view.
    shown: u64,
    /// Steps that a model has to have in view before a run completes with its answer.
    unseen: BTreeSet<u64>,
    /// What was asked and not answered on record yet, with its cycle.
    requests: Vec<(u32, Vec<Message>)>,
}

/// The promises of a whole deployment, checked as it runs.
pub(crate) struct Checker {
    key: ChainKey,
    runs: BTreeMap<RunId, Seen>,
    started: BTreeMap<String, RunId>,
    /// The database's time, had its clock never gone back.
    latest: Timestamp,
    pub(crate) coverage: Coverage,
}

type Broken = Result<(), String>;

impl Checker {
    pub(crate) fn new(key: ChainKey) -> Self {
        Self {
            key,
            runs: BTreeMap::new(),
            started: BTreeMap::new(),
            latest: Timestamp::from_micros(0),
            coverage: Coverage::default(),
        }
    }

    /// The run that a key has started, which is this one if it is the first.
    pub(crate) fn started(&mut self, key: &str, run: &RunId) -> RunId {
        let first = self.started.entry(key.to_owned());
        first.or_insert_with(|| run.clone()).clone()
    }

    fn state(&self, run: &RunId) -> Option<&RunState> {
        self.runs.get(run)?.state.as_ref()
    }

    /// How many runs there are, and how many of them have not ended.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let states = self.runs.values().filter_map(|seen| seen.state.as_ref());
        let live = states.filter(|state| !state.status().is_terminal());
        (self.runs.len(), live.count())
    }

    /// Some run as it is now.
    pub(crate) fn any_run(&self, kernel: &Kernel) -> Option<RunState> {
        let states: Vec<&RunState> = self
            .runs
            .values()
            .filter_map(|seen| seen.state.as_ref())
            .collect();
        if states.is_empty() {
            return None;
        }
        Some(kernel.draw(|random| (*random.pick(&states)).clone()))
    }

    /// Runs that wait for people.
    pub(crate) fn waiting(&self) -> Vec<RunState> {
        let states = self.runs.values().filter_map(|seen| seen.state.as_ref());
        states
            .filter(|state| {
                matches!(
                    state.status(),
                    Status::AwaitingApproval | Status::AwaitingInput
                )
            })
            .cloned()
            .collect()
    }

    /// A run's rows have changed.
    pub(crate) fn check_run(&mut self, world: &World, run: &RunId) {
        let disk = world.disk.clone();
        self.latest = disk.now().plus_micros(world.sky.clock_is_behind());
        let checked = disk.look(|tables| match tables.runs.get(run) {
            Some(stored) => self.changed(world, tables, stored),
            None => Ok(()),
        });
        if let Err(promise) = checked {
            world.kernel.broken(format!("{run}: {promise}"));
        }
        self.check_care(world, run);
    }

    fn changed(&mut self, world: &World, tables: &Tables, stored: &Run) -> Broken {
        self.lease(world, tables, stored)?;
        self.timeline(world, stored)?;
        crate::talks::one_lives(tables, stored)?;
        self.rows(stored)
    }

    /// A lease is taken, kept and given back at the epoch that its writer saw, and taken over only
    /// from a worker that is marked dead.
    fn lease(&mut self, world: &World, tables: &Tables, stored: &Run) -> Broken {
        let seen = self.runs.entry(stored.row.run.clone()).or_default();
        let (epoch, worker) = (stored.epoch, stored.worker.as_ref());
        if epoch != seen.epoch || worker != seen.worker.as_ref() {
            world.kernel.note(format_args!(
                "{} is held by {} at epoch {epoch}",
                stored.row.run,
                worker.map_or("nobody", |worker| worker.as_str())
            ));
        }
        let fits = match &stored.last_lease {
            LeaseChange::None => true,
            LeaseChange::Claim { from_epoch, .. }
            | LeaseChange::ClaimAndRelease { from_epoch, .. } => from_epoch + 1 == epoch,
            LeaseChange::Hold { epoch: held } | LeaseChange::Release { epoch: held } => {
                *held == epoch
            }
        };
        if !fits {
            return Err(format!(
                "{:?} was written at epoch {epoch}",
                stored.last_lease
            ));
        }
        if epoch > seen.epoch
            && let Some(before) = &seen.worker
            && tables
                .workers
                .get(before)
                .is_some_and(|row| row.ended_at.is_none())
        {
            return Err(format!("it was taken over from {before}, who lives"));
        }
        seen.epoch = epoch;
        seen.worker = worker.cloned();
        Ok(())
    }

    /// S4.8, and what was sent to a model once is never sent otherwise.
    pub(crate) fn check_request(&mut self, world: &World, request: ModelRequest) {
        let (run, cycle) = (request.run, request.cycle);
        if let Err(promise) = steps::well_formed(&request.messages) {
            world
                .kernel
                .broken(format!("{run}: the request of cycle {cycle}: {promise}"));
        }
        let seen = self.runs.entry(run).or_default();
        if seen.requests.len() == REMEMBERED {
            seen.requests.remove(0);
        }
        seen.requests.push((cycle, request.messages));
    }

    /// A call is about to act: its start is durable, its sender has the run, and it acts once.
    pub(crate) fn check_execution(
        &self,
        world: &World,
        run: &RunId,
        call: &CallId,
        worker: &WorkerId,
        count: u32,
    ) {
        let Some(state) = self.state(run) else {
            return;
        };
        let phase = state.call(call).map(|call| &call.phase);
        let sender = matches!(phase, Some(Phase::Started { worker: by, .. }) if by == worker);
        if !sender {
            let promise = format!("{run} {call} is sent by {worker} although it is {phase:?}");
            world.kernel.broken(promise);
        }
        let starts = self.runs.get(run).and_then(|seen| seen.starts.get(call));
        let (started, idempotent) = starts.copied().unwrap_or_default();
        if count > started || (count > 1 && !idempotent) {
            let promise = format!("{run} {call} is sent {count} times for {started} starts");
            world.kernel.broken(promise);
        }
    }
}
