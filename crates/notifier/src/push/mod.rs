//! Tasks of A2A clients, told where the clients want to be told (S6.13).
//!
//! What is owed follows from the runs: nothing is queued, so nothing is lost. A push knows the step up to
//! which its receiver was told; once the run has gone on and stands in another state, or waits anew,
//! the receiver gets the whole task as it stands then. States that came and went while a receiver did
//! not answer are not told. Retries are those of every delivery (S8.1).
//!
//! A client names the receiver, and is not trusted with this network: addresses that are not of the
//! public internet are refused, wherever a name leads, unless the operator allows them.

mod receiver;
mod telling;

use std::sync::Arc;

use sayso_store::{DatabaseError, Push, SecretKeys};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Notifier;
pub(crate) use receiver::client;
use telling::tell;

/// Pushes under way at once.
const UNDER_WAY: usize = 32;

/// Looks for tasks to tell of until `shutdown`, then lets what is under way end.
pub(crate) async fn go_round(notifier: &Notifier, shutdown: &CancellationToken) {
    // Without a key no receiver is kept.
    let Some(keys) = notifier.config.secret_keys.clone() else {
        return;
    };
    let mut under_way = JoinSet::new();
    while !shutdown.is_cancelled() {
        while under_way.try_join_next().is_some() {}
        let free = UNDER_WAY - under_way.len();
        let holder: Arc<str> = format!("{}:{}", notifier.boot, Uuid::now_v7().simple()).into();
        let taken = match round(notifier, &keys, &holder, free).await {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(%error, "what A2A clients are owed cannot be read; trying again");
                Vec::new()
            }
        };
        // There may be more than were taken.
        let again = !taken.is_empty();
        for push in taken {
            let (notifier, holder) = (notifier.clone(), Arc::clone(&holder));
            under_way.spawn(async move {
                if let Err(error) = tell(&notifier, &push, &holder).await {
                    tracing::warn!(%error, run = %push.run, "a task stays to be told of");
                }
            });
        }
        tokio::select! {
            () = std::future::ready(()), if again && under_way.len() < UNDER_WAY => {}
            () = tokio::time::sleep(notifier.config.every), if !again || under_way.len() >= UNDER_WAY => {}
            () = shutdown.cancelled() => {}
        }
    }
    let ended = async { while under_way.join_next().await.is_some() {} };
    if tokio::time::timeout(notifier.config.drain, ended)
        .await
        .is_err()
    {
        // Their claims run out, and whoever comes next tells of them.
        tracing::warn!("stopped before all A2A receivers had answered");
    }
}

async fn round(
    notifier: &Notifier,
    keys: &SecretKeys,
    holder: &str,
    free: usize,
) -> Result<Vec<Push>, DatabaseError> {
    let pushes = notifier.store.a2a_pushes();
    if free == 0 || !pushes.any_due().await? {
        return Ok(Vec::new());
    }
    let limit = u32::try_from(free).unwrap_or(u32::MAX);
    pushes
        .claim(keys, holder, notifier.config.claim, limit)
        .await
}
