use std::sync::Arc;
use std::time::{Duration, Instant};

use sayso_driver::Append;
use sayso_run::RunId;
use sayso_run::hooks::{Fault, planted};

use super::tables::{Disk, Refused};
use super::weather::{After, Before, Weather};
use crate::journal::lease::lease_epoch;
use crate::journal::verdict::Finding;
use crate::journal::{Failure, Member, Target};

/// The database as one process's writer uses it.
pub(super) struct SimulatedTarget {
    pub(super) disk: Disk,
    pub(super) weather: Arc<dyn Weather>,
    /// Where the process's clock began.
    pub(super) began: Instant,
}

impl SimulatedTarget {
    fn commit(&self, group: &[Append]) -> Result<Vec<Option<u64>>, Failure> {
        let (committed, dropped) = if planted(Fault::GroupDropsMember) && group.len() > 1 {
            group.split_at(group.len() - 1)
        } else {
            group.split_at(group.len())
        };
        let written = self.disk.with(|tables, now| tables.write(committed, now));
        let mut epochs = written.map_err(|Refused(why)| Failure::Refused(why))?;
        epochs.extend(dropped.iter().map(|append| Some(lease_epoch(append) + 1)));
        Ok(epochs)
    }
}

impl Target for SimulatedTarget {
    async fn write(&mut self, group: &[Member]) -> Result<Vec<Option<u64>>, Failure> {
        let group: Vec<Append> = group.iter().map(|member| member.append.clone()).collect();
        let lost = || Failure::Unclear("the connection broke".into());
        match self.weather.before_commit().await {
            Before::Arrives => {}
            Before::Deadlock => return Err(Failure::Again("a deadlock".into())),
            Before::Away => return Err(Failure::Down("the database is away".into())),
            Before::Lost => return Err(lost()),
            Before::LostAndLater(time) => {
                let disk = self.disk.clone();
                let commit = move || {
                    // Nobody is left to hear what came of it.
                    disk.with(|tables, now| tables.write(&group, now).map(|_| ()))
                        .unwrap_or_default();
                };
                self.weather.later(time, Box::new(commit));
                return Err(lost());
            }
        }
        let written = self.commit(&group);
        match self.weather.after_commit().await {
            After::Answered => written,
            After::Lost => Err(lost()),
        }
    }

    async fn look(&mut self, group: &[Member]) -> Result<Vec<Finding>, Failure> {
        self.weather.ask().await.map_err(Failure::Down)?;
        let find = |member: &Member| {
            self.disk
                .with(|tables, now| tables.find(&member.append, now))
        };
        Ok(group.iter().map(find).collect())
    }

    async fn mark(&mut self, marks: &[(RunId, u64)]) -> Result<(), Failure> {
        self.weather.ask().await.map_err(Failure::Down)?;
        self.disk.with(|tables, _| tables.mark(marks));
        Ok(())
    }

    async fn pause(&mut self, time: Duration) {
        self.weather.pause(time).await;
    }

    fn clock(&self) -> Instant {
        self.began + self.weather.elapsed()
    }
}
