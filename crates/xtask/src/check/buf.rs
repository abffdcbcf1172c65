//! What buf says of the API's files.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Checker, Outcome};
use crate::tools::{Program, Toolbox, before_path};

/// Where the API of the others is, in the order in which it is looked for.
const MAIN: [&str; 2] = ["origin/main", "main"];

/// Kept if the names and comments are as `proto/buf.yaml` wants them.
pub(super) fn lint(checker: &Checker<'_>) -> Result<Outcome> {
    checker.command(buf(checker)?.arg("lint"))
}

/// Kept if nothing that a client may use is gone or has another meaning, compared with where this
/// branch left `main`, and on `main` with the last release.
pub(super) fn breaking(checker: &Checker<'_>) -> Result<Outcome> {
    let repository = Repository::of(checker)?;
    let Some(before) = repository.before()? else {
        let why = "neither another branch main nor a release to compare with";
        return Ok(Outcome::Skipped(why.to_owned()));
    };
    let archive = tempfile::Builder::new().suffix(".tar").tempfile()?;
    let mut pack = repository.git(&["archive", "--format=tar", "--output"]);
    pack.arg(archive.path()).args([&before, "proto"]);
    checker.processes.succeed(&mut pack)?;
    println!("compared with {before}");
    let against = format!("{}#subdir=proto", archive.path().display());
    checker.command(buf(checker)?.args(["breaking", "--against", &against]))
}

/// buf, in the folder of the API's files.
fn buf(checker: &Checker<'_>) -> Result<Command> {
    let proto = checker.workspace.root().join("proto");
    anyhow::ensure!(proto.is_dir(), "there is no folder proto");
    let node = Toolbox::open(checker.workspace.root(), checker.processes)?.node()?;
    let mut buf = Command::new(node.packages.join("buf"));
    buf.current_dir(proto)
        .env("PATH", before_path(&[&node.bin])?);
    Ok(buf)
}

struct Repository<'c> {
    checker: &'c Checker<'c>,
    program: PathBuf,
}

impl<'c> Repository<'c> {
    fn of(checker: &'c Checker<'_>) -> Result<Self> {
        let toolbox = Toolbox::open(checker.workspace.root(), checker.processes)?;
        let program = toolbox.program(Program::Git)?;
        Ok(Self { checker, program })
    }

    fn git(&self, arguments: &[&str]) -> Command {
        let mut git = Command::new(&self.program);
        git.current_dir(self.checker.workspace.root())
            .args(arguments);
        git
    }

    /// The commit that has the API as clients know it.
    fn before(&self) -> Result<Option<String>> {
        let here = self.said(&["rev-parse", "HEAD"])?;
        let here = here.context("this is no checkout of a repository")?;
        for main in MAIN {
            let there = self.said(&["merge-base", "HEAD", main])?;
            if let Some(there) = there.filter(|there| *there != here) {
                return Ok(Some(there));
            }
        }
        self.said(&["describe", "--tags", "--abbrev=0", "--match", "v*"])
    }

    /// What git says, if it is content.
    fn said(&self, arguments: &[&str]) -> Result<Option<String>> {
        let output = self.checker.processes.capture(&mut self.git(arguments))?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(output.status.success().then_some(said))
    }
}
