//! Schedules: when an agent is started by itself, and the tick at which each stands (S8.5).
//!
//! A tick is taken by the append that starts its run ([`sayso_driver::TakenTick`]): the schedule
//! moves on in the same transaction, and only from the tick at which it stands, so however many
//! schedulers see it, one starts a run. Deploys change schedules under the same rows' locks. A
//! schedule has no name, so a deploy keeps what is the same: first by all of it, then by its times;
//! what is left over takes each other's place in order. A tick that is due and not yet taken is kept
//! whatever changes, and a time that was taken does not come again.

use sayso_rules::Schedule;
use sayso_rules::bundle::{CronTrigger, Trigger};
use sayso_run::{AgentName, Namespace, PrincipalId, RevisionId, Timestamp};
use sqlx::{AssertSqlSafe, FromRow};
use uuid::Uuid;

use crate::agents::Deploy;
use crate::database::{Kind, on_both};
use crate::error::DatabaseError;
use crate::open::Store;
use crate::pauses::is_paused;
use crate::record::{Why, at, bad_row, count, name};

/// One schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRow {
    /// `sch_` and a UUID.
    pub id: String,
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// Five cron fields.
    pub cron: String,
    /// The IANA zone in which they are meant.
    pub timezone: String,
    /// What each run is asked.
    pub input: String,
    /// Who changed it last, and stands behind its runs (S6.10).
    pub changed_by: PrincipalId,
    /// The tick that is due next.
    pub next_at: Timestamp,
    /// The tick that was taken last.
    pub last_at: Option<Timestamp>,
    /// Ticks so far that no run was started for.
    pub skipped: u64,
}

impl ScheduleRow {
    /// When it is due.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::BadRow`] if what is stored is no schedule to this version.
    pub fn schedule(&self) -> Result<Schedule, DatabaseError> {
        let bad = bad_row("schedules", self.id.clone());
        Schedule::new(&self.cron, &self.timezone).map_err(|error| bad(error.to_string()))
    }
}

/// A schedule whose tick is due, and the revision that its run gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueSchedule {
    /// The schedule.
    pub schedule: ScheduleRow,
    /// The agent's current revision.
    pub revision: RevisionId,
}

/// The table of schedules.
#[derive(Debug, Clone, Copy)]
pub struct Schedules<'a>(&'a Store);

impl Store {
    /// The table of schedules.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules(self)
    }
}

const COLUMNS: &str = "s.id, s.namespace, s.agent, s.cron, s.timezone, s.input, s.changed_by, \
    s.next_at, s.last_at, s.skipped";

impl Schedules<'_> {
    /// Schedules whose tick is due by the database's clock and that are not paused, the longest
    /// first.
    pub async fn due(&self, limit: u32) -> Result<Vec<DueSchedule>, DatabaseError> {
        let sql = format!(
            "SELECT {COLUMNS}, a.revision FROM schedules s \
             JOIN agents a ON a.namespace = s.namespace AND a.name = s.agent \
             WHERE s.next_at <= {now} AND NOT {paused} ORDER BY s.next_at, s.id LIMIT $1",
            now = self.0.0.database.at_once(),
            paused = is_paused("s")
        );
        let records: Vec<DueRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(i64::from(limit))
                .fetch_all(pool)
                .await
        })?;
        records
            .into_iter()
            .map(|record| {
                let bad = bad_row("agents", record.schedule.agent.clone());
                Ok(DueSchedule {
                    schedule: record.schedule.read()?,
                    revision: name(record.revision).map_err(bad)?,
                })
            })
            .collect()
    }

    /// The schedules of an agent, in the order in which they were made.
    pub async fn of_agent(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Vec<ScheduleRow>, DatabaseError> {
        let sql = of_agent(None);
        let records: Vec<ScheduleRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(agent.as_str())
                .fetch_all(pool)
                .await
        })?;
        records.into_iter().map(ScheduleRecord::read).collect()
    }
}

/// Reads an agent's schedules; a deploy locks them in the order in which ticks are taken.
pub(crate) fn of_agent(locked_on: Option<Kind>) -> String {
    let lock = match locked_on {
        Some(Kind::Postgres) => " FOR UPDATE",
        Some(Kind::Sqlite) | None => "",
    };
    format!(
        "SELECT {COLUMNS} FROM schedules s WHERE s.namespace = $1 AND s.agent = $2 \
         ORDER BY s.id{lock}"
    )
}

pub(crate) const REMOVE: &str = "DELETE FROM schedules WHERE id = $1";

pub(crate) const PUT: &str = "INSERT INTO schedules (id, namespace, agent, cron, timezone, input, \
    changed_by, next_at, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) \
    ON CONFLICT (id) DO UPDATE SET cron = EXCLUDED.cron, timezone = EXCLUDED.timezone, \
    input = EXCLUDED.input, changed_by = EXCLUDED.changed_by, next_at = EXCLUDED.next_at, \
    updated_at = EXCLUDED.updated_at";

/// What a deploy changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changes<'d> {
    /// Ids of schedules that are no more.
    pub(crate) removed: Vec<String>,
    /// New and changed ones.
    pub(crate) put: Vec<Put<'d>>,
}

/// A schedule as a deploy writes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Put<'d> {
    pub(crate) id: String,
    pub(crate) trigger: &'d CronTrigger,
    pub(crate) next_at: i64,
}

/// What has to change for an agent to have the schedules of its bundle, and no others.
pub(crate) fn changes<'d>(
    stored: Vec<ScheduleRecord>,
    deploy: &'d Deploy,
    now: i64,
) -> Changes<'d> {
    let mut wanted: Vec<&CronTrigger> = Vec::new();
    for trigger in &deploy.triggers {
        match trigger {
            Trigger::Cron(trigger) => wanted.push(trigger),
            Trigger::Webhook(_) => {}
        }
    }
    let mut stored = stored;
    let mut put = Vec::new();
    let same_times = |record: &ScheduleRecord, trigger: &CronTrigger| {
        record.cron == trigger.cron && record.timezone == trigger.timezone
    };
    wanted.retain(|trigger| {
        let same =
            |record: &ScheduleRecord| same_times(record, trigger) && record.input == trigger.input;
        take(&mut stored, same).is_none()
    });
    wanted.retain(
        |trigger| match take(&mut stored, |record| same_times(record, trigger)) {
            Some(record) => {
                put.push(Put {
                    id: record.id,
                    trigger,
                    next_at: record.next_at,
                });
                false
            }
            None => true,
        },
    );
    for trigger in wanted {
        let replaced = take(&mut stored, |_| true);
        put.push(placed(trigger, replaced, now));
    }
    Changes {
        removed: stored.into_iter().map(|record| record.id).collect(),
        put,
    }
}

fn take(
    stored: &mut Vec<ScheduleRecord>,
    fits: impl Fn(&ScheduleRecord) -> bool,
) -> Option<ScheduleRecord> {
    let at = stored.iter().position(fits)?;
    Some(stored.remove(at))
}

/// A schedule with other times than before: a tick that is due is still to come, and the next one
/// is later than now and than the last one that was taken.
fn placed(trigger: &CronTrigger, replaced: Option<ScheduleRecord>, now: i64) -> Put<'_> {
    let taken = replaced.as_ref().and_then(|record| record.last_at);
    let due = replaced
        .as_ref()
        .map(|record| record.next_at)
        .filter(|next| *next <= now);
    let later = || {
        let after = taken.map_or(now, |last| last.max(now));
        trigger.schedule().next_after(after).unwrap_or(i64::MAX)
    };
    Put {
        id: replaced.map_or_else(new_id, |record| record.id),
        trigger,
        next_at: due.unwrap_or_else(later),
    }
}

fn new_id() -> String {
    format!("sch_{}", Uuid::now_v7().simple())
}

#[derive(FromRow)]
struct DueRecord {
    #[sqlx(flatten)]
    schedule: ScheduleRecord,
    revision: String,
}

#[derive(Debug, FromRow)]
pub(crate) struct ScheduleRecord {
    id: String,
    namespace: String,
    agent: String,
    cron: String,
    timezone: String,
    input: String,
    changed_by: String,
    next_at: i64,
    last_at: Option<i64>,
    skipped: i64,
}

impl ScheduleRecord {
    fn read(self) -> Result<ScheduleRow, DatabaseError> {
        let bad = bad_row("schedules", self.id.clone());
        let read = || -> Result<ScheduleRow, Why> {
            Ok(ScheduleRow {
                id: self.id,
                namespace: name(self.namespace)?,
                agent: name(self.agent)?,
                cron: self.cron,
                timezone: self.timezone,
                input: self.input,
                changed_by: name(self.changed_by)?,
                next_at: at(self.next_at),
                last_at: self.last_at.map(at),
                skipped: count(self.skipped)?,
            })
        };
        read().map_err(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sayso_rules::Bundle;

    const NOW: i64 = 1_767_225_600_000_000; // 2026-01-01T00:00:00Z
    const HOUR: i64 = 3_600_000_000;

    fn deploy(triggers: &str) -> Deploy {
        let bundle = Bundle::parse(&format!("name: desk\ntriggers: {triggers}")).unwrap();
        Deploy {
            namespace: Namespace::new("shop").unwrap(),
            agent: AgentName::new("desk").unwrap(),
            revision: RevisionId::new("a".repeat(64)).unwrap(),
            bundle: bundle.to_canonical_json(),
            role: None,
            triggers: bundle.triggers,
            by: PrincipalId::new("ann").unwrap(),
        }
    }

    fn stored(id: &str, cron: &str, input: &str, next_at: i64) -> ScheduleRecord {
        ScheduleRecord {
            id: id.into(),
            namespace: "shop".into(),
            agent: "desk".into(),
            cron: cron.into(),
            timezone: "UTC".into(),
            input: input.into(),
            changed_by: "bob".into(),
            next_at,
            last_at: Some(next_at - 24 * HOUR),
            skipped: 0,
        }
    }

    /// S8.5: the same schedule stays as it is, with its tick and who stands behind it.
    #[test]
    fn s8_5_a_redeploy_of_the_same_schedules_changes_nothing() {
        let again = deploy("[{cron: '0 1 * * *', input: b}, {cron: '0 1 * * *', input: a}]");
        let kept = vec![
            stored("sch_1", "0 1 * * *", "a", NOW - HOUR),
            stored("sch_2", "0 1 * * *", "b", NOW + HOUR),
        ];
        let changes = changes(kept, &again, NOW);
        assert_eq!(changes.removed, Vec::<String>::new());
        assert_eq!(changes.put, []);
    }

    /// S8.5: a tick that is due survives every change; a tick that was taken does not come again.
    #[test]
    fn s8_5_a_redeploy_neither_loses_nor_doubles_a_tick() {
        let next_of = |record: ScheduleRecord, triggers: &str| {
            let deploy = deploy(triggers);
            let changes = changes(vec![record], &deploy, NOW);
            assert_eq!(changes.put[0].id, "sch_1");
            changes.put[0].next_at
        };
        let daily = |next_at| stored("sch_1", "0 1 * * *", "a", next_at);
        let other_input = "[{cron: '0 1 * * *', input: other}]";
        let other_time = "[{cron: '0 2 * * *', input: a}]";
        assert_eq!(next_of(daily(NOW - 1), other_input), NOW - 1);
        assert_eq!(next_of(daily(NOW + HOUR), other_input), NOW + HOUR);
        assert_eq!(next_of(daily(NOW - 1), other_time), NOW - 1);
        assert_eq!(next_of(daily(NOW + HOUR), other_time), NOW + 2 * HOUR);
        let mut taken = daily(NOW + 25 * HOUR);
        taken.last_at = Some(NOW + 2 * HOUR);
        assert_eq!(next_of(taken, other_time), NOW + 26 * HOUR);
    }

    #[test]
    fn what_a_bundle_does_not_have_is_removed_and_what_is_new_begins_now() {
        let deploy = deploy("[{cron: '0 3 * * *', input: c}, {cron: '0 1 * * *', input: a}]");
        let kept = vec![
            stored("sch_1", "0 1 * * *", "a", NOW + HOUR),
            stored("sch_2", "0 2 * * *", "b", NOW + HOUR),
            stored("sch_3", "0 4 * * *", "d", NOW + HOUR),
        ];
        let changes = changes(kept, &deploy, NOW);
        assert_eq!(changes.removed, ["sch_3"]);
        assert_eq!(changes.put.len(), 1);
        assert_eq!(changes.put[0].id, "sch_2");
        assert_eq!(changes.put[0].next_at, NOW + 3 * HOUR);
    }
}
