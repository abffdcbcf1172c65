use std::fmt;

use thiserror::Error;

/// One mistake in a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptMistake {
    /// Where it stands, such as `turns[1].calls[0].args`; empty for the file as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ScriptMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// What is wrong with a script; never empty. The code is `script.invalid`. A file that does not have
/// the shape of a script has one mistake, the first; otherwise all are listed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", list(.0))]
pub struct ScriptMistakes(pub Vec<ScriptMistake>);

impl ScriptMistakes {
    /// The stable code.
    pub const CODE: &'static str = super::INVALID;
}

fn list(mistakes: &[ScriptMistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(ScriptMistake::to_string).collect();
    lines.join("; ")
}

/// Collects mistakes while a script is read.
#[derive(Default)]
pub(super) struct Report(Vec<ScriptMistake>);

impl Report {
    pub(super) fn note(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(ScriptMistake {
            path: path.into(),
            message: message.into(),
        });
    }

    /// The value, if nothing was noted.
    pub(super) fn settle<T>(self, value: T) -> Result<T, ScriptMistakes> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(ScriptMistakes(self.0))
        }
    }
}
