//! `cargo xtask check`: holds the code to its rules.
//!
//! Every part runs, whatever became of the others; a table at the end says what is kept. A part
//! that cannot be judged here (no network for the advisories) is reported as skipped, never as
//! kept.

mod buf;
mod deny;
mod deploy;
mod promises;

use std::fmt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};

use crate::cargo::Workspace;
use crate::process::Processes;

/// The command line of `cargo xtask check`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Runs these parts only.
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Leaves out the parts that compile the workspace.
    #[arg(long, conflicts_with = "only")]
    quick: bool,
}

/// A part of the check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Part {
    /// The code is formatted.
    Fmt,
    /// No lint speaks, with the test hooks and without them.
    Clippy,
    /// Licences, banned and duplicate crates, sources.
    Deny,
    /// Known advisories on the crates in use.
    Advisories,
    /// The documentation builds without a warning.
    Doc,
    /// Dependencies between crates point down.
    Architecture,
    /// The public API keeps to its naming rules.
    Buf,
    /// The public API breaks no client.
    Breaking,
    /// No test hook is in a release build.
    Hooks,
    /// Every promise listed as held is named by a test.
    Promises,
    /// The deployment files name what exists.
    Deploy,
}

impl Part {
    /// What a person reads in the table.
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Deny => "licences, bans, sources",
            Self::Advisories => "advisories",
            Self::Doc => "doc",
            Self::Architecture => "architecture",
            Self::Buf => "buf lint",
            Self::Breaking => "buf breaking",
            Self::Hooks => "no hooks in release",
            Self::Promises => "promises cited by tests",
            Self::Deploy => "deployment files",
        }
    }

    fn compiles(self) -> bool {
        match self {
            Self::Clippy | Self::Doc | Self::Architecture => true,
            Self::Fmt
            | Self::Deny
            | Self::Advisories
            | Self::Buf
            | Self::Breaking
            | Self::Hooks
            | Self::Promises
            | Self::Deploy => false,
        }
    }
}

/// What came of a part.
enum Outcome {
    Kept,
    Broken(String),
    Skipped(String),
}

impl Outcome {
    /// Kept if there are no faults, else broken by them.
    fn from_faults(faults: &[String]) -> Self {
        if faults.is_empty() {
            Self::Kept
        } else {
            Self::Broken(faults.join("\n"))
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("ok"),
            Self::Broken(_) => f.write_str("FAILED"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
        }
    }
}

/// Runs the parts and prints the table. Fails if any part is broken.
pub(crate) fn run(processes: &Processes, arguments: &Arguments) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let checker = Checker {
        processes,
        workspace: &workspace,
    };
    let parts = Part::value_variants().iter().copied().filter(|part| {
        if arguments.only.is_empty() {
            !(arguments.quick && part.compiles())
        } else {
            arguments.only.contains(part)
        }
    });
    let mut results = Vec::new();
    for part in parts {
        println!("== {}", part.name());
        let started = Instant::now();
        let outcome = match checker.check(part) {
            Ok(outcome) => outcome,
            Err(error) => {
                processes.go_on()?;
                Outcome::Broken(format!("{error:#}"))
            }
        };
        if let Outcome::Broken(faults) = &outcome {
            eprintln!("{faults}");
        }
        results.push((part, outcome, started.elapsed()));
    }
    println!("{}", table(&results));
    let broken = results
        .iter()
        .any(|(_, outcome, _)| matches!(outcome, Outcome::Broken(_)));
    Ok(ExitCode::from(u8::from(broken)))
}

fn table(results: &[(Part, Outcome, Duration)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (part, outcome, took) in results {
        table.add_row([
            part.name().to_owned(),
            outcome.to_string(),
            format!("{:.1} s", took.as_secs_f64()),
        ]);
    }
    table
}

/// What the parts need.
struct Checker<'a> {
    processes: &'a Processes,
    workspace: &'a Workspace,
}

impl Checker<'_> {
    fn check(&self, part: Part) -> Result<Outcome> {
        match part {
            Part::Fmt => self.command(self.workspace.cargo("fmt").args(["--all", "--check"])),
            Part::Clippy => self.clippy(),
            Part::Deny => deny::licences_bans_sources(self),
            Part::Advisories => deny::advisories(self),
            Part::Doc => self.command(
                self.workspace
                    .cargo("doc")
                    .args(["--workspace", "--no-deps", "--locked"])
                    .env("RUSTDOCFLAGS", "--deny warnings"),
            ),
            Part::Architecture => {
                let mut test = self.workspace.cargo("test");
                test.args(["--package", "sayso-tests", "--test", "architecture"]);
                self.command(&mut test)
            }
            Part::Buf => buf::lint(self),
            Part::Breaking => buf::breaking(self),
            Part::Hooks => self.hooks(),
            Part::Promises => promises::cited(self.workspace.root()),
            Part::Deploy => deploy::check(self),
        }
    }

    /// Kept if the command succeeds; what is wrong it has said itself.
    fn command(&self, command: &mut Command) -> Result<Outcome> {
        let status = self.processes.run(command)?;
        Ok(if status.success() {
            Outcome::Kept
        } else {
            Outcome::Broken(format!("`{}`: {status}", crate::process::shown(command)))
        })
    }

    /// Once as the tests build it, where a test may unwrap; once the same without the tests, where
    /// nothing may; once as it is released: what is only used by hooks is dead code without them.
    fn clippy(&self) -> Result<Outcome> {
        let deny = ["--", "--deny", "warnings"];
        let tests = ["--allow", "clippy::unwrap_used"];
        let hooks = self.workspace.hooks(&[]);
        let passes: [(&[&str], &[String], &[&str]); 3] = [
            (&["--workspace", "--all-targets"], &hooks, &tests),
            (&["--workspace"], &hooks, &[]),
            (&["--package", "sayso"], &[], &[]),
        ];
        for (what, features, allow) in passes {
            let mut clippy = self.workspace.cargo("clippy");
            clippy.arg("--locked").args(what).args(features);
            clippy.args(deny).args(allow);
            match self.command(&mut clippy)? {
                Outcome::Kept => {}
                broken => return Ok(broken),
            }
        }
        Ok(Outcome::Kept)
    }

    fn hooks(&self) -> Result<Outcome> {
        let with_hooks = self.workspace.hooks_in_release(self.processes, "sayso")?;
        let faults: Vec<String> = with_hooks
            .iter()
            .map(|package| format!("a release build of sayso has the test hooks of {package}"))
            .collect();
        Ok(Outcome::from_faults(&faults))
    }
}
