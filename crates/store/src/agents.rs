//! Agents and their revisions. A revision never changes; which one is current, and which role the
//! agent has, does.

use sayso_rules::bundle::Trigger;
use sayso_run::{AgentName, Namespace, PrincipalId, RevisionId, Timestamp};
use sqlx::{AssertSqlSafe, FromRow};
use thiserror::Error;

use crate::database::{in_transaction, on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::{Why, at, bad_row, name};
use crate::{schedules, triggers};

/// Tells those who keep agents and roles that something changed.
pub(crate) const BUMP: &str = "UPDATE meta SET value = value + 1 WHERE key = 'policy_version'";

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRow {
    /// Its name.
    pub name: AgentName,
    /// The revision that new runs get.
    pub revision: RevisionId,
    /// Its role, if it has one.
    pub role: Option<String>,
    /// When it was deployed first.
    pub created_at: Timestamp,
    /// When revision or role last changed.
    pub updated_at: Timestamp,
}

/// One revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionRow {
    /// Its id.
    pub id: RevisionId,
    /// The bundle in its stored form.
    pub bundle: String,
    /// Who deployed it first.
    pub deployed_by: PrincipalId,
    /// When it was deployed first.
    pub created_at: Timestamp,
}

/// A bundle to deploy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deploy {
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The revision's id: the same bundle has the same.
    pub revision: RevisionId,
    /// The bundle in its stored form.
    pub bundle: String,
    /// The agent's role from now on; none leaves it as it is.
    pub role: Option<String>,
    /// What starts the agent by itself from now on (S8.5).
    pub triggers: Vec<Trigger>,
    /// Who deploys.
    pub by: PrincipalId,
}

/// Why nothing was deployed.
#[derive(Debug, Error)]
pub enum DeployError {
    /// Another agent of the namespace has a webhook of this name.
    #[error("the webhook `{webhook}` is that of the agent {agent}")]
    WebhookTaken {
        /// The name.
        webhook: String,
        /// Whose it is.
        agent: String,
    },
    /// The database did not take it.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<sqlx::Error> for DeployError {
    fn from(error: sqlx::Error) -> Self {
        DeployError::Database(error.into())
    }
}

/// What a deploy did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployed {
    /// Whether the revision did not exist before.
    pub new_revision: bool,
}

/// The tables of agents and revisions.
#[derive(Debug, Clone, Copy)]
pub struct Agents<'a>(&'a Store);

impl Store {
    /// The tables of agents and revisions.
    pub fn agents(&self) -> Agents<'_> {
        Agents(self)
    }
}

impl Agents<'_> {
    /// Goes up with every change of an agent or a role, in any namespace: whoever keeps them asks
    /// for this number instead.
    pub async fn version(&self) -> Result<u64, DatabaseError> {
        let version: i64 = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT value FROM meta WHERE key = 'policy_version'")
                .fetch_one(pool)
                .await
        })?;
        Ok(version.unsigned_abs())
    }

    /// Stores the revision unless it exists, makes it the agent's current one, and makes the agent's
    /// schedules and webhooks those of the bundle.
    pub async fn deploy(&self, deploy: &Deploy) -> Result<Deployed, DeployError> {
        let role = deploy.role.as_deref();
        refuse_nul(&[
            ("bundle", &deploy.bundle),
            ("role", role.unwrap_or_default()),
        ])?;
        let now = self.0.sync_clock().await?.micros();
        let stored_schedules = schedules::of_agent(Some(self.0.kind()));
        let webhooks = triggers::webhooks(&deploy.triggers);
        let inserted = in_transaction!(&self.0.0.database, |tx| {
            let inserted = sqlx::query(
                "INSERT INTO revisions (namespace, agent, id, bundle, deployed_by, created_at) \
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
            )
            .bind(deploy.namespace.as_str())
            .bind(deploy.agent.as_str())
            .bind(deploy.revision.as_str())
            .bind(deploy.bundle.as_str())
            .bind(deploy.by.as_str())
            .bind(now)
            .execute(&mut *tx)
            .await?
            .rows_affected();
            sqlx::query(
                "INSERT INTO agents (namespace, name, revision, role, created_at, updated_at) \
                 VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (namespace, name) DO UPDATE SET \
                 revision = EXCLUDED.revision, role = COALESCE(EXCLUDED.role, agents.role), \
                 updated_at = EXCLUDED.updated_at",
            )
            .bind(deploy.namespace.as_str())
            .bind(deploy.agent.as_str())
            .bind(deploy.revision.as_str())
            .bind(role)
            .bind(now)
            .execute(&mut *tx)
            .await?;
            // The agent's row is locked: deploys of one agent change its triggers one after another.
            let stored: Vec<schedules::ScheduleRecord> =
                sqlx::query_as(AssertSqlSafe(stored_schedules.as_str()))
                    .bind(deploy.namespace.as_str())
                    .bind(deploy.agent.as_str())
                    .fetch_all(&mut *tx)
                    .await?;
            let changes = schedules::changes(stored, deploy, now);
            for id in &changes.removed {
                sqlx::query(schedules::REMOVE)
                    .bind(id.as_str())
                    .execute(&mut *tx)
                    .await?;
            }
            for put in &changes.put {
                sqlx::query(schedules::PUT)
                    .bind(put.id.as_str())
                    .bind(deploy.namespace.as_str())
                    .bind(deploy.agent.as_str())
                    .bind(put.trigger.cron.as_str())
                    .bind(put.trigger.timezone.as_str())
                    .bind(put.trigger.input.as_str())
                    .bind(deploy.by.as_str())
                    .bind(put.next_at)
                    .bind(now)
                    .execute(&mut *tx)
                    .await?;
            }
            let names: Vec<String> = sqlx::query_scalar(triggers::NAMES_OF_AGENT)
                .bind(deploy.namespace.as_str())
                .bind(deploy.agent.as_str())
                .fetch_all(&mut *tx)
                .await?;
            let gone = |name: &&String| webhooks.iter().all(|webhook| webhook.webhook != **name);
            for name in names.iter().filter(gone) {
                sqlx::query(triggers::REMOVE)
                    .bind(deploy.namespace.as_str())
                    .bind(name.as_str())
                    .execute(&mut *tx)
                    .await?;
            }
            for webhook in &webhooks {
                let put = sqlx::query(triggers::PUT)
                    .bind(deploy.namespace.as_str())
                    .bind(webhook.webhook.as_str())
                    .bind(deploy.agent.as_str())
                    .bind(webhook.secret.as_str())
                    .bind(webhook.trust.as_str())
                    .bind(deploy.by.as_str())
                    .bind(now)
                    .execute(&mut *tx)
                    .await?
                    .rows_affected();
                if put == 0 {
                    let agent: String = sqlx::query_scalar(triggers::OWNER)
                        .bind(deploy.namespace.as_str())
                        .bind(webhook.webhook.as_str())
                        .fetch_one(&mut *tx)
                        .await?;
                    return Err(DeployError::WebhookTaken {
                        webhook: webhook.webhook.clone(),
                        agent,
                    });
                }
            }
            sqlx::query(BUMP).execute(&mut *tx).await?;
            inserted
        });
        Ok(Deployed {
            new_revision: inserted == 1,
        })
    }

    /// Gives an agent a role, or takes it away: whether there is such an agent.
    pub async fn set_role(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        role: Option<&str>,
    ) -> Result<bool, DatabaseError> {
        refuse_nul(&[("role", role.unwrap_or_default())])?;
        let now = self.0.0.clock.now().micros();
        let changed = in_transaction!(&self.0.0.database, |tx| {
            let changed = sqlx::query(
                "UPDATE agents SET role = $3, updated_at = $4 WHERE namespace = $1 AND name = $2",
            )
            .bind(namespace.as_str())
            .bind(agent.as_str())
            .bind(role)
            .bind(now)
            .execute(&mut *tx)
            .await?
            .rows_affected();
            sqlx::query(BUMP).execute(&mut *tx).await?;
            changed
        });
        Ok(changed == 1)
    }

    /// Makes an existing revision the agent's current one: whether there is such an agent with such
    /// a revision.
    pub async fn set_revision(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        revision: &RevisionId,
    ) -> Result<bool, DatabaseError> {
        let now = self.0.0.clock.now().micros();
        let changed = in_transaction!(&self.0.0.database, |tx| {
            let changed = sqlx::query(
                "UPDATE agents SET revision = $3, updated_at = $4 \
                 WHERE namespace = $1 AND name = $2 AND EXISTS (SELECT 1 FROM revisions r \
                 WHERE r.namespace = $1 AND r.agent = $2 AND r.id = $3)",
            )
            .bind(namespace.as_str())
            .bind(agent.as_str())
            .bind(revision.as_str())
            .bind(now)
            .execute(&mut *tx)
            .await?
            .rows_affected();
            sqlx::query(BUMP).execute(&mut *tx).await?;
            changed
        });
        Ok(changed == 1)
    }

    /// One agent.
    pub async fn get(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Option<AgentRow>, DatabaseError> {
        let record: Option<AgentRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT name, revision, role, created_at, updated_at FROM agents \
                 WHERE namespace = $1 AND name = $2",
            )
            .bind(namespace.as_str())
            .bind(agent.as_str())
            .fetch_optional(pool)
            .await
        })?;
        record.map(AgentRecord::read).transpose()
    }

    /// The agents of a namespace, by name.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<AgentRow>, DatabaseError> {
        let records: Vec<AgentRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT name, revision, role, created_at, updated_at FROM agents \
                 WHERE namespace = $1 ORDER BY name",
            )
            .bind(namespace.as_str())
            .fetch_all(pool)
            .await
        })?;
        records.into_iter().map(AgentRecord::read).collect()
    }

    /// One revision of an agent.
    pub async fn revision(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        revision: &RevisionId,
    ) -> Result<Option<RevisionRow>, DatabaseError> {
        let record: Option<RevisionRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT id, bundle, deployed_by, created_at FROM revisions \
                 WHERE namespace = $1 AND agent = $2 AND id = $3",
            )
            .bind(namespace.as_str())
            .bind(agent.as_str())
            .bind(revision.as_str())
            .fetch_optional(pool)
            .await
        })?;
        record.map(RevisionRecord::read).transpose()
    }

    /// The revisions of an agent, newest first.
    pub async fn revisions(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Vec<RevisionRow>, DatabaseError> {
        let records: Vec<RevisionRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT id, bundle, deployed_by, created_at FROM revisions \
                 WHERE namespace = $1 AND agent = $2 ORDER BY created_at DESC, id",
            )
            .bind(namespace.as_str())
            .bind(agent.as_str())
            .fetch_all(pool)
            .await
        })?;
        records.into_iter().map(RevisionRecord::read).collect()
    }
}

#[derive(FromRow)]
struct AgentRecord {
    name: String,
    revision: String,
    role: Option<String>,
    created_at: i64,
    updated_at: i64,
}

impl AgentRecord {
    fn read(self) -> Result<AgentRow, DatabaseError> {
        let bad = bad_row("agents", self.name.clone());
        let read = || -> Result<AgentRow, Why> {
            Ok(AgentRow {
                name: name(self.name)?,
                revision: name(self.revision)?,
                role: self.role,
                created_at: at(self.created_at),
                updated_at: at(self.updated_at),
            })
        };
        read().map_err(bad)
    }
}

#[derive(FromRow)]
struct RevisionRecord {
    id: String,
    bundle: String,
    deployed_by: String,
    created_at: i64,
}

impl RevisionRecord {
    fn read(self) -> Result<RevisionRow, DatabaseError> {
        let bad = bad_row("revisions", self.id.clone());
        let read = || -> Result<RevisionRow, Why> {
            Ok(RevisionRow {
                id: name(self.id)?,
                bundle: self.bundle,
                deployed_by: name(self.deployed_by)?,
                created_at: at(self.created_at),
            })
        };
        read().map_err(bad)
    }
}
