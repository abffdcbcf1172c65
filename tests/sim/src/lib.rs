//! A simulator: a whole deployment in one thread, with every trouble at once.
//!
//! # What is real and what is simulated
//!
//! Real, as it is released but for the hooks: the core (`sayso-run`), the rules, the driver with its
//! sessions, the journal's grouped writer with its way through unclear commits, the verbs of the
//! services (the hub's `respond`; the scheduler's `admit`, `cancel`, `retry` and all its sweeps, the
//! marking of dead workers among them; the executor's `attend` and `Holds`).
//!
//! Simulated: time, the disk (`sayso_store::simulated`, which keeps the store's own contract), the
//! bus, the processes around the verbs, models, tools, policy, and people.
//!
//! # How it works
//!
//! A seed draws everything: how many workers and runs there are, which task is polled next, how long
//! each trip takes, what goes wrong. One thread polls one task at a time, chosen by lot among those
//! that are ready, and lets time jump to the next timer when none is (`kernel.rs`). So every order
//! that an `await` allows can come about, and nothing depends on the machine: the same seed gives
//! the same trace, whose hash tells two histories apart.
//!
//! Between any two polls something may go wrong (`trouble.rs`): a process is killed or frozen, for
//! less or for longer than a lease lasts; the database, the broker or policy are away; one worker is
//! cut off; streams are deleted; the database's clock jumps. Each trip to the database may fail
//! before or after a commit took effect, or long after its connection broke (`sky.rs`); each wake-up
//! may be lost, late, twice and out of order (`bus.rs`). People start, approve, deny, write, cancel,
//! retry and reply at random, on what they saw some time ago, some requests twice (`people.rs`).
//!
//! After some time the troubles end, people decide what still waits, and everything has to come to
//! rest: every run ended, every step published.
//!
//! # What is checked
//!
//! After every event (`check/`), on the disk alone: chains hold; the fold takes each step; only a
//! retry leads out of `failed`, and only late results follow an end; requests to models are
//! well-formed and never change afterwards; the first decision is final, in time by the database's
//! clock, and not one's own; nothing starts unapproved, and only what is idempotent starts twice;
//! runs, actions and approvals agree with the timeline; leases change hands only as they may; every
//! live run waits for something that will come or is owed work that somebody will do. When a tool is
//! reached, its sender still has the run and the call acts once. What a writer is told to be durable
//! is. At the end: results that were heard and lived to be told are on record.
//!
//! # To reproduce a seed
//!
//! `cargo xtask sim --seeds 1 --seed N` prints the trace of a seed that breaks a promise. Ten
//! faults, each a check that is left out, can be planted with `--fault NAME`; a test shows that each
//! is found (`sayso_run::hooks`).
#![cfg(feature = "hooks")]

mod agents;
mod ballots;
mod bus;
mod check;
mod coverage;
mod herald;
mod journal;
mod kernel;
mod ledger;
mod logs;
mod models;
mod people;
mod policy;
mod random;
mod services;
mod sky;
mod trace;
mod trouble;
mod worker;
mod world;

use std::sync::Arc;

use sayso_run::hooks::{Fault, plant};

pub use coverage::Coverage;

use crate::kernel::{Kernel, Machine, OUTSIDE, Stepped};
use crate::trouble::Trouble;
use crate::world::World;

/// How long troubles last, in microseconds.
const TROUBLED: u64 = 45_000_000;

/// How long it may take until everything has come to rest after them.
const PATIENCE: u64 = 240_000_000;

/// Between two looks at whether everything has come to rest.
const LOOK: u64 = 500_000;

/// What a seed is run with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// A check that is left out.
    pub fault: Option<Fault>,
    /// Keeps the trace as text, for a seed that is run to be read.
    pub keep_trace: bool,
}

/// What came of a seed.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Tells its history from others.
    pub hash: u64,
    /// How much happened.
    pub events: u64,
    /// How many runs there were.
    pub runs: usize,
    /// How many workers there were at once.
    pub workers: usize,
    /// What came about.
    pub coverage: Coverage,
    /// The promise that was broken, if one was.
    pub broken: Option<String>,
    /// The trace up to there, if it was kept.
    pub trace: String,
}

/// Runs a seed from beginning to end, or to the first promise that is broken.
pub fn simulate(seed: u64, options: Options) -> Report {
    plant(options.fault);
    let machine = Machine::new(seed, options.keep_trace);
    if options.keep_trace {
        let logs = logs::Logs(machine.kernel().clone());
        tracing::subscriber::with_default(logs, || run(seed, machine))
    } else {
        run(seed, machine)
    }
}

fn run(seed: u64, mut machine: Machine) -> Report {
    let kernel = machine.kernel().clone();
    let world = World::new(&kernel);
    let mut trouble = Trouble::over(&world);
    people::begin(&world);
    kernel.spawn(OUTSIDE, come_to_rest(Arc::clone(&world)));
    let workers = trouble.workers();
    while kernel.violation().is_none() {
        match machine.step() {
            Stepped::Polled => {
                world.check();
                trouble.passes();
            }
            Stepped::Passed => {}
            Stepped::Idle => break,
        }
        if world.is_over() {
            break;
        }
    }
    if kernel.violation().is_none() {
        world.checker().check_end(&world);
    }
    plant(None);
    world.desks.close();
    report(seed, &kernel, &world, workers)
}

fn report(seed: u64, kernel: &Kernel, world: &World, workers: usize) -> Report {
    let broken = kernel.violation();
    // The trace of one run is what matters if the promise names one.
    let about = broken
        .as_deref()
        .and_then(|broken| broken.split([' ', ':']).next())
        .filter(|word| word.starts_with("run_"));
    let trace = kernel.trace(|trace| match about {
        Some(run) => format!(
            "{}\n-- of {run} alone --\n{}",
            trace.tail(None),
            trace.tail(Some(run))
        ),
        None => trace.tail(None),
    });
    let checker = world.checker();
    Report {
        seed,
        hash: kernel.trace(trace::Trace::hash),
        events: kernel.trace(trace::Trace::events),
        runs: checker.counts().0,
        workers,
        coverage: checker.coverage.clone(),
        broken,
        trace,
    }
}

/// Ends the troubles after their time, and the simulation once everything rests.
async fn come_to_rest(world: Arc<World>) {
    let micros = std::time::Duration::from_micros;
    world.kernel.sleep(micros(TROUBLED)).await;
    world.kernel.note(format_args!("the troubles are over"));
    world.sky.clears_up();
    world
        .kernel
        .spawn(OUTSIDE, people::finish(Arc::clone(&world)));
    let until = world.kernel.now() + PATIENCE;
    while !world.checker().is_at_rest(&world) {
        if world.kernel.now() > until {
            let restless = world.checker().restless(&world);
            world.kernel.broken(format!("no rest: {restless}"));
            return;
        }
        world.kernel.sleep(micros(LOOK)).await;
    }
    world.ends();
}
