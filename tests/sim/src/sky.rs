//! The weather: what is away now, and what each message meets on its way.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::BoxFuture;
use sayso_store::simulated::{After, Before, Later, Weather};

use crate::kernel::{Kernel, OUTSIDE, Pid};
use crate::world::World;

/// What can be away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The database, for everybody.
    Database,
    /// The broker.
    Bus,
    /// The policy service.
    Policy,
    /// The role of the agent: it was detached.
    Role,
}

#[derive(Debug, Default)]
struct Conditions {
    /// Troubles are over.
    calm: bool,
    /// Until when each part is away.
    away: [u64; 4],
    /// Until when one process cannot reach the database.
    cut_off: Vec<(Pid, u64)>,
    /// The offset of the database's clock, and the largest that it ever had.
    clock: i64,
    furthest: i64,
}

pub(crate) struct Sky {
    kernel: Kernel,
    conditions: Mutex<Conditions>,
}

impl Sky {
    pub(crate) fn new(kernel: &Kernel) -> Self {
        Self {
            kernel: kernel.clone(),
            conditions: Mutex::default(),
        }
    }

    fn conditions(&self) -> MutexGuard<'_, Conditions> {
        self.conditions.lock().expect("nobody panics under the sky")
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.conditions().calm
    }

    /// All troubles end, and none comes any more.
    pub(crate) fn clears_up(&self) {
        let mut conditions = self.conditions();
        conditions.calm = true;
        conditions.away = [0; 4];
        conditions.cut_off.clear();
    }

    pub(crate) fn takes_away(&self, part: Part, time: Duration) {
        let until = self.until(time);
        self.conditions().away[part as usize] = until;
    }

    pub(crate) fn cuts_off(&self, pid: Pid, time: Duration) {
        let until = self.until(time);
        self.conditions().cut_off.push((pid, until));
    }

    fn until(&self, time: Duration) -> u64 {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.kernel.now().saturating_add(micros)
    }

    pub(crate) fn is_away(&self, part: Part) -> bool {
        self.conditions().away[part as usize] > self.kernel.now()
    }

    fn database_is_away(&self, pid: Pid) -> bool {
        let now = self.kernel.now();
        let conditions = self.conditions();
        let cut_off = conditions.cut_off.iter();
        conditions.away[Part::Database as usize] > now
            || cut_off
                .clone()
                .any(|(cut, until)| *cut == pid && *until > now)
    }

    /// Moves the offset of the database's clock, and answers with it.
    pub(crate) fn moves_clock(&self, micros: i64) -> i64 {
        let mut conditions = self.conditions();
        conditions.clock += micros;
        conditions.furthest = conditions.furthest.max(conditions.clock);
        conditions.clock
    }

    /// How far the database's clock is behind what it would be had it never gone back: a process may
    /// still go by that.
    pub(crate) fn clock_is_behind(&self) -> i64 {
        let conditions = self.conditions();
        conditions.furthest - conditions.clock
    }

    /// Whether something that happens this many times out of a thousand happens now.
    pub(crate) fn strikes(&self, permille: u64) -> bool {
        !self.is_calm() && self.kernel.draw(|random| random.permille(permille))
    }

    /// How long one trip takes: mostly less than two milliseconds, seldom more than a second.
    pub(crate) fn trip(&self) -> Duration {
        let slow = self.strikes(8);
        self.kernel.draw(|random| {
            if slow {
                random.micros(50_000, 1_500_000)
            } else {
                random.micros(60, 1_600)
            }
        })
    }
}

/// One process's way to the database.
pub(crate) struct Way {
    pub(crate) world: Arc<World>,
    pub(crate) pid: Pid,
    /// When the process began.
    pub(crate) since: u64,
    /// Whose turn it is to write.
    pub(crate) turn: Turn,
}

/// One writer of a process at a time, in the order in which they came: as it is on SQLite.
pub(crate) type Turn = Arc<tokio::sync::Mutex<()>>;

impl Way {
    fn before(world: &World, pid: Pid) -> Before {
        let sky = &world.sky;
        if sky.database_is_away(pid) {
            return if sky.strikes(300) {
                Before::Lost
            } else {
                Before::Away
            };
        }
        if sky.strikes(8) {
            return Before::Deadlock;
        }
        if sky.strikes(10) {
            return Before::Lost;
        }
        if sky.strikes(8) {
            let later = world.kernel.draw(|random| random.micros(500, 4_000_000));
            return Before::LostAndLater(later);
        }
        Before::Arrives
    }
}

impl Weather for Way {
    fn before_commit(&self) -> BoxFuture<'static, Before> {
        let (world, pid) = (Arc::clone(&self.world), self.pid);
        let turn = Arc::clone(&self.turn);
        Box::pin(async move {
            let _turn = turn.lock().await;
            let trip = world.sky.trip();
            world.kernel.sleep(trip).await;
            Self::before(&world, pid)
        })
    }

    fn after_commit(&self) -> BoxFuture<'static, After> {
        let (world, pid) = (Arc::clone(&self.world), self.pid);
        Box::pin(async move {
            let trip = world.sky.trip();
            world.kernel.sleep(trip).await;
            if world.sky.database_is_away(pid) || world.sky.strikes(12) {
                After::Lost
            } else {
                After::Answered
            }
        })
    }

    fn ask(&self) -> BoxFuture<'static, Result<(), String>> {
        let (world, pid) = (Arc::clone(&self.world), self.pid);
        Box::pin(async move {
            let trip = world.sky.trip();
            world.kernel.sleep(trip).await;
            if world.sky.database_is_away(pid) || world.sky.strikes(8) {
                Err("the simulated database is away".into())
            } else {
                Ok(())
            }
        })
    }

    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(self.world.kernel.sleep(time))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.world.kernel.now() - self.since)
    }

    fn later(&self, time: Duration, work: Later) {
        let world = Arc::clone(&self.world);
        self.world.kernel.spawn(OUTSIDE, async move {
            world.kernel.sleep(time).await;
            work();
        });
    }
}
