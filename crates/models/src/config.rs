//! What the registry is built from. Plain data: whoever reads the configuration maps it to this.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use sayso_run::Price;
use thiserror::Error;

/// Models and tiers, by name.
#[derive(Debug, Clone, Default)]
pub struct ModelsConfig {
    /// The models by the names that timelines and failovers show.
    pub models: BTreeMap<String, ModelConfig>,
    /// Each tier's chain: names of models, asked in order (S4.7).
    pub tiers: BTreeMap<String, Vec<String>>,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// OpenAI chat completions, or a server that speaks them.
    OpenAi,
    /// Anthropic messages, or a server that speaks them.
    Anthropic,
    /// A file of turns: the same script and inputs give the same run.
    Scripted,
}

impl Provider {
    /// The word that the configuration uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Provider::OpenAi => "openai",
            Provider::Anthropic => "anthropic",
            Provider::Scripted => "scripted",
        }
    }
}

/// One model.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Who answers.
    pub provider: Provider,
    /// What stands before `chat/completions` or `messages`, with or without the slash at its end,
    /// such as `https://api.openai.com/v1/`; absent: the provider's own. An Anthropic URL without a
    /// path gets `v1/`.
    pub base_url: Option<String>,
    /// The provider's name of the model. Sent as it stands: nothing is read into its ending.
    pub model: String,
    /// The key; may be absent for servers that want none.
    pub api_key: Option<Secret>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// The model's context limit, in tokens.
    pub context: u32,
    /// The turns of a scripted model.
    pub script: Option<ScriptSource>,
    /// What its tokens cost (S4.6).
    pub price: Option<Price>,
}

/// Where the turns of a scripted model stand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScriptSource {
    /// In a file.
    File(PathBuf),
    /// Here.
    Text(String),
}

impl From<PathBuf> for ScriptSource {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the wire alone.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One mistake in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The key, such as `models.sonnet.base_url`.
    pub key: String,
    /// What is wrong with it, without secrets.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Every mistake in the configuration of models and tiers, at once (S10.4).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", list(.0))]
pub struct ConfigProblems(pub Vec<ConfigProblem>);

fn list(problems: &[ConfigProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ConfigProblem::to_string).collect();
    lines.join("\n")
}
