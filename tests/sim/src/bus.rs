//! Wake-ups: lost, late, twice, and in another order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sayso_run::RunId;
use tokio::sync::mpsc;

use crate::kernel::{OUTSIDE, Pid};
use crate::sky::Part;
use crate::world::World;

/// How long a worker may leave a wake-up without an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A wake-up in a worker's hands.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) run: RunId,
    number: u64,
}

#[derive(Default)]
struct Queue {
    pullers: BTreeMap<Pid, mpsc::UnboundedSender<Delivery>>,
    /// Wake-ups on their way, one a run.
    waiting: BTreeSet<RunId>,
    unanswered: BTreeSet<u64>,
    deliveries: u64,
}

#[derive(Default)]
pub(crate) struct Bus(Mutex<Queue>);

impl Bus {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().expect("no code panics on the bus")
    }

    /// A worker that pulls.
    pub(crate) fn pull(&self, pid: Pid) -> mpsc::UnboundedReceiver<Delivery> {
        let (send, receive) = mpsc::unbounded_channel();
        self.queue().pullers.insert(pid, send);
        receive
    }

    /// A worker pulls no more.
    pub(crate) fn leave(&self, pid: Pid) {
        self.queue().pullers.remove(&pid);
    }

    /// A worker has taken care of it.
    pub(crate) fn acknowledge(&self, delivery: &Delivery) {
        self.queue().unanswered.remove(&delivery.number);
    }

    /// The streams were deleted.
    pub(crate) fn forget_all(&self) {
        let mut queue = self.queue();
        queue.waiting.clear();
        queue.unanswered.clear();
    }
}

/// Wakes a worker for a run, if the message gets through.
pub(crate) fn wake(world: &Arc<World>, run: &RunId) {
    if world.sky.is_away(Part::Bus) || world.sky.strikes(120) {
        world
            .kernel
            .note(format_args!("a wake-up of {run} is lost"));
        return;
    }
    if !world.bus.queue().waiting.insert(run.clone()) {
        return;
    }
    deliver_later(world, run.clone(), Duration::ZERO);
    if world.sky.strikes(60) {
        deliver_later(world, run.clone(), Duration::ZERO);
    }
}

/// Gives a wake-up back, to be delivered to anyone after a while.
pub(crate) fn give_back(world: &Arc<World>, delivery: &Delivery, after: Duration) {
    world.bus.acknowledge(delivery);
    deliver_later(world, delivery.run.clone(), after);
}

fn deliver_later(world: &Arc<World>, run: RunId, after: Duration) {
    let late = world.sky.strikes(50);
    let trip = world.kernel.draw(|random| {
        if late {
            random.micros(100_000, 6_000_000)
        } else {
            random.micros(100, 3_000)
        }
    });
    let on_the_way = Arc::clone(world);
    world.kernel.spawn(OUTSIDE, async move {
        on_the_way.kernel.sleep(after + trip).await;
        deliver(&on_the_way, run).await;
    });
}

/// Brings a wake-up to some worker, and to another one if it is not answered.
async fn deliver(world: &Arc<World>, run: RunId) {
    let delivery = {
        let mut queue = world.bus.queue();
        queue.waiting.remove(&run);
        let alive: Vec<Pid> = queue
            .pullers
            .keys()
            .copied()
            .filter(|pid| world.kernel.is_alive(*pid))
            .collect();
        if alive.is_empty() {
            return;
        }
        let pid = world.kernel.draw(|random| *random.pick(&alive));
        queue.deliveries += 1;
        let number = queue.deliveries;
        let delivery = Delivery {
            run: run.clone(),
            number,
        };
        let sent = queue
            .pullers
            .get(&pid)
            .is_some_and(|puller| puller.send(delivery.clone()).is_ok());
        if !sent {
            return;
        }
        queue.unanswered.insert(number);
        delivery
    };
    world.kernel.sleep(ANSWER_WITHIN).await;
    let unanswered = world.bus.queue().unanswered.remove(&delivery.number);
    if unanswered {
        deliver_later(world, run, Duration::ZERO);
    }
}
