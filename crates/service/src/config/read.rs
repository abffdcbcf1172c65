//! Reads the merged layers into a [`Config`].

use sayso_run::{BadMoney, Money, Price};
use std::cell::RefCell;
use std::path::PathBuf;

use super::check;
use super::layers::{self, Layers};
use super::mail;
use super::secret::{Key, Secret, SecretSource};
use super::section::{self, ConfigErrors, Given, Section, Setting};
use super::shape::{
    Chain, Cluster, Config, Database, Endpoints, Executor, Http, Limits, LogFormat, Mcp, Model,
    Nats, NatsLogin, Notify, Provider, Secrets, Services, Telemetry,
};

/// Where a model is when its entry does not say, by provider.
const OPENAI_URL: &str = "https://api.openai.com/v1/";
const ANTHROPIC_URL: &str = "https://api.anthropic.com/v1/";

/// The longest answer and the context limit of a model that does not say.
const MAX_TOKENS: u32 = 8_192;
const CONTEXT: u32 = 128_000;

/// The configuration that the layers make, or every mistake in them.
pub(super) fn config(layers: Layers<'_>) -> Result<Config, ConfigErrors> {
    let (source, values) = layers::merge(layers)?;
    let errors = RefCell::new(ConfigErrors::none());
    let config = section::read(&source, values, &errors, |top| Config {
        database: top.section("database", |s| s.optional("url")),
        nats: top.section("nats", nats),
        services: top.section("services", |s| Services {
            gateway: s.section("gateway", endpoints),
            scheduler: s.section("scheduler", endpoints),
            executor: s.section("executor", endpoints),
            policy: s.section("policy", endpoints),
            approval_hub: s.section("approval_hub", endpoints),
            notifier: s.section("notifier", endpoints),
        }),
        cluster: top.section("cluster", |s| Cluster { key: key(s) }),
        chain: top.section("chain", |s| Chain {
            key: key(s),
            key_id: s.required("key_id"),
        }),
        secrets: top.section("secrets", secrets),
        executor: top.section("executor", |s| Executor {
            name: s.optional("name"),
            concurrency: s.required("concurrency"),
            tool_concurrency: s.required("tool_concurrency"),
            delegation_depth: s.required("delegation_depth"),
            live_children: s.required("live_children"),
        }),
        models: top.sections("models", model).into_iter().collect(),
        tiers: top.entries("tiers").into_iter().collect(),
        notify: top.section("notify", |s| Notify {
            secrets: s.entries::<SecretSource>("secrets").into_iter().collect(),
        }),
        smtp: top.section("smtp", mail::smtp),
        http: top.section("http", |s| Http {
            public_url: s.optional::<PublicUrl>("public_url").map(|url| url.0),
            allowed_origins: s.optional("allowed_origins").unwrap_or_default(),
        }),
        mcp: top.section("mcp", |s| Mcp {
            allowed_hosts: s.optional("allowed_hosts").unwrap_or_default(),
        }),
        limits: top.section("limits", |s| Limits {
            max_request_bytes: s.required("max_request_bytes"),
            max_streams: s.required("max_streams"),
        }),
        telemetry: top.section("telemetry", |s| Telemetry {
            otlp_endpoint: s.optional("otlp_endpoint"),
            sampling: s.required("sampling"),
            log_format: s.required("log_format"),
            log_filter: s.required("log_filter"),
            content: s.required("content"),
        }),
        grace: top.required("grace"),
    });
    let mut errors = errors.into_inner();
    check::across(&config, &mut errors);
    errors.into_result(config)
}

fn endpoints(section: &mut Section<'_>) -> Endpoints {
    Endpoints {
        listen: section.required("listen"),
        connect: section.required("connect"),
    }
}

/// `key`, or what is in `key_file`.
fn key(section: &mut Section<'_>) -> Option<Key> {
    let given: Option<Key> = section.optional("key");
    let file: Option<PathBuf> = section.optional("key_file");
    match (given, file) {
        (Some(_), Some(_)) => {
            section.note("key_file", "is set beside key: keep one of the two");
            None
        }
        (None, Some(file)) => Key::load(&file)
            .map_err(|error| section.note("key_file", format!("{error}{}", cause(&error))))
            .ok(),
        (given, None) => given,
    }
}

fn secrets(section: &mut Section<'_>) -> Secrets {
    let command: Option<Vec<String>> = section.optional("key_command");
    let given = key(section);
    if given.is_some() && command.is_some() {
        section.note(
            "key_command",
            "is set beside another key: keep one of the three",
        );
    }
    let said = given.is_none().then_some(command).flatten();
    let printed = said.and_then(|command| {
        let printed = Key::printed_by(&command);
        printed
            .map_err(|error| section.note("key_command", format!("{error}{}", cause(&error))))
            .ok()
    });
    let files: Vec<PathBuf> = section.optional("previous_key_files").unwrap_or_default();
    let previous = files.iter().filter_map(|file| {
        let loaded = Key::load(file);
        loaded
            .map_err(|error| {
                section.note("previous_key_files", format!("{error}{}", cause(&error)));
            })
            .ok()
    });
    let previous = previous.collect();
    Secrets {
        key: given.or(printed),
        previous,
        redact: section.optional("redact").unwrap_or_default(),
    }
}

/// What an error says of its cause.
fn cause(error: &dyn std::error::Error) -> String {
    let cause = error.source();
    cause.map(|cause| format!(": {cause}")).unwrap_or_default()
}

fn nats(section: &mut Section<'_>) -> Option<Nats> {
    let urls: Option<Vec<NatsUrl>> = section.optional("url");
    let user: Option<String> = section.optional("user");
    let password: Option<Secret> = section.optional("password");
    let token: Option<Secret> = section.optional("token");
    let file: Option<PathBuf> = section.optional("credentials_file");
    if user.is_some() != password.is_some() {
        let (missing, given) = match user {
            Some(_) => ("password", "user"),
            None => ("user", "password"),
        };
        section.note(missing, format!("must be set beside {given}"));
    }
    let ways = [user.is_some(), token.is_some(), file.is_some()];
    if ways.iter().filter(|way| **way).count() > 1 {
        let key = if file.is_some() {
            "credentials_file"
        } else {
            "token"
        };
        section.note(
            key,
            "is a second way to log in: keep one of user and password, token, credentials_file",
        );
    }
    let login = match (user.zip(password), token, file) {
        (Some((user, password)), _, _) => NatsLogin::User { user, password },
        (None, Some(token), _) => NatsLogin::Token(token),
        (None, None, Some(file)) => NatsLogin::CredentialsFile(file),
        (None, None, None) => NatsLogin::None,
    };
    Some(Nats {
        urls: urls?.into_iter().map(|url| url.0).collect(),
        login,
    })
}

fn model(name: &str, section: &mut Section<'_>) -> Model {
    let provider: Provider = section.required("provider");
    let base_url: Option<BaseUrl> = section.optional("base_url");
    let api_key: Option<Secret> = section.optional("api_key");
    let variable: Option<String> = section.optional("api_key_env");
    let script: Option<PathBuf> = section.optional("script");
    if api_key.is_some() && variable.is_some() {
        section.note("api_key_env", "is set beside api_key: keep one of the two");
    }
    match provider {
        Provider::Scripted => {
            if script.is_none() {
                section.note(
                    "script",
                    "must be set: the file of turns of a scripted model",
                );
            }
            for (key, given) in [
                ("base_url", base_url.is_some()),
                ("api_key", api_key.is_some()),
                ("api_key_env", variable.is_some()),
            ] {
                if given {
                    section.note(key, "has no meaning for a scripted model: remove it");
                }
            }
        }
        Provider::OpenAi | Provider::Anthropic if script.is_some() => {
            section.note("script", "has a meaning for provider: scripted alone");
        }
        Provider::OpenAi | Provider::Anthropic => {}
    }
    let own_url = match provider {
        Provider::OpenAi => Some(OPENAI_URL),
        Provider::Anthropic => Some(ANTHROPIC_URL),
        Provider::Scripted => None,
    };
    Model {
        provider,
        base_url: base_url.map(|url| url.0).or(own_url.map(str::to_owned)),
        model: section.or("model", name.to_owned()),
        api_key: match (api_key, variable) {
            (Some(key), _) => Some(SecretSource::Value(key)),
            (None, variable) => variable.map(SecretSource::Variable),
        },
        script,
        max_tokens: section.or("max_tokens", MAX_TOKENS),
        context: section.or("context", CONTEXT),
        price: section.section("price", price),
    }
}

/// Prices by the million tokens; none if nothing is said.
fn price(section: &mut Section<'_>) -> Option<Price> {
    let input: Option<Money> = section.optional("input");
    let cached: Option<Money> = section.optional("cached");
    let output: Option<Money> = section.optional("output");
    let (input, output) = match (input, output) {
        (Some(input), Some(output)) => (input, output),
        (None, None) if cached.is_none() => return None,
        (input, _) => {
            let missing = if input.is_none() { "input" } else { "output" };
            section.note(missing, "must be set beside the other prices");
            return None;
        }
    };
    let cached = cached.unwrap_or(input);
    if output.currency() != input.currency() || cached.currency() != input.currency() {
        section.note("output", "must be in the same currency as the other prices");
        return None;
    }
    Some(Price {
        input: input.millionths(),
        cached: cached.millionths(),
        output: output.millionths(),
        currency: input.currency(),
    })
}

impl Setting for Money {
    fn parse(given: &Given<'_>) -> Result<Money, String> {
        let text = given.text("an amount such as \"3.00 USD\"")?;
        text.parse().map_err(|bad: BadMoney| format!("{bad}"))
    }

    fn placeholder() -> Money {
        Money::new(0, "XXX".parse().expect("three capital letters"))
    }
}

/// A server of the bus.
struct NatsUrl(String);

impl Setting for NatsUrl {
    fn parse(given: &Given<'_>) -> Result<NatsUrl, String> {
        const WANTED: &str = "must be a URL such as nats://host:4222 (or tls, ws, wss)";
        let text = given.text("a URL such as nats://host:4222")?.trim();
        let host = ["nats://", "tls://", "ws://", "wss://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        match host {
            Some(host) if !host.is_empty() => Ok(NatsUrl(text.to_owned())),
            Some(_) | None => Err(WANTED.to_owned()),
        }
    }

    fn placeholder() -> NatsUrl {
        NatsUrl(String::new())
    }
}

/// The base URL of a model's provider, with the slash at its end.
struct BaseUrl(String);

impl Setting for BaseUrl {
    fn parse(given: &Given<'_>) -> Result<BaseUrl, String> {
        const WANTED: &str = "a URL such as https://api.openai.com/v1/";
        let text = given.text(WANTED)?.trim();
        let uri: Option<http::Uri> = text.parse().ok();
        let fits = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none()
        });
        if !fits {
            return Err(format!("must be {WANTED}"));
        }
        Ok(BaseUrl(format!("{}/", text.trim_end_matches('/'))))
    }

    fn placeholder() -> BaseUrl {
        BaseUrl(String::new())
    }
}

/// Where people reach the pages.
struct PublicUrl(String);

impl Setting for PublicUrl {
    fn parse(given: &Given<'_>) -> Result<PublicUrl, String> {
        const WANTED: &str = "a URL such as https://sayso.example.org";
        let text = given.text(WANTED)?.trim();
        let uri: Option<http::Uri> = text.parse().ok();
        let fits = uri.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none()
        });
        if !fits {
            return Err(format!("must be {WANTED}, found {text:?}"));
        }
        Ok(PublicUrl(text.trim_end_matches('/').to_owned()))
    }

    fn placeholder() -> PublicUrl {
        PublicUrl(String::new())
    }
}

impl Setting for Database {
    fn parse(given: &Given<'_>) -> Result<Database, String> {
        // The URL is never quoted back: it may hold a password.
        const WANTED: &str = "postgres://user:password@host:5432/name or sqlite://path";
        let text = given.text(WANTED)?.trim();
        if let Some(path) = text.strip_prefix("sqlite://") {
            return match path {
                "" => Err("must name a file: sqlite://path".to_owned()),
                path if path.contains('?') => Err(
                    "must be sqlite:// and a path alone: sayso sets the options itself".to_owned(),
                ),
                path => Ok(Database::Sqlite(given.folder.join(path))),
            };
        }
        let rest = ["postgres://", "postgresql://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        match rest {
            Some(rest) if !rest.is_empty() => Ok(Database::Postgres(Secret::new(text))),
            Some(_) | None => Err(format!("must be {WANTED}")),
        }
    }

    fn placeholder() -> Database {
        Database::Sqlite(PathBuf::new())
    }
}

impl Setting for Provider {
    fn parse(given: &Given<'_>) -> Result<Provider, String> {
        const WANTED: &str = "openai, anthropic or scripted";
        match given.text(WANTED)? {
            "openai" => Ok(Provider::OpenAi),
            "anthropic" => Ok(Provider::Anthropic),
            "scripted" => Ok(Provider::Scripted),
            other => Err(format!("must be {WANTED}, found {other:?}")),
        }
    }

    fn placeholder() -> Provider {
        Provider::OpenAi
    }
}

impl Setting for LogFormat {
    fn parse(given: &Given<'_>) -> Result<LogFormat, String> {
        match given.text("text or json")? {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            other => Err(format!("must be text or json, found {other:?}")),
        }
    }

    fn placeholder() -> LogFormat {
        LogFormat::Text
    }
}
