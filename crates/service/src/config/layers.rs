//! The layers of a configuration and where each comes from.

use std::path::Path;

use figment::value::{Dict, Map, Value};
use figment::{Error, Figment, Metadata, Profile, Provider, Source};

use super::section::ConfigErrors;
use super::{DEFAULTS, RESERVED};

/// The name of the layer of variables.
pub(super) const VARIABLES: &str = "variables";

const PREFIX: &str = "SAYSO_";

/// What a configuration is made of, besides the defaults.
pub(super) struct Layers<'a> {
    /// The data folder when everything runs in one process.
    pub(super) embedded: Option<&'a Path>,
    /// The user's file.
    pub(super) file: Option<&'a Path>,
    /// Variables, `SAYSO_…` and others.
    pub(super) variables: Vec<(String, String)>,
}

/// This process's variables. What is not UTF-8 is kept readable, so that it
/// fails as a bad value of its key instead of going unnoticed.
pub(super) fn process_variables() -> Vec<(String, String)> {
    std::env::vars_os()
        .map(|(name, value)| {
            let name = name.to_string_lossy().into_owned();
            (name, value.to_string_lossy().into_owned())
        })
        .collect()
}

/// The variable that sets a key.
pub(super) fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// The layers merged, or why a layer cannot be read at all.
pub(super) fn merge(layers: Layers<'_>) -> Result<(Figment, Dict), ConfigErrors> {
    let defaults = yaml(DEFAULTS).expect("the defaults file is valid YAML");
    let mut merged = Figment::new().merge(Layer {
        metadata: Metadata::named("defaults"),
        values: defaults.clone(),
    });
    if let Some(data_dir) = layers.embedded {
        merged = merged.merge(Layer {
            metadata: Metadata::named("embedded"),
            values: embedded(data_dir),
        });
    }
    if let Some(path) = layers.file {
        let mut values = file(path)?;
        drop_empty_sections(&mut values, &defaults);
        merged = merged.merge(Layer {
            metadata: Metadata::from("file", Source::File(path.to_owned())),
            values,
        });
    }
    merged = merged.merge(Layer {
        metadata: Metadata::named(VARIABLES),
        values: variables(layers.variables)?,
    });
    let values = merged
        .find_value("")
        .ok()
        .and_then(Value::into_dict)
        .expect("the merged layers are a map of keys");
    Ok((merged, values))
}

fn embedded(data_dir: &Path) -> Dict {
    let url = format!("sqlite://{}", data_dir.join("sayso.db").display());
    let database = Dict::from([("url".to_owned(), Value::from(url))]);
    Dict::from([("database".to_owned(), Value::from(database))])
}

fn file(path: &Path) -> Result<Dict, ConfigErrors> {
    let here = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigErrors::one(&here, format!("cannot be read: {error}")))?;
    yaml(&text).map_err(|problem| ConfigErrors::one(here, problem))
}

/// A YAML text as keys and values; duplicate keys are refused by the parser.
fn yaml(text: &str) -> Result<Dict, String> {
    let parsed: yaml_serde::Value =
        yaml_serde::from_str(text).map_err(|error| format!("is not valid YAML: {error}"))?;
    if parsed.is_null() {
        return Ok(Dict::new());
    }
    match Value::serialize(&parsed) {
        Ok(Value::Dict(_, dict)) => Ok(dict),
        Ok(_) => Err("must be a map of keys to values".to_owned()),
        Err(error) => Err(format!("holds something that is no setting: {error}")),
    }
}

/// A section whose keys are all commented out reads as null; it must not wipe
/// out the section's defaults. (At a single key null does unset.)
fn drop_empty_sections(values: &mut Dict, defaults: &Dict) {
    values.retain(|key, value| match (value, defaults.get(key)) {
        (Value::Empty(..), Some(Value::Dict(..))) => false,
        (Value::Dict(_, below), Some(Value::Dict(_, defaults))) => {
            drop_empty_sections(below, defaults);
            true
        }
        _ => true,
    });
}

fn variables(all: Vec<(String, String)>) -> Result<Dict, ConfigErrors> {
    let mut values = Dict::new();
    let mut errors = ConfigErrors::none();
    let mut all: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| is_setting(name))
        .collect();
    all.sort();
    for (name, value) in all {
        let key = name[PREFIX.len()..].to_lowercase();
        let path: Vec<&str> = key.split("__").collect();
        if path.iter().any(|level| level.is_empty()) || !insert(&mut values, &path, &value) {
            errors.add(
                name,
                "does not name a key: two underscores stand between levels",
            );
        }
    }
    errors.into_result(values)
}

fn is_setting(name: &str) -> bool {
    name.starts_with(PREFIX) && !name.starts_with("SAYSO_TEST_") && !RESERVED.contains(&name)
}

/// Puts a value at a path; false if part of the path has a value already.
fn insert(values: &mut Dict, path: &[&str], text: &str) -> bool {
    let (key, below) = path.split_first().expect("a path has a first level");
    if below.is_empty() {
        let value = match text {
            "" => Value::from(figment::value::Empty::None),
            text => Value::from(text),
        };
        return values.insert((*key).to_owned(), value).is_none();
    }
    let entry = values
        .entry((*key).to_owned())
        .or_insert_with(|| Value::from(Dict::new()));
    match entry {
        Value::Dict(_, dict) => insert(dict, below, text),
        _ => false,
    }
}

struct Layer {
    metadata: Metadata,
    values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Map::from([(Profile::Default, self.values.clone())]))
    }
}
