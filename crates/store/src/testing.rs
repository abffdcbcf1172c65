//! Fresh databases for tests, one a test.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;
use uuid::Uuid;

use crate::database::Kind;
use crate::open::{Store, StoreConfig};

/// The variable with the URL of a Postgres superuser.
const POSTGRES: &str = "SAYSO_TEST_POSTGRES";

/// A database of its own for one test; goes away with it.
#[derive(Debug)]
pub struct TestDatabase {
    url: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Postgres {
        server: String,
        name: String,
    },
    Sqlite {
        #[expect(dead_code, reason = "the folder goes away with it")]
        folder: TempDir,
    },
}

impl TestDatabase {
    /// Makes an empty database.
    ///
    /// # Panics
    ///
    /// If it cannot be made; without `SAYSO_TEST_POSTGRES` the message says how to run the tests.
    pub async fn new(kind: Kind) -> Self {
        match kind {
            Kind::Postgres => Self::postgres().await,
            Kind::Sqlite => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let path = folder.path().join("sayso.db");
                Self {
                    url: format!("sqlite://{}", path.display()),
                    place: Place::Sqlite { folder },
                }
            }
        }
    }

    async fn postgres() -> Self {
        let server = std::env::var(POSTGRES)
            .unwrap_or_else(|_| panic!("{POSTGRES} is not set: run cargo xtask test"));
        let name = format!("sayso_test_{}", Uuid::now_v7().simple());
        let mut connection = connect(&server).await;
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&mut connection)
            .await
            .expect("a superuser may make databases");
        let (before, query) = match server.split_once('?') {
            Some((before, query)) => (before, format!("?{query}")),
            None => (server.as_str(), String::new()),
        };
        let after_scheme = before.find("://").map_or(0, |at| at + 3);
        let authority = match before[after_scheme..].find('/') {
            Some(at) => &before[..after_scheme + at],
            None => before,
        };
        Self {
            url: format!("{authority}/{name}{query}"),
            place: Place::Postgres { server, name },
        }
    }

    /// Its URL, as [`Store::open`] takes it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Which database it is.
    pub fn kind(&self) -> Kind {
        match self.place {
            Place::Postgres { .. } => Kind::Postgres,
            Place::Sqlite { .. } => Kind::Sqlite,
        }
    }

    /// Opens it; each store has a journal of its own, as each process has.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub async fn store(&self) -> Store {
        let config = StoreConfig {
            patience: Duration::from_secs(5),
            ..StoreConfig::default()
        };
        self.store_with(config).await
    }

    /// Opens it in a way of its own.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub async fn store_with(&self, config: StoreConfig) -> Store {
        Store::open(&self.url, config)
            .await
            .unwrap_or_else(|error| panic!("{} does not open: {error:?}", self.url))
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let Place::Postgres { server, name } = &self.place else {
            return;
        };
        let (server, name) = (server.clone(), name.clone());
        let drop_it = async move {
            let mut connection = connect(&server).await;
            sqlx::query(AssertSqlSafe(format!("DROP DATABASE {name} WITH (FORCE)")))
                .execute(&mut connection)
                .await
        };
        // The test's own runtime may be going down: another one does it.
        let dropped = std::thread::spawn(|| {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(drop_it)
        });
        if !std::thread::panicking() {
            dropped
                .join()
                .expect("dropping does not panic")
                .expect("a superuser may drop databases");
        }
    }
}

async fn connect(server: &str) -> PgConnection {
    PgConnection::connect(server)
        .await
        .unwrap_or_else(|error| panic!("the server of {POSTGRES} does not answer: {error}"))
}
