//! `cargo xtask bench`: what gated runs cost, on this machine, in one JSON line.
//!
//! `docs/bench.md` says what is measured and how, and has the goals. The line goes to standard
//! output, everything else to standard error.
//!
//! The driver is this program, and its CPU time counts. Cargo runs it unoptimised, so for real
//! numbers it builds itself again in release, beside `sayso`, and starts that.

mod bus;
mod database;
mod drive;
mod floor;
mod house;
mod machine;
mod phases;
mod procfs;
mod quantile;
mod read;
mod report;
pub(crate) mod tool;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use self::house::House;
use self::phases::Plan;
use self::tool::GatedTool;
use crate::cargo::Workspace;
use crate::process::Processes;
use crate::tools::Toolbox;

/// Runs in flight at once where many are.
const MANY: usize = 64;

/// The command line of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Everything in one process on SQLite, instead of six on Postgres and NATS.
    #[arg(long)]
    embedded: bool,
    /// Judging calls instead, beside two other policy engines.
    #[arg(long, conflicts_with = "embedded")]
    rules: bool,
    /// Gated runs that are measured with 64 in flight; an eighth of it with one.
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(64..))]
    runs: u32,
    /// Runs that wait for a decision while memory is measured; 0 leaves that out.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    paused: u32,
    /// The call that is gated.
    #[arg(long, value_enum, default_value_t)]
    tool: GatedTool,
    /// Measures this program instead of building one.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Small numbers and an unoptimised driver: shows that it works, and measures nothing.
    #[arg(long)]
    quick: bool,
}

impl Arguments {
    fn plan(&self) -> Plan {
        let (runs, paused, floor_seconds) = if self.quick {
            (128, self.paused.min(200), 3)
        } else {
            (self.runs, self.paused, 5)
        };
        Plan {
            runs: runs as usize,
            paused: paused as usize,
            floor_seconds,
        }
    }

    /// The same measurement, of the program at `binary`.
    fn again(&self, driver: &Path, binary: &Path) -> Command {
        let mut command = Command::new(driver);
        command.arg("bench").arg("--binary").arg(binary);
        command.args(["--runs", &self.runs.to_string()]);
        command.args(["--paused", &self.paused.to_string()]);
        command.args(["--tool", &self.tool.word()]);
        if self.embedded {
            command.arg("--embedded");
        }
        command
    }
}

/// Measures, and prints one JSON line.
pub(crate) fn run(processes: &Processes, arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    if arguments.rules {
        return judging(processes, &workspace);
    }
    if cfg!(debug_assertions) && !arguments.quick {
        return optimised(processes, &workspace, arguments);
    }
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => build(processes, &workspace, &["sayso"], "sayso")?,
    };
    let binary = binary
        .canonicalize()
        .with_context(|| format!("there is no program at {}", binary.display()))?;
    let toolbox = Toolbox::open(workspace.root(), processes)?;
    let house = House::start(
        processes,
        &toolbox,
        &binary,
        arguments.embedded,
        arguments.tool,
    )?;
    let measured = phases::measure(processes, &house, &arguments.plan());
    let measured = measured.inspect_err(|_| eprintln!("{}", house.last_words()))?;
    let date = machine::today(processes)?;
    let line = report::line(&house, &measured, arguments.tool, arguments.quick, &date)?;
    drop(house);
    println!("{line}");
    Ok(ExitCode::SUCCESS)
}

/// Judging is measured by a package apart: the engines that it is compared with are built for it alone.
fn judging(processes: &Processes, workspace: &Workspace) -> Result<ExitCode> {
    let mut speed = workspace.cargo("run");
    speed
        .args(["--release", "--locked"])
        .args(["--manifest-path", "crates/rules/speed/Cargo.toml"])
        .args(["--target-dir", "target/speed"]);
    let status = processes.run(&mut speed)?;
    Ok(match status.code().map(u8::try_from) {
        Some(Ok(code)) => ExitCode::from(code),
        Some(Err(_)) | None => ExitCode::FAILURE,
    })
}

/// Builds what is measured and the driver in release, and lets that driver measure.
fn optimised(
    processes: &Processes,
    workspace: &Workspace,
    arguments: &Arguments,
) -> Result<ExitCode> {
    let driver_alone = arguments.binary.is_some();
    let packages: &[&str] = if driver_alone {
        &["xtask"]
    } else {
        &["sayso", "xtask"]
    };
    let driver = build(processes, workspace, packages, "xtask")?;
    let binary = match &arguments.binary {
        Some(binary) => binary.clone(),
        None => driver.with_file_name("sayso"),
    };
    let status = processes.run(&mut arguments.again(&driver, &binary))?;
    Ok(match status.code().map(u8::try_from) {
        Some(Ok(code)) => ExitCode::from(code),
        Some(Err(_)) | None => ExitCode::FAILURE,
    })
}

fn build(
    processes: &Processes,
    workspace: &Workspace,
    packages: &[&str],
    name: &str,
) -> Result<PathBuf> {
    eprintln!("bench: building {} in release", packages.join(" and "));
    let mut arguments = vec!["--release".to_owned(), "--bins".to_owned()];
    for package in packages {
        arguments.extend(["--package".to_owned(), (*package).to_owned()]);
    }
    let program = workspace.build(processes, &arguments, name)?;
    program.with_context(|| format!("cargo built no program `{name}`"))
}
