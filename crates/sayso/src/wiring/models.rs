use std::collections::BTreeMap;

use anyhow::{Context, anyhow};
use sayso_models::{ModelConfig, ModelsConfig, Provider, Registry, ScriptSource, Secret};
use sayso_service::config::{self, Config};

/// The models and tiers of the configuration, with their keys resolved.
pub(crate) fn registry(config: &Config) -> anyhow::Result<Registry> {
    let models = config
        .models
        .iter()
        .map(|(name, model)| Ok((name.clone(), model_config(name, model)?)))
        .collect::<anyhow::Result<BTreeMap<_, _>>>()?;
    let tiers = config.tiers.clone();
    let registry = Registry::new(ModelsConfig { models, tiers })
        .context("the models of the configuration cannot be used")?;
    Ok(registry.telling_content(config.telemetry.content))
}

fn model_config(name: &str, model: &config::Model) -> anyhow::Result<ModelConfig> {
    let api_key = model
        .api_key
        .as_ref()
        .map(|source| source.resolve())
        .transpose();
    let api_key = api_key.map_err(|error| anyhow!("models.{name}.api_key_env: {error}"))?;
    Ok(ModelConfig {
        provider: match model.provider {
            config::Provider::OpenAi => Provider::OpenAi,
            config::Provider::Anthropic => Provider::Anthropic,
            config::Provider::Scripted => Provider::Scripted,
        },
        base_url: model.base_url.clone(),
        model: model.model.clone(),
        api_key: api_key.map(|key| Secret::new(key.expose())),
        max_tokens: model.max_tokens,
        context: model.context,
        script: model.script.clone().map(ScriptSource::File),
        price: model.price,
    })
}
