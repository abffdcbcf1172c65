//! Configuration that cannot work is told at once and by name.

use std::time::Duration;

use async_nats::jetstream::{
    self,
    stream::{Config, RetentionPolicy},
};
use sayso_bus::{
    Bus, BusError,
    nats::{CONSUMER, EVENTS_STREAM, NatsAuth, NatsBus, NatsConfig, WORK_STREAM},
    testing::{NatsServer, NatsServerOptions},
};

use crate::world::{Settings, config};

async fn refused(config: NatsConfig) -> BusError {
    let error = NatsBus::connect(config).await.err().unwrap();
    assert_eq!(error.code(), "bus.misconfigured", "{error}");
    assert!(!error.is_transient());
    error
}

#[tokio::test]
async fn a_stream_of_another_retention_is_named_with_its_field() {
    let server = NatsServer::start().unwrap();
    let admin = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let foreign = Config {
        name: WORK_STREAM.to_owned(),
        subjects: vec!["sayso.work.>".to_owned()],
        retention: RetentionPolicy::Limits,
        ..Config::default()
    };
    admin.create_stream(foreign).await.unwrap();

    let error = refused(config(&server, Settings::default())).await;

    let text = error.to_string();
    for part in ["SAYSO_WORK", "retention", "Limits", "WorkQueue"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn a_foreign_stream_over_our_subjects_is_told() {
    let server = NatsServer::start().unwrap();
    let admin = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let foreign = Config {
        name: "EVERYTHING".to_owned(),
        subjects: vec!["sayso.>".to_owned()],
        ..Config::default()
    };
    admin.create_stream(foreign).await.unwrap();

    let error = refused(config(&server, Settings::default())).await;

    assert!(error.to_string().contains("overlap"), "{error}");
}

#[tokio::test]
async fn what_the_broker_can_change_is_changed_and_the_rest_kept() {
    let server = NatsServer::start().unwrap();
    let admin = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let older = Config {
        name: EVENTS_STREAM.to_owned(),
        subjects: vec!["sayso.events.v1.>".to_owned()],
        max_age: Duration::from_secs(60 * 60),
        max_bytes: 1 << 30,
        ..Config::default()
    };
    admin.create_stream(older).await.unwrap();
    let mut settings = config(&server, Settings::default());
    settings.ack_wait = Duration::from_secs(11);

    NatsBus::connect(settings.clone()).await.unwrap();
    settings.ack_wait = Duration::from_secs(12);
    let bus = NatsBus::connect(settings).await.unwrap();

    let stream = admin.get_stream(EVENTS_STREAM).await.unwrap();
    let now = &stream.cached_info().config;
    assert_eq!(now.max_age, Duration::from_secs(7 * 24 * 60 * 60));
    assert_eq!(now.duplicate_window, Duration::from_secs(10));
    assert_eq!(now.max_bytes, 1 << 30);
    let work = admin.get_stream(WORK_STREAM).await.unwrap();
    assert_eq!(work.cached_info().config.max_messages_per_subject, 1);
    let consumer = work.consumer_info(CONSUMER).await.unwrap();
    assert_eq!(consumer.config.ack_wait, Duration::from_secs(12));
    assert_eq!(consumer.config.max_deliver, -1);
    assert_eq!(bus.health().await.problem(), None);
}

#[tokio::test]
async fn more_replicas_than_servers_are_refused() {
    let server = NatsServer::start().unwrap();
    let mut settings = config(&server, Settings::default());
    settings.replicas = Some(3);
    refused(settings).await;
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_the_right_one_works() {
    let options = NatsServerOptions {
        token: Some("s3cret".to_owned()),
        ..NatsServerOptions::default()
    };
    let server = NatsServer::start_with(&options).unwrap();
    let mut settings = config(&server, Settings::default());
    settings.auth = NatsAuth::Token("wrong".to_owned());
    let error = refused(settings.clone()).await;
    assert!(error.to_string().contains("credentials"), "{error}");

    settings.auth = NatsAuth::Token("s3cret".to_owned());
    let shown = format!("{settings:?}");
    let bus = NatsBus::connect(settings).await.unwrap();

    assert_eq!(bus.health().await.problem(), None);
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_by_name() {
    let with = |change: fn(&mut NatsConfig)| {
        let mut config = NatsConfig::default();
        change(&mut config);
        config
    };
    for (wanted, config) in [
        (
            "URL",
            with(|c| c.servers = vec!["nats://:secret@[broken".to_owned()]),
        ),
        ("URL", with(|c| c.servers.clear())),
        ("max_outstanding", with(|c| c.max_outstanding = 0)),
        ("replicas", with(|c| c.replicas = Some(9))),
        ("heartbeat", with(|c| c.heartbeat = Duration::from_secs(60))),
        ("ack_wait", with(|c| c.ack_wait = Duration::ZERO)),
        (
            "credentials file",
            with(|c| c.auth = NatsAuth::Credentials("/nowhere/x.creds".into())),
        ),
    ] {
        let error = refused(config).await.to_string();
        assert!(error.contains(wanted), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
