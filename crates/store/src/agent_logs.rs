//! The logs of agents: what went wrong around them, for those who run them (S8.1).

use sayso_run::{AgentName, Namespace, RunId, Timestamp};
use sqlx::FromRow;
use uuid::Uuid;

use crate::database::write_on_both;
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};
use crate::record::{Why, at, bad_row, name};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For information.
    Info,
    /// Something did not work and was got over.
    Warning,
    /// Something did not work.
    Error,
}

impl LogLevel {
    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            LogLevel::Info => "info",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
        }
    }

    fn parse(text: &str) -> Result<Self, Why> {
        [LogLevel::Info, LogLevel::Warning, LogLevel::Error]
            .into_iter()
            .find(|level| level.as_str() == text)
            .ok_or_else(|| format!("`{text}` is no level"))
    }
}

/// An entry to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLogEntry {
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The run that it is about, if it is about one.
    pub run: Option<RunId>,
    /// How bad it is.
    pub level: LogLevel,
    /// A stable code.
    pub code: String,
    /// What happened, without secrets.
    pub message: String,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Its id.
    pub id: String,
    /// The run that it is about, if it is about one.
    pub run: Option<RunId>,
    /// How bad it is.
    pub level: LogLevel,
    /// A stable code.
    pub code: String,
    /// What happened.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// The table of agents' logs.
#[derive(Debug, Clone, Copy)]
pub struct AgentLogs<'a>(&'a Store);

impl Store {
    /// The table of agents' logs.
    pub fn agent_logs(&self) -> AgentLogs<'_> {
        AgentLogs(self)
    }
}

impl AgentLogs<'_> {
    /// Writes an entry.
    pub async fn append(&self, new: &NewLogEntry) -> Result<(), DatabaseError> {
        refuse_nul(&[("code", &new.code), ("message", &new.message)])?;
        write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(
                "INSERT INTO agent_logs (id, namespace, agent, run, level, code, message, at) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
            )
            .bind(format!("log_{}", Uuid::now_v7().simple()))
            .bind(new.namespace.as_str())
            .bind(new.agent.as_str())
            .bind(new.run.as_ref().map(RunId::as_str))
            .bind(new.level.as_str())
            .bind(new.code.as_str())
            .bind(new.message.as_str())
            .bind(self.0.0.clock.now().micros())
            .execute(pool)
            .await
            .map(|_| ())
        })?;
        Ok(())
    }

    /// The log of an agent, newest first.
    pub async fn list(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        request: &PageRequest,
    ) -> Result<Page<LogEntry>, ListError> {
        let key = Key {
            list: "logs",
            at: "at",
            id: "id",
        };
        let sql = "SELECT id, run, level, code, message, at FROM agent_logs WHERE namespace = $1";
        let mut select = Select::new(sql, namespace.as_str(), key, request)?;
        select.and_text("agent =", Some(agent.as_str()));
        select.finish()?;
        let records = fetch_select!(&self.0.0.database, select, LogRecord)?;
        let rows: Result<Vec<LogEntry>, DatabaseError> =
            records.into_iter().map(LogRecord::read).collect();
        Ok(select.page(rows?, |row| (row.at.micros(), row.id.clone())))
    }
}

#[derive(FromRow)]
struct LogRecord {
    id: String,
    run: Option<String>,
    level: String,
    code: String,
    message: String,
    at: i64,
}

impl LogRecord {
    fn read(self) -> Result<LogEntry, DatabaseError> {
        let bad = bad_row("agent_logs", self.id.clone());
        let read = || -> Result<LogEntry, Why> {
            Ok(LogEntry {
                id: self.id,
                run: self.run.map(name).transpose()?,
                level: LogLevel::parse(&self.level)?,
                code: self.code,
                message: self.message,
                at: at(self.at),
            })
        };
        read().map_err(bad)
    }
}
