//! Webhooks: names under which calls from outside start an agent (S8.5). Changed by deploys alone.

use sayso_rules::bundle::{Trigger, WebhookTrigger};
use sayso_run::{AgentName, Namespace, PrincipalId, Timestamp, Trust};
use sqlx::FromRow;

use crate::database::on_both;
use crate::error::DatabaseError;
use crate::open::Store;
use crate::record::{Why, at, bad_row, name, word};

/// One webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerRow {
    /// Its name, unique in the namespace.
    pub name: String,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent that it starts.
    pub agent: AgentName,
    /// The name of the secret that signs its calls.
    pub secret: String,
    /// The trust of its runs (S5.7).
    pub trust: Trust,
    /// Who changed it last, and stands behind its runs (S6.10).
    pub changed_by: PrincipalId,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// The table of webhooks.
#[derive(Debug, Clone, Copy)]
pub struct Triggers<'a>(&'a Store);

impl Store {
    /// The table of webhooks.
    pub fn triggers(&self) -> Triggers<'_> {
        Triggers(self)
    }
}

impl Triggers<'_> {
    /// A webhook by its name.
    pub async fn get(
        &self,
        namespace: &Namespace,
        webhook: &str,
    ) -> Result<Option<TriggerRow>, DatabaseError> {
        let record: Option<TriggerRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT name, namespace, agent, secret, trust, changed_by, updated_at \
                 FROM triggers WHERE namespace = $1 AND name = $2",
            )
            .bind(namespace.as_str())
            .bind(webhook)
            .fetch_optional(pool)
            .await
        })?;
        record.map(TriggerRecord::read).transpose()
    }
}

/// The webhooks among a bundle's triggers.
pub(crate) fn webhooks(triggers: &[Trigger]) -> Vec<&WebhookTrigger> {
    let webhooks = triggers.iter().filter_map(|trigger| match trigger {
        Trigger::Webhook(webhook) => Some(webhook),
        Trigger::Cron(_) => None,
    });
    webhooks.collect()
}

pub(crate) const NAMES_OF_AGENT: &str =
    "SELECT name FROM triggers WHERE namespace = $1 AND agent = $2 ORDER BY name";

pub(crate) const REMOVE: &str = "DELETE FROM triggers WHERE namespace = $1 AND name = $2";

pub(crate) const OWNER: &str = "SELECT agent FROM triggers WHERE namespace = $1 AND name = $2";

/// Changes nothing where the name is another agent's. Who stands behind it changes with what it says.
pub(crate) const PUT: &str = "INSERT INTO triggers (namespace, name, agent, secret, trust, \
    changed_by, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7) \
    ON CONFLICT (namespace, name) DO UPDATE SET secret = EXCLUDED.secret, trust = EXCLUDED.trust, \
    changed_by = CASE WHEN triggers.secret = EXCLUDED.secret AND triggers.trust = EXCLUDED.trust \
    THEN triggers.changed_by ELSE EXCLUDED.changed_by END, \
    updated_at = CASE WHEN triggers.secret = EXCLUDED.secret AND triggers.trust = EXCLUDED.trust \
    THEN triggers.updated_at ELSE EXCLUDED.updated_at END \
    WHERE triggers.agent = EXCLUDED.agent";

#[derive(FromRow)]
struct TriggerRecord {
    name: String,
    namespace: String,
    agent: String,
    secret: String,
    trust: String,
    changed_by: String,
    updated_at: i64,
}

impl TriggerRecord {
    fn read(self) -> Result<TriggerRow, DatabaseError> {
        let bad = bad_row("triggers", self.name.clone());
        let read = || -> Result<TriggerRow, Why> {
            Ok(TriggerRow {
                name: self.name,
                namespace: name(self.namespace)?,
                agent: name(self.agent)?,
                secret: self.secret,
                trust: word(&self.trust)?,
                changed_by: name(self.changed_by)?,
                updated_at: at(self.updated_at),
            })
        };
        read().map_err(bad)
    }
}
