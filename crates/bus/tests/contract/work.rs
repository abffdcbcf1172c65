//! Wake-ups over both implementations.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use sayso_bus::{Receiving, WorkKey};

use crate::world::{Kind, Settings, key, pull, quiet, soon, until};

crate::over_both! {
    /// Design, "Leases, wake-ups, events": a wake-up names a run and a cause.
    a_wake_up_arrives_once_and_ends_when_acknowledged
    two_wake_ups_before_a_pull_are_one_delivery
    an_unanswered_delivery_comes_again_after_the_window
    a_refused_delivery_comes_again_after_its_delay
    a_late_acknowledgement_ends_a_redelivered_wake_up
    an_acknowledgement_does_not_take_a_newer_wake_up_away
    work_in_progress_keeps_its_window_open
    a_puller_holds_no_more_than_its_share
    several_pullers_share_the_work
    a_dropped_queue_gives_back_what_nobody_asked_for
    waiting_may_be_broken_off_at_any_time
    a_key_that_is_no_token_is_refused
    health_tells_whether_wake_ups_are_received
}

const WINDOW: Duration = Duration::from_millis(500);

fn short() -> Settings {
    Settings {
        ack_wait: WINDOW,
        ..Settings::default()
    }
}

async fn a_wake_up_arrives_once_and_ends_when_acknowledged(kind: Kind) {
    let world = kind.open(short()).await;
    let mut queue = world.other.work().await.unwrap();
    let headers = [("traceparent".to_owned(), "00-1-2-01".to_owned())];
    world
        .bus
        .wake_with(&key(1), "start", &headers)
        .await
        .unwrap();

    let work = pull(&mut queue).await;

    assert_eq!(work.key, key(1));
    assert_eq!(work.cause, "start");
    assert_eq!(work.deliveries, 1);
    assert_eq!(work.headers, headers);
    work.ack().await.unwrap();
    quiet(&mut queue, WINDOW * 2).await;
}

async fn two_wake_ups_before_a_pull_are_one_delivery(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    world.bus.wake(&key(1), "start").await.unwrap();
    world.bus.wake(&key(2), "start").await.unwrap();
    world.bus.wake(&key(1), "decided").await.unwrap();

    let mut queue = world.bus.work().await.unwrap();
    let mut got = BTreeSet::new();
    for _ in 0..2 {
        let work = pull(&mut queue).await;
        got.insert((work.key.run.clone(), work.cause.clone()));
        work.ack().await.unwrap();
    }

    let wanted = [("run_1", "decided"), ("run_2", "start")];
    let wanted = wanted.map(|(run, cause)| (run.to_owned(), cause.to_owned()));
    assert_eq!(got, BTreeSet::from(wanted));
    quiet(&mut queue, Duration::from_millis(300)).await;
}

async fn an_unanswered_delivery_comes_again_after_the_window(kind: Kind) {
    let world = kind.open(short()).await;
    let mut queue = world.bus.work().await.unwrap();
    world.bus.wake(&key(1), "start").await.unwrap();
    let work = pull(&mut queue).await;
    let taken = Instant::now();
    drop(work);

    let work = pull(&mut queue).await;

    assert_eq!((work.key.clone(), work.deliveries), (key(1), 2));
    assert!(taken.elapsed() > WINDOW * 9 / 10, "{:?}", taken.elapsed());
    work.ack().await.unwrap();
    quiet(&mut queue, WINDOW * 2).await;
}

async fn a_refused_delivery_comes_again_after_its_delay(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    let mut queue = world.bus.work().await.unwrap();
    world.bus.wake(&key(1), "start").await.unwrap();
    let refused = Instant::now();
    let work = pull(&mut queue).await;
    work.nak(Duration::from_millis(400)).await.unwrap();

    let work = pull(&mut queue).await;

    assert!(refused.elapsed() >= Duration::from_millis(400));
    assert_eq!(work.deliveries, 2);
    work.nak(Duration::ZERO).await.unwrap();
    let work = pull(&mut queue).await;
    assert_eq!(work.deliveries, 3);
    work.ack().await.unwrap();
}

async fn a_late_acknowledgement_ends_a_redelivered_wake_up(kind: Kind) {
    let world = kind.open(short()).await;
    let mut queue = world.bus.work().await.unwrap();
    world.bus.wake(&key(1), "start").await.unwrap();
    let first = pull(&mut queue).await;
    let second = pull(&mut queue).await;
    assert_eq!(second.deliveries, 2);

    first.ack().await.unwrap();

    drop(second);
    quiet(&mut queue, WINDOW * 3).await;
}

async fn an_acknowledgement_does_not_take_a_newer_wake_up_away(kind: Kind) {
    let world = kind.open(short()).await;
    let mut queue = world.bus.work().await.unwrap();
    world.bus.wake(&key(1), "start").await.unwrap();
    let first = pull(&mut queue).await;
    world.bus.wake(&key(1), "decided").await.unwrap();

    first.ack().await.unwrap();

    let second = pull(&mut queue).await;
    assert_eq!((second.cause.as_str(), second.deliveries), ("decided", 1));
    drop(second);
    let again = pull(&mut queue).await;
    assert_eq!((again.cause.as_str(), again.deliveries), ("decided", 2));
    again.ack().await.unwrap();
    quiet(&mut queue, WINDOW * 2).await;
}

async fn work_in_progress_keeps_its_window_open(kind: Kind) {
    let world = kind.open(short()).await;
    let mut queue = world.bus.work().await.unwrap();
    world.bus.wake(&key(1), "start").await.unwrap();
    let work = pull(&mut queue).await;

    for _ in 0..6 {
        quiet(&mut queue, WINDOW / 3).await;
        work.in_progress().await.unwrap();
    }

    drop(work);
    assert_eq!(pull(&mut queue).await.deliveries, 2);
}

async fn a_puller_holds_no_more_than_its_share(kind: Kind) {
    let world = kind
        .open(Settings {
            max_outstanding: 4,
            ..Settings::default()
        })
        .await;
    for number in 0..10 {
        world.bus.wake(&key(number), "start").await.unwrap();
    }
    let mut queue = world.bus.work().await.unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(pull(&mut queue).await);
    }
    quiet(&mut queue, Duration::from_millis(300)).await;

    held.pop().unwrap().ack().await.unwrap();

    held.push(pull(&mut queue).await);
    quiet(&mut queue, Duration::from_millis(300)).await;
    for left in 0..5 {
        held.remove(0).ack().await.unwrap();
        held.push(pull(&mut queue).await);
        assert_eq!(held.len(), 4, "{left}");
    }
}

async fn several_pullers_share_the_work(kind: Kind) {
    let world = kind
        .open(Settings {
            max_outstanding: 4,
            ..Settings::default()
        })
        .await;
    let mut one = world.bus.work().await.unwrap();
    let mut two = world.other.work().await.unwrap();
    for number in 0..8 {
        world.bus.wake(&key(number), "start").await.unwrap();
    }

    let (mut mine, mut others) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        mine.push(pull(&mut one).await);
        others.push(pull(&mut two).await);
    }

    let keys = mine.iter().chain(&others).map(|work| work.key.clone());
    assert_eq!(keys.collect::<BTreeSet<_>>().len(), 8);
    for work in mine.into_iter().chain(others) {
        work.ack().await.unwrap();
    }
    quiet(&mut one, Duration::from_millis(200)).await;
    quiet(&mut two, Duration::from_millis(200)).await;
}

async fn a_dropped_queue_gives_back_what_nobody_asked_for(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    for number in 0..5 {
        world.bus.wake(&key(number), "start").await.unwrap();
    }
    let mut queue = world.bus.work().await.unwrap();
    let kept = pull(&mut queue).await;
    drop(queue);

    let mut queue = world.other.work().await.unwrap();
    let mut keys = BTreeSet::from([kept.key.clone()]);
    for _ in 0..4 {
        let work = pull(&mut queue).await;
        keys.insert(work.key.clone());
        work.ack().await.unwrap();
    }

    assert_eq!(keys.len(), 5);
    kept.ack().await.unwrap();
}

async fn waiting_may_be_broken_off_at_any_time(kind: Kind) {
    const RUNS: usize = 60;
    let world = kind.open(Settings::default()).await;
    let mut queue = world.other.work().await.unwrap();
    let bus = world.bus.clone();
    let waker = tokio::spawn(async move {
        for number in 0..RUNS {
            bus.wake(&key(number), "start").await.unwrap();
        }
    });

    let mut keys = Vec::new();
    let all = async {
        while keys.len() < RUNS {
            let next = tokio::time::timeout(Duration::from_micros(300), queue.next());
            if let Ok(work) = next.await {
                let work = work.unwrap();
                keys.push(work.key.clone());
                work.ack().await.unwrap();
            }
        }
    };
    soon(all).await;

    waker.await.unwrap();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), RUNS);
}

async fn a_key_that_is_no_token_is_refused(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    for (namespace, run) in [("a.b", "r"), ("a", ""), ("*", "r"), ("a", "r >")] {
        let bad = WorkKey::new(namespace, run);
        let error = world.bus.wake(&bad, "start").await.unwrap_err();
        assert_eq!(error.code(), "bus.invalid_message");
        assert!(!error.is_transient());
    }
}

async fn health_tells_whether_wake_ups_are_received(kind: Kind) {
    let world = kind.open(Settings::default()).await;
    let health = world.bus.health().await;
    assert_eq!(health.receiving, Receiving::NotAsked);
    assert_eq!(health.problem(), None);

    let queue = world.bus.work().await.unwrap();
    until("wake-ups are received", async || {
        world.bus.health().await.receiving == Receiving::Yes
    })
    .await;
    drop(queue);

    assert_eq!(world.bus.health().await.receiving, Receiving::NotAsked);
}
