//! The models by name and the tiers made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sayso_driver::ModelRequest;
use sayso_run::{Price, limits};

use crate::answer::{Answer, Ear};
use crate::anthropic::Anthropic;
use crate::config::{
    ConfigProblem, ConfigProblems, ModelConfig, ModelsConfig, Provider, ScriptSource,
};
use crate::endpoint::{self, BadEndpoint};
use crate::fault::Fault;
use crate::openai::OpenAi;
use crate::scripted::{Player, Script, Scripted};

/// The tier of an agent that names none (S4.7), and of summaries (S4.4).
pub const DEFAULT_TIER: &str = "balanced";

/// All models and tiers of a process; implements [`sayso_driver::Models`].
pub struct Registry {
    tiers: BTreeMap<String, Vec<Arc<Model>>>,
    /// From request to last byte (S4.2).
    pub(crate) ceiling: Duration,
    /// Whether traces carry what was said (S10.3).
    pub(crate) tells_content: bool,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tiers = self.tiers.iter().map(|(tier, chain)| {
            let names: Vec<&str> = chain.iter().map(|model| model.name.as_str()).collect();
            (tier, names)
        });
        f.debug_map().entries(tiers).finish()
    }
}

/// One model that can be asked.
pub(crate) struct Model {
    /// The configured name.
    pub(crate) name: String,
    provider: Provider,
    /// The provider's own name of it.
    pub(crate) model: String,
    /// The context limit less the longest answer.
    room: u32,
    pub(crate) price: Option<Price>,
    client: Client,
}

enum Client {
    OpenAi(OpenAi),
    Anthropic(Anthropic),
    Scripted(Scripted),
}

impl Model {
    pub(crate) async fn answer(
        &self,
        request: &ModelRequest,
        ear: &Ear<'_>,
    ) -> Result<Answer, Fault> {
        match &self.client {
            Client::OpenAi(client) => client.answer(request, ear).await,
            Client::Anthropic(client) => client.answer(request, ear).await,
            Client::Scripted(client) => client.answer(request, ear).await,
        }
    }

    /// Who answers, for people: the word of the configuration.
    pub(crate) fn provider(&self) -> &'static str {
        self.provider.as_str()
    }

    /// The host that is asked, if there is one.
    pub(crate) fn host(&self) -> Option<&str> {
        match &self.client {
            Client::OpenAi(client) => Some(client.host()),
            Client::Anthropic(client) => Some(client.host()),
            Client::Scripted(_) => None,
        }
    }
}

impl Registry {
    /// The price of a model that some tier has.
    pub(crate) fn price_of(&self, name: &str) -> Option<Price> {
        let mut models = self.tiers.values().flatten();
        models.find(|model| model.name == name)?.price
    }

    /// Checks the configuration, reads the scripts, and connects to nothing.
    ///
    /// # Errors
    ///
    /// Every mistake found, by key (S10.4).
    pub fn new(config: ModelsConfig) -> Result<Self, ConfigProblems> {
        let mut builder = Builder::default();
        builder.players(&config.models);
        for (name, model) in &config.models {
            builder.model(name, model);
        }
        for (tier, chain) in &config.tiers {
            builder.tier(tier, chain, &config.models);
        }
        if builder.problems.is_empty() {
            Ok(Self {
                tiers: builder.tiers,
                ceiling: limits::MODEL_ANSWER,
                tells_content: false,
            })
        } else {
            Err(ConfigProblems(builder.problems))
        }
    }

    /// Has traces carry what is said, or not, which is so at first (S10.3).
    #[must_use]
    pub fn telling_content(mut self, tells: bool) -> Self {
        self.tells_content = tells;
        self
    }

    /// The names of the tiers.
    pub fn tiers(&self) -> impl Iterator<Item = &str> {
        self.tiers.keys().map(String::as_str)
    }

    /// The largest request that every model of a tier's chain can take and still answer at length,
    /// in tokens; `None` if there is no such tier (S4.4).
    pub(crate) fn window_of(&self, tier: &str) -> Option<u64> {
        let rooms = self.chain(tier)?.iter().map(|model| u64::from(model.room));
        rooms.min()
    }

    /// A tier's chain; never empty.
    pub(crate) fn chain(&self, tier: &str) -> Option<&[Arc<Model>]> {
        let tier = if tier.is_empty() { DEFAULT_TIER } else { tier };
        self.tiers.get(tier).map(Vec::as_slice)
    }
}

/// Reads a script, or says what is wrong with it and where it stands.
fn parse(source: &ScriptSource) -> Result<Script, String> {
    let parse = |text: &str| Script::parse(text).map_err(|mistakes| mistakes.to_string());
    match source {
        ScriptSource::Text(text) => parse(text),
        ScriptSource::File(path) => std::fs::read_to_string(path)
            .map_err(|error| error.to_string())
            .and_then(|text| parse(&text))
            .map_err(|why| format!("{}: {why}", path.display())),
    }
}

#[derive(Default)]
struct Builder {
    problems: Vec<ConfigProblem>,
    /// One for each script, whatever the number of its models; none for one with mistakes.
    players: BTreeMap<ScriptSource, Arc<Player>>,
    http: Option<reqwest::Client>,
    models: BTreeMap<String, Arc<Model>>,
    tiers: BTreeMap<String, Vec<Arc<Model>>>,
}

impl Builder {
    fn note(&mut self, key: String, message: impl Into<String>) {
        self.problems.push(ConfigProblem {
            key,
            message: message.into(),
        });
    }

    /// Reads each script once.
    fn players(&mut self, models: &BTreeMap<String, ModelConfig>) {
        let mut scripts: BTreeMap<&ScriptSource, Vec<&String>> = BTreeMap::new();
        for (name, model) in models {
            if let (Provider::Scripted, Some(source)) = (model.provider, &model.script) {
                scripts.entry(source).or_default().push(name);
            }
        }
        for (source, names) in scripts {
            match parse(source) {
                Ok(script) => {
                    let player = Player::new(script, names.into_iter().cloned());
                    self.players.insert(source.clone(), Arc::new(player));
                }
                Err(why) => self.note(format!("models.{}.script", names[0]), why),
            }
        }
    }

    fn model(&mut self, name: &str, config: &ModelConfig) {
        let key = |field: &str| format!("models.{name}.{field}");
        let mut sound = true;
        for (field, wrong) in [
            ("model", config.model.is_empty()),
            ("max_tokens", config.max_tokens == 0),
            ("context", config.context == 0),
        ] {
            if wrong {
                self.note(key(field), "must not be empty or zero");
                sound = false;
            }
        }
        let client = match config.provider {
            Provider::Scripted => self.scripted(name, config),
            Provider::OpenAi => {
                self.remote(name, |http| OpenAi::new(http, config).map(Client::OpenAi))
            }
            Provider::Anthropic => self.remote(name, |http| {
                Anthropic::new(http, name, config).map(Client::Anthropic)
            }),
        };
        if let Some(client) = client.filter(|_| sound) {
            let model = Model {
                name: name.to_owned(),
                provider: config.provider,
                model: config.model.clone(),
                room: config.context.saturating_sub(config.max_tokens),
                price: config.price,
                client,
            };
            self.models.insert(name.to_owned(), Arc::new(model));
        }
    }

    fn scripted(&mut self, name: &str, config: &ModelConfig) -> Option<Client> {
        let Some(source) = &config.script else {
            self.note(
                format!("models.{name}.script"),
                "must be set: the turns of a scripted model",
            );
            return None;
        };
        let player = self.players.get(source)?;
        Some(Client::Scripted(Scripted::new(Arc::clone(player))))
    }

    fn remote(
        &mut self,
        name: &str,
        build: impl FnOnce(reqwest::Client) -> Result<Client, BadEndpoint>,
    ) -> Option<Client> {
        let http = match &self.http {
            Some(http) => http.clone(),
            None => match endpoint::client() {
                Ok(http) => self.http.insert(http).clone(),
                Err(error) => {
                    self.note(
                        format!("models.{name}"),
                        format!("no HTTP client can be made: {error}"),
                    );
                    return None;
                }
            },
        };
        match build(http) {
            Ok(client) => Some(client),
            Err(bad) => {
                let field = match bad {
                    BadEndpoint::Url { .. } => "base_url",
                    BadEndpoint::NoKey | BadEndpoint::Key => "api_key",
                };
                self.note(format!("models.{name}.{field}"), bad.to_string());
                None
            }
        }
    }

    fn tier(&mut self, tier: &str, chain: &[String], models: &BTreeMap<String, ModelConfig>) {
        let key = || format!("tiers.{tier}");
        if chain.is_empty() {
            self.note(key(), "must name at least one model");
        }
        let mut seen = BTreeSet::new();
        let mut found = Vec::with_capacity(chain.len());
        for name in chain {
            if !models.contains_key(name) {
                self.note(key(), format!("there is no model `{name}`"));
            }
            if !seen.insert(name) {
                self.note(key(), format!("names `{name}` twice"));
            }
            found.extend(self.models.get(name).cloned());
        }
        self.tiers.insert(tier.to_owned(), found);
    }
}
