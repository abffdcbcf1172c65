//! What the sweeps ask of the database beside its timelines.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use sayso_driver::Journal;
use sayso_run::WorkerId;
use sayso_store::{DatabaseError, RunRef, Store, Worker};

/// The questions of the sweeps. Lists hold at most `limit` entries; what is left out comes with the
/// next sweep.
pub trait Watched: Journal {
    /// Why a question was not answered: the database is away.
    type Error: Display + Send;

    /// Every worker that is not marked dead.
    fn live_workers(&self) -> impl Future<Output = Result<Vec<Worker>, Self::Error>> + Send;

    /// Marks a worker dead if its counter is still `seen`: whether it was marked.
    fn mark_dead(
        &self,
        worker: &WorkerId,
        seen: u64,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Makes runs ready whose worker is marked dead, and answers with those.
    fn orphans(&self, limit: u32) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;

    /// Runs that have been ready for longer and that no live worker holds.
    fn ready(
        &self,
        older_than: Duration,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;

    /// Runs with a pending approval whose time has passed by the database's clock.
    fn expired(&self, limit: u32) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;

    /// Runs whose published mark lags and whose last step is older.
    fn unpublished(
        &self,
        older_than: Duration,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;

    /// Runs still `running` whose worker was marked dead longer ago.
    fn abandoned(
        &self,
        after: Duration,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;

    /// Live runs that nobody holds and that have ends of children to take.
    fn waiting_parents(
        &self,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;

    /// Runs that have ended for good, with ends of children that are not on their record yet.
    fn late_parents(
        &self,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;

    /// Runs that have ended with calls under way whose worker is marked dead.
    fn lost(&self, limit: u32) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;

    /// Live runs whose parent has ended.
    fn parentless(
        &self,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<RunRef>, Self::Error>> + Send;
}

impl Watched for Store {
    type Error = DatabaseError;

    async fn live_workers(&self) -> Result<Vec<Worker>, DatabaseError> {
        self.workers().live().await
    }

    async fn mark_dead(&self, worker: &WorkerId, seen: u64) -> Result<bool, DatabaseError> {
        self.workers().mark_dead(worker, seen).await
    }

    async fn orphans(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().orphans(limit).await
    }

    async fn ready(&self, older_than: Duration, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().ready(older_than, limit).await
    }

    async fn expired(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().expired(limit).await
    }

    async fn unpublished(
        &self,
        older_than: Duration,
        limit: u32,
    ) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().unpublished(older_than, limit).await
    }

    async fn abandoned(&self, after: Duration, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().abandoned(after, limit).await
    }

    async fn waiting_parents(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().waiting_parents(limit).await
    }

    async fn late_parents(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().late_parents(limit).await
    }

    async fn lost(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().lost(limit).await
    }

    async fn parentless(&self, limit: u32) -> Result<Vec<RunRef>, DatabaseError> {
        self.sweep().parentless(limit).await
    }
}
