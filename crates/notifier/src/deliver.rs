//! One try of one delivery.
//!
//! The order matters, and the process may die after each of these:
//!
//! 1. The delivery is claimed: for a while no other notifier takes it. A claim counts as no try;
//!    what died with its holder is taken again when the claim has run out.
//! 2. The body is built and stored before a byte of it is sent, by the holder alone. Every later try
//!    sends the stored bytes under the same id, so a receiver that was reached twice can tell (B50).
//! 3. The approval is looked at right before sending: nothing is sent for what was decided, closed
//!    or expired meanwhile (S8.1). Somebody may still decide while the bytes are under way; no
//!    sender can know.
//! 4. A failure goes to the agent's log before the try is recorded. Dying in between writes it twice
//!    at worst.
//! 5. The try is recorded, if the holder still holds it. If the database is away the claim runs out,
//!    and the same bytes are sent again.

use std::time::Duration;

use reqwest::Url;
use sayso_driver::{ApprovalRow, ApprovalStatus, Journal};
use sayso_service::config::{Secret, SecretError};
use sayso_store::{
    Attempt, DatabaseError, Delivery, LogLevel, NewLogEntry, SealError, SecretsError,
};
use thiserror::Error;

use crate::Notifier;
use crate::announcement::{UnreadableView, announcement};
use crate::plan::{RETRIES, next_try};
use crate::post::{Answer, Post, send};

/// Why a delivery cannot be sent at all. Another try would not help.
#[derive(Debug, Error)]
enum Unsendable {
    #[error("the secret `{0}` that signs it is not set: `sayso secret set {0}`")]
    NoSecret(String),
    #[error("the secret `{0}` that signs it cannot be opened: {1}")]
    Unreadable(String, SealError),
    #[error("the secret `{0}` that signs it is stored, and no key of secrets is configured here")]
    NoKey(String),
    #[error("the secret `{0}` that signs it cannot be had: {1}")]
    SecretAway(String, SecretError),
    #[error("its URL is not an http or https URL")]
    BadUrl,
    #[error(transparent)]
    BadView(#[from] UnreadableView),
}

impl Unsendable {
    const fn code(&self) -> &'static str {
        match self {
            Unsendable::NoSecret(_)
            | Unsendable::SecretAway(..)
            | Unsendable::Unreadable(..)
            | Unsendable::NoKey(_) => "notify.secret_missing",
            Unsendable::BadUrl | Unsendable::BadView(_) => "notify.failed",
        }
    }
}

/// Sends a delivery that `holder` claimed, unless its approval is no longer pending, and records
/// what came of it.
pub(crate) async fn deliver(
    notifier: &Notifier,
    delivery: &Delivery,
    holder: &str,
) -> Result<(), DatabaseError> {
    let (url, secret) = match target(notifier, delivery).await? {
        Ok(target) => target,
        Err(unsendable) => return give_up(notifier, delivery, holder, &unsendable).await,
    };
    let body = match &delivery.body {
        Some(body) => body.clone(),
        None => {
            let Some(approval) = pending(notifier, delivery).await? else {
                return Ok(());
            };
            match build(notifier, &approval).await? {
                Ok(body) => {
                    if !notifier
                        .store
                        .deliveries()
                        .keep_body(&delivery.id, holder, &body)
                        .await?
                    {
                        return Ok(());
                    }
                    body
                }
                Err(bad) => return give_up(notifier, delivery, holder, &bad.into()).await,
            }
        }
    };
    if pending(notifier, delivery).await?.is_none() {
        return Ok(());
    }
    let post = Post {
        url: &url,
        id: &delivery.id,
        timestamp: notifier.store.now().micros().div_euclid(1_000_000),
        secret: secret.as_ref(),
        body,
    };
    let answer = send(&notifier.client, post).await;
    settle(notifier, delivery, holder, &url, answer).await
}

/// Where it goes and what signs it.
async fn target(
    notifier: &Notifier,
    delivery: &Delivery,
) -> Result<Result<(Url, Option<Secret>), Unsendable>, DatabaseError> {
    let url = Url::parse(&delivery.url);
    let url = url
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(url) = url else {
        return Ok(Err(Unsendable::BadUrl));
    };
    let Some(name) = &delivery.secret else {
        return Ok(Ok((url, None)));
    };
    let secret = secret(notifier, delivery, name).await?;
    Ok(secret.map(|secret| (url, Some(secret))))
}

/// A secret by name: the agent's own, its namespace's, or one that this installation has for
/// everybody (S8.1).
async fn secret(
    notifier: &Notifier,
    delivery: &Delivery,
    name: &str,
) -> Result<Result<Secret, Unsendable>, DatabaseError> {
    let (keys, secrets) = (
        notifier.config.secret_keys.as_ref(),
        notifier.store.secrets(),
    );
    let (namespace, agent) = (&delivery.namespace, &delivery.agent);
    Ok(match secrets.find(keys, namespace, agent, name).await {
        Ok(Some(value)) => Ok(Secret::new(value)),
        Ok(None) => match notifier.config.secrets.get(name) {
            None => Err(Unsendable::NoSecret(name.to_owned())),
            Some(source) => source
                .resolve()
                .map_err(|error| Unsendable::SecretAway(name.to_owned(), error)),
        },
        Err(SecretsError::Database(error)) => return Err(error),
        Err(SecretsError::NoKey) => Err(Unsendable::NoKey(name.to_owned())),
        Err(SecretsError::Seal { name, why }) => Err(Unsendable::Unreadable(name, why)),
    })
}

/// The approval, if a person still can and has to decide it. What was decided is cancelled by the
/// next round; what expired is once its expiry is on the timeline.
async fn pending(
    notifier: &Notifier,
    delivery: &Delivery,
) -> Result<Option<ApprovalRow>, DatabaseError> {
    let found = notifier
        .store
        .approvals()
        .get(&delivery.namespace, &delivery.approval)
        .await?;
    let now = notifier.store.now();
    Ok(found.filter(|row| row.status == ApprovalStatus::Pending && row.expires_at > now))
}

async fn build(
    notifier: &Notifier,
    approval: &ApprovalRow,
) -> Result<Result<Vec<u8>, UnreadableView>, DatabaseError> {
    let runs = notifier.store.runs();
    let masked = runs
        .masked(&approval.namespace, &approval.run, approval.seq)
        .await?;
    Ok(announcement(approval, &masked, &notifier.config.public_url))
}

/// Records what a receiver answered.
async fn settle(
    notifier: &Notifier,
    delivery: &Delivery,
    holder: &str,
    url: &Url,
    answer: Answer,
) -> Result<(), DatabaseError> {
    let place = url.origin().ascii_serialization();
    let (level, code, error, attempt) = match answer {
        Answer::Taken => return record(notifier, delivery, holder, &Attempt::Sent).await,
        Answer::Refused { why } => {
            let error = format!("{place} refused it: {why}; it is not sent again");
            (
                LogLevel::Error,
                "notify.failed",
                error.clone(),
                Attempt::Failed { error },
            )
        }
        Answer::Failed { why, wait } => {
            let failed = delivery.attempts + 1;
            match next_try(&delivery.id, failed, wait) {
                Some(delay) => {
                    let error = again(&place, &why, failed, delay);
                    let due_at = notifier.store.now().plus(delay);
                    (
                        LogLevel::Warning,
                        "notify.retrying",
                        error.clone(),
                        Attempt::Again { due_at, error },
                    )
                }
                None => {
                    let error = format!(
                        "{place} did not take it: {why}; it was given up after {failed} tries"
                    );
                    (
                        LogLevel::Error,
                        "notify.failed",
                        error.clone(),
                        Attempt::Failed { error },
                    )
                }
            }
        }
    };
    log(notifier, delivery, level, code, &error).await?;
    record(notifier, delivery, holder, &attempt).await
}

fn again(place: &str, why: &str, failed: u32, delay: Duration) -> String {
    let (seconds, tries) = (delay.as_secs(), RETRIES.len() + 1);
    format!(
        "{place} did not take it: {why}; that was try {failed} of {tries}, the next one is in about \
         {seconds} s"
    )
}

/// Ends a delivery that cannot be sent.
async fn give_up(
    notifier: &Notifier,
    delivery: &Delivery,
    holder: &str,
    why: &Unsendable,
) -> Result<(), DatabaseError> {
    let error = format!("it was not sent: {why}");
    log(notifier, delivery, LogLevel::Error, why.code(), &error).await?;
    record(notifier, delivery, holder, &Attempt::Failed { error }).await
}

/// Writes to the agent's log.
async fn log(
    notifier: &Notifier,
    delivery: &Delivery,
    level: LogLevel,
    code: &str,
    what: &str,
) -> Result<(), DatabaseError> {
    let entry = NewLogEntry {
        namespace: delivery.namespace.clone(),
        agent: delivery.agent.clone(),
        run: Some(delivery.run.clone()),
        level,
        code: code.to_owned(),
        message: format!("Notification of approval {}: {what}.", delivery.approval),
    };
    notifier.store.agent_logs().append(&entry).await
}

async fn record(
    notifier: &Notifier,
    delivery: &Delivery,
    holder: &str,
    attempt: &Attempt,
) -> Result<(), DatabaseError> {
    let held = notifier
        .store
        .deliveries()
        .record(&delivery.id, holder, attempt)
        .await?;
    if !held {
        tracing::warn!(
            delivery = delivery.id,
            "a delivery was decided, or taken by another notifier, while it was under way"
        );
    }
    Ok(())
}
