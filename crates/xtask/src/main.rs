//! Developer commands of this repository: `cargo xtask <command>`.
//!
//! - `test` gets the machine ready, starts what the tests need and runs every test;
//! - `check` holds the code to its rules: format, lints, licences, documents, architecture;
//! - `chaos` breaks everything under load, for ten minutes;
//! - `sim` simulates a whole deployment, seed after seed;
//! - `bench` measures gated runs and prints one JSON line.

mod account;
mod bench;
mod cargo;
mod chaos;
mod check;
mod nats;
mod postgres;
mod process;
mod sim;
mod summary;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::process::Processes;

/// The driver of `bench` is measured with what it drives: both allocate alike.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, about)]
struct CommandLine {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs every test of the workspace, with all that the tests need.
    Test(test::Arguments),
    /// Holds the code to its rules and prints a table of what is kept and what is not.
    Check(check::Arguments),
    /// Kills, freezes and restarts everything under load, and checks what is left.
    Chaos(chaos::Arguments),
    /// Simulates a whole deployment, seed after seed, and shows the first that breaks a promise.
    Sim(sim::Arguments),
    /// Measures gated runs and prints one JSON line.
    Bench(bench::Arguments),
    /// The tool that the measured agent calls: an MCP server over standard input and output.
    #[command(hide = true)]
    BenchTool,
}

fn main() -> ExitCode {
    match CommandLine::parse().command {
        Task::Test(arguments) => command(|processes| test::run(processes, &arguments)),
        Task::Check(arguments) => command(|processes| check::run(processes, &arguments)),
        Task::Chaos(arguments) => command(|processes| chaos::run(processes, &arguments)),
        Task::Sim(arguments) => command(|processes| sim::run(processes, &arguments)),
        Task::Bench(arguments) => command(|processes| bench::run(processes, &arguments)),
        Task::BenchTool => match bench::tool::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
    }
}

/// Runs a command that starts processes, and sees to it that none outlives it.
fn command(run: impl FnOnce(&Processes) -> anyhow::Result<ExitCode>) -> ExitCode {
    let processes = match Processes::install() {
        Ok(processes) => processes,
        Err(error) => return failed(&error),
    };
    match run(&processes) {
        Ok(code) => code,
        // As a shell reports a command that Ctrl-C ended.
        Err(_) if processes.interrupted() => {
            eprintln!("interrupted; all that was started has been stopped");
            ExitCode::from(130)
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::FAILURE
}
