use std::collections::BTreeMap;
use std::time::Duration;

use sayso_service::config::{SecretSource, Smtp};
use sayso_store::SecretKeys;

/// How the notifier works. Times beside these are promises (S8.1) and cannot be set.
#[derive(Debug, Clone)]
pub struct NotifierConfig {
    /// Where people reach the pages: a link to an approval is this and `/approvals/<id>`.
    pub public_url: String,
    /// The installation's secrets that sign what is sent, by the names that bundles use: for names
    /// that are not stored. Each is looked up when it is needed, so one that comes later is found.
    pub secrets: BTreeMap<String, SecretSource>,
    /// What stored secrets are encrypted with; none if there can be none.
    pub secret_keys: Option<SecretKeys>,
    /// The mail server; none if no e-mail is sent.
    pub smtp: Option<Smtp>,
    /// The longest time between two looks at what is due. Events on the bus and the time at which
    /// the next retry is due shorten it.
    pub every: Duration,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// How long a claimed delivery belongs to this notifier. Longer than `timeout`, or a slow
    /// receiver is posted to twice.
    pub claim: Duration,
    /// How long deliveries that are under way may take to end when the notifier is stopped.
    pub drain: Duration,
}

impl NotifierConfig {
    /// The times of the design, with what has no default.
    pub fn new(public_url: impl Into<String>, secrets: BTreeMap<String, SecretSource>) -> Self {
        Self {
            public_url: public_url.into(),
            secrets,
            secret_keys: None,
            smtp: None,
            every: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            claim: Duration::from_secs(30),
            drain: Duration::from_secs(5),
        }
    }
}
