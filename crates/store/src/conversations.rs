//! Conversations and their messages (S9.1). Messages, and a conversation's last run, are written by the
//! journal alone.

use sayso_driver::{ConversationNow, KeyedMessage, MessageRow};
use sayso_run::{
    AgentName, ConversationId, Digest, IdempotencyKey, Namespace, PrincipalId, RunId, Said,
    SaidKind, Speaker, Status, Timestamp,
};
use sqlx::{AssertSqlSafe, FromRow};
use thiserror::Error;

use crate::database::{on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};
use crate::record::{Why, at, bad_row, count, name, word};

/// A conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationRow {
    /// Its id.
    pub id: ConversationId,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The channel: `portal`.
    pub channel: String,
    /// What it is about; may be empty.
    pub title: String,
    /// Who began it.
    pub created_by: PrincipalId,
    /// When.
    pub created_at: Timestamp,
    /// Its last run, and where that stands; none before the first message.
    pub last_run: Option<(RunId, Status)>,
}

/// A conversation to be made.
#[derive(Debug, Clone)]
pub struct NewConversation {
    /// Its id.
    pub id: ConversationId,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The channel.
    pub channel: &'static str,
    /// What it is about.
    pub title: String,
    /// Who begins it.
    pub created_by: PrincipalId,
    /// The key of the request.
    pub key: Option<String>,
}

/// Which conversations of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversationFilter {
    /// With this agent.
    pub agent: Option<AgentName>,
    /// Begun by this principal.
    pub created_by: Option<PrincipalId>,
}

/// A message with its place in its conversation: later ones have larger numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedMessage {
    /// The place.
    pub position: u64,
    /// The message.
    pub message: MessageRow,
}

/// Why a conversation was not made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// The key was used before with other content.
    #[error("the idempotency key `{0}` was used before with other content")]
    KeyReused(String),
    /// The database did not do it.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// The tables of conversations and messages.
#[derive(Debug, Clone, Copy)]
pub struct ConversationTable<'a>(&'a Store);

impl Store {
    /// The tables of conversations and messages.
    pub fn conversations(&self) -> ConversationTable<'_> {
        ConversationTable(self)
    }
}

const CONVERSATION: &str = "SELECT c.id, c.namespace, c.agent, c.channel, c.title, c.created_by, \
    c.created_at, c.last_run, r.status FROM conversations c LEFT JOIN runs r ON r.id = c.last_run \
    WHERE";

const MESSAGE: &str = "SELECT position, conversation, run, seq, at, speaker, name, sender, kind, text, \
    trust, secret_read, message_key, request FROM messages WHERE";

impl ConversationTable<'_> {
    /// Makes a conversation. A request that was made before under the same key is answered with the
    /// conversation that exists; true if it is new.
    ///
    /// # Errors
    ///
    /// When the key was used for something else, or the database does not work.
    pub async fn create(
        &self,
        new: &NewConversation,
    ) -> Result<(ConversationRow, bool), CreateError> {
        refuse_nul(&[
            ("title", &new.title),
            ("idempotency_key", new.key.as_deref().unwrap_or_default()),
        ])?;
        let request =
            Digest::of_parts(&[new.agent.as_str().as_bytes(), new.title.as_bytes()]).to_hex();
        let now = self.0.0.clock.now();
        let inserted: Result<u64, sqlx::Error> = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(
                "INSERT INTO conversations (id, namespace, agent, channel, title, created_by, \
                 created_at, moves, create_key, create_request) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9) ON CONFLICT DO NOTHING",
            )
            .bind(new.id.as_str())
            .bind(new.namespace.as_str())
            .bind(new.agent.as_str())
            .bind(new.channel)
            .bind(&new.title)
            .bind(new.created_by.as_str())
            .bind(now.micros())
            .bind(&new.key)
            .bind(new.key.as_ref().map(|_| &request))
            .execute(pool)
            .await
            .map(|done| done.rows_affected())
        });
        if inserted.map_err(DatabaseError::from)? == 1 {
            let row = ConversationRow {
                id: new.id.clone(),
                namespace: new.namespace.clone(),
                agent: new.agent.clone(),
                channel: new.channel.to_owned(),
                title: new.title.clone(),
                created_by: new.created_by.clone(),
                created_at: now,
                last_run: None,
            };
            return Ok((row, true));
        }
        let key = new.key.clone().unwrap_or_default();
        match self.made_before(new, &key).await? {
            Some((row, before)) if before == request => Ok((row, false)),
            _ => Err(CreateError::KeyReused(key)),
        }
    }

    async fn made_before(
        &self,
        new: &NewConversation,
        key: &str,
    ) -> Result<Option<(ConversationRow, String)>, DatabaseError> {
        let found: Option<(String, String)> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT id, create_request FROM conversations \
                 WHERE namespace = $1 AND created_by = $2 AND create_key = $3",
            )
            .bind(new.namespace.as_str())
            .bind(new.created_by.as_str())
            .bind(key)
            .fetch_optional(pool)
            .await
        })?;
        let Some((id, request)) = found else {
            return Ok(None);
        };
        let id = name(id).map_err(bad_row("conversations", key))?;
        let row = self.get(&new.namespace, &id).await?;
        Ok(row.map(|row| (row, request)))
    }

    /// One conversation.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn get(
        &self,
        namespace: &Namespace,
        id: &ConversationId,
    ) -> Result<Option<ConversationRow>, DatabaseError> {
        let sql = format!("{CONVERSATION} c.namespace = $1 AND c.id = $2");
        let record: Option<ConversationRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(id.as_str())
                .fetch_optional(pool)
                .await
        })?;
        record.map(ConversationRecord::read).transpose()
    }

    /// Conversations that the filter lets through, newest first.
    ///
    /// # Errors
    ///
    /// When the page token is none of this list, or the database does not work.
    pub async fn list(
        &self,
        namespace: &Namespace,
        filter: &ConversationFilter,
        request: &PageRequest,
    ) -> Result<Page<ConversationRow>, ListError> {
        let key = Key {
            list: "conversations",
            at: "c.created_at",
            id: "c.id",
        };
        let sql = format!("{CONVERSATION} c.namespace = $1");
        let mut select = Select::new(&sql, namespace.as_str(), key, request)?;
        select.and_text("c.agent =", filter.agent.as_ref().map(AgentName::as_str));
        let by = filter.created_by.as_ref().map(PrincipalId::as_str);
        select.and_text("c.created_by =", by);
        select.finish()?;
        let records = fetch_select!(&self.0.0.database, select, ConversationRecord)?;
        let rows: Result<Vec<_>, DatabaseError> =
            records.into_iter().map(ConversationRecord::read).collect();
        Ok(select.page(rows?, |row| {
            (row.created_at.micros(), row.id.as_str().to_owned())
        }))
    }

    /// Messages after a place, oldest first.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn messages(
        &self,
        id: &ConversationId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<PlacedMessage>, DatabaseError> {
        let sql =
            format!("{MESSAGE} conversation = $1 AND position > $2 ORDER BY position LIMIT $3");
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        let records: Vec<MessageRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(id.as_str())
                .bind(after)
                .bind(i64::from(limit))
                .fetch_all(pool)
                .await
        })?;
        records.into_iter().map(MessageRecord::read).collect()
    }

    /// The message of a run's step.
    ///
    /// # Errors
    ///
    /// When the database does not work.
    pub async fn message_of(
        &self,
        run: &RunId,
        seq: u64,
    ) -> Result<Option<PlacedMessage>, DatabaseError> {
        let sql = format!("{MESSAGE} run = $1 AND seq = $2");
        let record: Option<MessageRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(run.as_str())
                .bind(i64::try_from(seq).unwrap_or(i64::MAX))
                .fetch_optional(pool)
                .await
        })?;
        record.map(MessageRecord::read).transpose()
    }

    pub(crate) async fn now(
        &self,
        id: &ConversationId,
    ) -> Result<Option<ConversationNow>, DatabaseError> {
        let record: Option<(String, String, String, Option<String>, i64)> =
            on_both!(&self.0.0.database, |pool| {
                sqlx::query_as(
                    "SELECT namespace, agent, created_by, last_run, moves FROM conversations \
                     WHERE id = $1",
                )
                .bind(id.as_str())
                .fetch_optional(pool)
                .await
            })?;
        let Some((namespace, agent, created_by, last, moves)) = record else {
            return Ok(None);
        };
        let read = || -> Result<ConversationNow, Why> {
            Ok(ConversationNow {
                namespace: name(namespace)?,
                agent: name(agent)?,
                created_by: name(created_by)?,
                last: last.map(name).transpose()?,
                moves: count(moves)?,
            })
        };
        read()
            .map(Some)
            .map_err(bad_row("conversations", id.as_str()))
    }

    pub(crate) async fn keyed(
        &self,
        id: &ConversationId,
        sender: &PrincipalId,
        key: &str,
    ) -> Result<Option<KeyedMessage>, DatabaseError> {
        let record: Option<(String, i64, String)> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT run, seq, request FROM messages \
                 WHERE conversation = $1 AND sender = $2 AND message_key = $3 ORDER BY position",
            )
            .bind(id.as_str())
            .bind(sender.as_str())
            .bind(key)
            .fetch_optional(pool)
            .await
        })?;
        let Some((run, seq, request)) = record else {
            return Ok(None);
        };
        let read = || -> Result<KeyedMessage, Why> {
            Ok(KeyedMessage {
                run: name(run)?,
                seq: count(seq)?,
                request,
            })
        };
        read().map(Some).map_err(bad_row("messages", id.as_str()))
    }

    pub(crate) async fn newest(
        &self,
        id: &ConversationId,
        limit: usize,
    ) -> Result<(Vec<Said>, u64), DatabaseError> {
        let sql = format!("{MESSAGE} conversation = $1 ORDER BY position DESC LIMIT $2");
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let records: Vec<MessageRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(id.as_str())
                .bind(limit)
                .fetch_all(pool)
                .await
        })?;
        let in_all: i64 = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT COUNT(*) FROM messages WHERE conversation = $1")
                .bind(id.as_str())
                .fetch_one(pool)
                .await
        })?;
        let said: Result<Vec<Said>, DatabaseError> = records
            .into_iter()
            .rev()
            .map(|record| Ok(record.read()?.message.said))
            .collect();
        let in_all = count(in_all).map_err(bad_row("messages", id.as_str()))?;
        Ok((said?, in_all))
    }
}

#[derive(FromRow)]
struct ConversationRecord {
    id: String,
    namespace: String,
    agent: String,
    channel: String,
    title: String,
    created_by: String,
    created_at: i64,
    last_run: Option<String>,
    status: Option<String>,
}

impl ConversationRecord {
    fn read(self) -> Result<ConversationRow, DatabaseError> {
        let bad = bad_row("conversations", self.id.clone());
        let read = || -> Result<ConversationRow, Why> {
            let last_run = match (self.last_run, self.status) {
                (Some(run), Some(status)) => {
                    let read = Status::parse(&status);
                    Some((
                        name(run)?,
                        read.ok_or_else(|| format!("`{status}` is no status"))?,
                    ))
                }
                _ => None,
            };
            Ok(ConversationRow {
                id: name(self.id)?,
                namespace: name(self.namespace)?,
                agent: name(self.agent)?,
                channel: self.channel,
                title: self.title,
                created_by: name(self.created_by)?,
                created_at: at(self.created_at),
                last_run,
            })
        };
        read().map_err(bad)
    }
}

#[derive(FromRow)]
struct MessageRecord {
    position: i64,
    conversation: String,
    run: String,
    seq: i64,
    at: i64,
    speaker: String,
    name: String,
    sender: Option<String>,
    kind: String,
    text: String,
    trust: String,
    secret_read: i64,
    message_key: Option<String>,
    request: Option<String>,
}

impl MessageRecord {
    fn read(self) -> Result<PlacedMessage, DatabaseError> {
        let bad = bad_row("messages", self.position.to_string());
        self.try_read().map_err(bad)
    }

    fn try_read(self) -> Result<PlacedMessage, Why> {
        let by = match self.speaker.as_str() {
            "person" => Speaker::Person(name(self.name)?),
            "agent" => Speaker::Agent(name(self.name)?),
            "outside" => Speaker::Outside(self.name),
            other => return Err(format!("`{other}` says nothing")),
        };
        let kind = match self.kind.as_str() {
            "message" => SaidKind::Message,
            "question" => SaidKind::Question,
            other => return Err(format!("`{other}` is no kind of message")),
        };
        let idempotency = match (self.message_key, self.request) {
            (Some(key), Some(request)) => Some(IdempotencyKey {
                key,
                request: request
                    .parse()
                    .map_err(|_| format!("`{request}` is no digest"))?,
            }),
            _ => None,
        };
        let said = Said {
            seq: count(self.seq)?,
            at: at(self.at),
            by,
            sender: self.sender.map(name).transpose()?,
            kind,
            text: self.text,
            trust: word(&self.trust)?,
            secret_read: self.secret_read != 0,
            idempotency,
        };
        Ok(PlacedMessage {
            position: count(self.position)?,
            message: MessageRow {
                conversation: name(self.conversation)?,
                run: name(self.run)?,
                said,
            },
        })
    }
}
