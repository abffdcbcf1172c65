//! What keys must not say together, or can only be judged as a whole.

use std::collections::BTreeSet;

use super::section::ConfigErrors;
use super::shape::{Config, Model, NatsLogin};

/// Notes what contradicts. What was noted at a key already is not noted again:
/// its value is a placeholder.
pub(super) fn across(config: &Config, errors: &mut ConfigErrors) {
    tiers(config, errors);
    for (name, model) in &config.models {
        model_sizes(name, model, errors);
    }
    currencies(config, errors);
    executor_name(config, errors);
    chain_key_id(config, errors);
    listens(config, errors);
    if let Some(nats) = &config.nats
        && let NatsLogin::CredentialsFile(file) = &nats.login
        && !file.is_file()
    {
        let problem = format!("the file {} does not exist", file.display());
        note(errors, "nats.credentials_file", problem);
    }
    if let Some(endpoint) = &config.telemetry.otlp_endpoint {
        let uri: Option<http::Uri> = endpoint.parse().ok();
        if !uri.is_some_and(|uri| uri.scheme_str() == Some("http") && uri.host().is_some()) {
            let problem = "must be the collector's gRPC address, such as http://127.0.0.1:4317";
            note(errors, "telemetry.otlp_endpoint", problem);
        }
    }
    if let Err(error) = tracing_subscriber::EnvFilter::try_new(&config.telemetry.log_filter) {
        let problem =
            format!("must be a level or directives such as info,sayso_executor=debug: {error}");
        note(errors, "telemetry.log_filter", problem);
    }
}

fn note(errors: &mut ConfigErrors, key: &str, problem: impl Into<String>) {
    if !errors.mentions(key) {
        errors.add(key, problem);
    }
}

fn tiers(config: &Config, errors: &mut ConfigErrors) {
    for (tier, chain) in &config.tiers {
        let key = format!("tiers.{tier}");
        let mut seen = BTreeSet::new();
        let mut problems = Vec::new();
        for model in chain {
            if !config.models.contains_key(model) {
                problems.push(format!("{model} is not under models"));
            }
            if !seen.insert(model) {
                problems.push(format!("{model} is named twice"));
            }
        }
        if !problems.is_empty() {
            note(errors, &key, problems.join("; "));
        }
    }
    if !config.models.is_empty() && !config.tiers.contains_key("balanced") {
        let problem = "must be set once there are models: agents that name no tier use it";
        note(errors, "tiers.balanced", problem);
    }
}

fn model_sizes(name: &str, model: &Model, errors: &mut ConfigErrors) {
    if model.max_tokens >= model.context {
        let problem = format!(
            "must be less than the model's context of {} tokens, found {}",
            model.context, model.max_tokens
        );
        note(errors, &format!("models.{name}.max_tokens"), problem);
    }
}

/// Costs are summed, so prices have one currency.
fn currencies(config: &Config, errors: &mut ConfigErrors) {
    let priced = config
        .models
        .iter()
        .filter_map(|(name, model)| Some((name, model.price?.currency)));
    let mut first = None;
    for (name, currency) in priced {
        let (at, expected) = *first.get_or_insert((name, currency));
        if currency != expected {
            let problem = format!(
                "is in {currency}, while models.{at}.price is in {expected}: prices have one currency"
            );
            note(errors, &format!("models.{name}.price"), problem);
        }
    }
}

fn executor_name(config: &Config, errors: &mut ConfigErrors) {
    if let Some(name) = &config.executor.name
        && !is_name(name)
    {
        note(errors, "executor.name", NAME);
    }
}

fn chain_key_id(config: &Config, errors: &mut ConfigErrors) {
    if !is_name(&config.chain.key_id) {
        note(errors, "chain.key_id", NAME);
    }
}

const NAME: &str = "must be 1 to 63 of the characters a-z, A-Z, 0-9, dot, dash and underscore";

fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
}

fn listens(config: &Config, errors: &mut ConfigErrors) {
    let services = [
        ("gateway", &config.services.gateway),
        ("scheduler", &config.services.scheduler),
        ("executor", &config.services.executor),
        ("policy", &config.services.policy),
        ("approval_hub", &config.services.approval_hub),
        ("notifier", &config.services.notifier),
    ];
    for (name, endpoints) in services {
        for address in &endpoints.connect {
            if address.uri().port_u16() == Some(0) {
                let problem = "must name the port that is dialled; 0 is no port";
                note(errors, &format!("services.{name}.connect"), problem);
            }
        }
    }
}
