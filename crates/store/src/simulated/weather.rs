use std::time::{Duration, Instant};

use futures::future::BoxFuture;

/// How the way to a commit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// The group reaches the database.
    Arrives,
    /// The database picked this group to end a deadlock.
    Deadlock,
    /// It cannot be reached; nothing was sent.
    Away,
    /// The connection breaks, and the group never takes effect.
    Lost,
    /// The connection breaks, and an old backend commits the group after this time.
    LostAndLater(Duration),
}

/// How the way back from a commit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The answer arrives.
    Answered,
    /// The connection breaks; the group has taken effect.
    Lost,
}

/// What an old backend still has to do.
pub type Later = Box<dyn FnOnce() + Send>;

/// What one process meets on its way to the database. A process that is killed never comes back
/// from these.
pub trait Weather: Send + Sync + 'static {
    /// The way of a group to the database.
    fn before_commit(&self) -> BoxFuture<'static, Before>;

    /// The way of its answer back.
    fn after_commit(&self) -> BoxFuture<'static, After>;

    /// The way of a read or of a one-row update, there and back.
    ///
    /// # Errors
    ///
    /// The database is away; nothing happened.
    fn ask(&self) -> BoxFuture<'static, Result<(), String>>;

    /// Waits.
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// This process's monotonic clock.
    fn elapsed(&self) -> Duration;

    /// Does something after a time, whatever becomes of this process meanwhile.
    fn later(&self, time: Duration, work: Later);
}

/// Nothing ever goes wrong, and time is the machine's.
#[derive(Debug)]
pub struct Calm(Instant);

impl Default for Calm {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Weather for Calm {
    fn before_commit(&self) -> BoxFuture<'static, Before> {
        Box::pin(std::future::ready(Before::Arrives))
    }

    fn after_commit(&self) -> BoxFuture<'static, After> {
        Box::pin(std::future::ready(After::Answered))
    }

    fn ask(&self) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn later(&self, _: Duration, work: Later) {
        work();
    }
}
