//! Signatures of webhooks, over the exact bytes and nothing else (S8.1, S8.5, B48).
//!
//! Two forms stand beside each other, in what is sent and in what is taken. `X-Sayso-Signature` is
//! keyed with the secret's text as it is configured. Standard Webhooks' `webhook-signature` covers id
//! and time too; its key is the same text, unless it is written as that specification writes keys,
//! `whsec_` and base64: then it is the bytes that the base64 stands for, so that its libraries verify
//! it as it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::config::Secret;

/// The header of the first form.
pub const SAYSO_HEADER: &str = "x-sayso-signature";
/// Standard Webhooks: the headers of the message's id, of its time in whole seconds since 1970, and
/// of its signatures with blanks between.
pub const STANDARD_HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

const WHSEC: &str = "whsec_";

/// `X-Sayso-Signature`: `sha256=` and the lowercase hex HMAC-SHA256 of the body.
pub fn sayso(secret: &Secret, body: &[u8]) -> String {
    let mac = mac(secret.expose().as_bytes(), &[body]);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

/// `webhook-signature`: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`, the time in whole
/// seconds since 1970.
pub fn standard(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> String {
    let head = format!("{id}.{timestamp}.");
    let mac = mac(&standard_key(secret), &[head.as_bytes(), body]);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Whether `given` is the `X-Sayso-Signature` of the body; takes the same time whatever is wrong.
pub fn is_sayso(secret: &Secret, body: &[u8], given: &str) -> bool {
    let mac = mac(secret.expose().as_bytes(), &[body]);
    let tag = given.strip_prefix("sha256=").map(hex::decode);
    let tag = tag.and_then(Result::ok).unwrap_or_default();
    mac.verify_slice(&tag).is_ok()
}

/// Whether one of the signatures in `given` is that of the message. `timestamp` is the header's exact
/// text.
pub fn is_standard(secret: &Secret, id: &str, timestamp: &str, body: &[u8], given: &str) -> bool {
    let head = format!("{id}.{timestamp}.");
    let mac = mac(&standard_key(secret), &[head.as_bytes(), body]);
    given
        .split(' ')
        .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
        .any(|tag| mac.clone().verify_slice(&tag).is_ok())
}

fn standard_key(secret: &Secret) -> Vec<u8> {
    let text = secret.expose();
    text.strip_prefix(WHSEC)
        .and_then(|encoded| STANDARD.decode(encoded).ok())
        .unwrap_or_else(|| text.as_bytes().to_vec())
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S8.1: the example that RFC 4231 gives as its second.
    #[test]
    fn s8_1_the_signature_is_lowercase_hex_of_the_body_alone() {
        let (secret, body) = (Secret::new("Jefe"), b"what do ya want for nothing?");
        let signature = sayso(&secret, body);
        assert_eq!(
            signature,
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert!(is_sayso(&secret, body, &signature));
        assert!(!is_sayso(
            &secret,
            b"what do ya want for nothing!",
            &signature
        ));
        assert!(!is_sayso(&Secret::new("jefe"), body, &signature));
        for bad in ["", "sha256=", "sha256=5bdc", "sha256=zz", &signature[7..]] {
            assert!(!is_sayso(&secret, body, bad), "{bad}");
        }
    }

    /// S8.1: the example of the Standard Webhooks specification.
    #[test]
    fn s8_1_standard_webhooks_sign_id_time_and_body() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(standard(&secret, id, 1_614_265_330, body), signature);
        let holds = |id, time, given: &str| is_standard(&secret, id, time, body, given);
        assert!(holds(id, "1614265330", signature));
        let several = format!("v1a,AAAA v1,AAAA {signature}");
        assert!(holds(id, "1614265330", &several));
        assert!(!holds(id, "1614265331", signature));
        assert!(!holds("msg_other", "1614265330", signature));
        assert!(!holds(id, "1614265330", "v1,AAAA"));
        assert!(!holds(id, "1614265330", ""));
    }

    /// A secret that only looks like one of theirs is taken as it is.
    #[test]
    fn a_secret_that_is_no_base64_is_its_own_key() {
        assert_eq!(standard_key(&Secret::new("whsec_%%")), b"whsec_%%");
        assert_eq!(standard_key(&Secret::new("plain")), b"plain");
    }
}
