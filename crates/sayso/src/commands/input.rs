//! What a command reads: a text given as `-`, a file, an answer at the terminal.

use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;

use anyhow::Context as _;

use crate::outcome::Failure;

/// The text itself, or standard input for `-`.
pub(crate) fn text(given: &str) -> Result<String, Failure> {
    if given == "-" {
        Ok(stdin()?)
    } else {
        Ok(given.to_owned())
    }
}

/// A file's text, or standard input for `-`.
pub(crate) fn file(path: &Path) -> Result<String, Failure> {
    if path == Path::new("-") {
        return Ok(stdin()?);
    }
    let text = std::fs::read_to_string(path);
    Ok(text.with_context(|| format!("{} cannot be read", path.display()))?)
}

/// All of standard input.
pub(crate) fn piped() -> Result<String, Failure> {
    Ok(stdin()?)
}

fn stdin() -> anyhow::Result<String> {
    let mut text = String::new();
    let read = io::stdin().lock().read_to_string(&mut text);
    read.context("standard input cannot be read")?;
    Ok(text)
}

/// Whether somebody can be asked.
pub(crate) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks, and waits for a line; empty at the end of input.
pub(crate) async fn ask(question: &str) -> Result<String, Failure> {
    let mut err = io::stderr().lock();
    write!(err, "{question} ")?;
    err.flush()?;
    drop(err);
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = read.await.context("reading the answer")??;
    Ok(line.trim().to_owned())
}
