//! Order per line (S8.4), where one message of a batch is lost on its way: what replacing a connection
//! in the middle of a batch does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::jetstream::{self, consumer::pull};
use futures::StreamExt;
use sayso_bus::testing::NatsServer;
use sayso_bus::{Bus, Event, nats::EVENTS_STREAM, nats::NatsBus, nats::NatsConfig};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::world::soon;

/// In the payload of the message that gets lost.
const LOST: &str = "lost on its way";

/// Stands between client and broker, and loses one message.
async fn lossy(server: String) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let lost = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&lost);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let upstream = TcpStream::connect(server.trim_start_matches("nats://"))
                .await
                .unwrap();
            let (from_client, mut to_client) = client.into_split();
            let (mut from_server, to_server) = upstream.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            tokio::spawn(pass(from_client, to_server, Arc::clone(&seen)));
        }
    });
    (url, lost)
}

/// Hands the client's messages on, but for the first that is to be lost.
async fn pass(
    from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    lost: Arc<AtomicBool>,
) {
    let mut from = BufReader::new(from);
    loop {
        let mut frame = Vec::new();
        if from.read_until(b'\n', &mut frame).await.unwrap_or(0) == 0 {
            return;
        }
        let line = String::from_utf8_lossy(&frame).into_owned();
        if line.starts_with("PUB ") || line.starts_with("HPUB ") {
            let size: usize = line.split_whitespace().last().unwrap().parse().unwrap();
            let mut body = vec![0; size + 2];
            from.read_exact(&mut body).await.unwrap();
            frame.extend_from_slice(&body);
        }
        let is_lost = String::from_utf8_lossy(&frame).contains(LOST);
        if is_lost && !lost.swap(true, Ordering::SeqCst) {
            continue;
        }
        to.write_all(&frame).await.unwrap();
    }
}

fn event(run: &str, number: usize, body: &str) -> Event {
    Event {
        subject: format!("sayso.events.v1.shop.desk.kind_{number}"),
        id: format!("{run}:{number}"),
        headers: vec![("ce-subject".to_owned(), run.to_owned())],
        body: body.to_owned().into(),
    }
}

/// S8.4: the first event of a run is lost, the others are not: they wait, and are stored behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s8_4_what_is_lost_in_the_middle_of_a_batch_is_not_overtaken() {
    let server = NatsServer::start().unwrap();
    let (url, lost) = lossy(server.url()).await;
    let bus = NatsBus::connect(NatsConfig {
        servers: vec![url],
        request_timeout: Duration::from_millis(500),
        ..NatsConfig::default()
    });
    let bus = bus.await.unwrap();
    let batch = vec![
        event("run_a", 1, LOST),
        event("run_b", 1, "b"),
        event("run_a", 2, "a"),
        event("run_b", 2, "b"),
        event("run_a", 3, "a"),
    ];
    bus.publish_events(batch).await.unwrap();
    assert!(lost.load(Ordering::SeqCst), "the message was lost once");

    let client = async_nats::connect(server.url()).await.unwrap();
    let stream = jetstream::new(client)
        .get_stream(EVENTS_STREAM)
        .await
        .unwrap();
    let consumer = stream
        .create_consumer(pull::Config::default())
        .await
        .unwrap();
    let mut stored = consumer.messages().await.unwrap();
    let mut ids = Vec::new();
    while ids.len() < 5 {
        let message = soon(stored.next()).await.unwrap().unwrap();
        ids.push(
            message
                .headers
                .as_ref()
                .unwrap()
                .get("Nats-Msg-Id")
                .unwrap()
                .to_string(),
        );
    }
    for (run, count) in [("run_a", 3), ("run_b", 2)] {
        let of: Vec<&String> = ids.iter().filter(|id| id.starts_with(run)).collect();
        let wanted: Vec<String> = (1..=count)
            .map(|number| format!("{run}:{number}"))
            .collect();
        assert_eq!(of, wanted.iter().collect::<Vec<_>>(), "{ids:?}");
    }
}
