//! The loop: take what is due, deliver it beside everything else, look again in time.
//!
//! A round reads one row, the earliest due time, and only if that has come does it write. Between
//! rounds the notifier sleeps until that time, at most [`crate::NotifierConfig::every`]; news of a
//! new approval wakes it. News may be lost: then the next round finds the delivery.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sayso_bus::Bus;
use sayso_run::Timestamp;
use sayso_store::{DatabaseError, Delivery};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Notifier;
use crate::deliver::deliver;

/// Deliveries under way at once: a receiver that does not answer must not hold up the others.
const UNDER_WAY: usize = 64;

/// New approvals, of every agent of every namespace.
const NEWS: &str = "sayso.events.v1.*.*.approval_requested";

/// Before the bus is asked again for news that it would not give.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The shortest time between two rounds that news can bring about: where many approvals come, one
/// round takes many.
const BREATH: Duration = Duration::from_millis(100);

/// Goes round until `shutdown`, then lets what is under way end.
pub(crate) async fn go_round(notifier: &Notifier, shutdown: &CancellationToken) {
    let news = Notify::new();
    let mut under_way = JoinSet::new();
    tokio::select! {
        () = rounds(notifier, &news, shutdown, &mut under_way) => {}
        () = listen(notifier.bus.as_ref(), &news) => {}
    }
    let ended = async { while under_way.join_next().await.is_some() {} };
    if tokio::time::timeout(notifier.config.drain, ended)
        .await
        .is_err()
    {
        // Their claims run out, and whoever comes next sends the same bytes.
        tracing::warn!(
            deliveries = under_way.len(),
            "stopped before all receivers had answered"
        );
    }
}

/// A round once begun ends, also while stopping: what it claimed would stay claimed by nobody.
async fn rounds(
    notifier: &Notifier,
    news: &Notify,
    shutdown: &CancellationToken,
    under_way: &mut JoinSet<()>,
) {
    while !shutdown.is_cancelled() {
        while under_way.try_join_next().is_some() {}
        let free = UNDER_WAY - under_way.len();
        let earliest = Instant::now() + BREATH;
        let pause = if free == 0 {
            notifier.config.every
        } else {
            match round(notifier, free).await {
                Ok(Round {
                    holder,
                    taken,
                    pause,
                }) => {
                    start(notifier, &holder, taken, under_way);
                    pause
                }
                Err(error) => {
                    tracing::warn!(%error, "what is due cannot be read; trying again");
                    notifier.config.every
                }
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = news.notified() => tokio::time::sleep_until(earliest).await,
            Some(_) = under_way.join_next(), if free == 0 => {}
            () = shutdown.cancelled() => {}
        }
    }
}

struct Round {
    /// Who holds what was taken: another one each round, so that a task whose claim ran out cannot
    /// speak for the next one's.
    holder: String,
    taken: Vec<Delivery>,
    pause: Duration,
}

/// Takes what is due.
async fn round(notifier: &Notifier, free: usize) -> Result<Round, DatabaseError> {
    let every = notifier.config.every;
    let deliveries = notifier.store.deliveries();
    let now = notifier.store.sync_clock().await?;
    let holder = format!("{}:{}", notifier.boot, Uuid::now_v7().simple());
    let due_in = |due: Option<Timestamp>| {
        due.map_or(every, |due| {
            let micros = u64::try_from(due.micros_since(now)).unwrap_or(0);
            Duration::from_micros(micros).min(every)
        })
    };
    let pause = due_in(deliveries.next_due().await?);
    if !pause.is_zero() {
        return Ok(Round {
            holder,
            taken: Vec::new(),
            pause,
        });
    }
    deliveries.cancel_decided().await?;
    let limit = u32::try_from(free).unwrap_or(u32::MAX);
    let taken = deliveries
        .claim(&holder, notifier.config.claim, limit)
        .await?;
    // What was left, or came meanwhile, is looked at next; if nothing could be taken although
    // something is due, another notifier is at it.
    let pause = if taken.is_empty() {
        every
    } else {
        Duration::ZERO
    };
    Ok(Round {
        holder,
        taken,
        pause,
    })
}

fn start(notifier: &Notifier, holder: &str, taken: Vec<Delivery>, under_way: &mut JoinSet<()>) {
    let holder: Arc<str> = holder.into();
    for delivery in taken {
        let (notifier, holder) = (notifier.clone(), Arc::clone(&holder));
        under_way.spawn(async move {
            if let Err(error) = deliver(&notifier, &delivery, &holder).await {
                tracing::warn!(%error, delivery = delivery.id, "a delivery stays due");
            }
        });
    }
}

/// Follows news of new approvals; while the bus gives none, the rounds go on without.
async fn listen(bus: &dyn Bus, news: &Notify) {
    loop {
        match bus.events(NEWS).await {
            Ok(mut feed) => {
                // Something may have come before the feed was there.
                news.notify_one();
                while feed.next().await.is_some() {
                    news.notify_one();
                }
            }
            Err(error) => tracing::debug!(%error, "no news of approvals; looking instead"),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sayso_bus::local::{LocalBus, LocalConfig};
    use sayso_run::{AgentName, Namespace};
    use sayso_wire::events::ApprovalChange;
    use sayso_wire::subjects;

    /// The filter hears what the herald says of new approvals.
    #[tokio::test]
    async fn the_filter_hears_new_approvals() {
        let bus = LocalBus::new(LocalConfig::default());
        let mut feed = bus.events(NEWS).await.unwrap();
        let (namespace, agent) = (
            Namespace::new("shop").unwrap(),
            AgentName::new("desk").unwrap(),
        );
        for change in [ApprovalChange::Decided, ApprovalChange::Requested] {
            let event = sayso_bus::Event {
                subject: subjects::approval(&namespace, &agent, change),
                id: format!("{change:?}"),
                headers: Vec::new(),
                body: Default::default(),
            };
            bus.publish_event(event).await.unwrap();
        }
        let sayso_bus::Heard::Message(heard) = feed.next().await.unwrap() else {
            panic!("nothing was lost");
        };
        assert_eq!(heard.id, "Requested");
    }
}
