//! An executor process: it registers, renews, takes wake-ups and attends to them, and begins again
//! as a new worker when it was marked dead. The loop is the executor's, with its own `attend` and
//! `Holds`; the heartbeat keeps the executor's times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{Either, select};
use sayso_driver::{DelegationLimits, Driven, Driver, Fence};
use sayso_engine::{Entry, Holds, attend};
use sayso_run::{RunId, WorkerId};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::bus::{self, Delivery};
use crate::herald::Herald;
use crate::journal::Journal;
use crate::kernel::Pid;
use crate::ledger::Shop;
use crate::models::Mind;
use crate::policy::Policy;
use crate::world::World;

/// How often a worker renews, how long it may act after that, and how long one renewal may take.
const EVERY: Duration = Duration::from_secs(1);
const HOLDS: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_millis(900);
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// The pause before something that is away is tried again.
const RETRY: Duration = Duration::from_secs(1);

type WorkerDriver = Driver<Journal, Mind, Shop, Policy, Herald>;

/// A worker process that runs, and the way to end it gently.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) pid: Pid,
    pub(crate) shutdown: CancellationToken,
}

/// Starts a worker process.
pub(crate) fn start(world: &Arc<World>, name: &str) -> Worker {
    let pid = world.kernel.process();
    let shutdown = CancellationToken::new();
    let main = run(Arc::clone(world), pid, name.to_owned(), shutdown.clone());
    world.kernel.spawn(pid, main);
    world.kernel.note(format_args!("{name} starts as {pid}"));
    Worker {
        name: name.to_owned(),
        pid,
        shutdown,
    }
}

async fn run(world: Arc<World>, pid: Pid, name: String, shutdown: CancellationToken) {
    let journal = Journal::open(&world, pid);
    let herald = Herald::start(&world, pid, &journal);
    let mut wake_ups = world.bus.pull(pid);
    while !shutdown.is_cancelled() {
        let sent = world.kernel.now();
        let worker = match journal.tables().register(&name).await {
            Ok(worker) => worker.expect("the names of workers are plain"),
            Err(_) => {
                world.kernel.sleep(RETRY).await;
                continue;
            }
        };
        world.is_worker(pid, &worker);
        let beat = Beat::start(&world, pid, &journal, worker.clone(), sent);
        let driver = Arc::new(Driver {
            journal: Arc::new(journal.clone()),
            models: Arc::new(Mind(Arc::clone(&world))),
            tools: Arc::new(Shop {
                world: Arc::clone(&world),
                pid,
                worker: worker.clone(),
                turn: journal.turn(),
            }),
            policy: Arc::new(Policy(Arc::clone(&world))),
            herald: Arc::clone(&herald),
            key: world.key.clone(),
            worker: worker.clone(),
            fence: beat.fence(),
            delegation: DelegationLimits::default(),
            tells_content: false,
        });
        work(&world, pid, &driver, &mut wake_ups, &beat, &shutdown).await;
        beat.stop.cancel();
        if let Err(error) = journal.tables().end(&worker).await {
            world
                .kernel
                .note(format_args!("{worker} cannot be ended: {error}"));
        }
    }
    world.bus.leave(pid);
    world.kernel.note(format_args!("{pid} exits"));
    world.kernel.kill(pid);
}

/// Works until `shutdown`, or until the worker is marked dead.
async fn work(
    world: &Arc<World>,
    pid: Pid,
    driver: &Arc<WorkerDriver>,
    wake_ups: &mut mpsc::UnboundedReceiver<Delivery>,
    beat: &Beat,
    shutdown: &CancellationToken,
) {
    let places = world.kernel.draw(|random| random.between(3, 24));
    let places = u32::try_from(places).unwrap_or(1);
    let free = Arc::new(Semaphore::new(places as usize));
    let drain = CancellationToken::new();
    tokio::select! {
        biased;
        () = beat.lost.cancelled() => {}
        () = shutdown.cancelled() => {}
        () = take_wake_ups(world, pid, driver, wake_ups, &free, &drain) => {}
    }
    drain.cancel();
    free.acquire_many(places)
        .await
        .map(|_| ())
        .expect("the places are never closed");
}

async fn take_wake_ups(
    world: &Arc<World>,
    pid: Pid,
    driver: &Arc<WorkerDriver>,
    wake_ups: &mut mpsc::UnboundedReceiver<Delivery>,
    free: &Arc<Semaphore>,
    drain: &CancellationToken,
) {
    let holds = Arc::new(Holds::default());
    loop {
        let place = Arc::clone(free).acquire_owned().await;
        let Some(delivery) = wake_ups.recv().await else {
            return;
        };
        let run = delivery.run.clone();
        match holds.enter(&run) {
            Entry::Nudged => world.bus.acknowledge(&delivery),
            Entry::New(nudges) => {
                let (attending, driver) = (Arc::clone(world), Arc::clone(driver));
                let (holds, drain) = (Arc::clone(&holds), drain.clone());
                world.begins_driving(pid, &run);
                world.kernel.spawn(pid, async move {
                    let answer = answer(&attending, delivery);
                    let beside = |writing| attending.kernel.spawn(pid, writing);
                    attend(&driver, &holds, &run, nudges, answer, beside, drain).await;
                    attending.ends_driving(pid, &run);
                    drop(place);
                });
            }
        }
    }
}

/// Acknowledges a wake-up, or has it delivered again later.
fn answer(world: &Arc<World>, delivery: Delivery) -> impl FnOnce(&Driven) + Send + use<> {
    let world = Arc::clone(world);
    move |driven: &Driven| {
        let run: &RunId = &delivery.run;
        match driven {
            Driven::Unavailable(_) => bus::give_back(&world, &delivery, RETRY),
            Driven::LeftAlone(why) => {
                world.kernel.broken(format!("{run} is left alone: {why}"));
            }
            Driven::Parked
            | Driven::Held
            | Driven::NothingOwed
            | Driven::Paused
            | Driven::NotFound
            | Driven::HeldElsewhere
            | Driven::Lost => world.bus.acknowledge(&delivery),
        }
    }
}

/// The heartbeat of one worker.
struct Beat {
    world: Arc<World>,
    worker: WorkerId,
    journal: Journal,
    renewed: Arc<AtomicU64>,
    dead: Arc<AtomicBool>,
    lost: CancellationToken,
    stop: CancellationToken,
}

impl Beat {
    /// It holds from when the registration was sent.
    fn start(world: &Arc<World>, pid: Pid, journal: &Journal, worker: WorkerId, sent: u64) -> Self {
        let beat = Self {
            world: Arc::clone(world),
            worker,
            journal: journal.clone(),
            renewed: Arc::new(AtomicU64::new(sent)),
            dead: Arc::default(),
            lost: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        world.kernel.spawn(pid, beat.handle().renew());
        beat
    }

    fn handle(&self) -> Self {
        Self {
            world: Arc::clone(&self.world),
            worker: self.worker.clone(),
            journal: self.journal.clone(),
            renewed: Arc::clone(&self.renewed),
            dead: Arc::clone(&self.dead),
            lost: self.lost.clone(),
            stop: self.stop.clone(),
        }
    }

    fn fence(&self) -> Fence {
        let (world, renewed) = (Arc::clone(&self.world), Arc::clone(&self.renewed));
        let dead = Arc::clone(&self.dead);
        Fence::new(move || {
            let since = world.kernel.now() - renewed.load(Ordering::Relaxed);
            !dead.load(Ordering::Relaxed) && Duration::from_micros(since) < HOLDS
        })
    }

    async fn renew(self) {
        let mut pause = EVERY;
        loop {
            self.world.kernel.sleep(pause).await;
            if self.stop.is_cancelled() {
                return;
            }
            let sent = self.world.kernel.now();
            let renewing = std::pin::pin!(self.journal.tables().renew(&self.worker));
            let limit = self.world.kernel.sleep(LONGEST);
            pause = match select(renewing, limit).await {
                Either::Left((Ok(true), _)) => {
                    self.renewed.store(sent, Ordering::Relaxed);
                    EVERY.saturating_sub(Duration::from_micros(self.world.kernel.now() - sent))
                }
                Either::Left((Ok(false), _)) => {
                    self.dead.store(true, Ordering::Relaxed);
                    self.lost.cancel();
                    return;
                }
                Either::Left((Err(_), _)) | Either::Right(_) => AFTER_ERROR,
            };
        }
    }
}
