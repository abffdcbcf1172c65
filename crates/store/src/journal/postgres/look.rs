use sayso_run::RunId;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};
use uuid::Uuid;

use crate::database::Kind;
use crate::journal::verdict::{Finding, FoundRow};
use crate::journal::{Member, int};

/// Waits until no other transaction is writing these rows: a connection that was lost may still
/// have one under way.
const WAIT: &str = "SELECT id FROM runs WHERE id = ANY($1) ORDER BY id FOR UPDATE";

/// What the database holds for each member. The time is read last, so that a deadline which the
/// update found passed is found passed here.
pub(super) async fn look(
    connection: &mut PgConnection,
    group: &[Member],
) -> Result<Vec<Finding>, sqlx::Error> {
    let unclear: Vec<&str> = group
        .iter()
        .filter(|member| member.unclear)
        .map(|member| member.append.run.as_str())
        .collect();
    if !unclear.is_empty() {
        sqlx::query(WAIT)
            .bind(unclear)
            .execute(&mut *connection)
            .await?;
    }
    let mut found = Vec::with_capacity(group.len());
    for member in group {
        found.push(look_at(connection, member).await?);
    }
    Ok(found)
}

async fn look_at(connection: &mut PgConnection, member: &Member) -> Result<Finding, sqlx::Error> {
    let append = &member.append;
    let sql = format!(
        "SELECT r.seq, r.epoch, CASE WHEN r.worker IS NULL THEN 0 ELSE 1 END::bigint, \
         CASE WHEN EXISTS (SELECT 1 FROM workers w WHERE w.id = r.worker AND w.ended_at IS NULL) \
         THEN 1 ELSE 0 END::bigint, r.lease_append, s.append, t.run, t.start_request, {now} \
         FROM (SELECT 1) one \
         LEFT JOIN runs r ON r.id = $1 \
         LEFT JOIN steps s ON s.run = $1 AND s.seq = $2 \
         LEFT JOIN tasks t ON t.namespace = $3 AND t.principal = $4 AND t.start_key = $5",
        now = Kind::Postgres.now()
    );
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(append.run.as_str())
        .bind(int(append.expected + 1))
        .bind(append.row.namespace.as_str())
        .bind(append.row.principal.as_str())
        .bind(append.start_key.as_ref().map(|key| key.key.as_str()))
        .fetch_one(connection)
        .await?;
    let seq: Option<i64> = row.try_get(0)?;
    let found = match seq {
        None => None,
        Some(seq) => Some(FoundRow {
            seq: seq.unsigned_abs(),
            epoch: row.try_get::<i64, _>(1)?.unsigned_abs(),
            held: row.try_get::<i64, _>(2)? == 1,
            holder_alive: row.try_get::<i64, _>(3)? == 1,
            lease_append: id(row.try_get(4)?),
        }),
    };
    let same_key = match (row.try_get::<Option<&str>, _>(6)?, row.try_get(7)?) {
        (Some(run), Some(request)) => {
            let run = RunId::new(run).map_err(|bad| sqlx::Error::Decode(Box::new(bad)))?;
            Some((run, request))
        }
        _ => None,
    };
    Ok(Finding {
        step: id(row.try_get(5)?),
        row: found,
        same_key,
        now: row.try_get(8)?,
    })
}

fn id(bytes: Option<&[u8]>) -> Option<Uuid> {
    bytes.and_then(|bytes| Uuid::from_slice(bytes).ok())
}
