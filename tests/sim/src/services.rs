//! Approval hubs and schedulers: processes that answer people, and sweep.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sayso_driver::WriteError;
use sayso_engine::{SweepConfig, Sweeper};
use tokio::sync::oneshot;

use crate::herald::Herald;
use crate::journal::Journal;
use crate::kernel::Pid;
use crate::world::World;

/// Which service it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Takes what people say.
    Hub,
    /// Takes starts, cancels and retries, and sweeps.
    Scheduler,
}

/// One instance of a service, over all its restarts.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) kind: Kind,
    pub(crate) pid: Pid,
    pub(crate) journal: Journal,
    pub(crate) herald: Arc<Herald>,
}

/// Every instance.
#[derive(Default)]
pub(crate) struct Desks(Mutex<Vec<Desk>>);

impl Desks {
    fn all(&self) -> MutexGuard<'_, Vec<Desk>> {
        self.0.lock().expect("no code panics at a desk")
    }

    /// Opens an instance.
    pub(crate) fn open(&self, world: &Arc<World>, kind: Kind) {
        self.all().push(start(world, kind));
    }

    /// The process of each instance.
    pub(crate) fn pids(&self) -> Vec<Pid> {
        self.all().iter().map(|desk| desk.pid).collect()
    }

    /// Starts an instance again whose process is gone.
    pub(crate) fn restart(&self, world: &Arc<World>, pid: Pid) {
        let mut desks = self.all();
        if let Some(desk) = desks.iter_mut().find(|desk| desk.pid == pid) {
            *desk = start(world, desk.kind);
        }
    }

    /// Closes all of them: they hold the world that holds them.
    pub(crate) fn close(&self) {
        self.all().clear();
    }

    fn pick(&self, world: &World, kind: Kind) -> Desk {
        let desks = self.all();
        let fit: Vec<&Desk> = desks.iter().filter(|desk| desk.kind == kind).collect();
        world.kernel.draw(|random| (*random.pick(&fit)).clone())
    }
}

fn start(world: &Arc<World>, kind: Kind) -> Desk {
    let pid = world.kernel.process();
    let journal = Journal::open(world, pid);
    let herald = Herald::start(world, pid, &journal);
    world
        .kernel
        .note(format_args!("a {kind:?} starts as {pid}"));
    if kind == Kind::Scheduler {
        let sweeping = sweep(Arc::clone(world), journal.clone(), Arc::clone(&herald));
        world.kernel.spawn(pid, sweeping);
    }
    Desk {
        kind,
        pid,
        journal,
        herald,
    }
}

async fn sweep(world: Arc<World>, journal: Journal, herald: Arc<Herald>) {
    let config = SweepConfig {
        every: Duration::from_millis(600),
        reap_after: Duration::from_secs(12),
        ..SweepConfig::default()
    };
    let began = world.kernel.now();
    let mut sweeper = Sweeper::new(&journal, &*herald, &world.key, &config);
    loop {
        world.kernel.sleep(config.every).await;
        let elapsed = || Duration::from_micros(world.kernel.now() - began);
        sweeper.round(elapsed).await;
    }
}

/// Has an instance of a service do something; `None` if it dies over it.
pub(crate) async fn ask<R, F>(
    world: &Arc<World>,
    kind: Kind,
    request: impl FnOnce(Desk) -> F,
) -> Option<Result<R, WriteError>>
where
    R: Send + 'static,
    F: Future<Output = Result<R, WriteError>> + Send + 'static,
{
    let desk = world.desks.pick(world, kind);
    let (answer, answered) = oneshot::channel();
    let (kernel, pid) = (world.kernel.clone(), desk.pid);
    let trip = world.sky.trip();
    let request = request(desk);
    let serving = kernel.clone();
    kernel.spawn(pid, async move {
        serving.sleep(trip).await;
        let done = request.await;
        // Whoever asked may have gone.
        answer.send(done).map_err(|_| ()).unwrap_or_default();
    });
    let answered = answered.await.ok()?;
    if let Err(WriteError::Load(error @ sayso_driver::LoadError::Corrupt(_))) = &answered {
        kernel.broken(format!("a service meets a broken timeline: {error}"));
    }
    Some(answered)
}
