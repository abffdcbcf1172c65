use sayso_models::{ModelConfig, Provider, ScriptSource, Secret};
use sayso_run::{Money, Price};

/// The longest answer, in tokens, where nothing else is said.
const MAX_TOKENS: u32 = 8192;
/// The context limit, in tokens, where nothing else is said.
const CONTEXT: u32 = 128_000;

/// A model that an agent may ask.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) name: String,
    pub(crate) config: ModelConfig,
}

impl Model {
    /// A model of OpenAI's, or of a server that speaks its chat completions ([`Model::at`]).
    pub fn openai(model: impl Into<String>) -> Self {
        Self::of(Provider::OpenAi, model.into())
    }

    /// A model of Anthropic's, or of a server that speaks its messages ([`Model::at`]).
    pub fn anthropic(model: impl Into<String>) -> Self {
        Self::of(Provider::Anthropic, model.into())
    }

    /// A model that plays turns written in YAML, for tests: the same turns and inputs give the same
    /// run.
    pub fn scripted(turns: impl Into<String>) -> Self {
        let mut model = Self::of(Provider::Scripted, "scripted".to_owned());
        model.config.script = Some(ScriptSource::Text(turns.into()));
        model
    }

    fn of(provider: Provider, model: String) -> Self {
        Self {
            name: model.clone(),
            config: ModelConfig {
                provider,
                base_url: None,
                model,
                api_key: None,
                max_tokens: MAX_TOKENS,
                context: CONTEXT,
                script: None,
                price: None,
            },
        }
    }

    /// The key for its server.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.config.api_key = Some(Secret::new(key));
        self
    }

    /// Another server than its maker's: what stands before `chat/completions` or `messages`.
    #[must_use]
    pub fn at(mut self, url: impl Into<String>) -> Self {
        self.config.base_url = Some(url.into());
        self
    }

    /// The name that timelines show; without one it is the model's own. Two models of one agent need
    /// two names.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The longest answer and the context limit, in tokens: 8,192 and 128,000 unless this says
    /// otherwise.
    #[must_use]
    pub fn limits(mut self, max_tokens: u32, context: u32) -> Self {
        (self.config.max_tokens, self.config.context) = (max_tokens, context);
        self
    }

    /// What a million tokens of requests and of answers cost; needed under a spending cap (S4.6).
    /// Amounts of two currencies make no price: it is that of the first.
    #[must_use]
    pub fn price(mut self, input: Money, output: Money) -> Self {
        self.config.price = Some(Price {
            input: input.millionths(),
            cached: input.millionths(),
            output: output.millionths(),
            currency: input.currency(),
        });
        self
    }
}
