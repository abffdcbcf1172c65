//! The audit log: who changed tokens, roles and deploys, and which decisions were refused (S10.8).
//!
//! Each namespace has a chain, built like that of a timeline, and every entry is sealed with a key
//! that the database does not have. The namespace's row counts the entries: it is what appends wait
//! for, so entries have no gaps, and what shows that a tail was cut off.

use sayso_run::{
    Actor, Broken, ChainKey, ChainKeys, Digest, Head, Namespace, RunId, Seal, StoredLink,
    Timestamp, verify,
};
use serde_json::Value;
use sqlx::FromRow;
use thiserror::Error;

use crate::database::{in_transaction, on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::journal::int;
use crate::open::Store;
use crate::page::{Key, ListError, Page, PageRequest, Select, fetch_select};
use crate::record::{Why, at, bad_row, count, digest, name};

/// The version of an entry's form.
const VERSION: u16 = 1;

/// An entry to write.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAuditEntry {
    /// Who did it.
    pub actor: Actor,
    /// What kind of thing it is, such as `token.created` or `decision.refused`.
    pub kind: String,
    /// What happened: one JSON object, without secrets.
    pub content: Value,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// 1, 2, 3, without gaps in its namespace.
    pub seq: u64,
    /// When; never earlier than the entry before.
    pub at: Timestamp,
    /// Who did it.
    pub actor: Actor,
    /// What kind of thing it is.
    pub kind: String,
    /// What happened: the exact text of one JSON object.
    pub content: String,
    /// The chain's hash.
    pub hash: Digest,
}

/// Why an audit log does not verify.
#[derive(Debug, Error)]
pub enum AuditError {
    /// There is no such namespace.
    #[error("there is no namespace {0}")]
    NoNamespace(Namespace),
    /// It is broken.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl From<sqlx::Error> for AuditError {
    fn from(error: sqlx::Error) -> Self {
        AuditError::Database(error.into())
    }
}

/// The audit logs.
#[derive(Debug, Clone, Copy)]
pub struct Audit<'a>(&'a Store);

impl Store {
    /// The audit logs.
    pub fn audit(&self) -> Audit<'_> {
        Audit(self)
    }
}

/// Entries that one statement of a verification reads.
const VERIFIED_AT_ONCE: i64 = 1000;

const ENTRY: &str = "SELECT seq, at, actor, kind, version, content, content_sha256, hash, \
    seal_key, seal FROM audit WHERE namespace = $1";

impl Audit<'_> {
    /// Writes an entry at the end of the namespace's chain: its number.
    pub async fn append(
        &self,
        namespace: &Namespace,
        new: &NewAuditEntry,
        key: &ChainKey,
    ) -> Result<u64, AuditError> {
        refuse_nul(&[("kind", &new.kind)])?;
        let content = new.content.to_string();
        let content_sha256 = Digest::of(content.as_bytes());
        let chain = chain_of(namespace);
        let seq = in_transaction!(&self.0.0.database, |tx| {
            // This update is the lock: whoever comes second waits, then reads the first one's entry.
            let seq: Option<i64> = sqlx::query_scalar(
                "UPDATE namespaces SET audit_seq = audit_seq + 1 WHERE name = $1 \
                 RETURNING audit_seq",
            )
            .bind(namespace.as_str())
            .fetch_optional(&mut *tx)
            .await?;
            let seq = seq.ok_or_else(|| AuditError::NoNamespace(namespace.clone()))?;
            let before: Option<(i64, Vec<u8>)> =
                sqlx::query_as("SELECT at, hash FROM audit WHERE namespace = $1 AND seq = $2 - 1")
                    .bind(namespace.as_str())
                    .bind(seq)
                    .fetch_optional(&mut *tx)
                    .await?;
            let (earliest, previous) = match before {
                Some((time, hash)) => {
                    let bad = bad_row("audit", format!("{namespace}, {}", seq - 1));
                    (at(time), digest(&hash).map_err(bad)?)
                }
                None => (Head::START.at, Head::START.hash),
            };
            let link = Link {
                seq: seq.unsigned_abs(),
                at: self.0.0.clock.now().max(earliest),
                actor: &new.actor,
                kind: &new.kind,
                content: &content_sha256,
            };
            let hash = link.hash(&previous);
            let seal = key.seal(chain.as_str(), &hash);
            sqlx::query(
                "INSERT INTO audit (namespace, seq, at, actor, kind, version, content, \
                 content_sha256, hash, seal_key, seal) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            )
            .bind(namespace.as_str())
            .bind(seq)
            .bind(link.at.micros())
            .bind(new.actor.to_string())
            .bind(new.kind.as_str())
            .bind(i64::from(VERSION))
            .bind(content.as_str())
            .bind(content_sha256.as_bytes().as_slice())
            .bind(hash.as_bytes().as_slice())
            .bind(seal.key.as_str())
            .bind(seal.mac.as_bytes().as_slice())
            .execute(&mut *tx)
            .await?;
            seq.unsigned_abs()
        });
        Ok(seq)
    }

    /// The entries of a namespace, newest first.
    pub async fn list(
        &self,
        namespace: &Namespace,
        request: &PageRequest,
    ) -> Result<Page<AuditEntry>, ListError> {
        let key = Key {
            list: "audit",
            at: "seq",
            id: "kind",
        };
        let mut select = Select::new(ENTRY, namespace.as_str(), key, request)?;
        select.finish()?;
        let records = fetch_select!(&self.0.0.database, select, EntryRecord)?;
        let rows: Result<Vec<AuditEntry>, DatabaseError> = records
            .into_iter()
            .map(|record| {
                let bad = bad_row("audit", format!("{namespace}, {}", record.seq));
                record.entry().map_err(bad)
            })
            .collect();
        Ok(select.page(rows?, |row| (int(row.seq), row.kind.clone())))
    }

    /// Checks the whole chain and that nothing is cut off its end. Answers with the head, or names
    /// the first broken entry.
    pub async fn verify(
        &self,
        namespace: &Namespace,
        keys: &ChainKeys,
    ) -> Result<Head, AuditError> {
        let counted: Option<i64> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT audit_seq FROM namespaces WHERE name = $1")
                .bind(namespace.as_str())
                .fetch_optional(pool)
                .await
        })?;
        let counted = counted.ok_or_else(|| AuditError::NoNamespace(namespace.clone()))?;
        let links = self.links(namespace).await?;
        let head = verify(&chain_of(namespace), &links, keys)?;
        if int(head.seq) < counted {
            return Err(AuditError::Broken(Broken {
                seq: head.seq + 1,
                why: format!("it is missing: the namespace counts {counted} entries"),
            }));
        }
        Ok(head)
    }

    async fn links(&self, namespace: &Namespace) -> Result<Vec<StoredLink>, AuditError> {
        let sql = format!("{ENTRY} AND seq > $2 ORDER BY seq LIMIT $3");
        let (mut links, mut after) = (Vec::new(), 0);
        loop {
            let records: Vec<EntryRecord> = on_both!(&self.0.0.database, |pool| {
                sqlx::query_as(sqlx::AssertSqlSafe(sql.as_str()))
                    .bind(namespace.as_str())
                    .bind(after)
                    .bind(VERIFIED_AT_ONCE)
                    .fetch_all(pool)
                    .await
            })?;
            let Some(last) = records.last() else {
                return Ok(links);
            };
            after = last.seq;
            for record in records {
                let seq = record.seq.unsigned_abs();
                links.push(record.link().map_err(|why| Broken { seq, why })?);
            }
        }
    }
}

/// The name under which a namespace's chain is sealed.
fn chain_of(namespace: &Namespace) -> RunId {
    RunId::new(format!("run_{namespace}")).expect("a namespace has only characters of an id")
}

/// What an entry's hash covers: the same, in the same order, as that of a step.
struct Link<'a> {
    seq: u64,
    at: Timestamp,
    actor: &'a Actor,
    kind: &'a str,
    content: &'a Digest,
}

impl Link<'_> {
    fn hash(&self, previous: &Digest) -> Digest {
        Digest::of_parts(&[
            previous.as_bytes(),
            &self.seq.to_be_bytes(),
            &self.at.micros().to_be_bytes(),
            self.actor.to_string().as_bytes(),
            self.kind.as_bytes(),
            &VERSION.to_be_bytes(),
            self.content.as_bytes(),
        ])
    }
}

#[derive(FromRow)]
struct EntryRecord {
    seq: i64,
    at: i64,
    actor: String,
    kind: String,
    version: i64,
    content: String,
    content_sha256: Vec<u8>,
    hash: Vec<u8>,
    seal_key: String,
    seal: Vec<u8>,
}

impl EntryRecord {
    fn entry(self) -> Result<AuditEntry, Why> {
        Ok(AuditEntry {
            seq: count(self.seq)?,
            at: at(self.at),
            actor: name(self.actor)?,
            kind: self.kind,
            content: self.content,
            hash: digest(&self.hash)?,
        })
    }

    fn link(self) -> Result<StoredLink, Why> {
        Ok(StoredLink {
            seq: count(self.seq)?,
            at: at(self.at),
            actor: name(self.actor)?,
            kind: self.kind,
            version: count(self.version)?,
            content: Some(self.content),
            content_sha256: digest(&self.content_sha256)?,
            hash: digest(&self.hash)?,
            seal: Some(Seal {
                key: self.seal_key,
                mac: digest(&self.seal)?,
            }),
        })
    }
}
