//! What a person meets when they configure sayso.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::layers::Layers;
use super::*;

const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A folder with a configuration file.
struct Given {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Given {
    fn file(text: &str) -> Given {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("sayso.yaml"), text).expect("written");
        Given {
            folder,
            variables: Vec::new(),
        }
    }

    fn variable(mut self, name: &str, value: &str) -> Given {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self) -> Result<Config, ConfigErrors> {
        read::config(Layers {
            embedded: None,
            file: Some(&self.path("sayso.yaml")),
            variables: self.variables.clone(),
        })
    }

    fn mistakes(&self) -> Vec<(String, String)> {
        let errors = self.read().expect_err("mistakes");
        let folder = format!("{}/", self.folder.path().display());
        errors
            .problems()
            .iter()
            .map(|p| (p.key.clone(), p.problem.replace(&folder, "")))
            .collect()
    }
}

fn keys(mistakes: &[(String, String)]) -> Vec<&str> {
    mistakes.iter().map(|(key, _)| key.as_str()).collect()
}

#[test]
fn s10_4_the_defaults_are_a_whole_configuration() {
    let config = Given::file("").read().expect("defaults are valid");
    assert_eq!(config.grace, Duration::from_secs(10));
    assert_eq!(config.services.gateway.listen.port(), 7400);
    assert_eq!(config.limits.max_request_bytes.bytes(), 4 << 20);
    assert_eq!(config.telemetry.log_format, LogFormat::Text);
    assert!(config.database.is_none() && config.nats.is_none());
}

#[test]
fn s10_4_every_key_of_the_defaults_is_documented_and_overridable() {
    // Every scalar key of the defaults given again as the same value reads.
    fn walk(value: &yaml_serde::Value, path: &str, out: &mut Vec<(String, String)>) {
        match value {
            yaml_serde::Value::Mapping(map) => {
                for (key, value) in map {
                    let key = key.as_str().expect("text key");
                    walk(value, &format!("{path}__{}", key.to_uppercase()), out);
                }
            }
            yaml_serde::Value::Null => {}
            other => {
                let text = yaml_serde::to_string(other).expect("YAML");
                out.push((format!("SAYSO{}", &path[1..]), text.trim().to_owned()));
            }
        }
    }
    let defaults = yaml_serde::from_str(DEFAULTS).expect("YAML");
    let mut variables = Vec::new();
    walk(&defaults, "", &mut variables);
    assert!(variables.len() > 15, "{variables:?}");
    let mut given = Given::file("");
    given.variables = variables;
    given.read().expect("all keys read from variables too");
}

#[test]
fn s10_4_the_file_overrides_defaults_and_variables_override_the_file() {
    let config = Given::file("grace: 5s\nexecutor: {concurrency: 7, tool_concurrency: 8}\n")
        .variable("SAYSO_EXECUTOR__CONCURRENCY", "9")
        .variable("SAYSO_DATABASE__URL", "postgres://u:hush@db/sayso")
        .variable("SAYSO_TELEMETRY__CONTENT", "true")
        .variable("SAYSO_TELEMETRY__SAMPLING", "0.25")
        .variable("SAYSO_SERVICES__POLICY__CONNECT", "a:1,http://b:2")
        .variable("SAYSO_TOKEN", "of the command line")
        .variable("SAYSO_TEST_PORT", "of a test")
        .variable("HOME", "/root")
        .read()
        .expect("valid");
    assert_eq!(config.grace, Duration::from_secs(5));
    assert_eq!(config.executor.concurrency, 9);
    assert_eq!(config.executor.tool_concurrency, 8);
    assert!(config.telemetry.content);
    assert!((config.telemetry.sampling - 0.25).abs() < f64::EPSILON);
    let connect = &config.services.policy.connect;
    let connect: Vec<String> = connect.iter().map(Address::to_string).collect();
    assert_eq!(connect, ["http://a:1", "http://b:2"]);
    assert!(
        matches!(config.database, Some(Database::Postgres(url)) if url.expose().contains("hush"))
    );
}

#[test]
fn s10_4_an_empty_variable_unsets_and_an_empty_section_keeps_its_defaults() {
    let config = Given::file("executor: {name: w1}\ntelemetry:\nmodels:\n")
        .variable("SAYSO_EXECUTOR__NAME", "")
        .read()
        .expect("valid");
    assert_eq!(config.executor.name, None);
    assert_eq!(config.telemetry.log_filter, "info,rmcp=warn");
}

#[test]
fn s10_4_all_mistakes_are_reported_at_once_by_key() {
    let mistakes = Given::file(
        r#"
grace: soon
databse: {url: "sqlite://x"}
executor: {concurency: 4, concurrency: many, tool_concurrency: 0}
services:
  gateway: {listen: "7400", connect: ["http://a:1", "https://b:2"]}
  policy: 7
models:
  fast: {provider: openai, max_tokens: -1, colour: red, script: a.yaml}
  acted: {provider: scripted}
  odd: {provider: gemini}
tiers:
  balanced: [fast, slow, fast]
  powerful: []
limits: {max_request_bytes: 5 MB}
telemetry: {log_format: xml, log_filter: "a=b=c", content: yes please, sampling: 2}
"#,
    )
    .variable("SAYSO_CHAIN__KEY", "abc")
    .variable("SAYSO_NATS__USER", "me")
    .variable("SAYSO_NATS__URL", "http://nats")
    .variable("SAYSO_GRASE", "1s")
    .mistakes();
    assert_eq!(
        keys(&mistakes),
        [
            "chain.key",
            "databse",
            "executor.concurency",
            "executor.concurrency",
            "executor.tool_concurrency",
            "grace",
            "grase",
            "limits.max_request_bytes",
            "models.acted.script",
            "models.fast.colour",
            "models.fast.max_tokens",
            "models.fast.script",
            "models.odd.provider",
            "nats.password",
            "nats.url",
            "services.gateway.connect",
            "services.gateway.listen",
            "services.policy",
            "services.policy.connect",
            "services.policy.listen",
            "telemetry.content",
            "telemetry.log_filter",
            "telemetry.log_format",
            "telemetry.sampling",
            "tiers.balanced",
            "tiers.powerful",
        ]
    );
    let problem = |key: &str| {
        let found = mistakes.iter().find(|(k, _)| k == key);
        found.expect("reported").1.as_str()
    };
    assert_eq!(
        problem("grace"),
        r#"must be a duration such as 30s, 500ms or 1m30s, found "soon" (from sayso.yaml)"#
    );
    assert_eq!(
        problem("databse"),
        "unknown key; did you mean database? (from sayso.yaml)"
    );
    assert_eq!(
        problem("grase"),
        "unknown key; did you mean grace? (from SAYSO_GRASE)"
    );
    assert_eq!(
        problem("tiers.balanced"),
        "slow is not under models; fast is named twice"
    );
    assert!(problem("services.gateway.connect").starts_with("item 2: must be an address"));
    assert!(problem("chain.key").ends_with("(from SAYSO_CHAIN__KEY)"));
}

#[test]
fn s10_4_what_is_no_configuration_at_all_is_said_plainly() {
    let mistakes = Given::file("a: [").mistakes();
    assert!(mistakes[0].0.ends_with("sayso.yaml"), "{mistakes:?}");
    assert!(
        mistakes[0].1.starts_with("is not valid YAML: "),
        "{mistakes:?}"
    );
}

#[test]
fn s10_4_duplicate_keys_are_refused() {
    let mistakes = Given::file("grace: 1s\ngrace: 2s\n").mistakes();
    assert!(mistakes[0].1.contains("duplicate"), "{mistakes:?}");
}

#[test]
fn s10_4_a_missing_file_is_an_error_and_not_an_empty_one() {
    let error = read::config(Layers {
        embedded: None,
        file: Some(Path::new("/nowhere/sayso.yaml")),
        variables: Vec::new(),
    });
    let text = error.expect_err("missing").to_string();
    assert!(
        text.starts_with("/nowhere/sayso.yaml: cannot be read: "),
        "{text}"
    );
}

#[test]
fn s10_4_what_a_process_needs_is_demanded_all_at_once() {
    let config = Given::file("").read().expect("valid");
    let all = [
        Need::Database,
        Need::Bus,
        Need::ClusterKey,
        Need::ChainKey,
        Need::Models,
    ];
    let missing = config.require(&all).expect_err("all missing");
    let keys: Vec<&str> = missing.problems().iter().map(|p| p.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "chain.key",
            "cluster.key",
            "database.url",
            "models",
            "nats.url"
        ]
    );
    config.require(&[]).expect("nothing needed");
}

#[test]
fn keys_come_from_the_file_the_variable_or_a_key_file() {
    let given =
        Given::file("cluster: {key_file: keys/cluster}\n").variable("SAYSO_CHAIN__KEY", HEX);
    std::fs::create_dir(given.path("keys")).expect("folder");
    std::fs::write(given.path("keys/cluster"), format!("{HEX}\n")).expect("written");
    let config = given.read().expect("valid");
    assert_eq!(config.cluster.key, config.chain.key);
    assert_eq!(config.chain.key.expect("set").bytes()[1], 0x11);

    let both = given.variable("SAYSO_CLUSTER__KEY", HEX).mistakes();
    assert_eq!(keys(&both), ["cluster.key_file"]);
    let missing = Given::file("chain: {key_file: nowhere}").mistakes();
    assert!(
        missing[0]
            .1
            .contains("the key file nowhere cannot be read: "),
        "{missing:?}"
    );
}

#[test]
fn models_fill_in_what_their_provider_implies() {
    let given = Given::file(
        r#"
models:
  gpt: {provider: openai, api_key_env: KEY_OF_NO_ONE}
  own: {provider: anthropic, base_url: "http://127.0.0.1:9/v1", model: x, api_key: hush}
  acted: {provider: scripted, script: turns.yaml}
tiers: {balanced: [gpt, own], fast: acted}
notify: {secrets: {ops: {env: KEY_OF_NO_ONE}, dev: hush}}
"#,
    );
    let config = given.read().expect("valid");
    let gpt = &config.models["gpt"];
    assert_eq!(gpt.base_url.as_deref(), Some("https://api.openai.com/v1/"));
    assert_eq!((gpt.model.as_str(), gpt.context), ("gpt", 128_000));
    let own = &config.models["own"];
    assert_eq!(own.base_url.as_deref(), Some("http://127.0.0.1:9/v1/"));
    assert_eq!(
        config.models["acted"].script,
        Some(given.path("turns.yaml"))
    );
    assert_eq!(config.tiers["fast"], ["acted"]);
    let unset = config.notify.secrets["ops"].resolve().expect_err("not set");
    assert_eq!(unset, SecretError::NotSet("KEY_OF_NO_ONE".into()));
    assert_eq!(
        config.notify.secrets["dev"]
            .resolve()
            .expect("set")
            .expose(),
        "hush"
    );
}

#[test]
fn secrets_never_show_in_debug_output_or_in_mistakes() {
    let text = format!(
        r#"
database: {{url: "postgres://u:hush@db/sayso"}}
nats: {{url: "nats://n:4222", user: u, password: hush}}
cluster: {{key: "{HEX}"}}
models: {{m: {{provider: openai, api_key: hush}}}}
tiers: {{balanced: [m]}}
notify: {{secrets: {{a: hush}}}}
"#
    );
    let config = Given::file(&text).read().expect("valid");
    let shown = format!("{config:?}");
    assert!(!shown.contains("hush") && !shown.contains(HEX), "{shown}");

    for bad in [
        "database: {url: 'mysql://u:hush@db'}",
        "cluster: {key: hush}",
        "models: {m: {provider: openai, api_key: [hush]}}",
        "notify: {secrets: {a: {hush: x}}}",
        "nats: {url: 'hush@n', password: 4711}",
    ] {
        let shown = format!("{:?}", Given::file(bad).mistakes());
        assert!(
            !shown.contains("hush") && !shown.contains("4711"),
            "{shown}"
        );
    }
}

#[test]
fn s10_1_embedded_keeps_its_data_in_one_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || Config::embedded_with(folder.path(), None, Vec::new()).expect("valid");
    let first = start();
    let file = folder.path().join("sayso.db");
    assert_eq!(first.database, Some(Database::Sqlite(file)));
    assert!(first.cluster.key.is_some() && first.nats.is_none());
    let again = start();
    assert_eq!(again.chain.key, first.chain.key, "the chain key stays");
    assert_ne!(
        again.cluster.key, first.cluster.key,
        "the cluster key is of the process"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let kept = std::fs::metadata(folder.path().join("chain.key")).expect("made");
        assert_eq!(kept.permissions().mode() & 0o777, 0o600);
    }

    let variables = vec![(
        "SAYSO_DATABASE__URL".to_owned(),
        "sqlite://other.db".to_owned(),
    )];
    let other = Config::embedded_with(folder.path(), None, variables).expect("valid");
    assert_eq!(other.database, Some(Database::Sqlite("other.db".into())));
}

/// S6.13: how the gateway is called over MCP.
#[test]
fn s6_13_names_over_mcp_are_hosts() {
    let names = |text: &str| {
        let config = Given::file(text).read().expect("valid");
        let names = config.mcp.allowed_hosts;
        names
            .iter()
            .map(HostName::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(names("").is_empty());
    let two = ["sayso.example.org", "desk"];
    assert_eq!(
        names("mcp: {allowed_hosts: 'sayso.example.org, desk'}"),
        two
    );
    assert_eq!(
        names("mcp: {allowed_hosts: [sayso.example.org, desk]}"),
        two
    );
    for bad in ["https://sayso.example", "sayso.example:443", "*", "a b"] {
        let mistakes = Given::file(&format!("mcp: {{allowed_hosts: ['{bad}']}}")).mistakes();
        assert_eq!(keys(&mistakes), ["mcp.allowed_hosts"], "{bad}");
    }
}

#[test]
fn durations_and_sizes_read_as_written() {
    let config = Given::file("grace: 1m30s\nlimits: {max_request_bytes: 64KiB}\n")
        .read()
        .expect("valid");
    assert_eq!(config.grace, Duration::from_secs(90));
    assert_eq!(config.limits.max_request_bytes, ByteSize::new(65_536));
    for bad in ["10", "s", "-1s", "1.5s", "1s2", "99999999999999999999d", ""] {
        let mistakes = Given::file(&format!("grace: '{bad}'")).mistakes();
        assert_eq!(keys(&mistakes), ["grace"], "{bad}");
    }
}

/// S3.10: the key of secrets comes from one place, a command too; what it says wrong is told.
#[test]
fn s3_10_the_key_of_secrets_comes_from_one_place() {
    let printed = format!("secrets: {{key_command: [echo, '{HEX}'], redact: [pin, Kundennummer]}}");
    let config = Given::file(&printed).read().expect("a key");
    assert!(config.secrets.key.is_some());
    assert_eq!(config.secrets.redact, ["pin", "Kundennummer"]);
    let given = Given::file("").variable("SAYSO_SECRETS__KEY", HEX);
    assert_eq!(given.read().expect("a key").secrets.key, config.secrets.key);
    for (text, key) in [
        (
            format!("secrets: {{key: '{HEX}', key_command: [echo, x]}}"),
            "secrets.key_command",
        ),
        (
            "secrets: {key_command: [echo, short]}".to_owned(),
            "secrets.key_command",
        ),
        (
            "secrets: {key_command: ['false']}".to_owned(),
            "secrets.key_command",
        ),
        (
            "secrets: {key_command: [/nowhere/at/all]}".to_owned(),
            "secrets.key_command",
        ),
        (
            "secrets: {previous_key_files: [gone.key]}".to_owned(),
            "secrets.previous_key_files",
        ),
    ] {
        assert_eq!(keys(&Given::file(&text).mistakes()), [key], "{text}");
    }
}

/// S3.10, S10.1: `up` makes a key for secrets in its folder, readable by its owner alone, and keeps it.
#[test]
fn s3_10_up_keeps_a_key_of_secrets_in_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let read = || Config::embedded_with(folder.path(), None, Vec::new()).expect("valid");
    let first = read().secrets.key.expect("made");
    assert_eq!(read().secrets.key, Some(first));
    let file = std::fs::metadata(folder.path().join("secrets.key")).expect("kept");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.permissions());
    assert_eq!(mode & 0o777, 0o600);
}
