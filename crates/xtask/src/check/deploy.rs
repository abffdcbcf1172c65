//! The deployment files name what exists.
//!
//! No container engine is needed for this: the files are read and held against the checkout and
//! against the configuration's own defaults. Where docker compose is installed it judges the
//! compose file as well, which needs no engine either.

mod compose;
mod dockerfile;
mod settings;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use yaml_serde::Value;

use super::{Checker, Outcome};
use crate::process::on_path;

/// The services, as `sayso serve` knows them.
const SERVICES: [&str; 6] = [
    "gateway",
    "scheduler",
    "executor",
    "policy",
    "approval-hub",
    "notifier",
];

const COMPOSE: &str = "docker-compose.yml";
const DOCKERFILE: &str = "deploy/Dockerfile";
const SETTINGS: &str = "deploy/sayso.yaml";
const DEFAULTS: &str = "crates/service/src/defaults.yaml";

/// Checks all of them.
pub(super) fn check(checker: &Checker<'_>) -> Result<Outcome> {
    let root = checker.workspace.root();
    let text = read(root, COMPOSE)?;
    let compose = parse(&text).context(COMPOSE)?;
    let settings = parse(&read(root, SETTINGS)?).context(SETTINGS)?;
    let defaults = parse(&read(root, DEFAULTS)?).context(DEFAULTS)?;
    let mut faults = settings::unknown_keys(&settings, &defaults);
    faults.extend(compose::faults(root, &text, &compose, &settings, &defaults));
    faults.extend(dockerfile::faults(root, &read(root, DOCKERFILE)?));
    if faults.is_empty()
        && let Some(wrong) = judged_by_compose(checker, &text)?
    {
        faults.push(wrong);
    }
    Ok(Outcome::from_faults(&faults))
}

/// What docker compose has to say against the file, with every variable set to something.
fn judged_by_compose(checker: &Checker<'_>, text: &str) -> Result<Option<String>> {
    let Some(docker) = on_path("docker") else {
        println!("docker is not installed: {COMPOSE} was only read");
        return Ok(None);
    };
    let there = checker
        .processes
        .capture(Command::new(&docker).args(["compose", "version"]))?;
    if !there.status.success() {
        println!("docker compose is not installed: {COMPOSE} was only read");
        return Ok(None);
    }
    let mut config = Command::new(docker);
    config
        .args(["compose", "--file", COMPOSE, "config", "--quiet"])
        .current_dir(checker.workspace.root())
        .envs(compose::variables(text).map(|variable| (variable.name, "x")));
    let judged = checker.processes.capture(&mut config)?;
    Ok((!judged.status.success())
        .then(|| String::from_utf8_lossy(&judged.stderr).trim().to_owned()))
}

fn read(root: &Path, file: &str) -> Result<String> {
    fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}

fn parse(text: &str) -> Result<Value> {
    let mut value: Value = yaml_serde::from_str(text)?;
    value.apply_merge()?;
    Ok(value)
}

/// The texts of a list, or of a single text.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Sequence(all) => all.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Mapping(_) | Value::Tagged(_) => {
            Vec::new()
        }
    }
}

/// The keys of a map, or the texts of a list.
fn names(value: &Value) -> Vec<&str> {
    match value {
        Value::Mapping(map) => map.keys().filter_map(Value::as_str).collect(),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Sequence(_)
        | Value::Tagged(_) => texts(value),
    }
}
