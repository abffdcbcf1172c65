//! Notifiers that stop, die, share the work, or lose their database (B50, S8.1).

use std::collections::BTreeSet;
use std::time::Duration;

use sayso_store::Attempt;
use wiremock::ResponseTemplate;

use crate::world::{CLAIM, Receiver, Target, World, header, shop, until};

/// B50: a restart between two tries goes on with the next try, the same bytes and the same id.
#[tokio::test(flavor = "multi_thread")]
async fn b50_a_restart_between_tries_loses_nothing() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[500, 500]).await;
    world.held(&Target::of(&receiver)).await;
    for planned in [1, 5] {
        let notifier = world.notifier().await;
        world.rescheduled(Duration::from_secs(planned)).await;
        notifier.stop().await;
        world.pass(Duration::from_secs(planned + 1)).await;
    }
    let notifier = world.notifier().await;
    world.settled().await;
    let requests = receiver.reached(3).await;
    for request in &requests {
        assert_eq!(request.body, requests[0].body);
        assert_eq!(
            header(request, "webhook-id"),
            header(&requests[0], "webhook-id")
        );
    }
    notifier.stop().await;
}

/// The window after the bytes went out: the notifier dies before it has recorded the try. Once its
/// claim has run out another one sends the same bytes under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn a_death_while_the_receiver_works_sends_the_same_again() {
    let world = World::new().await;
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    let receiver = Receiver::new([slow]).await;
    world.held(&Target::of(&receiver)).await;
    let dying = world.notifier().await;
    receiver.reached(1).await;
    dying.kill().await;
    let next = world.notifier().await;
    world.pass(CLAIM + Duration::from_secs(1)).await;
    world.settled().await;
    let requests = receiver.reached(2).await;
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(
        header(&requests[0], "webhook-id"),
        header(&requests[1], "webhook-id")
    );
    next.stop().await;
}

/// The window after the claim, before the body is stored: it is due again when the claim has run
/// out, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn a_death_after_the_claim_counts_as_no_try() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    world.held(&Target::of(&receiver)).await;
    let claimed = world
        .store
        .deliveries()
        .claim("dead", CLAIM, 10)
        .await
        .unwrap();
    assert_eq!(claimed.len(), 1);
    let notifier = world.notifier().await;
    assert!(world.due_in().await.unwrap() > CLAIM / 2);
    assert!(receiver.requests().await.is_empty());
    world.pass(CLAIM).await;
    world.settled().await;
    receiver.reached(1).await;
    notifier.stop().await;
}

/// The window after the body was stored, before it was sent: what was stored is sent, byte for
/// byte. What the dead one says afterwards counts for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_stored_body_is_sent_as_it_is() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[503]).await;
    world.held(&Target::of(&receiver)).await;
    let deliveries = world.store.deliveries();
    let claimed = deliveries.claim("dead", CLAIM, 10).await.unwrap().remove(0);
    let body = br#"{"type":"approval.pending","approval":{"id":"as it was built then"}}"#;
    assert!(
        deliveries
            .keep_body(&claimed.id, "dead", body)
            .await
            .unwrap()
    );
    world.pass(CLAIM).await;
    let notifier = world.notifier().await;
    world.rescheduled(Duration::from_secs(1)).await;
    assert!(
        !deliveries
            .record(&claimed.id, "dead", &Attempt::Sent)
            .await
            .unwrap()
    );
    world.pass(Duration::from_secs(2)).await;
    world.settled().await;
    let requests = receiver.reached(2).await;
    assert!(requests.iter().all(|request| request.body == body));
    notifier.stop().await;
}

/// Several notifiers share the work: each notification arrives once.
#[tokio::test(flavor = "multi_thread")]
async fn s8_1_several_notifiers_share_the_work() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    let notifiers = [
        world.notifier().await,
        world.notifier().await,
        world.notifier().await,
    ];
    let mut held = BTreeSet::new();
    for _ in 0..40 {
        held.insert(format!(
            "{}:notify",
            world.held(&Target::of(&receiver)).await
        ));
    }
    world.settled().await;
    let requests = receiver.reached(40).await;
    let told: BTreeSet<String> = requests
        .iter()
        .map(|request| header(request, "webhook-id").unwrap().to_owned())
        .collect();
    assert_eq!(told, held);
    for notifier in notifiers {
        notifier.stop().await;
    }
}

/// A stop lets what is under way end and records it.
#[tokio::test(flavor = "multi_thread")]
async fn s10_2_a_stop_lets_what_is_under_way_end() {
    let world = World::new().await;
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_millis(300));
    let receiver = Receiver::new([slow]).await;
    world.held(&Target::of(&receiver)).await;
    let notifier = world.notifier().await;
    receiver.reached(1).await;
    notifier.stop().await;
    assert_eq!(world.due_in().await, None);
}

/// News on the bus makes a notifier look at once that would otherwise look much later.
#[tokio::test(flavor = "multi_thread")]
async fn news_of_an_approval_hurries_it() {
    use sayso_bus::Bus;
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    let mut config = crate::world::config();
    config.every = Duration::from_secs(3600);
    let notifier = world.notifier_with(config).await;
    world.held(&Target::of(&receiver)).await;
    let (bus, subject) = (
        &world.bus,
        format!("sayso.events.v1.{}.desk.approval_requested", shop()),
    );
    // Whether the notifier listens yet cannot be seen from here: the news is told until it is heard.
    until("the news was heard", || async {
        let event = sayso_bus::Event {
            subject: subject.clone(),
            id: uuid::Uuid::now_v7().to_string(),
            headers: Vec::new(),
            body: Default::default(),
        };
        bus.publish_event(event).await.unwrap();
        !receiver.requests().await.is_empty()
    })
    .await;
    notifier.stop().await;
}
