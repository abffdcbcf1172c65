//! Targets of a namespace (S8.2, S6.12). E-mail against a server that is one is in the tests of the
//! whole.

use std::time::Duration;

use sayso_driver::ApprovalStatus;
use sayso_store::TargetKind;
use serde_json::Value;

use crate::signing::verify;
use crate::world::{KEY, Receiver, World, header, shop};

/// S8.2: a webhook target gets what a bundle's `notify` gets, signed and tried again alike; a Slack
/// target gets its form, with the same retries.
#[tokio::test(flavor = "multi_thread")]
async fn s8_2_targets_are_told_of_approvals() {
    let world = World::new().await;
    let (hook, slack) = (
        Receiver::statuses(&[503]).await,
        Receiver::statuses(&[503]).await,
    );
    world.target("ops", TargetKind::Webhook, &hook.url()).await;
    world.target("chat", TargetKind::Slack, &slack.url()).await;
    let approval = world.held_for(&["ops", "chat"]).await;
    let notifier = world.notifier().await;
    world.rescheduled(Duration::from_secs(1)).await;
    hook.reached(1).await;
    slack.reached(1).await;
    world.pass(Duration::from_secs(3)).await;
    world.settled().await;
    for receiver in [&hook, &slack] {
        let requests = receiver.reached(2).await;
        assert_eq!(requests[0].body, requests[1].body);
        let id = |at: usize| header(&requests[at], "webhook-id");
        assert_eq!(id(0), id(1));
        assert_eq!(
            header(&requests[0], "x-sayso-event"),
            Some("approval.pending")
        );
    }
    let signed = &hook.requests().await[1];
    verify(signed, KEY.as_bytes());
    let told: Value = serde_json::from_slice(&signed.body).unwrap();
    assert_eq!(told["type"], "approval.pending");
    assert_eq!(told["approval"]["id"], approval.as_str());
    let posted: Value = serde_json::from_slice(&slack.requests().await[0].body).unwrap();
    let text = posted["text"].as_str().unwrap();
    for part in [
        "shop.refund",
        r#"{"order_id":"A-17"}"#,
        &format!("/approvals/{approval}|"),
    ] {
        assert!(text.contains(part), "{text}");
    }
    let log = world.log().await;
    let about = |target: &str| {
        log.iter()
            .any(|(_, text)| text.contains(&format!("`{target}`")))
    };
    assert!(about("ops") && about("chat"), "{log:?}");
    notifier.stop().await;
}

/// S8.2: a failure is told, unless the run was retried meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn s8_2_failures_are_told_while_they_hold() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    world
        .target("ops", TargetKind::Webhook, &receiver.url())
        .await;
    let retried = world.failed("ops").await;
    world.retried(&retried).await;
    let failed = world.failed("ops").await;
    let notifier = world.notifier().await;
    world.settled().await;
    let requests = receiver.reached(1).await;
    verify(&requests[0], KEY.as_bytes());
    assert_eq!(header(&requests[0], "x-sayso-event"), Some("run.failed"));
    let told: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(told["type"], "run.failed");
    for (field, value) in [
        ("id", failed.as_str()),
        ("agent", "desk"),
        ("requester", "ann"),
        ("code", "run.no_role"),
        ("message", "The agent has no role."),
        ("status", "failed"),
        ("task_input", "Refund order A-17"),
        ("link", &format!("https://sayso.example/runs/{failed}")),
    ] {
        assert_eq!(told["run"][field], value, "{field}");
    }
    notifier.stop().await;
}

/// S6.12: a reminder goes to the target, as a notification of its own; a target that does not exist is
/// told in the agent's log, and nothing else is held up.
#[tokio::test(flavor = "multi_thread")]
async fn s6_12_a_target_is_reminded() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    world
        .target("oncall", TargetKind::Webhook, &receiver.url())
        .await;
    let (approval, other) = (world.held_for(&[]).await, world.held_for(&[]).await);
    world.remind(&other, "nobody").await;
    world.remind(&approval, "oncall").await;
    let notifier = world.notifier().await;
    world.settled().await;
    let requests = receiver.reached(1).await;
    assert_eq!(
        header(&requests[0], "x-sayso-event"),
        Some("approval.escalated")
    );
    let told: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(told["type"], "approval.escalated");
    assert_eq!(told["approval"]["id"], approval.as_str());
    let log = world.log().await;
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(log[0].0, "notify.target_missing");
    assert!(
        log[0].1.contains("`nobody`") && log[0].1.contains(other.as_str()),
        "{log:?}"
    );
    notifier.stop().await;
}

/// S8.2, B50: nothing more is sent to a target that was removed, nor for what was decided meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn s8_2_nothing_is_sent_to_a_target_that_is_gone() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[500, 500]).await;
    world
        .target("gone", TargetKind::Webhook, &receiver.url())
        .await;
    world
        .target("ops", TargetKind::Slack, &receiver.url())
        .await;
    let approval = world.held_for(&["gone", "ops"]).await;
    let notifier = world.notifier().await;
    receiver.reached(2).await;
    world.rescheduled(Duration::from_secs(1)).await;
    let removed = world.store.targets().remove(&shop(), "gone").await.unwrap();
    assert!(removed.is_some());
    world.decide(&approval, ApprovalStatus::Denied).await;
    world.pass(Duration::from_secs(10)).await;
    world.settled().await;
    receiver.reached(2).await;
    notifier.stop().await;
}

/// S8.2: without a mail server nothing is mailed, and the log says what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn s8_2_without_a_mail_server_the_log_says_so() {
    let world = World::new().await;
    world
        .target("ops", TargetKind::Email, "ops@example.org")
        .await;
    world.held_for(&["ops"]).await;
    let notifier = world.notifier().await;
    world.settled().await;
    let log = world.log().await;
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(log[0].0, "notify.no_mail_server");
    assert!(log[0].1.contains("smtp.host"), "{log:?}");
    notifier.stop().await;
}
