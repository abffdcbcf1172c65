//! What is heard on the bus, and the looks that make up for what is not.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use sayso_bus::{BusError, Event, Feed, Heard};
use sayso_run::Namespace;
use sayso_service::error::Coded;
use sayso_wire::events::{self, ApprovalChange, Live};
use sayso_wire::subjects;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::Watching;
use crate::refuse;

/// The last token of the subject of an approval that is asked for.
const REQUESTED: &str = "approval_requested";
/// How long a failed subscription or look is left alone.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How many runs one query asks for.
const RUNS_PER_LOOK: usize = 500;

/// Listens for all events.
pub(super) async fn events(watching: &Watching) -> Infallible {
    let subscribe = || watching.inner.bus.events(subjects::ALL_EVENTS);
    let lost = || {
        watching.inner.look.notify_one();
        watching.inner.approvals.tell_everyone_of_loss();
        watching.inner.news.tell_everyone_of_loss();
    };
    listen("events", subscribe, lost, |event| hear(watching, &event)).await
}

/// Listens for all provisional text.
pub(super) async fn live(watching: &Watching) -> Infallible {
    let runs = &watching.inner.runs;
    let subscribe = || watching.inner.bus.live(subjects::ALL_LIVE);
    let lost = || runs.tell_everyone_of_lost_text();
    listen("live text", subscribe, lost, |live| {
        let Some((_, run)) = live.subject.rsplit_once('.') else {
            return;
        };
        if !runs.is_watched(run) {
            return;
        }
        match Live::read(&live.body) {
            Ok(text) => runs.tell_text(run, text),
            Err(error) => tracing::warn!(run, "provisional text was left out: {error}"),
        }
    })
    .await
}

/// Subscribes, for ever. Whatever was said while nobody listened is lost.
async fn listen<T, S>(
    what: &str,
    subscribe: impl Fn() -> S,
    lost: impl Fn(),
    hear: impl Fn(T),
) -> Infallible
where
    S: Future<Output = Result<Feed<T>, BusError>>,
{
    loop {
        match subscribe().await {
            Ok(mut feed) => {
                lost();
                while let Some(heard) = feed.next().await {
                    match heard {
                        Heard::Message(message) => hear(message),
                        Heard::Lagged(_) => lost(),
                    }
                }
            }
            Err(error) => tracing::warn!("cannot listen for {what}: {error}"),
        }
        sleep(AGAIN_AFTER).await;
    }
}

/// Looks at the attributes first: almost every event is about something that nobody watches here.
fn hear(watching: &Watching, event: &Event) {
    let Some((origin, kind)) = event.subject.rsplit_once('.') else {
        return;
    };
    let namespace = origin.rsplit('.').nth(1).unwrap_or_default();
    watching.inner.news.hear(namespace, event);
    if kind.starts_with("approval_") {
        return hear_approval(watching, namespace, kind, event);
    }
    let runs = &watching.inner.runs;
    let Some((run, seq)) = place(event) else {
        return tracing::warn!(event.id, "an event does not say what it is about");
    };
    if !runs.awaits(run, seq) {
        return;
    }
    let told = match events::read_step(&event.headers, &event.body) {
        Ok(news) => news.told,
        Err(error) => {
            tracing::warn!(run, seq, "an event cannot be read, its step is: {error}");
            None
        }
    };
    runs.tell_step(run, seq, told);
}

/// Remembers whose an approval is when it is asked for; any change is told to those who watch.
fn hear_approval(watching: &Watching, namespace: &str, kind: &str, event: &Event) {
    let approvals = &watching.inner.approvals;
    let watched = approvals.is_watched(namespace);
    if !watched && kind != REQUESTED {
        return;
    }
    let Ok(namespace) = Namespace::new(namespace) else {
        return;
    };
    match events::read_approval(&event.headers) {
        Ok(news) => {
            if watched {
                approvals.hear(&namespace, &news);
            }
            if news.change == ApprovalChange::Requested {
                watching
                    .inner
                    .asked
                    .remember(news.approval, namespace, news.run);
            }
        }
        Err(error) => {
            tracing::warn!(event.id, "an approval's event cannot be read: {error}");
            approvals.tell_of_loss(&namespace);
        }
    }
}

fn place(event: &Event) -> Option<(&str, u64)> {
    let attribute = |wanted: &str| {
        let mut headers = event.headers.iter();
        headers
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.as_str())
    };
    let seq = attribute("ce-sequence")?.parse().ok()?;
    Some((attribute("ce-subject")?, seq))
}

/// Looks at the numbers of all watched runs every few seconds and when it is asked to.
pub(super) async fn looks(watching: &Watching) -> Infallible {
    let mut ticks = interval(watching.inner.look_every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = watching.inner.look.notified() => {}
        }
        if let Err(error) = look(watching).await {
            tracing::warn!("watched runs cannot be looked at: {error}");
            sleep(AGAIN_AFTER).await;
            watching.inner.look.notify_one();
        }
    }
}

/// Also keeps this process's idea of the database's time, by which tokens expire.
async fn look(watching: &Watching) -> Result<(), Coded> {
    let store = &watching.inner.store;
    let clock = store.sync_clock().await;
    clock.map_err(|error| refuse::database("reading the clock", error))?;
    let watched = watching.inner.runs.watched();
    for runs in watched.chunks(RUNS_PER_LOOK) {
        let heads = store.runs().heads(runs).await;
        let heads = heads.map_err(|error| refuse::database("looking at watched runs", error))?;
        for (run, seq) in heads {
            watching.inner.runs.tell_head(&run, seq);
        }
    }
    Ok(())
}
