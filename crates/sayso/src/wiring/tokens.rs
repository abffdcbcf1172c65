//! Tokens that are made straight in the database: the first ones of an installation (S10.1).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use sayso_gateway::auth::{Scope, Scopes};
use sayso_gateway::tokens::{self, NewToken};
use sayso_run::{Actor, ChainKey, Namespace, PrincipalId, Trust};
use sayso_service::config::{Config, Need};
use sayso_store::{Store, StoreConfig};

use super::adapters::{chain_key, database_url};

/// A token to make, as it was typed.
#[derive(Debug, Clone)]
pub(crate) struct TokenRequest {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) principal: Option<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) trust: Option<String>,
    pub(crate) lifetime: Option<Duration>,
}

/// Makes a token, and its namespace if it is new, in the database that the configuration names;
/// answers with the secret, which is nowhere else.
pub(crate) async fn create_in_database(
    config: &Path,
    request: TokenRequest,
) -> anyhow::Result<String> {
    let config = Config::load(Some(config))?;
    config.require(&[Need::Database, Need::ChainKey])?;
    let store = Store::open(&database_url(&config)?, StoreConfig::default())
        .await
        .map_err(|error| anyhow!("[{}] {error}", error.code()))?;
    let secret = create(&store, &chain_key(&config)?, request).await?;
    store.close().await;
    Ok(secret)
}

pub(crate) async fn create(
    store: &Store,
    key: &ChainKey,
    request: TokenRequest,
) -> anyhow::Result<String> {
    let new = NewToken {
        namespace: Namespace::new(&request.namespace)?,
        name: PrincipalId::new(&request.name)?,
        principal: request.principal.map(PrincipalId::new).transpose()?,
        scopes: scopes(&request.scopes)?,
        trust: trust(request.trust.as_deref())?,
        lifetime: request.lifetime.unwrap_or(tokens::DEFAULT_LIFETIME),
    };
    let created = tokens::create(store, key, &Actor::System, new)
        .await
        .context("the token was not made")?;
    Ok(created.secret.expose().to_owned())
}

fn scopes(words: &[String]) -> anyhow::Result<Scopes> {
    words
        .iter()
        .map(|word| {
            Scope::parse(word).ok_or_else(|| {
                anyhow!("`{word}` is no scope: submit, read, approver, operator or admin")
            })
        })
        .collect()
}

fn trust(word: Option<&str>) -> anyhow::Result<Trust> {
    match word {
        None | Some("trusted") => Ok(Trust::Trusted),
        Some("untrusted") => Ok(Trust::Untrusted),
        Some("operator") => Ok(Trust::Operator),
        Some(other) => bail!("`{other}` is no trust: untrusted, trusted or operator"),
    }
}
