//! What a receiver gets, and that it verifies.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sayso_driver::Journal;
use sayso_service::config::{Secret, SecretSource};
use sha2::Sha256;
use wiremock::Request;

use crate::world::{KEY, Receiver, Target, World, config, header};

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// Verifies both signatures over the raw body, as a receiver would with the secret's text.
pub(crate) fn verify(request: &Request, key: &[u8]) {
    let given = header(request, "x-sayso-signature").unwrap();
    let digits = given.strip_prefix("sha256=").unwrap();
    assert!(
        digits.len() == 64
            && digits
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    );
    assert_eq!(hex::decode(digits).unwrap(), hmac(key, &request.body));
    verify_standard(request, key);
}

fn verify_standard(request: &Request, key: &[u8]) {
    let id = header(request, "webhook-id").unwrap();
    let timestamp = header(request, "webhook-timestamp").unwrap();
    let mut signed = format!("{id}.{timestamp}.").into_bytes();
    signed.extend_from_slice(&request.body);
    let (version, signature) = header(request, "webhook-signature")
        .unwrap()
        .split_once(',')
        .unwrap();
    assert_eq!(version, "v1");
    assert_eq!(STANDARD.decode(signature).unwrap(), hmac(key, &signed));
}

/// B48: it verifies over the raw body at the first try and at each retry, whatever the arguments
/// hold, and every try sends the same bytes under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn b48_every_try_verifies_over_the_raw_body() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[500, 503, 200]).await;
    let args = "{\"z\": 1.0, \"a\":\"\u{1f600} e\u{301} \u{2028} </x>\",\n \"m\":[]}";
    let approval = world
        .held(&Target {
            args: args.into(),
            ..Target::of(&receiver)
        })
        .await;
    let notifier = world.notifier().await;
    for planned in [1, 5] {
        world.rescheduled(Duration::from_secs(planned)).await;
        world.pass(Duration::from_secs(planned + 1)).await;
    }
    world.settled().await;
    let requests = receiver.reached(3).await;
    for request in &requests {
        verify(request, KEY.as_bytes());
        assert_eq!(request.body, requests[0].body);
        assert_eq!(
            header(request, "webhook-id"),
            header(&requests[0], "webhook-id")
        );
        assert_eq!(header(request, "x-sayso-event"), Some("approval.pending"));
        assert_eq!(header(request, "content-type"), Some("application/json"));
    }
    let times: BTreeSet<_> = requests
        .iter()
        .map(|request| header(request, "webhook-timestamp"))
        .collect();
    assert_eq!(times.len(), 3, "each try is stamped with its own time");
    let body = String::from_utf8(requests[0].body.clone()).unwrap();
    assert!(body.contains(&format!("\"args\":{args},")), "{body}");
    let told: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["approval"]["id"], approval.as_str());
    assert_eq!(
        told["approval"]["link"],
        format!("https://sayso.example/approvals/{approval}")
    );
    notifier.stop().await;
}

/// S8.1: a key that is written as Standard Webhooks writes keys is used as its libraries use it.
#[tokio::test(flavor = "multi_thread")]
async fn s8_1_a_standard_webhooks_key_is_decoded() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    let key = b"24 bytes of key material";
    let mut config = config();
    let text = format!("whsec_{}", STANDARD.encode(key));
    config
        .secrets
        .insert("HOOK".into(), SecretSource::Value(Secret::new(text)));
    world.held(&Target::of(&receiver)).await;
    let notifier = world.notifier_with(config).await;
    let requests = receiver.reached(1).await;
    verify_standard(&requests[0], key);
    notifier.stop().await;
}

/// S8.1: the time of a try is the database's, in seconds.
#[tokio::test(flavor = "multi_thread")]
async fn s8_1_tries_are_stamped_with_the_databases_time() {
    let world = World::new().await;
    world.pass(Duration::from_secs(7_200)).await;
    let receiver = Receiver::statuses(&[]).await;
    world.held(&Target::of(&receiver)).await;
    let notifier = world.notifier().await;
    let requests = receiver.reached(1).await;
    let stamped: i64 = header(&requests[0], "webhook-timestamp")
        .unwrap()
        .parse()
        .unwrap();
    let now = world.store.now().micros() / 1_000_000;
    assert!((now - 60..=now).contains(&stamped), "{stamped} {now}");
    notifier.stop().await;
}

/// S8.1: without a secret in the bundle nothing is signed; the id is there all the same.
#[tokio::test(flavor = "multi_thread")]
async fn s8_1_without_a_secret_it_is_not_signed() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    world
        .held(&Target {
            secret: None,
            ..Target::of(&receiver)
        })
        .await;
    let notifier = world.notifier().await;
    let requests = receiver.reached(1).await;
    for signature in ["x-sayso-signature", "webhook-signature"] {
        assert_eq!(header(&requests[0], signature), None);
    }
    assert!(header(&requests[0], "webhook-id").is_some());
    notifier.stop().await;
}

/// S8.1: if the secret is missing nothing is sent unsigned, and the log says so.
#[tokio::test(flavor = "multi_thread")]
async fn s8_1_a_missing_secret_is_said_and_nothing_is_sent() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    let mut config = config();
    let unset = SecretSource::Variable("SAYSO_TEST_NOBODY_SETS_THIS".into());
    config.secrets.insert("UNSET".into(), unset);
    for name in ["ABSENT", "UNSET"] {
        world
            .held(&Target {
                secret: Some(name.into()),
                ..Target::of(&receiver)
            })
            .await;
    }
    let notifier = world.notifier_with(config).await;
    world.settled().await;
    assert!(receiver.requests().await.is_empty());
    let log = world.log().await;
    assert_eq!(log.len(), 2);
    assert!(
        log.iter().all(|(code, _)| code == "notify.secret_missing"),
        "{log:?}"
    );
    assert!(
        log.iter().any(|(_, text)| text.contains("`ABSENT`")),
        "{log:?}"
    );
    assert!(
        log.iter()
            .any(|(_, text)| text.contains("SAYSO_TEST_NOBODY_SETS_THIS")),
        "{log:?}"
    );
    notifier.stop().await;
}

/// B17: the second pause of a run reaches the target too.
#[tokio::test(flavor = "multi_thread")]
async fn b17_every_pause_of_a_run_is_told() {
    let world = World::new().await;
    let receiver = Receiver::statuses(&[]).await;
    let notifier = world.notifier().await;
    let run = world.run().await;
    let first = world.hold(&run, 1, &Target::of(&receiver)).await;
    receiver.reached(1).await;
    world
        .decide(&first, sayso_driver::ApprovalStatus::Approved)
        .await;
    let second = world.hold(&run, 2, &Target::of(&receiver)).await;
    let requests = receiver.reached(2).await;
    let told: Vec<_> = requests
        .iter()
        .map(|request| {
            let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
            body["approval"]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(told, [first.as_str(), second.as_str()]);
    notifier.stop().await;
}
