//! Developer commands of this repository: `cargo xtask <command>`.
//!
//! - `test` gets the machine ready, starts what the tests need and runs every test;
//! - `check` holds the code to its rules: format, lints, licences, documents, architecture.

mod account;
mod cargo;
mod check;
mod nats;
mod postgres;
mod process;
mod summary;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::process::Processes;

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
}

fn main() -> ExitCode {
    let command = CommandLine::parse().command;
    let processes = match Processes::install() {
        Ok(processes) => processes,
        Err(error) => return failed(&error),
    };
    let code = match command {
        Task::Test(arguments) => test::run(&processes, &arguments),
        Task::Check(arguments) => check::run(&processes, &arguments),
    };
    match code {
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
