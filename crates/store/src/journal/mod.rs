//! The journal: grouped, conditional appends.
//!
//! **One writer a process, without a timer.** While one commit is in flight the other appends queue;
//! the next commit takes up to [`crate::StoreConfig::group`] of them. An append waits at most for
//! one commit that is not its own, and under load many share one. A second append of the same run
//! waits for the next group: its condition is about the state that the first leaves.
//!
//! **Sorted by run id.** Two processes whose groups touch the same runs in different orders would
//! hold each other's rows. Sorted, they queue behind each other. What can still deadlock (two starts
//! with each other's keys) is tried again.
//!
//! **Conditions stand in the update.** Sequence number, epoch, holder and deadline are checked by the
//! statement that writes. An append whose row does not come back wrote nothing, and its neighbours
//! are not concerned.
//!
//! **A bad member fails alone.** If the database refuses a group, nothing of it was written; its
//! members are then tried one by one, so only the one at fault is refused.
//!
//! **An unclear commit is cleared up before anybody is answered.** When the connection breaks, the
//! group took effect or it did not, and an old backend may even commit it later. Steps store the
//! [`sayso_driver::Append::id`] that wrote them and the run's row the last one that changed the
//! lease, so a look at the database says which ([`verdict`]). What is not there is tried again; if
//! that conflicts, the look is repeated, since what it conflicts with may be itself.

mod check;
mod deciders;
pub(crate) mod lease;
mod postgres;
mod recipient;
mod settle;
mod sqlite;
pub(crate) mod verdict;
mod writer;

pub(crate) use postgres::{PostgresTarget, by_key};
pub(crate) use sqlite::{SqliteTarget, open as open_sqlite};
pub(crate) use writer::Writer;

use std::future::Future;
use std::time::{Duration, Instant};

use sayso_driver::{Append, AppendError, Appended};
use sayso_run::RunId;
use tokio::sync::oneshot;

use self::verdict::Finding;

/// One queued append and who waits for it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) append: Append,
    answer: oneshot::Sender<Result<Appended, AppendError>>,
    /// A commit that held it may have taken effect without an answer.
    unclear: bool,
}

impl Member {
    /// Answers; whoever asked may have gone.
    fn answer(self, with: Result<Appended, AppendError>) {
        self.answer.send(with).unwrap_or_default();
    }
}

/// Why a group was not written.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection broke: it was written, or it was not.
    Unclear(String),
    /// It was not, because of others: trying again may work.
    Again(String),
    /// It was not, and the database cannot work now.
    Down(String),
    /// It was not: a member's deadline passed while it waited for a lock.
    Late,
    /// It was not, and it never will be as it is.
    Refused(String),
}

/// One database, as the writer uses it.
pub(crate) trait Target: Send + 'static {
    /// Writes a group, all that can be written: for each member the epoch afterwards, or `None` if
    /// its conditions do not hold.
    fn write(
        &mut self,
        group: &[Member],
    ) -> impl Future<Output = Result<Vec<Option<u64>>, Failure>> + Send;

    /// Looks at what the database holds for each member.
    fn look(
        &mut self,
        group: &[Member],
    ) -> impl Future<Output = Result<Vec<Finding>, Failure>> + Send;

    /// Moves published marks up.
    fn mark(&mut self, marks: &[(RunId, u64)]) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Waits.
    fn pause(&mut self, time: Duration) -> impl Future<Output = ()> + Send;

    /// The time by which patience is measured.
    fn clock(&self) -> Instant {
        Instant::now()
    }
}

/// A count or size as the databases hold it.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
