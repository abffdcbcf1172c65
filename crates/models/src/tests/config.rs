//! Mistakes in the configuration, all at once (S10.4).

use std::collections::BTreeMap;
use std::fs;

use crate::testing::{chain, model};
use crate::{ConfigProblems, ModelsConfig, Provider, Registry, Secret};

#[test]
fn s10_4_all_mistakes_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let bad_script = folder.path().join("bad.yaml");
    fs::write(&bad_script, "turns: [{txt: hi}]").unwrap();
    let scripted = |script: Option<&str>| {
        let mut model = model(Provider::Scripted, "");
        model.script = script.map(|name| folder.path().join(name).into());
        model
    };
    let mut no_key = model(Provider::OpenAi, "");
    no_key.base_url = None;
    no_key.api_key = None;
    let mut bad_key = model(Provider::Anthropic, "http://127.0.0.1/");
    bad_key.api_key = Some(Secret::new("two\nlines"));
    let mut zero = model(Provider::OpenAi, "http://127.0.0.1/v1");
    zero.model = String::new();
    zero.max_tokens = 0;
    zero.context = 0;
    let models = [
        ("a", model(Provider::OpenAi, "not a url")),
        ("b", model(Provider::Anthropic, "ftp://host/")),
        ("c", no_key),
        ("d", bad_key),
        ("e", zero),
        ("f", scripted(None)),
        ("g", scripted(Some("missing.yaml"))),
        ("h", scripted(Some("bad.yaml"))),
    ];
    let tiers = [("fast", vec![]), ("balanced", vec!["a", "nobody", "a"])];
    let config = ModelsConfig {
        models: models
            .into_iter()
            .map(|(name, model)| (name.to_owned(), model))
            .collect(),
        tiers: tiers
            .into_iter()
            .map(|(tier, chain)| {
                (
                    tier.to_owned(),
                    chain.into_iter().map(str::to_owned).collect(),
                )
            })
            .collect(),
    };
    let ConfigProblems(problems) = Registry::new(config).unwrap_err();
    let keys: Vec<&str> = problems
        .iter()
        .map(|problem| problem.key.as_str())
        .collect();
    assert_eq!(
        keys,
        [
            "models.h.script",
            "models.g.script",
            "models.a.base_url",
            "models.b.base_url",
            "models.c.api_key",
            "models.d.api_key",
            "models.e.model",
            "models.e.max_tokens",
            "models.e.context",
            "models.f.script",
            "tiers.balanced",
            "tiers.balanced",
            "tiers.fast",
        ],
        "{problems:#?}"
    );
    let text = ConfigProblems(problems).to_string();
    assert!(
        text.contains("bad.yaml: turns[0].txt: unknown field `txt`"),
        "{text}"
    );
    assert!(
        text.contains("tiers.balanced: there is no model `nobody`"),
        "{text}"
    );
    assert!(text.contains("models.a.base_url: is not a URL such as https://api.openai.com/v1/"));
    assert!(!text.contains("lines"), "{text}");
}

#[test]
fn no_models_at_all_are_a_configuration_too() {
    let registry = Registry::new(ModelsConfig {
        models: BTreeMap::new(),
        tiers: BTreeMap::new(),
    })
    .unwrap();
    assert_eq!(registry.tiers().count(), 0);
}

/// S4.4: what fits the tier fits every model of its chain.
#[test]
fn s4_4_a_tier_takes_what_its_smallest_model_takes() {
    let mut small = model(Provider::OpenAi, "http://127.0.0.1/v1");
    small.context = 8_000;
    let large = model(Provider::Anthropic, "http://127.0.0.1/v1");
    let registry = chain(vec![("large", large), ("small", small)]);
    assert_eq!(registry.window_of("balanced"), Some(7_000));
    assert_eq!(
        format!("{registry:?}"),
        r#"{"balanced": ["large", "small"]}"#
    );
}
