//! Makes and revokes tokens (S6.11), for the API and for the command line, which makes the first
//! ones straight in the database (S10.1).

use std::time::Duration;

use sayso_driver::Journal;
use sayso_run::{Actor, ChainKey, Digest, Namespace, PrincipalId, Trust};
use sayso_store::{AuditError, DatabaseError, Store, TokenRow};
use serde_json::json;
use thiserror::Error;

use crate::audit;
use crate::auth::{Scopes, TokenSecret};

/// How long a token lives if nothing is said.
pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// The shortest life of a token.
pub const SHORTEST_LIFETIME: Duration = Duration::from_secs(60);
/// The longest life of a token: ten years.
pub const LONGEST_LIFETIME: Duration = Duration::from_secs(3653 * 24 * 60 * 60);

/// A token to make.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The tenant that it opens; made if it is new.
    pub namespace: Namespace,
    /// Its name, unique among the live tokens of the namespace: 1 to 128 of a-z, A-Z, 0-9 and
    /// . _ - @ :
    pub name: PrincipalId,
    /// Whom it acts as; none makes a principal of the token's name.
    pub principal: Option<PrincipalId>,
    /// What it may do; at least one.
    pub scopes: Scopes,
    /// The trust of tasks that it starts.
    pub trust: Trust,
    /// How long it lives.
    pub lifetime: Duration,
}

/// A token that was made. Its secret is here and nowhere else.
#[derive(Debug)]
pub struct Created {
    /// The token.
    pub token: TokenRow,
    /// What a caller sends.
    pub secret: TokenSecret,
}

/// A token by id or by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// By id.
    Id(&'a str),
    /// By the name of a live token.
    Name(&'a str),
}

/// Why a token was not made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// A live token has the name.
    #[error("a live token is called `{0}`; revoke it first, or choose another name")]
    Exists(String),
    /// It could do nothing.
    #[error("a token needs a scope")]
    NoScope,
    /// It would live too short or too long.
    #[error("a token lives from 1 minute to 10 years")]
    Lifetime,
    /// The system gives no randomness.
    #[error("the system gives no randomness")]
    Randomness(#[source] getrandom::Error),
    /// The database does not take it.
    #[error("the token cannot be stored")]
    Database(#[source] DatabaseError),
    /// It could not be written down, so it was revoked at once.
    #[error("the token cannot be written down in the audit log")]
    Audit(#[source] AuditError),
}

/// Why a token was not revoked.
#[derive(Debug, Error)]
pub enum RevokeError {
    /// There is no such token.
    #[error("the namespace has no such token")]
    NotFound,
    /// The database does not answer.
    #[error("the token cannot be revoked")]
    Database(#[source] DatabaseError),
    /// It was revoked, and that could not be written down.
    #[error("the revocation cannot be written down in the audit log")]
    Audit(#[source] AuditError),
}

/// Makes a token, and writes down who did.
///
/// # Errors
///
/// When it may not be made so, or the database or the system's randomness is away.
pub async fn create(
    store: &Store,
    key: &ChainKey,
    actor: &Actor,
    new: NewToken,
) -> Result<Created, CreateError> {
    if new.scopes.is_empty() {
        return Err(CreateError::NoScope);
    }
    if !(SHORTEST_LIFETIME..=LONGEST_LIFETIME).contains(&new.lifetime) {
        return Err(CreateError::Lifetime);
    }
    let namespace = &new.namespace;
    store
        .namespaces()
        .ensure(namespace)
        .await
        .map_err(CreateError::Database)?;
    let live = live(store, namespace, new.name.as_str())
        .await
        .map_err(CreateError::Database)?;
    if live.is_some() {
        return Err(CreateError::Exists(new.name.to_string()));
    }
    let secret = TokenSecret::generate().map_err(CreateError::Randomness)?;
    let row = sayso_store::NewToken {
        namespace: namespace.clone(),
        name: new.name.to_string(),
        principal: new.principal.unwrap_or_else(|| new.name.clone()),
        hash: Digest::from_bytes(secret.hash()),
        scopes: new
            .scopes
            .iter()
            .map(|scope| scope.as_str().to_owned())
            .collect(),
        trust: new.trust,
        created_by: maker(actor),
        expires_at: Some(store.now().plus(new.lifetime)),
    };
    let token = store
        .tokens()
        .create(&row)
        .await
        .map_err(CreateError::Database)?;
    let details = json!({
        "name": token.name,
        "principal": token.principal.as_str(),
        "scopes": token.scopes,
        "trust": token.trust.as_str(),
        "expires_at": token.expires_at.map(|at| at.to_string()),
    });
    let written = audit::done(
        store,
        key,
        namespace,
        actor,
        "token.create",
        &token.id,
        details,
    )
    .await;
    if let Err(error) = written {
        // Its secret was shown to nobody: it opens nothing, and this only tidies up.
        if let Err(error) = store.tokens().revoke(namespace, &token.id).await {
            tracing::warn!(token.id, "a token that nobody has was not revoked: {error}");
        }
        return Err(CreateError::Audit(error));
    }
    Ok(Created { token, secret })
}

/// Revokes a token, and writes down who did. One that was revoked before keeps its time.
///
/// # Errors
///
/// When there is no such token, or the database is away.
pub async fn revoke(
    store: &Store,
    key: &ChainKey,
    actor: &Actor,
    namespace: &Namespace,
    which: Which<'_>,
) -> Result<TokenRow, RevokeError> {
    let id = match which {
        Which::Id(id) => id.to_owned(),
        Which::Name(name) => {
            let live = live(store, namespace, name)
                .await
                .map_err(RevokeError::Database)?;
            live.ok_or(RevokeError::NotFound)?.id
        }
    };
    let revoked = store.tokens().revoke(namespace, &id).await;
    let revoked = revoked.map_err(RevokeError::Database)?;
    let token = revoked.ok_or(RevokeError::NotFound)?;
    let details = json!({ "name": token.name, "principal": token.principal.as_str() });
    let written = audit::done(
        store,
        key,
        namespace,
        actor,
        "token.revoke",
        &token.id,
        details,
    )
    .await;
    written.map_err(RevokeError::Audit)?;
    Ok(token)
}

/// The live token of a name.
async fn live(
    store: &Store,
    namespace: &Namespace,
    name: &str,
) -> Result<Option<TokenRow>, DatabaseError> {
    let now = store.now();
    let tokens = store.tokens().list(namespace).await?;
    let mut live = tokens.into_iter().filter(|token| token.is_valid(now));
    Ok(live.find(|token| token.name == name))
}

/// Whom a token names as its maker.
fn maker(actor: &Actor) -> PrincipalId {
    match actor {
        Actor::Principal(principal) => principal.clone(),
        Actor::Agent(agent) => PrincipalId::new(agent.as_str())
            .expect("an agent's name has only characters of a principal"),
        Actor::System => PrincipalId::new("system").expect("it has only characters of a principal"),
    }
}
