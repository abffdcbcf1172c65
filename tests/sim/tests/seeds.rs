//! Seeds that run with every test: nothing is broken, everything comes about, and a seed is always
//! the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use sayso_run::StepKind;
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

/// Every step type that exists, and every way in which runs and calls change, comes about in these
/// seeds (S1.2, S2.2, S2.5).
const COMES_ABOUT: &[&str] = &[
    "run nothing > pending",
    "run pending > running",
    "run pending > failed",
    "run pending > cancelled",
    "run running > pending",
    "run running > awaiting_approval",
    "run running > awaiting_input",
    "run running > completed",
    "run running > failed",
    "run running > cancelled",
    "run awaiting_approval > running",
    "run awaiting_approval > awaiting_input",
    "run awaiting_approval > cancelled",
    "run awaiting_input > running",
    "run awaiting_input > cancelled",
    "run failed > running",
    "call nothing > proposed",
    "call proposed > held",
    "call proposed > asked",
    "call proposed > started",
    "call proposed > delegated",
    "call proposed > denied",
    "call proposed > result",
    "call proposed > stopped",
    "call held > cleared",
    "call held > denied",
    "call held > superseded",
    "call asked > result",
    "call asked > denied",
    "call cleared > started",
    "call cleared > delegated",
    "call delegated > result",
    "call cleared > denied",
    "call started > result",
    "call started > unknown",
    "call unknown > started",
    "call unknown > result",
    "action pending_review",
    "action auto_approved",
    "action approved",
    "action rejected",
    "action executed",
    "action failed",
    "outcome ok",
    "outcome error",
    "outcome timeout",
    "outcome invalid_arguments",
    "outcome permission_denied",
    "outcome mismatch",
    "outcome unreachable",
    "outcome unknown",
    "denied person",
    "denied rule",
    "denied not_granted",
    "denied timeout",
    "denied cancelled",
    "denied run_ended",
    "denied superseded",
    "ended answer",
    "ended max_cycles",
    "ended provider_billing",
    "ended spending_cap",
    "failed run.no_role",
    "failed run.interrupted",
    "failed provider.unavailable",
    "failed provider.context_length",
    "failed tools.unavailable",
    "refused approval.already_decided",
    "refused approval.expired",
    "refused approval.own_request",
    "refused approval.not_in_group",
    "refused approval.excluded",
    "refused approval.voted_before",
    "refused run.ended",
    "refused run.not_failed",
];

/// S1.2, S1.4, S1.5, S2.1, S2.3, S4.3, S4.5, S4.8, S6.4, S6.5, S6.8, S6.9, S6.10, S6.12.
#[test]
fn no_seed_breaks_a_promise_and_everything_comes_about() {
    let covered = all().lines();
    let wanted = StepKind::ALL
        .iter()
        .map(|kind| format!("step {}", kind.as_str()))
        .chain(COMES_ABOUT.iter().map(|line| (*line).to_owned()));
    let missing: Vec<String> = wanted.filter(|line| !covered.contains(line)).collect();
    assert!(missing.is_empty(), "these did not come about: {missing:#?}");
}

/// The same seed is the same history, and another seed is another one.
#[test]
fn a_seed_is_always_the_same() {
    for seed in [1, 7, 77] {
        let once = simulate(seed, Options::default());
        let kept = Options {
            keep_trace: true,
            ..Options::default()
        };
        let again = simulate(seed, kept);
        assert_eq!((once.hash, once.events), (again.hash, again.events));
        assert!(!again.trace.is_empty());
        assert_ne!(once.hash, simulate(seed + 1, Options::default()).hash);
    }
}
