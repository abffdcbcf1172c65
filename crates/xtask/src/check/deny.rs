//! Licences, bans, sources and advisories, by cargo-deny with the rules of `deny.toml`.

use std::process::Command;

use anyhow::Result;

use super::{Checker, Outcome};
use crate::tools::Toolbox;

/// What can be judged from the sources on this machine.
pub(super) fn licences_bans_sources(checker: &Checker<'_>) -> Result<Outcome> {
    let mut deny = cargo_deny(checker)?;
    checker.command(deny.args(["check", "licenses", "bans", "sources"]))
}

/// What is known of the crates in use, if the database of advisories can be had.
pub(super) fn advisories(checker: &Checker<'_>) -> Result<Outcome> {
    let fetched = checker
        .processes
        .capture(cargo_deny(checker)?.args(["fetch", "db"]))?;
    if !fetched.status.success() {
        return Ok(Outcome::Skipped(
            "the database of advisories cannot be reached".to_owned(),
        ));
    }
    let mut deny = cargo_deny(checker)?;
    checker.command(deny.args(["check", "--disable-fetch", "advisories"]))
}

fn cargo_deny(checker: &Checker<'_>) -> Result<Command> {
    let root = checker.workspace.root();
    let program = Toolbox::open(root, checker.processes)?.cargo_deny()?;
    let mut command = Command::new(program);
    command
        .args(["--log-level", "warn", "--locked", "--workspace"])
        .current_dir(root);
    Ok(command)
}
