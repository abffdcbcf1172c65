//! Seeds that run with every test: nothing is broken, everything comes about, and a seed is always
//! the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sayso_run::{StepKind, hooks};
use sayso_sim::{Coverage, Options, simulate};

/// How many seeds run.
const SEEDS: u64 = 200;

fn all() -> Coverage {
    let (next, covered) = (AtomicU64::new(0), Mutex::new(Coverage::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return;
            }
            let report = simulate(seed, Options::default());
            if let Some(broken) = report.broken {
                next.store(SEEDS, Ordering::Relaxed);
                panic!(
                    "seed {seed} breaks a promise: {broken}\nsee it with: cargo xtask sim --seeds 1 --seed {seed}"
                );
            }
            assert!(
                report.workers >= 3 && report.runs >= 20,
                "seed {seed} is small"
            );
            assert!(report.events >= 200, "seed {seed} has few events");
            let mut covered = covered.lock().unwrap_or_else(PoisonError::into_inner);
            covered.merge(report.coverage);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(work);
        }
    });
    covered.into_inner().unwrap_or_else(PoisonError::into_inner)
}
