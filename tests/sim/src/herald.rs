use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sayso_driver::{RunRow, Written};
use sayso_run::{Namespace, RunId};
use tokio::sync::mpsc;

use crate::bus;
use crate::journal::Journal;
use crate::kernel::Pid;
use crate::sky::Part;
use crate::world::World;

/// Between two lazy batches of marks.
const EVERY: Duration = Duration::from_millis(250);

/// Steps of one run that were appended together.
struct News {
    run: RunId,
    first: u64,
    last: u64,
}

type Marks = Arc<Mutex<BTreeMap<RunId, u64>>>;

/// How one process tells the simulated world.
pub(crate) struct Herald {
    world: Arc<World>,
    marks: Marks,
    news: mpsc::UnboundedSender<News>,
}

fn locked(marks: &Marks) -> MutexGuard<'_, BTreeMap<RunId, u64>> {
    marks
        .lock()
        .expect("no code panics while it holds the marks")
}

impl Herald {
    pub(crate) fn start(world: &Arc<World>, pid: Pid, journal: &Journal) -> Arc<Self> {
        let (news, told) = mpsc::unbounded_channel();
        let marks = Marks::default();
        let publishing = publish(Arc::clone(world), journal.clone(), Arc::clone(&marks), told);
        world.kernel.spawn(pid, publishing);
        Arc::new(Self {
            world: Arc::clone(world),
            marks,
            news,
        })
    }

    fn tell(&self, run: &RunId, steps: &[Written]) {
        if let (Some(first), Some(last)) = (steps.first(), steps.last()) {
            let news = News {
                run: run.clone(),
                first: first.recorded.seq,
                last: last.recorded.seq,
            };
            // The publisher goes only with its process.
            self.news.send(news).unwrap_or_default();
        }
    }
}

/// Publishes what it is told, in order, unless steps before it have not gone out.
async fn publish(
    world: Arc<World>,
    journal: Journal,
    marks: Marks,
    mut told: mpsc::UnboundedReceiver<News>,
) {
    while let Some(first) = told.recv().await {
        let mut dirty = BTreeMap::new();
        let mut next = Some(first);
        while let Some(news) = next {
            let published = locked(&marks).get(&news.run).copied();
            let in_order = published.is_none_or(|published| news.first <= published + 1);
            if in_order && published.is_none_or(|published| published < news.last) {
                let trip = world.sky.trip();
                world.kernel.sleep(trip).await;
                if world.sky.is_away(Part::Bus) || world.sky.strikes(30) {
                    locked(&marks).entry(news.run).or_insert(news.first - 1);
                } else {
                    locked(&marks).insert(news.run.clone(), news.last);
                    dirty.insert(news.run, news.last);
                }
            }
            next = told.try_recv().ok();
        }
        if !dirty.is_empty() {
            world.kernel.sleep(EVERY).await;
            let lazily = journal.tables().mark_published(dirty.into_iter().collect());
            if let Err(error) = lazily.await {
                tracing::debug!(%error, "marks are left to the sweep");
            }
        }
    }
}

impl sayso_driver::Herald for Herald {
    fn announce(&self, row: &RunRow, steps: Vec<Written>) {
        self.tell(&row.run, &steps);
    }

    fn published(&self, run: &RunId) -> Option<u64> {
        locked(&self.marks).get(run).copied()
    }

    fn announce_again(&self, row: &RunRow, published: u64, steps: Vec<Written>) {
        locked(&self.marks).insert(row.run.clone(), published);
        self.tell(&row.run, &steps);
    }

    fn wake(&self, _: &Namespace, run: &RunId, _: &'static str) {
        bus::wake(&self.world, run);
    }

    fn trace(&self, _: &tracing::Span, _: &str) {}

    fn delta(&self, _: &RunId, _: u32, _: Option<&str>) {}
}
