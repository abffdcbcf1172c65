//! Bad input and missing parts (S10.5), and how the edge is spoken to.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use prost::Message;
use sayso_bus::local::{LocalBus, LocalConfig};
use sayso_gateway::auth::Scope;
use sayso_gateway::{Gateway, GatewayConfig, GatewayParts};
use sayso_run::ChainKeys;
use sayso_service::config::Key;
use sayso_service::error::Coded;
use sayso_service::health::Health;
use sayso_service::internal::{SignInternal, VerifyInternal};
use sayso_service::metrics::Metrics;
use sayso_service::peer::Peer;
use sayso_service::serve::{self, Server};
use sayso_wire::v1;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tower::{Layer, ServiceExt};

use crate::house::{House, code};

/// S10.5: every field at fault is named, nothing happens, and nothing panics.
#[tokio::test]
async fn s10_5_bad_input_names_its_fields() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let request = |agent: &str, input: String, key: String| v1::StartRunRequest {
        agent: agent.into(),
        input,
        idempotency_key: key,
    };
    let cases = [
        (
            request("", "x".into(), String::new()),
            "request.invalid",
            Code::InvalidArgument,
            vec!["agent"],
        ),
        (
            request("A b", "x".into(), "k".repeat(256)),
            "request.invalid",
            Code::InvalidArgument,
            vec!["agent", "idempotency_key"],
        ),
        (
            request("desk", "x".repeat(1024 * 1024 + 1), String::new()),
            "request.too_large",
            Code::OutOfRange,
            vec!["input"],
        ),
        (
            request("desk", "a\0b".into(), String::new()),
            "request.invalid_text",
            Code::InvalidArgument,
            vec!["input"],
        ),
    ];
    for (request, expected, grpc, fields) in cases {
        let refused = ann.runs().start_run(request).await.expect_err("refused");
        let coded = Coded::from_status(&refused);
        assert_eq!((refused.code(), coded.code.as_ref()), (grpc, expected));
        let named: Vec<_> = coded
            .fields
            .iter()
            .map(|(field, _)| field.as_str())
            .collect();
        assert_eq!(named, fields);
    }
    let exact = request("desk", "x".repeat(1024 * 1024), "k".repeat(255));
    ann.runs()
        .start_run(exact)
        .await
        .expect("as large as it may be");
    let empty = v1::ReplyToRunRequest {
        run_id: ann.start("hello").await.to_string(),
        ..v1::ReplyToRunRequest::default()
    };
    assert_eq!(
        code(&ann.runs().reply_to_run(empty).await.expect_err("nothing")),
        "request.empty"
    );
    let nonsense = v1::GetRunRequest {
        run_id: "apr_1; DROP".into(),
    };
    let refused = ann.runs().get_run(nonsense).await.expect_err("no id");
    assert_eq!(Coded::from_status(&refused).fields[0].0, "run_id");
}

/// A message goes into a run that waits for it.
#[tokio::test]
async fn s1_8_a_reply_goes_into_the_run() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let (run, _) = house.gated(&ann).await;
    let reply = v1::ReplyToRunRequest {
        run_id: run.to_string(),
        message: "Never mind the refund.".into(),
        idempotency_key: "k".into(),
    };
    let replied = ann
        .runs()
        .reply_to_run(reply.clone())
        .await
        .expect("taken")
        .into_inner();
    let replied = replied.run.expect("a run");
    assert_eq!(replied.status(), v1::RunStatus::Running);
    let again = ann
        .runs()
        .reply_to_run(reply)
        .await
        .expect("taken before")
        .into_inner();
    assert_eq!(
        again.run.expect("a run").last_sequence,
        replied.last_sequence
    );
}

/// A sibling or the database that is away is told as such, and everything goes on when it is back.
#[tokio::test]
async fn s10_5_what_is_away_is_said_and_recovers() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let (peer, binding) = Peer::late();
    let store = house.database.store().await;
    let gateway = Gateway::build(GatewayParts {
        store: store.clone(),
        bus: Arc::new(LocalBus::new(LocalConfig::default())),
        scheduler: peer.clone(),
        hub: peer.clone(),
        policy: peer.clone(),
        notifier: peer,
        key: house.key.clone(),
        keys: ChainKeys::from_iter([house.key.clone()]),
        config: GatewayConfig::default(),
    });
    let gateway = gateway.expect("built");
    let elsewhere = crate::house::Person::at(&gateway, &ann.secret);
    let start = v1::StartRunRequest {
        agent: "desk".into(),
        input: "hello".into(),
        idempotency_key: String::new(),
    };
    let refused = elsewhere
        .runs()
        .start_run(start.clone())
        .await
        .expect_err("away");
    let coded = Coded::from_status(&refused);
    assert_eq!(
        (refused.code(), coded.code.as_ref()),
        (Code::Unavailable, "service.unavailable")
    );
    assert_eq!(
        (
            coded.metadata["service"].as_str(),
            coded.metadata["done"].as_str()
        ),
        ("scheduler", "no")
    );

    let cluster = Key::generate();
    let service = VerifyInternal::new(&cluster).layer(house.siblings.routes());
    let _bound = binding.bind(Peer::local(service, SignInternal::new("gateway", &cluster)));
    elsewhere
        .runs()
        .start_run(start.clone())
        .await
        .expect("it is back");

    store.close().await;
    let refused = elsewhere
        .runs()
        .start_run(start)
        .await
        .expect_err("the database is away");
    assert_eq!(
        (refused.code(), code(&refused).as_str()),
        (Code::Unavailable, "database.unavailable")
    );
    let unseen = house.person("shop", "bob", &[Scope::Read]).await;
    let unseen = crate::house::Person::at(&gateway, &unseen.secret);
    let refused = unseen
        .runs()
        .list_runs(v1::ListRunsRequest::default())
        .await
        .expect_err("away");
    assert!(["token.unverifiable", "token.invalid"].contains(&code(&refused).as_str()));
    assert_eq!(refused.code(), Code::Unavailable);
}

/// gRPC-web over HTTP/1.1 goes the same way, refusals included.
#[tokio::test]
async fn grpc_web_is_answered_and_guarded() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = ann.start("hello").await;
    let message = v1::GetRunRequest {
        run_id: run.to_string(),
    };
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.encoded_len()).expect("small"));
    message.encode(&mut frame).expect("it grows");
    let frame = frame.freeze();
    let call = async |bearer: Option<&str>| {
        let mut request = http::Request::post("/sayso.v1.RunService/GetRun")
            .version(http::Version::HTTP_11)
            .header("content-type", "application/grpc-web+proto");
        if let Some(secret) = bearer {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        let body = Body::new(Full::new(frame.clone()));
        let response = house
            .gateway
            .routes()
            .oneshot(request.body(body).expect("a request"))
            .await;
        let response = response.expect("answered");
        assert_eq!(
            response.headers()["content-type"],
            "application/grpc-web+proto"
        );
        let (parts, body) = response.into_parts();
        (parts, body.collect().await.expect("a body").to_bytes())
    };
    let (_, body) = call(Some(&ann.secret)).await;
    assert_eq!(body[0], 0, "a message first");
    let length = u32::from_be_bytes(body[1..5].try_into().expect("four bytes")) as usize;
    let answer = v1::GetRunResponse::decode(&body[5..5 + length]).expect("an answer");
    assert_eq!(answer.run.expect("a run").id, run.to_string());
    let trailers = &body[5 + length..];
    assert_eq!(trailers[0], 0x80);
    assert!(String::from_utf8_lossy(trailers).contains("grpc-status:0"));
    let (parts, _): (_, Bytes) = call(None).await;
    assert_eq!(parts.headers["grpc-status"], "16");
}

/// One port: gRPC over TCP, health, and reflection of the public API alone.
#[tokio::test]
async fn s10_2_one_port_answers_grpc_health_and_reflection() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let health = Health::new();
    house.gateway.check_health(&health);
    let listener = serve::bind(([127, 0, 0, 1], 0).into())
        .await
        .expect("bound");
    let address = listener.local_addr().expect("bound");
    let server = Server::public(
        house.gateway.routes(),
        house.gateway.router(),
        health,
        Metrics::new(),
    );
    let shutdown = CancellationToken::new();
    let served = tokio::spawn(server.run(listener, shutdown.clone()));
    let channel = Channel::from_shared(format!("http://{address}")).expect("a URI");
    let channel = channel.connect().await.expect("connected");

    let run = ann.start("hello").await;
    let mut request = Request::new(v1::GetRunRequest {
        run_id: run.to_string(),
    });
    let bearer = format!("Bearer {}", ann.secret).parse().expect("a header");
    request.metadata_mut().insert("authorization", bearer);
    let mut runs = v1::run_service_client::RunServiceClient::new(channel.clone());
    let got = runs.get_run(request).await.expect("read").into_inner();
    assert_eq!(got.run.expect("a run").id, run.to_string());

    let asked = HealthCheckRequest {
        service: "sayso.v1.RunService".into(),
    };
    let health = HealthClient::new(channel.clone())
        .check(asked)
        .await
        .expect("known")
        .into_inner();
    assert_eq!(health.status, 1, "serving");

    let asked = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut reflection = ServerReflectionClient::new(channel);
    let mut answers = reflection
        .server_reflection_info(tokio_stream::once(asked))
        .await
        .expect("answered")
        .into_inner();
    let answer = answers
        .message()
        .await
        .expect("no error")
        .expect("an answer");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("a list: {answer:?}");
    };
    let names: Vec<_> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    assert!(
        names.contains(&"sayso.v1.ApprovalService".to_owned()),
        "{names:?}"
    );
    assert!(
        names.iter().all(|name| !name.contains("internal")),
        "{names:?}"
    );
    shutdown.cancel();
    drop(answers);
    served.await.expect("no panic");
}
