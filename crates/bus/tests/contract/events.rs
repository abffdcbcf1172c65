//! Events and live messages over both implementations.

use std::time::Duration;

use futures::StreamExt;
use sayso_bus::{Heard, Live};

use crate::world::{Kind, Settings, event, hear, soon};

crate::over_both! {
    /// S8.4: in order, with an id to deduplicate by.
    events_are_heard_in_order_with_id_and_headers
    feeds_filter_by_wildcards
    a_batch_stops_at_the_first_failure_and_says_how_far_it_came
    a_body_over_the_limit_is_too_large
    the_same_event_twice_is_acknowledged_twice
    a_feed_that_lost_messages_says_so
    live_messages_reach_those_who_listen_now
    subjects_of_another_kind_are_refused
}

async fn events_are_heard_in_order_with_id_and_headers(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    let mut feed = world.other.events("sayso.events.v1.>").await.unwrap();
    let events: Vec<_> = (0..200).map(|number| event("desk", number)).collect();

    world.bus.publish_event(events[0].clone()).await.unwrap();
    world
        .bus
        .publish_events(events[1..].to_vec())
        .await
        .unwrap();

    for wanted in events {
        assert_eq!(hear(&mut feed).await, wanted);
    }
}

async fn feeds_filter_by_wildcards(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    let mut one = world
        .other
        .events("sayso.events.v1.shop.desk.*")
        .await
        .unwrap();
    let exact = event("mail", 0).subject;
    let mut two = world.other.events(&exact).await.unwrap();
    let events = vec![event("desk", 1), event("mail", 1), event("desk", 2)];

    world.bus.publish_events(events).await.unwrap();

    assert_eq!(hear(&mut one).await.id, "desk-1");
    assert_eq!(hear(&mut one).await.id, "desk-2");
    assert_eq!(hear(&mut two).await.id, "mail-1");
}

async fn a_batch_stops_at_the_first_failure_and_says_how_far_it_came(kind: Kind) {
    let settings = Settings::default();
    let world = kind.open(settings).await;
    let mut feed = world.other.events("sayso.events.v1.>").await.unwrap();
    let mut events: Vec<_> = (0..100).map(|number| event("desk", number)).collect();
    events[70].body = vec![b'x'; settings.max_payload + 1].into();

    let partly = world.bus.publish_events(events).await.unwrap_err();

    assert_eq!(partly.acknowledged, 70);
    assert_eq!(partly.cause.code(), "bus.too_large");
    world.bus.publish_event(event("mail", 1)).await.unwrap();
    for number in 0..70 {
        assert_eq!(hear(&mut feed).await, event("desk", number));
    }
    assert_eq!(hear(&mut feed).await.id, "mail-1");
}

async fn a_body_over_the_limit_is_too_large(kind: Kind) {
    let settings = Settings::default();
    let world = kind.open(settings).await;
    let mut large = event("desk", 1);
    large.body = vec![b'x'; settings.max_payload + 1].into();

    let error = world.bus.publish_event(large.clone()).await.unwrap_err();
    assert_eq!(error.code(), "bus.too_large");
    assert!(!error.is_transient());
    assert!(error.to_string().contains("65537 bytes"), "{error}");

    let error = world.bus.publish_live("sayso.live.run_1", large.body).await;
    assert_eq!(error.unwrap_err().code(), "bus.too_large");
}

async fn the_same_event_twice_is_acknowledged_twice(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    world.bus.publish_event(event("desk", 1)).await.unwrap();
    world.bus.publish_event(event("desk", 1)).await.unwrap();
}

async fn a_feed_that_lost_messages_says_so(kind: Kind) {
    let world = kind
        .open(Settings {
            feed_capacity: 64,
            max_outstanding: 1,
            ..Settings::default()
        })
        .await;
    let mut feed = world.other.events("sayso.events.v1.>").await.unwrap();
    let events = (0..1_000).map(|number| event("desk", number)).collect();
    world.bus.publish_events(events).await.unwrap();

    let mut lost = 0;
    while lost == 0 {
        if let Heard::Lagged(count) = soon(feed.next()).await.unwrap() {
            lost = count;
        }
    }
    // Once the reader keeps up, it hears what comes. The first ones may still find the buffer full.
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let mut number = 0;
    let caught_up = async {
        loop {
            tokio::select! {
                heard = feed.next() => match heard.unwrap() {
                    Heard::Message(event) if event.id.starts_with("mail-") => break,
                    Heard::Message(_) | Heard::Lagged(_) => {}
                },
                _ = ticks.tick() => {
                    number += 1;
                    world.bus.publish_event(event("mail", number)).await.unwrap();
                }
            }
        }
    };
    soon(caught_up).await;
}

async fn live_messages_reach_those_who_listen_now(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    let bus = &world.bus;
    bus.publish_live("sayso.live.run_1", "nobody".into())
        .await
        .unwrap();
    let mut deltas = bus.live("sayso.live.run_1").await.unwrap();
    let mut hints = world.other.live("sayso.control.*").await.unwrap();

    bus.publish_live("sayso.live.run_1", "Hel".into())
        .await
        .unwrap();
    bus.publish_live("sayso.live.run_2", "other".into())
        .await
        .unwrap();
    bus.publish_live("sayso.live.run_1", "lo".into())
        .await
        .unwrap();
    bus.publish_live("sayso.control.run_2", "cancel".into())
        .await
        .unwrap();

    assert_eq!(hear(&mut deltas).await.body, "Hel");
    assert_eq!(hear(&mut deltas).await.body, "lo");
    let hint = Live {
        subject: "sayso.control.run_2".to_owned(),
        body: "cancel".into(),
    };
    assert_eq!(hear(&mut hints).await, hint);
}

async fn subjects_of_another_kind_are_refused(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    let bus = &world.bus;
    let mut stray = event("desk", 1);
    stray.subject = "sayso.live.run_1".to_owned();
    let refusals = [
        bus.publish_event(stray).await.unwrap_err(),
        bus.publish_live("sayso.work.a.b", "x".into())
            .await
            .unwrap_err(),
        bus.events("sayso.live.>").await.err().unwrap(),
        bus.live("sayso.events.v1.>").await.err().unwrap(),
        bus.events("sayso.events.v1.a b").await.err().unwrap(),
    ];
    for error in refusals {
        assert_eq!(error.code(), "bus.invalid_message", "{error}");
    }
}
