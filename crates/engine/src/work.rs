//! The loop over wake-ups.

use std::sync::Arc;
use std::time::Duration;

use sayso_bus::{Bus, Work};
use sayso_driver::{Driven, Driver, Herald, Models, Policy, Tools};
use sayso_run::RunId;
use sayso_service::telemetry::propagate;
use sayso_store::{Heartbeat, Store};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use crate::attend::attend;
use crate::holds::{Entry, Holds};
use crate::workers::RETRY;

/// How long a wake-up rests when its run could not be looked at.
const NOT_NOW: Duration = Duration::from_secs(1);

type Worker<M, T, P, H> = Arc<Driver<Store, M, T, P, H>>;

/// Works until `shutdown`, or until the worker is lost: then true.
pub(crate) async fn work<M: Models, T: Tools, P: Policy, H: Herald>(
    driver: &Worker<M, T, P, H>,
    bus: &dyn Bus,
    places: usize,
    heartbeat: &Heartbeat,
    shutdown: &CancellationToken,
) -> bool {
    let holds = Arc::new(Holds::default());
    let places = Arc::new(Semaphore::new(places));
    let tasks = TaskTracker::new();
    let drain = CancellationToken::new();
    let lost = tokio::select! {
        () = take_wake_ups(driver, bus, &holds, &places, &tasks, &drain) => false,
        () = shutdown.cancelled() => false,
        () = heartbeat.until_lost() => true,
    };
    drain.cancel();
    tasks.close();
    tasks.wait().await;
    lost
}

async fn take_wake_ups<M: Models, T: Tools, P: Policy, H: Herald>(
    driver: &Worker<M, T, P, H>,
    bus: &dyn Bus,
    holds: &Arc<Holds>,
    places: &Arc<Semaphore>,
    tasks: &TaskTracker,
    drain: &CancellationToken,
) {
    loop {
        let mut queue = match bus.work().await {
            Ok(queue) => queue,
            Err(error) => {
                tracing::warn!(%error, "wake-ups cannot be received yet");
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        loop {
            let Ok(place) = Arc::clone(places).acquire_owned().await else {
                return;
            };
            let work = match queue.next().await {
                Ok(work) => work,
                Err(error) => {
                    tracing::warn!(%error, "the queue of wake-ups broke; it is opened again");
                    break;
                }
            };
            let Ok(run) = RunId::new(&work.key.run) else {
                tracing::error!(subject = %work.key, "a wake-up names no run");
                settle(work, &Driven::NotFound).await;
                continue;
            };
            match holds.enter(&run) {
                Entry::Nudged => settle(work, &Driven::HeldElsewhere).await,
                Entry::New(nudges) => {
                    let span = span(&work);
                    let (driver, holds) = (Arc::clone(driver), Arc::clone(holds));
                    let (drain, answers) = (drain.clone(), tasks.clone());
                    let answer = move |driven: &Driven| {
                        let driven = driven.clone();
                        answers.spawn(async move { settle(work, &driven).await });
                    };
                    let writers = tasks.clone();
                    let beside = move |writing| {
                        writers.spawn(writing);
                    };
                    let attending = async move {
                        attend(&driver, &holds, &run, nudges, answer, beside, drain).await;
                        drop(place);
                    };
                    tasks.spawn(attending.instrument(span));
                }
            }
        }
    }
}

/// The span of a wake-up that says in which trace it was sent (S10.3).
fn span(work: &Work) -> Span {
    if work.headers.is_empty() {
        return Span::none();
    }
    let span = tracing::info_span!("wake_up", otel.kind = "consumer", cause = work.cause);
    propagate::follow(&span, propagate::extract_pairs(&work.headers));
    span
}

/// Acknowledges a wake-up, or has it delivered again later. If that fails it is delivered again in
/// any case, which is harmless.
async fn settle(work: Work, driven: &Driven) {
    let key = work.key.clone();
    let settled = match driven {
        Driven::Unavailable(_) => work.nak(NOT_NOW).await,
        Driven::Parked
        | Driven::Held
        | Driven::NothingOwed
        | Driven::Paused
        | Driven::NotFound
        | Driven::HeldElsewhere
        | Driven::Lost
        | Driven::LeftAlone(_) => work.ack().await,
    };
    if let Err(error) = settled {
        tracing::debug!(subject = %key, %error, "a wake-up will be delivered again");
    }
}
