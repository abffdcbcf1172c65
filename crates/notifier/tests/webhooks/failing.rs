//! Receivers that fail, refuse, are busy, or never answer (B50).

use std::time::Duration;

use sayso_driver::ApprovalStatus;
use tokio::net::TcpListener;
use wiremock::ResponseTemplate;

use crate::world::{CLAIM, Receiver, Target, World, config, header, shop, until};

const PLAN: [u64; 5] = [1, 5, 30, 120, 600];

/// B50, S8.1: five retries, spaced out, with the same body and id; then it is given up, the agent's
/// log has it all, and the approval can still be decided.
#[tokio::test(flavor = "multi_thread")]
async fn b50_a_failing_receiver_is_tried_six_times_and_no_more() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[500, 502, 503, 408, 425, 302]).await;
    let approval = world.held(&Target::of(&receiver)).await;
    let notifier = world.notifier().await;
    for (tries, planned) in (1..).zip(PLAN) {
        world.rescheduled(Duration::from_secs(planned)).await;
        receiver.reached(tries).await;
        world
            .pass(Duration::from_secs_f64(planned as f64 * 1.1 + 1.0))
            .await;
    }
    world.settled().await;
    let requests = receiver.reached(6).await;
    for request in &requests {
        assert_eq!(request.body, requests[0].body);
        assert_eq!(
            header(request, "webhook-id"),
            header(&requests[0], "webhook-id")
        );
    }
    let log = world.log().await;
    let codes: Vec<_> = log.iter().map(|(code, _)| code.as_str()).collect();
    assert_eq!(codes[..5], ["notify.retrying"; 5]);
    assert_eq!(codes[5..], ["notify.failed"]);
    assert!(
        log[0].1.contains("answered 500") && log[0].1.contains(approval.as_str()),
        "{log:?}"
    );
    assert!(
        log[5].1.contains("answered 302") && log[5].1.contains("6 tries"),
        "{log:?}"
    );
    for (_, message) in &log {
        assert!(
            !message.contains("secret") && !message.contains("token"),
            "{message}"
        );
    }
    let row = world
        .store
        .approvals()
        .get(&shop(), &approval)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.status, ApprovalStatus::Pending);
    notifier.stop().await;
}

/// B50, S8.1: a refusal is not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn b50_a_refusal_is_not_sent_again() {
    for status in [410, 400, 404] {
        let world = World::new().await;
        let receiver = Receiver::statuses(&[status]).await;
        world.held(&Target::of(&receiver)).await;
        let notifier = world.notifier().await;
        world.settled().await;
        receiver.reached(1).await;
        let log = world.log().await;
        assert_eq!(log.len(), 1);
        assert_eq!(log[0].0, "notify.failed");
        assert!(log[0].1.contains(&format!("answered {status}")), "{log:?}");
        notifier.stop().await;
    }
}

/// B50, S8.1: the wait that a busy receiver asks for is kept.
#[tokio::test(flavor = "multi_thread")]
async fn b50_a_busy_receiver_is_given_its_time() {
    let world = World::new().await;
    let busy = ResponseTemplate::new(429).insert_header("retry-after", "30");
    let receiver = Receiver::new([busy]).await;
    world.held(&Target::of(&receiver)).await;
    let notifier = world.notifier().await;
    world.rescheduled(Duration::from_secs(30)).await;
    receiver.reached(1).await;
    world.pass(Duration::from_secs(31)).await;
    world.settled().await;
    receiver.reached(2).await;
    notifier.stop().await;
}

/// B50: a receiver that takes the POST and answers too late gets the same again, under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn b50_a_late_answer_counts_as_none() {
    let world = World::new().await;
    let late = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    let receiver = Receiver::new([late]).await;
    world.held(&Target::of(&receiver)).await;
    let mut config = config();
    config.timeout = Duration::from_millis(200);
    let notifier = world.notifier_with(config).await;
    world.rescheduled(Duration::from_secs(1)).await;
    world.pass(Duration::from_secs(2)).await;
    world.settled().await;
    let requests = receiver.reached(2).await;
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(
        header(&requests[0], "webhook-id"),
        header(&requests[1], "webhook-id")
    );
    let log = world.log().await;
    assert!(log[0].1.contains("did not answer in time"), "{log:?}");
    notifier.stop().await;
}

/// B50: receivers that never answer hold up nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn b50_a_silent_receiver_does_not_hold_up_others() {
    let world = World::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let receiver = Receiver::statuses(&[]).await;
    for _ in 0..10 {
        world
            .held(&Target {
                url: url.clone(),
                ..Target::of(&receiver)
            })
            .await;
    }
    world.held(&Target::of(&receiver)).await;
    let mut config = config();
    config.drain = Duration::from_millis(10);
    let notifier = world.notifier_with(config).await;
    receiver.reached(1).await;
    assert!(
        world.log().await.is_empty(),
        "the silent ones have not timed out yet"
    );
    notifier.stop().await;
}

/// S8.1: a redirect is a failure: the body is for the configured place alone.
#[tokio::test(flavor = "multi_thread")]
async fn s8_1_redirects_are_not_followed() {
    let world = World::new().await;
    let elsewhere = Receiver::statuses(&[]).await;
    let redirect = ResponseTemplate::new(307).insert_header("location", elsewhere.url().as_str());
    let receiver = Receiver::new([redirect]).await;
    world.held(&Target::of(&receiver)).await;
    let notifier = world.notifier().await;
    world.rescheduled(Duration::from_secs(1)).await;
    assert!(elsewhere.requests().await.is_empty());
    notifier.stop().await;
}

/// S8.1: nothing can be reached at the address: tried again, and the log names the place, without
/// the path and the query, which may be secret.
#[tokio::test(flavor = "multi_thread")]
async fn s8_1_failures_are_logged_without_the_url() {
    let world = World::new().await;
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let receiver = Receiver::statuses(&[]).await;
    let url = format!("http://user:pass-word@{gone}/path-that-is-secret?token=t");
    world
        .held(&Target {
            url,
            ..Target::of(&receiver)
        })
        .await;
    let notifier = world.notifier().await;
    world.rescheduled(Duration::from_secs(1)).await;
    let (code, message) = world.log().await.remove(0);
    assert_eq!(code, "notify.retrying");
    assert!(
        message.contains(&format!("http://{gone} did not take it")),
        "{message}"
    );
    for secret in ["pass-word", "path-that-is-secret", "token"] {
        assert!(!message.contains(secret), "{message}");
    }
    notifier.stop().await;
}

/// B50, S8.1: nothing is sent for what was decided between two tries.
#[tokio::test(flavor = "multi_thread")]
async fn b50_nothing_is_sent_for_what_was_decided_meanwhile() {
    let decisions = [
        ApprovalStatus::Approved,
        ApprovalStatus::Denied,
        ApprovalStatus::Closed,
    ];
    for decision in decisions {
        let world = World::new().await;
        let receiver = Receiver::statuses(&[500]).await;
        let approval = world.held(&Target::of(&receiver)).await;
        let notifier = world.notifier().await;
        world.rescheduled(Duration::from_secs(1)).await;
        world.decide(&approval, decision).await;
        world.pass(Duration::from_secs(2)).await;
        world.settled().await;
        receiver.reached(1).await;
        notifier.stop().await;
    }
}

/// S8.1, S6.8: nor for what expired, at the first try or a later one, even if nothing has noticed
/// the expiry yet: the approval is looked at right before sending.
#[tokio::test(flavor = "multi_thread")]
async fn s8_1_nothing_is_sent_for_what_expired() {
    let expires_in = Duration::from_secs(10);
    for tries in [0, 1] {
        let world = World::new().await;
        let receiver = Receiver::statuses(&vec![500; tries]).await;
        let target = Target {
            expires_in,
            ..Target::of(&receiver)
        };
        world.held(&target).await;
        if tries > 0 {
            let notifier = world.notifier().await;
            world.rescheduled(Duration::from_secs(1)).await;
            notifier.stop().await;
        }
        world.pass(expires_in).await;
        let notifier = world.notifier().await;
        until("it was taken", || async {
            world.due_in().await.is_some_and(|due| due > CLAIM / 2)
        })
        .await;
        notifier.stop().await;
        receiver.reached(tries).await;
        assert_eq!(world.log().await.len(), tries);
    }
}
