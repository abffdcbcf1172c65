//! The contract of the store, over both databases; the contract of its journal over the simulated
//! one too.
//!
//! Postgres is the server of `SAYSO_TEST_POSTGRES`, which `cargo xtask test` sets; each test makes a
//! database of its own. SQLite runs in a temporary folder.

#![expect(
    clippy::unwrap_used,
    reason = "a failing test prints the place, helpers included"
)]

mod raw;
mod simulated;
mod subject;
mod timeline;

mod appends;
mod audit;
mod contention;
mod conversations;
mod delegation;
mod heartbeat;
mod integrity;
mod leases;
mod lists;
mod marks;
mod repositories;
mod secrets;
mod spending;
mod targets;
mod ticks;
mod unclear;
mod views;

/// Runs each test over both databases.
macro_rules! on_both_databases {
    ($($name:ident),* $(,)?) => {
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(
                    &sayso_store::testing::TestDatabase::new(sayso_store::Kind::Postgres).await,
                )
                .await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(
                    &sayso_store::testing::TestDatabase::new(sayso_store::Kind::Sqlite).await,
                )
                .await;
            })*
        }
    };
}

/// Runs each test over both databases and over the simulated one.
macro_rules! on_all_databases {
    ($($name:ident),* $(,)?) => {
        $crate::on_both_databases!($($name),*);
        mod simulated {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&$crate::simulated::SimulatedDatabase::new()).await;
            })*
        }
    };
}

pub(crate) use {on_all_databases, on_both_databases};
