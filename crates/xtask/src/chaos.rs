//! `cargo xtask chaos`: executors are killed under load until many calls were in flight at a kill.
//!
//! The test file `tests/tests/chaos.rs` at its full size; `cargo xtask test` runs it small.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::process::Processes;
use crate::test;
use crate::tools::Need;

/// The command line of `cargo xtask chaos`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Kills with 8 or more calls in flight.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    kills: u32,
    /// Runs that are under way at once.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(16..))]
    wave: u32,
}

/// Runs it. The exit code is the test's.
pub(crate) fn run(processes: &Processes, arguments: &Arguments) -> Result<ExitCode> {
    let sizes = [
        ("SAYSO_TEST_CHAOS_KILLS", arguments.kills.to_string()),
        ("SAYSO_TEST_CHAOS_WAVE", arguments.wave.to_string()),
    ];
    let only = test::Arguments::only("sayso-tests", "chaos", &[Need::Postgres, Need::Nats]);
    test::run_with(processes, &only, sizes.into())
}
