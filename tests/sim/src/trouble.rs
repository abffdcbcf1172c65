//! What goes wrong, between any two steps of anybody.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::kernel::{OUTSIDE, Pid};
use crate::services::Kind;
use crate::sky::Part;
use crate::worker::{self, Worker};
use crate::world::World;

/// Polls between two troubles, at most.
const RARELY: u64 = 900;

/// The workers, over all their restarts, and when the next trouble comes.
pub(crate) struct Trouble {
    world: Arc<World>,
    workers: Arc<Mutex<Vec<Worker>>>,
    countdown: u64,
}

fn locked(workers: &Mutex<Vec<Worker>>) -> MutexGuard<'_, Vec<Worker>> {
    workers.lock().expect("no code panics among workers")
}

impl Trouble {
    /// Starts every process of the deployment.
    pub(crate) fn over(world: &Arc<World>) -> Self {
        for kind in [Kind::Hub, Kind::Hub, Kind::Scheduler, Kind::Scheduler] {
            world.desks.open(world, kind);
        }
        let count = world.kernel.draw(|random| random.between(3, 5));
        let workers = (0..count).map(|n| worker::start(world, &format!("w{n}")));
        Self {
            workers: Arc::new(Mutex::new(workers.collect())),
            world: Arc::clone(world),
            countdown: RARELY,
        }
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        locked(&self.workers).len()
    }

    /// A task was polled: something may happen now.
    pub(crate) fn passes(&mut self) {
        if self.countdown > 0 {
            self.countdown -= 1;
            return;
        }
        self.countdown = self.world.kernel.draw(|random| random.between(1, RARELY));
        if !self.world.sky.is_calm() {
            self.strikes();
        }
    }

    fn strikes(&self) {
        let world = &self.world;
        let lot = world.kernel.draw(|random| random.below(100));
        match lot {
            0..=15 => self.kills_worker(),
            16..=33 => self.freezes_worker(),
            34..=37 => self.drains_worker(),
            38..=46 => self.hits_service(),
            47..=56 => self.takes_away(Part::Database, 4_000_000),
            57..=62 => self.cuts_off(),
            63..=74 => self.moves_clock(),
            75..=82 => self.takes_away(Part::Bus, 5_000_000),
            83..=86 => {
                world.kernel.note(format_args!("the streams are deleted"));
                world.bus.forget_all();
            }
            87..=92 => self.takes_away(Part::Policy, 4_000_000),
            93..=95 => self.pauses(),
            96..=97 => self.takes_away(Part::Role, 1_200_000),
            _ => self.freezes_everybody(),
        }
    }

    fn any_worker(&self) -> Worker {
        let workers = locked(&self.workers);
        self.world
            .kernel
            .draw(|random| random.pick(&workers[..]).clone())
    }

    fn kills_worker(&self) {
        let worker = self.any_worker();
        if self.world.kernel.is_alive(worker.pid) {
            self.world
                .kernel
                .note(format_args!("{} is killed ({})", worker.name, worker.pid));
            self.world.kernel.kill(worker.pid);
            self.world.bus.leave(worker.pid);
            self.starts_again(worker, 6_000_000);
        }
    }

    fn drains_worker(&self) {
        let worker = self.any_worker();
        if self.world.kernel.is_alive(worker.pid) && !worker.shutdown.is_cancelled() {
            self.world
                .kernel
                .note(format_args!("{} is asked to end", worker.name));
            worker.shutdown.cancel();
            self.starts_again(worker, 3_000_000);
        }
    }

    /// Starts a worker again after a while, once its process is gone.
    fn starts_again(&self, worker: Worker, within: u64) {
        let (world, workers) = (Arc::clone(&self.world), Arc::clone(&self.workers));
        self.world.kernel.spawn(OUTSIDE, async move {
            loop {
                world.kernel.sleep_between(20_000, within).await;
                if !world.kernel.is_alive(worker.pid) {
                    break;
                }
            }
            // Somebody else may have started it again: two of one name would end each other.
            let mut workers = locked(&workers);
            if let Some(place) = workers.iter_mut().find(|one| one.pid == worker.pid) {
                *place = worker::start(&world, &worker.name);
            }
        });
    }

    /// For less than the fence holds, for longer than a lease lasts, or in between.
    fn freezes(&self, pid: Pid) {
        let time = self.world.kernel.draw(|random| match random.below(3) {
            0 => random.micros(50_000, 1_500_000),
            1 => random.micros(1_500_000, 4_000_000),
            _ => random.micros(4_000_000, 12_000_000),
        });
        if self.world.kernel.is_alive(pid) {
            self.world
                .kernel
                .note(format_args!("{pid} freezes for {time:?}"));
            self.world.kernel.freeze(pid, time);
        }
    }

    fn freezes_worker(&self) {
        self.freezes(self.any_worker().pid);
    }

    fn freezes_everybody(&self) {
        let pids: Vec<Pid> = locked(&self.workers).iter().map(|one| one.pid).collect();
        for pid in pids {
            self.world.kernel.freeze(pid, Duration::from_millis(16_500));
        }
        self.world.kernel.note(format_args!("every worker freezes"));
    }

    fn hits_service(&self) {
        let world = &self.world;
        let pids = world.desks.pids();
        let pid = world.kernel.draw(|random| *random.pick(&pids));
        if world.kernel.draw(|random| random.permille(500)) {
            self.freezes(pid);
            return;
        }
        if !world.kernel.is_alive(pid) {
            return;
        }
        world.kernel.note(format_args!("{pid} is killed"));
        world.kernel.kill(pid);
        let restarting = Arc::clone(world);
        world.kernel.spawn(OUTSIDE, async move {
            restarting.kernel.sleep_between(20_000, 3_000_000).await;
            restarting.desks.restart(&restarting, pid);
        });
    }

    fn takes_away(&self, part: Part, longest: u64) {
        let time = self
            .world
            .kernel
            .draw(|random| random.micros(20_000, longest));
        self.world
            .kernel
            .note(format_args!("{part:?} is away for {time:?}"));
        self.world.sky.takes_away(part, time);
    }

    /// Everything is paused for a while (S10.6).
    fn pauses(&self) {
        let world = Arc::clone(&self.world);
        world.kernel.note(format_args!("everything is paused"));
        world.disk.pause(true);
        self.world.kernel.spawn(OUTSIDE, async move {
            world.kernel.sleep_between(50_000, 5_000_000).await;
            world.kernel.note(format_args!("everything goes on"));
            world.disk.pause(false);
        });
    }

    fn cuts_off(&self) {
        let pid = self.any_worker().pid;
        let time = self
            .world
            .kernel
            .draw(|random| random.micros(20_000, 6_000_000));
        self.world.kernel.note(format_args!(
            "{pid} is cut off from the database for {time:?}"
        ));
        self.world.sky.cuts_off(pid, time);
    }

    fn moves_clock(&self) {
        let by = self.world.kernel.draw(|random| {
            let by = i64::try_from(random.between(100_000, 40_000_000)).unwrap_or(0);
            if random.permille(750) { by } else { -by / 4 }
        });
        self.world
            .kernel
            .note(format_args!("the database's clock moves by {by} µs"));
        let offset = self.world.sky.moves_clock(by);
        self.world.disk.set_clock_offset(offset);
    }
}
