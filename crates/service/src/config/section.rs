//! Reading a section key by key, noting every mistake instead of stopping.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use figment::Figment;
use figment::value::{Dict, Num, Value};

use super::layers;

/// All mistakes of a configuration. `Display` lists each as `key: problem`,
/// one a line, in the order of the keys.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    problems: Vec<ConfigProblem>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// The key at fault, such as `services.gateway.listen`.
    pub key: String,
    /// What is wrong with it and what would be right.
    pub problem: String,
}

impl ConfigErrors {
    pub(super) fn none() -> ConfigErrors {
        ConfigErrors {
            problems: Vec::new(),
        }
    }

    pub(super) fn one(key: impl Into<String>, problem: impl Into<String>) -> ConfigErrors {
        let mut errors = ConfigErrors::none();
        errors.add(key, problem);
        errors
    }

    pub(super) fn add(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.problems.push(ConfigProblem {
            key: key.into(),
            problem: problem.into(),
        });
    }

    /// `value`, unless a mistake was noted.
    pub(super) fn into_result<T>(mut self, value: T) -> Result<T, ConfigErrors> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        self.problems.sort();
        self.problems.dedup();
        Err(self)
    }

    pub(super) fn mentions(&self, key: &str) -> bool {
        self.problems.iter().any(|p| p.key == key)
    }

    /// The mistakes, in the order of their keys.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}: {}", problem.key, problem.problem)?;
        }
        Ok(())
    }
}

impl fmt::Debug for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Shown by `main` and by tests: the readable form says it all.
        write!(f, "configuration errors:\n{self}")
    }
}

impl std::error::Error for ConfigErrors {}

/// One section while it is read.
pub(super) struct Section<'a> {
    source: &'a Figment,
    errors: &'a RefCell<ConfigErrors>,
    path: String,
    values: Dict,
    known: BTreeSet<String>,
}

/// A value as it was given, with where it came from.
pub(super) struct Given<'a> {
    pub(super) value: &'a Value,
    /// From a variable: everything is text there.
    pub(super) from_variable: bool,
    /// The folder that relative paths start from.
    pub(super) folder: PathBuf,
}

/// A type that a key can have.
pub(super) trait Setting: Sized {
    /// The value, or what is wrong with it. Must not quote secrets.
    fn parse(given: &Given<'_>) -> Result<Self, String>;

    /// Stands in for a value that is missing or wrong, so that reading goes on;
    /// never leaves this module.
    fn placeholder() -> Self;
}

/// Reads `values` as the top of a configuration.
pub(super) fn read<T>(
    source: &Figment,
    values: Dict,
    errors: &RefCell<ConfigErrors>,
    body: impl FnOnce(&mut Section<'_>) -> T,
) -> T {
    let mut top = Section {
        source,
        errors,
        path: String::new(),
        values,
        known: BTreeSet::new(),
    };
    let read = body(&mut top);
    top.finish();
    read
}

impl Section<'_> {
    /// The value of a key that may be absent.
    pub(super) fn optional<T: Setting>(&mut self, key: &str) -> Option<T> {
        let value = self.take(key)?;
        match T::parse(&self.given(&value)) {
            Ok(parsed) => Some(parsed),
            Err(problem) => {
                self.note_at(key, &value, problem);
                None
            }
        }
    }

    /// The value of a key that must have one.
    pub(super) fn required<T: Setting>(&mut self, key: &str) -> T {
        let Some(value) = self.take(key) else {
            self.note(key, "must be set");
            return T::placeholder();
        };
        match T::parse(&self.given(&value)) {
            Ok(parsed) => parsed,
            Err(problem) => {
                self.note_at(key, &value, problem);
                T::placeholder()
            }
        }
    }

    /// The value of a key that falls back to `default`.
    pub(super) fn or<T: Setting>(&mut self, key: &str, default: T) -> T {
        self.optional(key).unwrap_or(default)
    }

    /// A section below this one; an absent one is empty.
    pub(super) fn section<T>(&mut self, key: &str, body: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let values = self.take_dict(key);
        self.below(key, values, body)
    }

    /// A map of names to sections below this one.
    pub(super) fn sections<T>(
        &mut self,
        key: &str,
        mut body: impl FnMut(&str, &mut Section<'_>) -> T,
    ) -> Vec<(String, T)> {
        let entries = self.take_dict(key);
        let mut read = Vec::new();
        for (name, value) in entries {
            let path = format!("{key}.{name}");
            let values = self.dict(&path, value);
            let entry = self.below(&path, values, |section| body(&name, section));
            read.push((name, entry));
        }
        read
    }

    /// A map of names to values below this one.
    pub(super) fn entries<T: Setting>(&mut self, key: &str) -> Vec<(String, T)> {
        let values = self.take_dict(key);
        self.below(key, values, |section| {
            let names: Vec<String> = section.values.keys().cloned().collect();
            let read = names.into_iter();
            read.filter_map(|name| section.optional(&name).map(|value| (name, value)))
                .collect()
        })
    }

    /// Notes a mistake at a key of this section.
    pub(super) fn note(&self, key: &str, problem: impl Into<String>) {
        self.errors.borrow_mut().add(self.full(key), problem);
    }

    fn note_at(&self, key: &str, value: &Value, problem: String) {
        let origin = match self.origin(value) {
            Origin::Variable => format!(" (from {})", layers::variable_of(&self.full(key))),
            Origin::File(path) => format!(" (from {})", path.display()),
            Origin::Elsewhere => String::new(),
        };
        self.note(key, format!("{problem}{origin}"));
    }

    fn below<T>(&self, key: &str, values: Dict, body: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let mut section = Section {
            source: self.source,
            errors: self.errors,
            path: self.full(key),
            values,
            known: BTreeSet::new(),
        };
        let read = body(&mut section);
        section.finish();
        read
    }

    /// Removes a key's value; what stays is unknown.
    fn take(&mut self, key: &str) -> Option<Value> {
        self.known.insert(key.to_owned());
        match self.values.remove(key) {
            None | Some(Value::Empty(..)) => None,
            Some(value) => Some(value),
        }
    }

    fn take_dict(&mut self, key: &str) -> Dict {
        match self.take(key) {
            Some(value) => self.dict(key, value),
            None => Dict::new(),
        }
    }

    fn dict(&self, key: &str, value: Value) -> Dict {
        match value {
            Value::Dict(_, dict) => dict,
            Value::Empty(..) => Dict::new(),
            other => {
                let found = describe(&other);
                self.note_at(
                    key,
                    &other,
                    format!("must have keys below it, found {found}"),
                );
                Dict::new()
            }
        }
    }

    fn finish(self) {
        for (key, value) in &self.values {
            let problem = match nearest(key, &self.known) {
                Some(near) => format!("unknown key; did you mean {}?", self.full(near)),
                None => "unknown key".to_owned(),
            };
            self.note_at(key, value, problem);
        }
    }

    fn given<'v>(&self, value: &'v Value) -> Given<'v> {
        let origin = self.origin(value);
        Given {
            value,
            from_variable: matches!(origin, Origin::Variable),
            folder: match origin {
                Origin::File(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
                Origin::Variable | Origin::Elsewhere => PathBuf::new(),
            },
        }
    }

    fn origin(&self, value: &Value) -> Origin {
        match self.source.get_metadata(value.tag()) {
            Some(metadata) if metadata.name == layers::VARIABLES => Origin::Variable,
            Some(metadata) => match metadata.source.as_ref().and_then(|s| s.file_path()) {
                Some(path) => Origin::File(path.to_owned()),
                None => Origin::Elsewhere,
            },
            None => Origin::Elsewhere,
        }
    }

    fn full(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }
}

enum Origin {
    Variable,
    File(PathBuf),
    Elsewhere,
}

impl Given<'_> {
    /// The value as text.
    pub(super) fn text(&self, wanted: &str) -> Result<&str, String> {
        match self.value {
            Value::String(_, text) => Ok(text),
            other => Err(format!("must be {wanted}, found {}", describe(other))),
        }
    }

    /// The value as a whole number.
    pub(super) fn whole(&self, wanted: &str) -> Result<i128, String> {
        let bad = |found: String| format!("must be {wanted}, found {found}");
        match self.value {
            Value::Num(_, Num::F32(_) | Num::F64(_)) => Err(bad(describe(self.value))),
            Value::Num(_, num) => num
                .to_i128()
                .or_else(|| num.to_u128()?.try_into().ok())
                .ok_or_else(|| bad(describe(self.value))),
            Value::String(_, text) if self.from_variable => {
                text.trim().parse().map_err(|_| bad(format!("{text:?}")))
            }
            other => Err(bad(describe(other))),
        }
    }
}

/// What a value is, for people; texts are not quoted, they may be secret.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::String(..) | Value::Char(..) => "text".to_owned(),
        Value::Bool(_, bool) => format!("{bool}"),
        Value::Num(_, num) => match (num.to_i128(), num.to_u128(), num.to_f64()) {
            (Some(whole), _, _) => format!("the number {whole}"),
            (_, Some(whole), _) => format!("the number {whole}"),
            (_, _, Some(float)) => format!("the number {float}"),
            (None, None, None) => "a number".to_owned(),
        },
        Value::Empty(..) => "nothing".to_owned(),
        Value::Dict(..) => "keys below it".to_owned(),
        Value::Array(..) => "a list".to_owned(),
    }
}

/// The known key that was probably meant: at most two edits away.
fn nearest<'k>(key: &str, known: &'k BTreeSet<String>) -> Option<&'k str> {
    known
        .iter()
        .map(|candidate| (edits(key, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate.as_str())
}

/// Levenshtein distance in characters.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
