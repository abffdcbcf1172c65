//! Spending: what models cost, by namespace and month, and the most that they may (S4.6).
//!
//! What an answer costs is added in the append that records it, to a row that only its worker writes,
//! so workers never wait for each other and nothing is counted twice or not at all. The check before
//! a request sums these rows. A month is a calendar month in UTC, by the time of the step.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sayso_driver::Budget;
use sayso_run::{Money, Month, Namespace, PrincipalId, Timestamp};
use sqlx::{AssertSqlSafe, FromRow};

use crate::database::{on_both, write_on_both};
use crate::error::DatabaseError;
use crate::journal::int;
use crate::open::Store;
use crate::record::{Why, at, bad_row, count, name};

/// How long a cap, or that there is none, is known without asking. What was spent is always asked.
const FRESH: Duration = Duration::from_secs(1);

/// The part of a cap that is announced, in hundredths.
const ANNOUNCED_AT: i64 = 80;

/// A namespace's cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRow {
    /// The most that models may cost in a month.
    pub cap: Money,
    /// Who set it.
    pub set_by: PrincipalId,
    /// When.
    pub set_at: Timestamp,
}

/// What models cost in one month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonthlySpend {
    /// The month, as in `2026-03`.
    pub month: String,
    /// What was spent; none of answers of models without a price.
    pub spent: Option<Money>,
    /// How many answers that was.
    pub answers: u64,
    /// Tokens of the requests, cached ones included.
    pub tokens_input: u64,
    /// Tokens of the answers.
    pub tokens_output: u64,
}

/// A namespace that has come near its cap this month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearCap {
    /// The namespace.
    pub namespace: Namespace,
    /// Its cap.
    pub cap: Money,
    /// What was spent.
    pub spent: Money,
}

/// The caps that this process has read lately.
#[derive(Debug, Default)]
pub(crate) struct KnownCaps(Mutex<HashMap<Namespace, (Instant, Option<Money>)>>);

impl KnownCaps {
    fn get(&self, namespace: &Namespace) -> Option<Option<Money>> {
        // Insertions leave the map whole, whoever panicked.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (read, cap) = known.get(namespace)?;
        (read.elapsed() < FRESH).then_some(*cap)
    }

    fn put(&self, namespace: &Namespace, cap: Option<Money>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (read, _)| read.elapsed() < FRESH);
        known.insert(namespace.clone(), (Instant::now(), cap));
    }
}

/// The tables of caps and of what was spent.
#[derive(Debug, Clone, Copy)]
pub struct Budgets<'a>(&'a Store);

impl Store {
    /// The tables of caps and of what was spent.
    pub fn budgets(&self) -> Budgets<'_> {
        Budgets(self)
    }
}

impl Budgets<'_> {
    /// Sets the cap of a namespace from now on: the one before, if there was one.
    pub async fn set(
        &self,
        namespace: &Namespace,
        cap: Money,
        by: &PrincipalId,
    ) -> Result<Option<BudgetRow>, DatabaseError> {
        let before = self.get(namespace).await?;
        let sql = format!(
            "INSERT INTO budgets (namespace, cap, currency, set_by, set_at, announced) \
             VALUES ($1, $2, $3, $4, {now}, '') ON CONFLICT (namespace) DO UPDATE SET \
             cap = EXCLUDED.cap, currency = EXCLUDED.currency, set_by = EXCLUDED.set_by, \
             set_at = EXCLUDED.set_at, announced = ''",
            now = self.0.0.database.now()
        );
        write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(AssertSqlSafe(sql))
                .bind(namespace.as_str())
                .bind(int(cap.millionths()))
                .bind(cap.currency().as_str())
                .bind(by.as_str())
                .execute(pool)
                .await
                .map(|_| ())
        })?;
        self.0.0.caps.put(namespace, Some(cap));
        Ok(before)
    }

    /// Takes the cap away: the one that there was, or `None`.
    pub async fn remove(&self, namespace: &Namespace) -> Result<Option<BudgetRow>, DatabaseError> {
        let record: Option<BudgetRecord> = write_on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "DELETE FROM budgets WHERE namespace = $1 \
                 RETURNING namespace, cap, currency, set_by, set_at",
            )
            .bind(namespace.as_str())
            .fetch_optional(pool)
            .await
        })?;
        self.0.0.caps.put(namespace, None);
        record.map(BudgetRecord::read).transpose()
    }

    /// The cap of a namespace, if it has one.
    pub async fn get(&self, namespace: &Namespace) -> Result<Option<BudgetRow>, DatabaseError> {
        let record: Option<BudgetRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT namespace, cap, currency, set_by, set_at FROM budgets \
                 WHERE namespace = $1",
            )
            .bind(namespace.as_str())
            .fetch_optional(pool)
            .await
        })?;
        record.map(BudgetRecord::read).transpose()
    }

    /// The cap and what was spent of it in the month of `now`; `None` if there is no cap.
    pub async fn standing(
        &self,
        namespace: &Namespace,
        now: Timestamp,
    ) -> Result<Option<Budget>, DatabaseError> {
        let cap = match self.0.0.caps.get(namespace) {
            Some(cap) => cap,
            None => {
                let cap = self.get(namespace).await?.map(|row| row.cap);
                self.0.0.caps.put(namespace, cap);
                cap
            }
        };
        let Some(cap) = cap else { return Ok(None) };
        let month = Month::of(now);
        let spent: i64 = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar(
                "SELECT CAST(COALESCE(SUM(spent), 0) AS BIGINT) FROM usage \
                 WHERE namespace = $1 AND month = $2 AND currency = $3",
            )
            .bind(namespace.as_str())
            .bind(month.to_string())
            .bind(cap.currency().as_str())
            .fetch_one(pool)
            .await
        })?;
        Ok(Some(Budget {
            cap,
            spent: Money::new(spent.unsigned_abs(), cap.currency()),
            resets_at: month.end(),
        }))
    }

    /// What was spent, by month and currency, the newest month first.
    pub async fn spent(
        &self,
        namespace: &Namespace,
        months: u32,
    ) -> Result<Vec<MonthlySpend>, DatabaseError> {
        let records: Vec<SpendRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT month, currency, CAST(SUM(spent) AS BIGINT) AS spent, \
                 CAST(SUM(answers) AS BIGINT) AS answers, \
                 CAST(SUM(tokens_input) AS BIGINT) AS tokens_input, \
                 CAST(SUM(tokens_output) AS BIGINT) AS tokens_output \
                 FROM usage WHERE namespace = $1 GROUP BY month, currency \
                 ORDER BY month DESC, currency LIMIT $2",
            )
            .bind(namespace.as_str())
            .bind(i64::from(months))
            .fetch_all(pool)
            .await
        })?;
        records.into_iter().map(SpendRecord::read).collect()
    }

    /// Namespaces that have spent most of their cap in the month of `now` and of which nobody was
    /// told; marks them as told. Of several that ask at once, one is answered.
    pub async fn take_near(&self, now: Timestamp) -> Result<Vec<NearCap>, DatabaseError> {
        let month = Month::of(now).to_string();
        let near: Vec<NearRecord> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_as(
                "SELECT b.namespace, b.cap, b.currency, CAST(SUM(u.spent) AS BIGINT) AS spent \
                 FROM budgets b JOIN usage u ON u.namespace = b.namespace AND u.month = $1 \
                 AND u.currency = b.currency WHERE b.announced <> $1 \
                 GROUP BY b.namespace, b.cap, b.currency HAVING SUM(u.spent) * 100 >= b.cap * $2",
            )
            .bind(month.as_str())
            .bind(ANNOUNCED_AT)
            .fetch_all(pool)
            .await
        })?;
        let mut taken = Vec::new();
        for record in near {
            let told = write_on_both!(&self.0.0.database, |pool| {
                sqlx::query(
                    "UPDATE budgets SET announced = $2 WHERE namespace = $1 AND announced <> $2",
                )
                .bind(record.namespace.as_str())
                .bind(month.as_str())
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
            })?;
            if told == 1 {
                taken.push(record.read()?);
            }
        }
        Ok(taken)
    }
}

#[derive(FromRow)]
struct BudgetRecord {
    namespace: String,
    cap: i64,
    currency: String,
    set_by: String,
    set_at: i64,
}

impl BudgetRecord {
    fn read(self) -> Result<BudgetRow, DatabaseError> {
        let bad = bad_row("budgets", self.namespace);
        let read = || -> Result<BudgetRow, Why> {
            Ok(BudgetRow {
                cap: money(self.cap, &self.currency)?,
                set_by: name(self.set_by)?,
                set_at: at(self.set_at),
            })
        };
        read().map_err(bad)
    }
}

#[derive(FromRow)]
struct SpendRecord {
    month: String,
    currency: String,
    spent: i64,
    answers: i64,
    tokens_input: i64,
    tokens_output: i64,
}

impl SpendRecord {
    fn read(self) -> Result<MonthlySpend, DatabaseError> {
        let bad = bad_row("usage", self.month.clone());
        let read = || -> Result<MonthlySpend, Why> {
            let spent = match self.currency.as_str() {
                "" => None,
                currency => Some(money(self.spent, currency)?),
            };
            Ok(MonthlySpend {
                month: self.month,
                spent,
                answers: count(self.answers)?,
                tokens_input: count(self.tokens_input)?,
                tokens_output: count(self.tokens_output)?,
            })
        };
        read().map_err(bad)
    }
}

#[derive(FromRow)]
struct NearRecord {
    namespace: String,
    cap: i64,
    currency: String,
    spent: i64,
}

impl NearRecord {
    fn read(self) -> Result<NearCap, DatabaseError> {
        let bad = bad_row("budgets", self.namespace.clone());
        let read = || -> Result<NearCap, Why> {
            Ok(NearCap {
                namespace: name(self.namespace)?,
                cap: money(self.cap, &self.currency)?,
                spent: money(self.spent, &self.currency)?,
            })
        };
        read().map_err(bad)
    }
}

/// A stored amount.
pub(crate) fn money(millionths: i64, currency: &str) -> Result<Money, Why> {
    let currency = currency
        .parse()
        .map_err(|bad: sayso_run::BadMoney| bad.to_string())?;
    Ok(Money::new(count(millionths)?, currency))
}
