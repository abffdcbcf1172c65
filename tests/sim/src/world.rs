use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use sayso_driver::{Revision, ToolSet};
use sayso_rules::Role;
use sayso_run::{ChainKey, RunId, Timestamp, WorkerId};
use sayso_store::simulated::Disk;

use crate::agents;
use crate::ballots::Words;
use crate::bus::Bus;
use crate::check::Checker;
use crate::kernel::{Kernel, Pid};
use crate::ledger::Ledger;
use crate::services::Desks;
use crate::sky::Sky;

/// When the simulation begins, by the database's clock.
const BEGINS: i64 = 1_800_000_000_000_000;

/// Everything that exists, whoever runs or not.
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) disk: Disk,
    pub(crate) sky: Sky,
    pub(crate) bus: Bus,
    pub(crate) ledger: Ledger,
    pub(crate) words: Words,
    pub(crate) desks: Desks,
    pub(crate) key: ChainKey,
    /// What answers may cost in all, in millionths; few seeds have a cap.
    pub(crate) cap: Option<u64>,
    pub(crate) revision: Arc<Revision>,
    pub(crate) role: Arc<Role>,
    pub(crate) tools: Arc<ToolSet>,
    checker: Mutex<Checker>,
    who: Mutex<Who>,
    over: AtomicBool,
}

/// Which process is which worker, and which runs it drives.
#[derive(Debug, Default)]
pub(crate) struct Who {
    pub(crate) workers: BTreeMap<WorkerId, Pid>,
    pub(crate) drives: BTreeMap<Pid, BTreeSet<RunId>>,
}

impl World {
    pub(crate) fn new(kernel: &Kernel) -> Arc<Self> {
        let clock = kernel.clone();
        let key = ChainKey::new("sim", [7; 32]);
        Arc::new(Self {
            kernel: kernel.clone(),
            disk: Disk::new(move || {
                let since = i64::try_from(clock.now()).unwrap_or(i64::MAX);
                Timestamp::from_micros(BEGINS + since)
            }),
            sky: Sky::new(kernel),
            bus: Bus::default(),
            ledger: Ledger::default(),
            words: Words::default(),
            desks: Desks::default(),
            cap: kernel.draw(|random| {
                let capped = random.permille(200);
                capped.then(|| random.between(60_000, 250_000))
            }),
            revision: agents::revision(),
            role: agents::role(),
            tools: agents::tools(),
            checker: Mutex::new(Checker::new(key.clone())),
            who: Mutex::default(),
            over: AtomicBool::new(false),
            key,
        })
    }

    pub(crate) fn checker(&self) -> MutexGuard<'_, Checker> {
        self.checker.lock().expect("no code panics while it checks")
    }

    pub(crate) fn who(&self) -> MutexGuard<'_, Who> {
        self.who.lock().expect("no code panics while it looks")
    }

    /// A process has become this worker.
    pub(crate) fn is_worker(&self, pid: Pid, worker: &WorkerId) {
        self.who().workers.insert(worker.clone(), pid);
    }

    pub(crate) fn begins_driving(&self, pid: Pid, run: &RunId) {
        self.who()
            .drives
            .entry(pid)
            .or_default()
            .insert(run.clone());
    }

    /// Whoever stops driving a run must leave it to somebody.
    pub(crate) fn ends_driving(&self, pid: Pid, run: &RunId) {
        self.who().drives.entry(pid).or_default().remove(run);
        self.checker().check_care(self, run);
    }

    /// Everything has come to rest.
    pub(crate) fn ends(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Looks at everything that has changed on the disk.
    pub(crate) fn check(&self) {
        for run in self.disk.take_touched() {
            self.checker().check_run(self, &run);
        }
    }
}
