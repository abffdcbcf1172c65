//! What can happen to a broker, and that the bus gets over it (B80).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::jetstream;
use futures::StreamExt;
use sayso_bus::{
    Bus, Heard, Receiving, WorkQueue,
    nats::{CONSUMER, EVENTS_STREAM, NatsBus, WORK_STREAM},
    testing::{NatsServer, NatsServerOptions},
};

use crate::world::{Kind, Settings, World, config, event, key, pull, soon, until};

/// The broker's own view.
async fn administrator(server: &NatsServer) -> jetstream::Context {
    jetstream::new(async_nats::connect(server.url()).await.unwrap())
}

async fn open() -> (World, NatsServer) {
    let mut world = Kind::Nats.open(Settings::default()).await;
    let server = world.server.take().unwrap();
    (world, server)
}

/// A queue that is known to be pulling.
async fn pulling(bus: &Arc<dyn Bus>) -> Box<dyn WorkQueue> {
    let queue = bus.work().await.unwrap();
    receiving(bus, Receiving::Yes).await;
    queue
}

async fn receiving(bus: &Arc<dyn Bus>, state: Receiving) {
    until("the wanted state of receiving", async || {
        bus.health().await.receiving == state
    })
    .await;
}

/// Five runs are woken, and each arrives once.
async fn five_runs_go(world: &World, queue: &mut Box<dyn WorkQueue>, from: usize) {
    let mut wanted = Vec::new();
    for number in from..from + 5 {
        let wake = async || world.other.wake(&key(number), "start").await.is_ok();
        until("a wake-up is taken", wake).await;
        wanted.push(key(number));
    }
    let mut got = Vec::new();
    while got.len() < 5 {
        let work = pull(queue).await;
        if wanted.contains(&work.key) {
            got.push(work.key.clone());
        }
        work.ack().await.unwrap();
    }
    got.sort();
    assert_eq!(got, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b80_a_consumer_deleted_while_idle_is_made_again_within_a_second() {
    let (world, server) = open().await;
    let mut queue = pulling(&world.bus).await;
    let admin = administrator(&server).await;
    let stream = admin.get_stream(WORK_STREAM).await.unwrap();

    stream.delete_consumer(CONSUMER).await.unwrap();

    let deleted = Instant::now();
    until("the consumer is there again", async || {
        stream.consumer_info(CONSUMER).await.is_ok()
    })
    .await;
    assert!(deleted.elapsed() < Duration::from_secs(1));
    five_runs_go(&world, &mut queue, 0).await;
    receiving(&world.bus, Receiving::Yes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b80_a_consumer_deleted_while_the_puller_is_full_is_made_again() {
    let settings = Settings {
        max_outstanding: 1,
        ..Settings::default()
    };
    let mut world = Kind::Nats.open(settings).await;
    let server = world.server.take().unwrap();
    let mut queue = pulling(&world.bus).await;
    world.bus.wake(&key(0), "start").await.unwrap();
    let work = pull(&mut queue).await;
    let admin = administrator(&server).await;
    let stream = admin.get_stream(WORK_STREAM).await.unwrap();
    stream.delete_consumer(CONSUMER).await.unwrap();

    // Its acknowledgement finds no consumer: this one may come again, the others have to come.
    work.ack().await.unwrap();

    five_runs_go(&world, &mut queue, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_deleted_under_load_are_made_again() {
    let (world, server) = open().await;
    let mut queue = pulling(&world.bus).await;
    let admin = administrator(&server).await;
    let publisher = tokio::spawn({
        let bus = Arc::clone(&world.other);
        async move {
            for number in 0..400 {
                let batch = (0..5).map(|n| event("desk", number * 5 + n)).collect();
                bus.publish_events(batch).await.unwrap();
                bus.wake(&key(number), "start").await.unwrap();
            }
        }
    });
    for _ in 0..20 {
        pull(&mut queue).await.ack().await.unwrap();
    }

    admin.delete_stream(WORK_STREAM).await.unwrap();
    admin.delete_stream(EVENTS_STREAM).await.unwrap();

    // What lay in the stream is lost, as designed; what is woken afterwards comes.
    let puller = tokio::spawn(async move {
        loop {
            let work = pull(&mut queue).await;
            let last = work.key == key(999);
            work.ack().await.unwrap();
            if last {
                return queue;
            }
        }
    });
    soon(publisher).await.unwrap();
    world.other.wake(&key(999), "last").await.unwrap();
    let mut queue = soon(puller).await.unwrap();
    five_runs_go(&world, &mut queue, 1_000).await;
    let mut events = admin.get_stream(EVENTS_STREAM).await.unwrap();
    assert!(events.info().await.unwrap().state.messages > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b80_work_goes_on_after_a_broker_restart() {
    let (world, mut server) = open().await;
    let mut queue = pulling(&world.bus).await;
    let mut feed = world.bus.events("sayso.events.v1.>").await.unwrap();
    five_runs_go(&world, &mut queue, 0).await;

    server.kill().unwrap();

    receiving(&world.bus, Receiving::No).await;
    let problem = world.bus.health().await.problem().unwrap();
    assert!(problem.contains("not connected"), "{problem}");
    let asked = Instant::now();
    let error = world.bus.wake(&key(9), "start").await.unwrap_err();
    assert_eq!(error.code(), "bus.unavailable");
    assert!(error.is_transient());
    let partly = world.bus.publish_events(vec![event("desk", 1)]).await;
    let partly = partly.unwrap_err();
    assert_eq!(
        (partly.acknowledged, partly.cause.code()),
        (0, "bus.unavailable")
    );
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "it should fail fast"
    );

    server.restart().unwrap();

    five_runs_go(&world, &mut queue, 10).await;
    receiving(&world.bus, Receiving::Yes).await;
    until("health is good again", async || {
        world.bus.health().await.problem().is_none()
    })
    .await;
    // The feed tells that it may have missed something, and goes on.
    assert_eq!(soon(feed.next()).await.unwrap(), Heard::Lagged(0));
    world.other.publish_event(event("desk", 2)).await.unwrap();
    assert_eq!(
        soon(feed.next()).await.unwrap(),
        Heard::Message(event("desk", 2))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b80_work_goes_on_after_a_restart_without_the_store() {
    let (world, mut server) = open().await;
    let mut queue = pulling(&world.bus).await;

    server.forget().unwrap();
    server.restart().unwrap();

    five_runs_go(&world, &mut queue, 0).await;
    until("events are taken again", async || {
        world.other.publish_event(event("desk", 1)).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b80_an_unanswered_wake_up_survives_a_broker_restart() {
    let (world, mut server) = open().await;
    world.bus.wake(&key(1), "start").await.unwrap();

    server.restart().unwrap();

    let mut queue = world.bus.work().await.unwrap();
    assert_eq!(pull(&mut queue).await.key, key(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b80_work_goes_on_after_the_broker_was_paused() {
    let (world, server) = open().await;
    let mut queue = pulling(&world.bus).await;

    server.pause().unwrap();

    receiving(&world.bus, Receiving::No).await;
    let error = world.bus.wake(&key(9), "start").await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    // Until the client has given the connection up, which is the hard case.
    until("the client notices", async || {
        !world.bus.health().await.connected
    })
    .await;
    server.resume().unwrap();

    five_runs_go(&world, &mut queue, 10).await;
    receiving(&world.bus, Receiving::Yes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b80_work_goes_on_after_a_pause_that_the_connection_survives() {
    let (world, server) = open().await;
    let mut queue = pulling(&world.bus).await;

    server.pause().unwrap();
    receiving(&world.bus, Receiving::No).await;
    assert!(world.bus.health().await.connected);
    let problem = world.bus.health().await.problem().unwrap();
    assert!(!problem.is_empty());
    server.resume().unwrap();

    five_runs_go(&world, &mut queue, 0).await;
    receiving(&world.bus, Receiving::Yes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_away_at_start_may_come_later() {
    let mut server = NatsServer::prepare(&NatsServerOptions::default()).unwrap();
    let mut settings = config(&server, Settings::default());
    settings.connect_wait = Duration::from_millis(100);
    let bus: Arc<dyn Bus> = Arc::new(NatsBus::connect(settings).await.unwrap());
    let health = bus.health().await;
    assert!(!health.connected);
    assert!(health.problem().unwrap().contains("not connected"));
    let mut queue = bus.work().await.unwrap();
    let mut feed = bus.events("sayso.events.v1.>").await.unwrap();
    assert!(bus.wake(&key(1), "start").await.unwrap_err().is_transient());

    server.restart().unwrap();

    let wake = async || bus.wake(&key(1), "start").await.is_ok();
    until("a wake-up is taken", wake).await;
    assert_eq!(pull(&mut queue).await.key, key(1));
    bus.publish_event(event("desk", 1)).await.unwrap();
    assert_eq!(soon(feed.next()).await.unwrap(), Heard::Lagged(0));
    assert_eq!(
        soon(feed.next()).await.unwrap(),
        Heard::Message(event("desk", 1))
    );
    until("health is good", async || {
        bus.health().await.problem().is_none()
    })
    .await;
}

/// S8.4: the id is what the stream deduplicates by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_keeps_an_event_once_by_its_id() {
    let (world, server) = open().await;
    let events: Vec<_> = (0..10).map(|number| event("desk", number)).collect();
    world.bus.publish_events(events.clone()).await.unwrap();

    world.bus.publish_events(events).await.unwrap();

    let admin = administrator(&server).await;
    let mut stream = admin.get_stream(EVENTS_STREAM).await.unwrap();
    assert_eq!(stream.info().await.unwrap().state.messages, 10);
}
