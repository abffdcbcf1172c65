use std::time::Duration;

use sayso_service::config::{Config, Model};
use tokio::net::TcpStream;

use super::{Finding, Report};
use crate::outcome::Failure;
use crate::wiring;

/// How long a provider's host may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keys, scripts and tiers, then whether each provider's host can be reached. Nothing is asked of a
/// model: that would cost money.
pub(super) async fn check(config: &Config, report: &mut Report<'_>) -> Result<(), Failure> {
    if config.models.is_empty() {
        let finding = Finding::wrong(
            "no model is configured",
            "add one under `models` and name it in `tiers.balanced`: until then runs fail",
        );
        return report.note("models", &finding);
    }
    if let Err(error) = wiring::registry(config) {
        let cause = error.root_cause().to_string();
        for line in cause.lines() {
            report.note(
                "models",
                &Finding::wrong(
                    line,
                    "correct the key, or set the variable for the executor",
                ),
            )?;
        }
    } else if config.tiers.contains_key(sayso_models::DEFAULT_TIER) {
        let tiers: Vec<&str> = config.tiers.keys().map(String::as_str).collect();
        report.note(
            "models",
            &Finding::Well(format!("tiers {}", tiers.join(", "))),
        )?;
    } else {
        let finding = Finding::wrong(
            format!("there is no tier `{}`", sayso_models::DEFAULT_TIER),
            "add it to `tiers`: agents that name no tier use it",
        );
        report.note("models", &finding)?;
    }
    for (name, model) in &config.models {
        if let Some(url) = &model.base_url {
            report.note("models", &reached(name, model, url).await)?;
        }
    }
    Ok(())
}

async fn reached(name: &str, model: &Model, url: &str) -> Finding {
    let uri: Option<tonic::codegen::http::Uri> = url.parse().ok();
    let Some((host, uri)) = uri.as_ref().and_then(|uri| Some((uri.host()?, uri))) else {
        return Finding::wrong(format!("models.{name}.base_url is no URL"), "correct it");
    };
    if std::env::var_os("HTTPS_PROXY")
        .or_else(|| std::env::var_os("https_proxy"))
        .is_some()
    {
        return Finding::Skipped(format!("{name}: a proxy stands before {host}"));
    }
    let default_port = if uri.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    let port = uri.port_u16().unwrap_or(default_port);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let connected = tokio::time::timeout(PATIENCE, TcpStream::connect((bare, port))).await;
    let why = match connected {
        Ok(Ok(_)) => return Finding::Well(format!("{name}: {host} is reached ({})", model.model)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {} s", PATIENCE.as_secs()),
    };
    Finding::wrong(
        format!("{name}: {host}:{port} is not reached: {why}"),
        format!("check the network, or models.{name}.base_url"),
    )
}
