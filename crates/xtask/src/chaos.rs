//! `cargo xtask chaos`: everything breaks under load, for ten minutes.
//!
//! The tests of `tests/tests/chaos` at their full size; `cargo xtask test` runs them small. They run
//! beside each other, as many as the machine has cores.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::process::Processes;
use crate::test;
use crate::tools::Need;

/// The command line of `cargo xtask chaos`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How long the storm lasts, in which processes, broker and database are killed and frozen at
    /// random.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// What the storm is drawn from; without it, another one each time, which is printed.
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Kills of executors with 8 or more calls in flight.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Runs that are under way at once when an executor is killed.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(16..))]
    wave: u32,
}

/// Runs it. The exit code is the tests'.
pub(crate) fn run(processes: &Processes, arguments: &Arguments) -> Result<ExitCode> {
    let seed = arguments.seed.map(|seed| ("SAYSO_TEST_CHAOS_SEED", seed));
    let sizes = [
        ("SAYSO_TEST_CHAOS_SECONDS", arguments.seconds),
        ("SAYSO_TEST_CHAOS_KILLS", arguments.kills),
        ("SAYSO_TEST_CHAOS_WAVE", arguments.wave),
    ];
    let told = sizes.into_iter().chain(seed);
    let told = told.map(|(name, size)| (name, size.to_string())).collect();
    let only = test::Arguments::only("sayso-tests", "chaos", &[Need::Postgres, Need::Nats]);
    test::run_with(processes, &only, told)
}
