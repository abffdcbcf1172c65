//! What the toolbox knows of secrets: it gives them to servers, and takes them out of what comes back
//! (S3.10).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use sayso_rules::Redaction;
use sayso_rules::bundle::secrets::{expand, refers};
use sayso_rules::bundle::{Server, Transport};
use sayso_run::{AgentName, Digest, Namespace};

use crate::storage::StorageError;

/// The secrets of a namespace.
#[derive(Clone, Default)]
pub struct KnownSecrets {
    values: BTreeMap<Option<AgentName>, BTreeMap<String, String>>,
    redaction: Arc<Redaction>,
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KnownSecrets({:?})", self.redaction)
    }
}

impl KnownSecrets {
    /// Secrets by whose they are, name and value; `redaction` is what an installation redacts by name.
    pub fn new(
        redaction: &Redaction,
        secrets: impl IntoIterator<Item = (Option<AgentName>, String, String)>,
    ) -> Self {
        let mut values: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for (agent, name, value) in secrets {
            values.entry(agent).or_default().insert(name, value);
        }
        let all = values.values().flat_map(BTreeMap::values);
        let redaction = Arc::new(redaction.clone().with_values(all));
        Self { values, redaction }
    }

    /// What no text may show: the values of all agents.
    pub fn redaction(&self) -> &Arc<Redaction> {
        &self.redaction
    }

    /// What an agent has under a name: its own, else its namespace's.
    fn value(&self, agent: &AgentName, name: &str) -> Option<&str> {
        let own = self.values.get(&Some(agent.clone()));
        let found = own.and_then(|own| own.get(name));
        found
            .or_else(|| self.values.get(&None)?.get(name))
            .map(String::as_str)
    }
}

/// Where secrets are kept.
#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// The secrets of a namespace, at most a second old.
    ///
    /// # Errors
    ///
    /// [`StorageError`] if they cannot be read or opened.
    async fn of(&self, namespace: &Namespace) -> Result<Arc<KnownSecrets>, StorageError>;

    /// The same, read now: where one is missing that may have been set a moment ago.
    ///
    /// # Errors
    ///
    /// As of [`Secrets::of`].
    async fn now(&self, namespace: &Namespace) -> Result<Arc<KnownSecrets>, StorageError> {
        self.of(namespace).await
    }
}

/// No secrets: of agents that have none.
#[derive(Debug, Clone, Default)]
pub struct NoSecrets;

#[async_trait]
impl Secrets for NoSecrets {
    async fn of(&self, _: &Namespace) -> Result<Arc<KnownSecrets>, StorageError> {
        Ok(Arc::default())
    }
}

/// A server with the values of the secrets that it refers to.
pub(crate) struct Filled<'b> {
    pub(crate) server: Cow<'b, Server>,
    /// Of the values: a server that was started with others is another one.
    pub(crate) fingerprint: Option<Digest>,
}

/// Puts an agent's secrets in their places in a server's environment or headers.
///
/// # Errors
///
/// What is wrong, without any value.
pub(crate) fn fill<'b>(
    server: &'b Server,
    agent: &AgentName,
    secrets: &KnownSecrets,
) -> Result<Filled<'b>, String> {
    let pairs = match &server.transport {
        Transport::Stdio { env, .. } => env,
        Transport::Http { headers, .. } => headers,
    };
    if !pairs.values().any(|value| refers(value)) {
        return Ok(Filled {
            server: Cow::Borrowed(server),
            fingerprint: None,
        });
    }
    let mut filled = server.clone();
    let pairs = match &mut filled.transport {
        Transport::Stdio { env, .. } => env,
        Transport::Http { headers, .. } => headers,
    };
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for value in pairs.values_mut().filter(|value| refers(value)) {
        let whole = expand(value, |name| secrets.value(agent, name));
        *value = whole.map_err(|missing| missing.to_string())?;
        parts.push(Digest::of(value.as_bytes()).as_bytes().to_vec());
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(Filled {
        server: Cow::Owned(filled),
        fingerprint: Some(Digest::of_parts(&parts)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sayso_rules::Bundle;

    /// S3.10: an agent's own secret counts before its namespace's, and another agent's never.
    #[test]
    fn s3_10_an_agents_own_secret_counts_first() {
        let bundle = "name: a\nservers: {s: {command: [x], env: {K: 'v=${secret:K}', P: plain}}}";
        let bundle = Bundle::parse(bundle).unwrap();
        let server = &bundle.servers["s"];
        let agent = |name: &str| AgentName::new(name).unwrap();
        let secret = |of: Option<&str>, value: &str| (of.map(agent), "K".into(), value.into());
        let known = KnownSecrets::new(
            &Redaction::default(),
            [
                secret(None, "shared-value"),
                secret(Some("desk"), "desks-value"),
            ],
        );
        let env = |name: &str| match fill(server, &agent(name), &known)
            .unwrap()
            .server
            .into_owned()
        {
            Server {
                transport: Transport::Stdio { env, .. },
                ..
            } => env["K"].clone(),
            Server { .. } => unreachable!("it has a command"),
        };
        assert_eq!(env("desk"), "v=desks-value");
        assert_eq!(env("till"), "v=shared-value");
        let none = KnownSecrets::default();
        let missing = fill(server, &agent("desk"), &none).err().unwrap();
        assert!(missing.contains("sayso secret set K"), "{missing}");
        let text = "desks-value and shared-value";
        assert_eq!(known.redaction().view(text), "[redacted] and [redacted]");
        assert!(!format!("{known:?}").contains("value\""));
    }
}
