//! A connection past the store, for tampering and for standing in its way.

use sayso_store::Kind;
use sayso_store::testing::TestDatabase;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

pub(crate) enum Raw {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

impl Raw {
    pub(crate) async fn open(db: &TestDatabase) -> Self {
        match db.kind() {
            Kind::Postgres => Raw::Postgres(PgConnection::connect(db.url()).await.unwrap()),
            Kind::Sqlite => Raw::Sqlite(SqliteConnection::connect(db.url()).await.unwrap()),
        }
    }

    /// Runs a statement: how many rows it changed.
    pub(crate) async fn execute(&mut self, sql: &str) -> u64 {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        match self {
            Raw::Postgres(connection) => {
                statement.execute(connection).await.unwrap().rows_affected()
            }
            Raw::Sqlite(connection) => statement.execute(connection).await.unwrap().rows_affected(),
        }
    }

    pub(crate) async fn count(&mut self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Raw::Postgres(connection) => {
                sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
            }
            Raw::Sqlite(connection) => sqlx::query_scalar(sql).fetch_one(connection).await.unwrap(),
        }
    }
}
