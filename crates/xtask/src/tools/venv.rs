//! Python's virtual environments: one a purpose, with its packages pinned.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Program, Toolbox};

/// The environment `.tools/<name>` with these packages. What they bring with them is held to
/// `constraints`, in pip's format.
pub(super) fn install(
    tools: &Toolbox<'_>,
    name: &str,
    packages: &[&str],
    constraints: &str,
) -> Result<PathBuf> {
    let pins = format!("{}\n{constraints}", packages.join(" "));
    tools.installed(name, &pins, &packages.join(", "), |folder| {
        let python = Program::Python
            .find(tools.processes)?
            .context("there is no Python that makes virtual environments")?;
        tools
            .processes
            .succeed(Command::new(python.path).args(["-m", "venv"]).arg(folder))?;
        let held = folder.join("constraints.txt");
        fs::write(&held, constraints)?;
        tools.processes.succeed(
            Command::new(folder.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--no-input"])
                .arg("--disable-pip-version-check")
                .arg("--constraint")
                .arg(held)
                .args(packages),
        )
    })
}
