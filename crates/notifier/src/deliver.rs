//! One try of one delivery.
//!
//! The order matters, and the process may die after each of these:
//!
//! 1. The delivery is claimed: for a while no other notifier takes it. A claim counts as no try;
//!    what died with its holder is taken again when the claim has run out.
//! 2. The body is built and stored before a byte of it is sent, by the holder alone. Every later try
//!    sends the stored bytes under the same id, so a receiver that was reached twice can tell (B50).
//! 3. What it tells of is looked at right before sending: nothing is sent for an approval that was
//!    decided, closed or expired meanwhile, nor for a run that was retried (S8.1, S8.2). Somebody may
//!    still decide while the bytes are under way; no sender can know.
//! 4. A failure goes to the agent's log before the try is recorded. Dying in between writes it twice
//!    at worst.
//! 5. The try is recorded, if the holder still holds it. If the database is away the claim runs out,
//!    and the same bytes are sent again.

use std::time::Duration;

use sayso_driver::{ApprovalRow, ApprovalStatus, Journal, Notice, Recipient, RunRow};
use sayso_run::{ApprovalId, Status};
use sayso_store::{Attempt, DatabaseError, Delivery, LogLevel, NewLogEntry};

use crate::Notifier;
use crate::announcement::announcement;
use crate::channel::{Channel, Unsendable};
use crate::message::{Message, failure};
use crate::plan::{RETRIES, next_try};
use crate::post::Answer;

/// What a delivery tells of, while it still holds.
enum Subject {
    Approval(Box<ApprovalRow>),
    Run(Box<RunRow>),
}

/// Sends a delivery that `holder` claimed, unless what it tells of no longer holds, and records what
/// came of it.
pub(crate) async fn deliver(
    notifier: &Notifier,
    delivery: &Delivery,
    holder: &str,
) -> Result<(), DatabaseError> {
    let Delivery {
        id,
        namespace,
        agent,
        to,
        ..
    } = delivery;
    let channel = match Channel::of(notifier, namespace, agent, to).await? {
        Ok(channel) => channel,
        Err(unsendable) => return give_up(notifier, delivery, holder, &unsendable).await,
    };
    let body = match &delivery.body {
        Some(body) => body.clone(),
        None => {
            let Some(subject) = still(notifier, delivery).await? else {
                return Ok(());
            };
            let message = message(notifier, delivery, &subject).await?;
            match message.and_then(|message| channel.written(notifier, id, &message)) {
                Ok(body) => {
                    let deliveries = notifier.store.deliveries();
                    if !deliveries.keep_body(id, holder, &body).await? {
                        return Ok(());
                    }
                    body
                }
                Err(bad) => return give_up(notifier, delivery, holder, &bad).await,
            }
        }
    };
    if still(notifier, delivery).await?.is_none() {
        return Ok(());
    }
    let event = delivery.notice.as_str();
    match channel.send(notifier, id, event, body).await {
        Ok(answer) => settle(notifier, delivery, holder, &channel.place(), answer).await,
        Err(unsendable) => give_up(notifier, delivery, holder, &unsendable).await,
    }
}

/// What the delivery tells of, if it still holds. What was decided or retried is cancelled by the
/// next round; what expired is once its expiry is on the timeline.
async fn still(notifier: &Notifier, delivery: &Delivery) -> Result<Option<Subject>, DatabaseError> {
    match &delivery.notice {
        Notice::Pending(approval) | Notice::Escalated(approval) => {
            let row = pending(notifier, delivery, approval).await?;
            Ok(row.map(|row| Subject::Approval(Box::new(row))))
        }
        Notice::Failed => {
            let runs = notifier.store.runs();
            let row = runs.get(&delivery.namespace, &delivery.run).await?;
            let failed = row.filter(|row| row.status == Status::Failed);
            Ok(failed.map(|row| Subject::Run(Box::new(row))))
        }
    }
}

/// The approval, if a person still can and has to decide it.
async fn pending(
    notifier: &Notifier,
    delivery: &Delivery,
    approval: &ApprovalId,
) -> Result<Option<ApprovalRow>, DatabaseError> {
    let approvals = notifier.store.approvals();
    let found = approvals.get(&delivery.namespace, approval).await?;
    let now = notifier.store.now();
    Ok(found.filter(|row| row.status == ApprovalStatus::Pending && row.expires_at > now))
}

async fn message(
    notifier: &Notifier,
    delivery: &Delivery,
    subject: &Subject,
) -> Result<Result<Message, Unsendable>, DatabaseError> {
    let seq = match subject {
        Subject::Approval(row) => row.seq,
        Subject::Run(row) => row.seq,
    };
    let runs = notifier.store.runs();
    let masked = runs.masked(&delivery.namespace, &delivery.run, seq).await?;
    let (notice, url) = (&delivery.notice, &notifier.config.public_url);
    Ok(match subject {
        Subject::Approval(row) => {
            announcement(notice, row, &masked, url).map_err(Unsendable::BadView)
        }
        Subject::Run(row) => {
            failure(notice.as_str(), row, &masked, url).map_err(Unsendable::BadFirst)
        }
    })
}

/// Records what a receiver answered.
async fn settle(
    notifier: &Notifier,
    delivery: &Delivery,
    holder: &str,
    place: &str,
    answer: Answer,
) -> Result<(), DatabaseError> {
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
                    let error = again(place, &why, failed, delay);
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
    let about = match &delivery.notice {
        Notice::Pending(approval) => format!("Notification of approval {approval}"),
        Notice::Escalated(approval) => format!("Reminder of approval {approval}"),
        Notice::Failed => "Notification of the failure".to_owned(),
    };
    let to = match &delivery.to {
        Recipient::Target(name) => format!(" to the target `{name}`"),
        Recipient::Bundle { .. } => String::new(),
    };
    let entry = NewLogEntry {
        namespace: delivery.namespace.clone(),
        agent: delivery.agent.clone(),
        run: Some(delivery.run.clone()),
        level,
        code: code.to_owned(),
        message: format!("{about}{to}: {what}."),
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
