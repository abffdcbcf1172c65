//! `sayso doctor`: is everything there that is needed (S10.4)?
//!
//! It looks at what a service would use: with a configuration file at that, without one at the folder
//! of `sayso up`. Each check says that it is well, or what is wrong and what to do. One that depends
//! on another which failed is left out and says so.

mod broker;
mod database;
mod gateway;
mod keys;
mod models;

use std::path::Path;

use sayso_service::config::{Config, ConfigErrors};
use serde_json::json;

use super::Context;
use crate::client;
use crate::outcome::{Exit, Failure};
use crate::output::style::Tone;
use crate::output::{Output, visible};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is well.
    Well(String),
    /// It was not looked at, and why.
    Skipped(String),
    /// It is not well, and what to do.
    Wrong { what: String, advice: String },
}

impl Finding {
    pub(super) fn wrong(what: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding::Wrong {
            what: what.into(),
            advice: advice.into(),
        }
    }
}

/// Prints what checks find, and remembers whether all was well.
#[derive(Debug)]
pub(super) struct Report<'a> {
    output: &'a Output,
    well: bool,
}

impl Report<'_> {
    pub(super) fn note(&mut self, check: &str, finding: &Finding) -> Result<(), Failure> {
        self.well &= !matches!(finding, Finding::Wrong { .. });
        let text = if self.output.json {
            as_json(check, finding)
        } else {
            as_text(self.output, check, finding)
        };
        Ok(self.output.line(text)?)
    }
}

fn as_json(check: &str, finding: &Finding) -> String {
    let value = match finding {
        Finding::Well(what) => json!({ "check": check, "result": "ok", "what": what }),
        Finding::Skipped(why) => json!({ "check": check, "result": "skipped", "what": why }),
        Finding::Wrong { what, advice } => {
            json!({ "check": check, "result": "wrong", "what": what, "advice": advice })
        }
    };
    value.to_string()
}

fn as_text(output: &Output, check: &str, finding: &Finding) -> String {
    let style = output.style;
    let (mark, text) = match finding {
        Finding::Well(what) => (style.paint(Tone::Good, "ok     "), visible::line(what)),
        Finding::Skipped(why) => (style.paint(Tone::Faint, "skipped"), visible::line(why)),
        Finding::Wrong { what, advice } => (
            style.paint(Tone::Bad, "wrong  "),
            format!(
                "{}\n                       {}",
                visible::line(what),
                visible::line(advice)
            ),
        ),
    };
    format!("{mark}  {check:<13}  {text}")
}

pub(crate) async fn run(context: &Context, file: Option<&Path>) -> Result<Exit, Failure> {
    let mut report = Report {
        output: &context.output,
        well: true,
    };
    match configuration(context, file, &mut report)? {
        Some(config) => {
            keys::check(&config, file.is_some(), &mut report)?;
            database::check(&config, &mut report).await?;
            broker::check(&config, file.is_some(), &mut report).await?;
            models::check(&config, &mut report).await?;
        }
        None => {
            for check in ["keys", "database", "clock", "broker", "models"] {
                report.note(
                    check,
                    &Finding::Skipped("there is no configuration to look at".to_owned()),
                )?;
            }
        }
    }
    gateway::check(context, &mut report).await?;
    Ok(if report.well {
        Exit::Done
    } else {
        Exit::Refused
    })
}

/// The configuration that is looked at; none if it has mistakes, or nothing was ever set up here.
fn configuration(
    context: &Context,
    file: Option<&Path>,
    report: &mut Report<'_>,
) -> Result<Option<Config>, Failure> {
    let (loaded, of) = match file {
        Some(file) => (Config::load(Some(file)), file.display().to_string()),
        None => {
            let folder = client::data_dir(&context.global)?;
            if !folder.join("chain.key").exists() {
                let why = format!(
                    "nothing is set up in {}: `sayso up` does, or name a file with --config",
                    folder.display()
                );
                report.note("configuration", &Finding::Skipped(why))?;
                return Ok(None);
            }
            (
                Config::embedded(&folder, None),
                folder.display().to_string(),
            )
        }
    };
    match loaded {
        Ok(config) => {
            report.note("configuration", &Finding::Well(of))?;
            Ok(Some(config))
        }
        Err(errors) => {
            mistakes(&errors, report)?;
            Ok(None)
        }
    }
}

/// Every mistake on a line of its own, by key (S10.4).
fn mistakes(errors: &ConfigErrors, report: &mut Report<'_>) -> Result<(), Failure> {
    for problem in errors.problems() {
        let what = format!("{}: {}", problem.key, problem.problem);
        report.note(
            "configuration",
            &Finding::wrong(what, "correct the key in the file or the variable"),
        )?;
    }
    Ok(())
}
