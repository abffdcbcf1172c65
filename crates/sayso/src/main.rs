//! The program `sayso`: the command line, everything in one process, or one service.
//!
//! | module | holds |
//! |---|---|
//! | `args` | what can be typed |
//! | `commands` | the commands that talk to a server, through `sayso-sdk` alone |
//! | `output` | what they print |
//! | `demo` | `sayso demo` |
//! | `up`, `serve` | everything in one process, one service in a process |
//! | `wiring` | where services meet adapters |

mod args;
mod client;
mod commands;
mod demo;
mod outcome;
mod output;
mod serve;
mod up;
mod wiring;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::runtime::{Builder, Runtime};

use crate::args::Cli;
use crate::outcome::Failure;
use crate::output::{Output, failure};

/// The hot path allocates much and briefly: a quarter of its time went into the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.global.json);
    let ended = match runtime(cli.threads()).context("the program's threads cannot be started") {
        Ok(runtime) => {
            let ended = runtime.block_on(commands::run(cli, output.clone()));
            // A question that nobody answers must not keep the program.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(Failure::Here(error)),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(failed) if failed.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failed) => {
            let code = ExitCode::from(failed.code());
            match failure::say(&output, &failed) {
                // If it cannot be said, the code is all that is left.
                Ok(()) | Err(_) => code,
            }
        }
    }
}

/// One thread does not wait for others and wakes none: where there is no core to win, it is faster.
fn runtime(threads: usize) -> std::io::Result<Runtime> {
    let mut builder = match threads {
        0 | 1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    if threads > 1 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build()
}
