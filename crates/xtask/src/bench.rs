//! `cargo xtask bench`: what gated runs cost, on this machine, in one JSON line.
//!
//! `docs/bench.md` says what is measured and how, and has the goals. The line goes to standard
//! output, everything else to standard error.
//!
//! The driver is this program, and its CPU time counts. Cargo runs it unoptimised, so for real
//! numbers it builds itself again in release, beside `sayso`, and starts that.

mod bus;
mod crowd;
mod database;
mod drive;
mod floor;
mod house;
mod inbox;
mod kills;
mod machine;
mod paused;
mod phases;
mod procfs;
mod quantile;
mod read;
mod report;
pub(crate) mod tool;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use self::crowd::Crowd;
use self::house::House;
use self::phases::Plan;
use self::report::Found;
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
    /// Runs that wait for a decision while memory or the inbox is measured (10,000); 0 leaves memory out.
    #[arg(long, value_name = "N")]
    paused: Option<u32>,
    /// Kills of an executor each way, where kills are measured (20).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    kills: Option<u32>,
    /// Measures one thing only; the inbox and kills are measured only so.
    #[arg(long, value_enum, value_name = "WHAT")]
    only: Option<Only>,
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

/// What can be measured by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Only {
    /// Memory and speed while runs wait.
    Paused,
    /// Reading and deciding while few and while many approvals wait.
    Inbox,
    /// How long runs stand still when their executor is killed; six processes only.
    Kills,
}

impl Arguments {
    fn plan(&self) -> Plan {
        let (runs, floor_seconds) = if self.quick { (128, 3) } else { (self.runs, 5) };
        Plan {
            runs: runs as usize,
            paused: self.paused(),
            floor_seconds,
        }
    }

    fn paused(&self) -> usize {
        let usual = if self.quick { 200 } else { 10_000 };
        self.paused.unwrap_or(usual) as usize
    }

    fn kills(&self) -> usize {
        let usual = if self.quick { 2 } else { 20 };
        self.kills.unwrap_or(usual) as usize
    }

    /// The same measurement, of the program at `binary`.
    fn again(&self, driver: &Path, binary: &Path) -> Command {
        let mut command = Command::new(driver);
        command.arg("bench").arg("--binary").arg(binary);
        command.args(["--runs", &self.runs.to_string()]);
        command.args(["--paused", &self.paused().to_string()]);
        command.args(["--kills", &self.kills().to_string()]);
        if let Some(only) = self.only.and_then(|only| only.to_possible_value()) {
            command.args(["--only", only.get_name()]);
        }
        command.args(["--tool", &self.tool.word()]);
        if self.embedded {
            command.arg("--embedded");
        }
        command
    }
}

/// Measures, and prints one JSON line.
pub(crate) fn run(processes: &Processes, arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        !(arguments.embedded && arguments.only == Some(Only::Kills)),
        "an executor can be killed alone only where it is a process: leave out --embedded"
    );
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
    let mut house = House::start(
        processes,
        &toolbox,
        &binary,
        arguments.embedded,
        arguments.tool,
    )?;
    let line = measured(processes, &mut house, arguments);
    let line = line.inspect_err(|_| eprintln!("{}", house.last_words()))?;
    drop(house);
    println!("{line}");
    Ok(ExitCode::SUCCESS)
}

/// The line that is printed.
fn measured(processes: &Processes, house: &mut House, arguments: &Arguments) -> Result<String> {
    let date = machine::today(processes)?;
    let line = |house: &House, found: Found<'_>| {
        report::line(house, found, arguments.tool, arguments.quick, &date)
    };
    match arguments.only {
        None => {
            let measured = phases::measure(processes, house, &arguments.plan())?;
            line(house, Found::All(&measured))
        }
        Some(Only::Paused) => {
            let crowd = Crowd::meet(processes, house)?;
            let paused = paused::measure(&crowd, house, arguments.paused())?;
            line(house, Found::Paused(&paused))
        }
        Some(Only::Inbox) => {
            let crowd = Crowd::meet(processes, house)?;
            let inbox = inbox::measure(&crowd, house, arguments.paused())?;
            line(house, Found::Inbox(&inbox))
        }
        Some(Only::Kills) => {
            let kills = kills::measure(processes, house, arguments.kills())?;
            line(house, Found::Kills(&kills))
        }
    }
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
