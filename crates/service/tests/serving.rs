//! A served process as its siblings and its operator meet it.

mod probe;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use probe::{Probe, Served, ask, client};
use sayso_service::config::Key;
use sayso_service::error::Coded;
use sayso_service::internal::{SignInternal, VerifyInternal};
use sayso_service::peer::Peer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::health_client::HealthClient;
use tower::{Layer, ServiceExt};
use tracing_subscriber::layer::SubscriberExt;

const GRACE: Duration = Duration::from_secs(5);

/// What a plain HTTP/1.1 client gets.
async fn page(served: &Served, path: &str) -> String {
    let mut stream = TcpStream::connect(served.address).await.expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    answer
}

#[tokio::test]
async fn s10_2_one_port_answers_grpc_probes_and_pages() {
    let served = Served::start(GRACE).await;
    let answer = client(served.peer())
        .check(ask(""))
        .await
        .expect("answered");
    assert_eq!(answer.metadata().get("caller").expect("named"), "tests");

    assert!(page(&served, "/livez").await.ends_with("alive\n"));
    assert!(
        page(&served, "/readyz")
            .await
            .starts_with("HTTP/1.1 200 OK")
    );
    assert!(page(&served, "/nowhere").await.starts_with("HTTP/1.1 404"));
    let metrics = page(&served, "/metrics").await;
    assert!(
        metrics.contains("sayso_rpc_seconds_count{method=\"test.Probe/Check\",code=\"Ok\"} 1"),
        "{metrics}"
    );

    for service in ["", "test.Probe"] {
        let channel = tonic::transport::Endpoint::from_shared(served.address().to_string());
        let channel = channel.expect("an address").connect_lazy();
        let health = HealthClient::new(channel).check(ask(service)).await;
        assert_eq!(health.expect("unsigned").into_inner().status, 1);
    }
    served.stop().await;
}

#[tokio::test]
async fn no_internal_call_skips_authentication_over_tcp() {
    let served = Served::start(GRACE).await;
    let stranger = SignInternal::new("tests", &Key::generate());
    let refused = client(Peer::remote(&[served.address()], stranger))
        .check(ask(""))
        .await;
    let refused = refused.expect_err("another cluster's key");
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert_eq!(
        Coded::from_status(&refused).code,
        "internal.unauthenticated"
    );

    let channel = tonic::transport::Endpoint::from_shared(served.address().to_string());
    let channel = channel.expect("an address").connect_lazy();
    let mut unsigned = tonic::client::Grpc::new(channel);
    unsigned.ready().await.expect("ready");
    let codec = tonic_prost::ProstCodec::<
        tonic_health::pb::HealthCheckRequest,
        tonic_health::pb::HealthCheckResponse,
    >::default();
    let path = http::uri::PathAndQuery::from_static("/test.Probe/Check");
    let refused = unsigned
        .unary(ask(""), path, codec)
        .await
        .expect_err("unsigned");
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert_eq!(served.probe.calls.load(Ordering::SeqCst), 0);
    served.stop().await;
}

#[tokio::test]
async fn a_peer_in_this_process_is_signed_guarded_and_timed_alike() {
    let key = Key::generate();
    let probe = Probe::default();
    let routes = VerifyInternal::new(&key).layer(probe.routes());
    let local = Peer::local(routes.clone(), SignInternal::new("gateway", &key));
    let mut calls = client(local.clone());
    let answer = calls.check(ask("")).await.expect("answered");
    assert_eq!(answer.metadata().get("caller").expect("named"), "gateway");

    let stranger = SignInternal::new("gateway", &Key::generate());
    let refused = client(Peer::local(routes, stranger)).check(ask("")).await;
    assert_eq!(refused.expect_err("refused").code(), Code::Unauthenticated);

    let served = Served::start(GRACE).await;
    for peer in [local, served.peer()] {
        let mut calls = client(peer);
        let failed = calls.check(ask("panic")).await.expect_err("panicked");
        assert_eq!(failed.code(), Code::Internal);
        assert!(!failed.message().contains("secret"), "{failed}");
        let mut stream = calls.watch(ask("panic")).await.expect("begun").into_inner();
        let failed = loop {
            match stream.message().await {
                Ok(item) => assert!(item.is_some(), "ended without its failure"),
                Err(failed) => break failed,
            }
        };
        assert_eq!(failed.code(), Code::Internal, "{failed:?}");
        assert!(!failed.message().contains("secret"), "{failed}");

        let mut hang = ask("hang");
        hang.set_timeout(Duration::from_millis(20));
        let late = calls.check(hang).await.expect_err("too late");
        assert_eq!(late.code(), Code::DeadlineExceeded);

        let refused = calls.check(ask("refuse")).await.expect_err("refused");
        let coded = Coded::from_status(&refused);
        assert_eq!(coded.code, "bundle.invalid");
        assert_eq!(coded.fields[0].0, "rules[0].tool");
        calls.check(ask("")).await.expect("the connection lives on");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_late_peer_refuses_until_it_is_bound_and_after_it_ended() {
    let key = Key::generate();
    let (late, binding) = Peer::late();
    let mut calls = client(late);
    let early = calls.check(ask("")).await.expect_err("not bound");
    assert_eq!(Coded::from_status(&early).code, "peer.unreachable");

    let probe = Probe::default();
    let routes = VerifyInternal::new(&key).layer(probe.routes());
    let bound = binding.bind(Peer::local(routes, SignInternal::new("policy", &key)));
    calls.clone().check(ask("")).await.expect("bound");
    drop(bound);
    let ended = calls.check(ask("")).await.expect_err("ended");
    assert_eq!(ended.code(), Code::Unavailable);
}

#[tokio::test]
async fn s10_2_open_streams_do_not_hold_up_the_drain() {
    let grace = Duration::from_millis(300);
    let served = Served::start(grace).await;
    let mut calls = client(served.peer());
    let mut stream = calls.watch(ask("")).await.expect("begun").into_inner();
    stream.message().await.expect("the first item");
    assert_eq!(served.probe.open.load(Ordering::SeqCst), 1);

    let (open, address) = (served.probe.open.clone(), served.address);
    let begun = Instant::now();
    served.stop().await;
    let took = begun.elapsed();
    assert!(
        took >= grace && took < grace + Duration::from_secs(2),
        "{took:?}"
    );
    assert!(stream.message().await.is_err(), "the stream was cut");
    TcpStream::connect(address)
        .await
        .expect_err("nobody listens");
    // The handler ends in a task of its own, told by the connection's end.
    tokio::time::timeout(Duration::from_secs(2), async {
        while open.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the stream's handler was dropped");
}

#[tokio::test]
async fn s10_2_a_drain_finishes_calls_under_way_and_waits_no_longer() {
    let served = Served::start(Duration::from_secs(60)).await;
    let mut calls = client(served.peer());
    let probe = served.probe.clone();
    let under_way = tokio::spawn(async move { calls.check(ask("wait")).await });
    probe.begun.notified().await;
    served.shutdown.cancel();
    // Connections without a call, as browsers keep them, are not waited for.
    while TcpStream::connect(served.address).await.is_ok() {}
    let mut later = client(served.peer());
    let refused = later.check(ask("")).await.expect_err("draining");
    assert_eq!(Coded::from_status(&refused).code, "peer.unreachable");
    probe.release.notify_one();
    under_way.await.expect("no panic").expect("finished");
    let ended = tokio::time::timeout(Duration::from_secs(5), served.ended).await;
    ended.expect("at once").expect("no panic");
}

#[tokio::test]
async fn s10_2_health_watchers_learn_of_the_drain() {
    let served = Served::start(GRACE).await;
    let channel = tonic::transport::Endpoint::from_shared(served.address().to_string());
    let mut health = HealthClient::new(channel.expect("an address").connect_lazy());
    let mut watch = health.watch(ask("")).await.expect("begun").into_inner();
    assert_eq!(
        watch
            .message()
            .await
            .expect("sent")
            .expect("a status")
            .status,
        1
    );
    let begun = Instant::now();
    served.stop().await;
    assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
    assert_eq!(
        watch
            .message()
            .await
            .expect("sent")
            .expect("a status")
            .status,
        2
    );
    assert!(watch.message().await.expect("ended well").is_none());
}

#[tokio::test]
async fn a_peer_reconnects_by_itself() {
    let served = Served::start(Duration::ZERO).await;
    let (address, key) = (served.address, served.key.clone());
    let mut calls = client(served.peer());
    calls.check(ask("")).await.expect("answered");
    served.stop().await;
    let gone = calls.check(ask("")).await.expect_err("nobody there");
    assert_eq!(gone.code(), Code::Unavailable);
    let back = Served::at(address, key, GRACE).await;
    calls.check(ask("")).await.expect("answered again");
    back.stop().await;
}

#[tokio::test]
async fn calls_are_spread_over_instances_and_avoid_dead_ones() {
    let a = Served::start(Duration::ZERO).await;
    let b = Served::at(([127, 0, 0, 1], 0).into(), a.key.clone(), Duration::ZERO).await;
    let mut calls = client(Peer::remote(&[a.address(), b.address()], a.signer()));
    for _ in 0..10 {
        calls.check(ask("")).await.expect("answered");
    }
    assert_eq!(a.probe.calls.load(Ordering::SeqCst), 5);
    assert_eq!(b.probe.calls.load(Ordering::SeqCst), 5);
    let survivor = a.probe.clone();
    b.stop().await;
    for _ in 0..10 {
        calls
            .check(ask(""))
            .await
            .expect("answered by the one that lives");
    }
    assert_eq!(survivor.calls.load(Ordering::SeqCst), 15);
    a.stop().await;
}

#[tokio::test]
async fn s10_3_one_trace_runs_through_a_call() {
    use opentelemetry::trace::TracerProvider;
    let provider = opentelemetry_sdk::trace::SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("tests"));
    let subscriber = tracing_subscriber::registry().with(layer);
    let _set = tracing::subscriber::set_default(subscriber);
    let served = Served::start(GRACE).await;
    let mut calls = client(served.peer());
    // Tests beside this one may have passed the server's spans just before, when nobody listened.
    tracing::callsite::rebuild_interest_cache();
    let span = tracing::info_span!("caller");
    let (sent, answer) = tracing::Instrument::instrument(
        async {
            let sent = sayso_service::telemetry::propagate::traceparent();
            (sent.expect("in a trace"), calls.check(ask("")).await)
        },
        span,
    )
    .await;
    let answer = answer.expect("answered");
    let seen = answer.metadata().get("trace-seen").expect("a trace");
    let seen = seen.to_str().expect("text");
    assert_eq!(seen[..35], sent[..35], "the same trace");
    assert_ne!(seen, sent, "another span");
    served.stop().await;
}

#[tokio::test]
async fn big_bodies_and_many_calls_at_once_get_through() {
    let served = Served::start(GRACE).await;
    let peer = served.peer();
    let calls = (0..500).map(|_| {
        let mut calls = client(peer.clone());
        async move { calls.check(ask(&"x".repeat(10_000))).await }
    });
    for answer in futures::future::join_all(calls).await {
        answer.expect("answered");
    }
    assert!(served.metrics.render().contains("code=\"Ok\"} 500"));
    served.stop().await;
}

#[tokio::test]
async fn a_raw_answer_is_a_grpc_status_and_never_a_failed_service() {
    let nowhere = sayso_service::config::Address::parse("127.0.0.1:1").expect("an address");
    let peer = Peer::remote(&[nowhere], SignInternal::new("tests", &Key::generate()));
    let request = http::Request::post("/test.Probe/Check").body(tonic::body::Body::empty());
    let answer = peer
        .oneshot(request.expect("a request"))
        .await
        .expect("infallible");
    assert_eq!(answer.headers()["grpc-status"], "14");
    let body = answer.into_body().collect().await.expect("a body");
    assert!(body.to_bytes().is_empty());
}
