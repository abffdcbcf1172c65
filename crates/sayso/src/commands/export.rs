//! `sayso runs export`, `import`, and `verify --file`: timelines as files.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use sayso_sdk::Client;
use sayso_wire::export::{line, read};

use super::Context;
use crate::outcome::{Exit, Failure};
use crate::output::style::Tone;
use crate::output::visible;

/// Prints one line a step.
pub(crate) async fn export(
    context: &Context,
    client: &Client,
    run: &str,
    redacted: bool,
) -> Result<Exit, Failure> {
    let shown = client.get_run(run).await?;
    // The seals of a copy are those of the run that it is a copy of.
    let sealed_as = match shown.imported_from.as_str() {
        "" => &shown.id,
        original => original,
    };
    for step in client.run_steps(run, 1).await? {
        let line = line(sealed_as, &step, redacted);
        context
            .output
            .line(line.map_err(|error| Failure::Here(error.into()))?)?;
    }
    Ok(Exit::Done)
}

/// Sends an export, and says which run it has become.
pub(crate) async fn import(
    context: &Context,
    client: &Client,
    file: &Path,
) -> Result<Exit, Failure> {
    let answer = client.import_run(bytes(file)?).await?;
    let output = &context.output;
    if output.json {
        output.message(&answer)?;
        return Ok(Exit::Done);
    }
    let run = answer
        .run
        .as_ref()
        .ok_or(sayso_sdk::Error::Incomplete("run"))?;
    output.line(visible::line(&run.id))?;
    output.aside(format!(
        "a read-only copy of {}; {}",
        visible::line(&run.imported_from),
        if answer.seals_hold {
            "its seals hold"
        } else {
            "its seals were not made with the keys of this installation"
        }
    ))?;
    Ok(Exit::Done)
}

/// Checks the chain of an export, without asking anybody.
pub(crate) fn verify(context: &Context, file: &Path) -> Result<Exit, Failure> {
    let text = String::from_utf8(bytes(file)?)
        .context("the export is not text")
        .map_err(Failure::Here)?;
    let mut links = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let step = read(text).with_context(|| format!("line {number}"));
        links.push(step.map_err(Failure::Here)?.1);
    }
    let style = context.output.style;
    match sayso_run::verify_links(&links) {
        Ok(head) => {
            context.output.line(format!(
                "{}: {} steps up to {}, head {}; the seals were not checked",
                style.paint(Tone::Good, "verified"),
                head.seq,
                head.at,
                head.hash
            ))?;
            Ok(Exit::Done)
        }
        Err(broken) => {
            let text = format!("{}: {broken}", style.paint(Tone::Bad, "not verified"));
            context.output.line(text)?;
            Ok(Exit::NotVerified)
        }
    }
}

fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut bytes).map(|_| ())
    } else {
        std::fs::read(file).map(|read| bytes = read)
    };
    read.with_context(|| format!("{} cannot be read", file.display()))
        .map_err(Failure::Here)?;
    Ok(bytes)
}
