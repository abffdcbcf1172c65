//! The task that publishes, one a process, so that what it was told first goes out first.

use std::collections::HashSet;
use std::sync::Arc;

use sayso_bus::{Bus, Event};
use sayso_driver::{RunRow, Written};
use sayso_run::{AgentName, Namespace, RunId, Status};
use sayso_wire::events::{Origin, approval_event, step_event};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::marks::Marks;

/// Appends whose events go out together; more wait for the next batch.
const BATCH: usize = 64;

/// Steps of one run that were appended together.
#[derive(Debug)]
pub(crate) struct News {
    namespace: Namespace,
    agent: AgentName,
    run: RunId,
    status: Status,
    first: u64,
    steps: Vec<Written>,
}

impl News {
    pub(crate) fn of(row: &RunRow, steps: Vec<Written>) -> Option<Self> {
        Some(Self {
            namespace: row.namespace.clone(),
            agent: row.agent.clone(),
            run: row.run.clone(),
            status: row.status,
            first: steps.first()?.recorded.seq,
            steps,
        })
    }
}

/// Events of a batch, each with the step that its acknowledgement settles.
#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    settles: Vec<(RunId, u64)>,
}

/// Publishes until `closing`, then what is left.
pub(crate) async fn publish(
    bus: Arc<dyn Bus>,
    marks: Arc<Marks>,
    mut told: mpsc::Receiver<News>,
    closing: CancellationToken,
) {
    let mut taken = Vec::with_capacity(BATCH);
    loop {
        taken.clear();
        let count = tokio::select! {
            biased;
            count = told.recv_many(&mut taken, BATCH) => count,
            () = closing.cancelled() => 0,
        };
        if count == 0 {
            return;
        }
        let mut batch = Batch::default();
        for news in taken.drain(..) {
            batch.add(news, &marks);
        }
        batch.publish(&*bus, &marks).await;
    }
}

impl Batch {
    /// Adds the events of some steps, unless steps before them have not gone out: then these wait
    /// for the sweep too, or readers would see them out of order.
    fn add(&mut self, news: News, marks: &Marks) {
        let in_batch = self
            .settles
            .iter()
            .rev()
            .find(|(run, _)| *run == news.run)
            .map(|(_, seq)| *seq);
        let published = in_batch.or_else(|| marks.published(&news.run));
        if published.is_some_and(|published| news.first > published + 1) {
            return;
        }
        let origin = Origin {
            namespace: &news.namespace,
            agent: &news.agent,
            run: &news.run,
        };
        for written in &news.steps {
            let seq = written.recorded.seq;
            if published.is_some_and(|published| seq <= published) {
                continue;
            }
            let content = written.view.as_ref().unwrap_or(&written.content);
            let step = step_event(&origin, &written.recorded, content, news.status);
            let approval = approval_event(&origin, &written.recorded, content, news.status);
            let count = 1 + usize::from(approval.is_some());
            self.events
                .extend([Some(step), approval].into_iter().flatten().map(sent));
            // A step is settled with the last of its events.
            self.settles
                .extend((1..count).map(|_| (news.run.clone(), seq - 1)));
            self.settles.push((news.run.clone(), seq));
        }
    }

    async fn publish(self, bus: &dyn Bus, marks: &Marks) {
        let acknowledged = match bus.publish_events(self.events).await {
            Ok(()) => self.settles.len(),
            Err(partly) => {
                tracing::debug!(error = %partly.cause, "events could not be published; the sweep comes for them");
                partly.acknowledged
            }
        };
        for (run, seq) in &self.settles[..acknowledged] {
            marks.acknowledged(run, *seq);
        }
        let failed: HashSet<&RunId> = self.settles[acknowledged..]
            .iter()
            .map(|(run, _)| run)
            .collect();
        for run in failed {
            // Later steps of this process must not overtake those that failed.
            let published = marks
                .published(run)
                .or_else(|| first_of(&self.settles, run))
                .unwrap_or(0);
            marks.acknowledged_at_most(run, published);
        }
    }
}

/// The step before the first one of a run in a batch: what had gone out before it.
fn first_of(settles: &[(RunId, u64)], run: &RunId) -> Option<u64> {
    settles
        .iter()
        .find(|(settled, _)| settled == run)
        .map(|(_, seq)| seq.saturating_sub(1))
}

fn sent(event: sayso_wire::events::Event) -> Event {
    Event {
        subject: event.subject,
        id: event.id,
        headers: event.headers,
        body: event.body.into(),
    }
}
