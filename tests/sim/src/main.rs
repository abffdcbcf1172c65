//! Runs seeds, and shows the first that breaks a promise.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Parser;
use sayso_run::hooks::Fault;
use sayso_sim::{Coverage, Options, Report, simulate};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A whole deployment in one thread, with every trouble at once.
#[derive(Parser)]
#[command(name = "cargo xtask sim")]
struct CommandLine {
    /// How many seeds.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first one.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Leaves a check out, to see that it is missed.
    #[arg(long, value_parser = fault)]
    fault: Option<Fault>,
    /// How many seeds run at once.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Prints what came about.
    #[arg(long)]
    coverage: bool,
    /// Prints the whole trace of the first seed, whatever comes of it.
    #[arg(long)]
    trace: bool,
}

fn fault(name: &str) -> Result<Fault, String> {
    Fault::parse(name).ok_or_else(|| {
        let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.as_str()).collect();
        format!("the faults are {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let began = Instant::now();
    let run = run(&line);
    let seconds = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate, for people")]
    let rate = run.done as f64 / seconds;
    println!(
        "{} seeds in {seconds:.1} s, {rate:.0} seeds per second; {} events",
        run.done, run.events
    );
    if line.coverage {
        for line in run.coverage.lines() {
            println!("{line}");
        }
    }
    if line.trace {
        println!("{}", again(line.seed, line.fault).trace);
    }
    let Some(seed) = run.broken else {
        return ExitCode::SUCCESS;
    };
    let report = again(seed, line.fault);
    println!("{}", report.trace);
    println!(
        "seed {seed} breaks a promise: {}",
        report.broken.unwrap_or_default()
    );
    println!("again: cargo xtask sim --seeds 1 --seed {seed}");
    ExitCode::FAILURE
}

fn again(seed: u64, fault: Option<Fault>) -> Report {
    let keep_trace = true;
    simulate(seed, Options { fault, keep_trace })
}

/// What came of all seeds together.
#[derive(Default)]
struct Run {
    done: u64,
    events: u64,
    coverage: Coverage,
    /// The first seed that broke a promise.
    broken: Option<u64>,
}

fn run(line: &CommandLine) -> Run {
    let next = AtomicU64::new(line.seed);
    let end = line.seed + line.seeds;
    let all = Mutex::new(Run::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let options = Options {
                fault: line.fault,
                keep_trace: false,
            };
            let report = simulate(seed, options);
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.done += 1;
            all.events += report.events;
            all.coverage.merge(report.coverage);
            if report.broken.is_some() {
                next.store(end, Ordering::Relaxed);
                all.broken = Some(all.broken.map_or(seed, |first| first.min(seed)));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..line.threads.max(1) {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}
