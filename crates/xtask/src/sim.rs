//! `cargo xtask sim`: a whole deployment in one thread, seed after seed, with every trouble at once.
//!
//! The program is the package `sayso-sim` (`tests/sim`), built as a release is, but with hooks. It
//! prints seeds per second; a seed that breaks a promise ends it, and its trace is printed.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::cargo::Workspace;
use crate::process::Processes;

/// The command line of `cargo xtask sim`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many seeds.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    seeds: u64,
    /// The first one.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Leaves a check out, to see that it is missed.
    #[arg(long, value_name = "NAME")]
    fault: Option<String>,
    /// Prints what came about.
    #[arg(long)]
    coverage: bool,
    /// Prints the trace of the first seed, whatever comes of it.
    #[arg(long)]
    trace: bool,
}

/// Runs it. The exit code is the simulator's.
pub(crate) fn run(processes: &Processes, arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let mut sim = workspace.cargo("run");
    sim.args(["--release", "--quiet", "--package", "sayso-sim"])
        .args(workspace.hooks(&["sayso-sim".to_owned()]))
        .args(["--", "--seeds", &arguments.seeds.to_string()])
        .args(["--seed", &arguments.seed.to_string()]);
    if let Some(fault) = &arguments.fault {
        sim.args(["--fault", fault]);
    }
    for (flag, wanted) in [
        ("--coverage", arguments.coverage),
        ("--trace", arguments.trace),
    ] {
        if wanted {
            sim.arg(flag);
        }
    }
    let status = processes.run(&mut sim)?;
    Ok(match status.code().map(u8::try_from) {
        Some(Ok(code)) => ExitCode::from(code),
        Some(Err(_)) | None => ExitCode::FAILURE,
    })
}
