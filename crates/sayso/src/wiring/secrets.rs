//! The store's secrets as the toolbox sees them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sayso_rules::Redaction;
use sayso_run::Namespace;
use sayso_service::config::Config;
use sayso_store::{SecretKeys, Store};
use sayso_tools::{KnownSecrets, Secrets, StorageError};

/// How long what was read may be used before it is read again. While one reads, the others go on with
/// what they have: it is never older than twice this.
const FRESH: Duration = Duration::from_millis(500);

/// Secrets in the database, kept opened for a moment: every call of a tool asks for them.
pub(crate) struct SecretStorage {
    store: Store,
    keys: Option<SecretKeys>,
    by_name: Redaction,
    known: Mutex<HashMap<Namespace, (Instant, Arc<KnownSecrets>)>>,
}

impl SecretStorage {
    pub(crate) fn new(store: Store, config: &Config) -> Self {
        Self {
            store,
            keys: secret_keys(config),
            by_name: Redaction::by_name(&config.secrets.redact),
            known: Mutex::default(),
        }
    }

    /// What is known and fresh, or being read by somebody else.
    fn known(&self, namespace: &Namespace) -> Option<Arc<KnownSecrets>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (read_at, secrets) = known.get_mut(namespace)?;
        match read_at.elapsed() {
            age if age < FRESH => Some(Arc::clone(secrets)),
            // Long unused: whoever comes now waits for what is true now.
            age if age > 2 * FRESH => None,
            _ => {
                *read_at = Instant::now();
                None
            }
        }
    }
}

#[async_trait]
impl Secrets for SecretStorage {
    async fn of(&self, namespace: &Namespace) -> Result<Arc<KnownSecrets>, StorageError> {
        match self.known(namespace) {
            Some(known) => Ok(known),
            None => self.now(namespace).await,
        }
    }

    async fn now(&self, namespace: &Namespace) -> Result<Arc<KnownSecrets>, StorageError> {
        let asked = Instant::now();
        let secrets = self.store.secrets();
        let opened = secrets.open(self.keys.as_ref(), namespace).await;
        let opened = opened.map_err(|error| {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            StorageError(format!("{error}{cause}"))
        })?;
        let secrets = opened
            .into_iter()
            .map(|secret| (secret.agent, secret.name, secret.value));
        let secrets = Arc::new(KnownSecrets::new(&self.by_name, secrets));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(namespace.clone(), (asked, Arc::clone(&secrets)));
        Ok(secrets)
    }
}

/// The keys of stored secrets, if this process has one.
pub(crate) fn secret_keys(config: &Config) -> Option<SecretKeys> {
    let current = config.secrets.key.as_ref()?;
    let previous: Vec<[u8; 32]> = config
        .secrets
        .previous
        .iter()
        .map(|key| *key.bytes())
        .collect();
    Some(SecretKeys::new(current.bytes(), &previous))
}
