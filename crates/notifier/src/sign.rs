//! Signatures over the bytes that are sent, and over nothing else (B48).
//!
//! Two forms stand beside each other (S8.1). `X-Sayso-Signature` is keyed with the secret's text as
//! it is configured. Standard Webhooks' `webhook-signature` covers id and time too; its key is the
//! same text, unless it is written as that specification writes keys, `whsec_` and base64: then it
//! is the bytes that the base64 stands for, so that its libraries verify it as it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sayso_service::config::Secret;
use sha2::Sha256;

const WHSEC: &str = "whsec_";

/// `X-Sayso-Signature`: `sha256=` and the lowercase hex HMAC-SHA256 of the body.
pub(crate) fn sayso(secret: &Secret, body: &[u8]) -> String {
    format!(
        "sha256={}",
        hex::encode(mac(secret.expose().as_bytes(), &[body]))
    )
}

/// `webhook-signature`: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`, the time in whole
/// seconds since 1970.
pub(crate) fn standard(secret: &Secret, id: &str, timestamp: i64, body: &[u8]) -> String {
    let head = format!("{id}.{timestamp}.");
    let mac = mac(&standard_key(secret), &[head.as_bytes(), body]);
    format!("v1,{}", STANDARD.encode(mac))
}

fn standard_key(secret: &Secret) -> Vec<u8> {
    let text = secret.expose();
    text.strip_prefix(WHSEC)
        .and_then(|encoded| STANDARD.decode(encoded).ok())
        .unwrap_or_else(|| text.as_bytes().to_vec())
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S8.1: the example that RFC 4231 gives as its second.
    #[test]
    fn s8_1_the_signature_is_lowercase_hex_of_the_body_alone() {
        assert_eq!(
            sayso(&Secret::new("Jefe"), b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    /// S8.1: the example of the Standard Webhooks specification.
    #[test]
    fn s8_1_standard_webhooks_sign_id_time_and_body() {
        let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        assert_eq!(
            standard(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
        );
    }

    /// A secret that only looks like one of theirs is taken as it is.
    #[test]
    fn a_secret_that_is_no_base64_is_its_own_key() {
        assert_eq!(standard_key(&Secret::new("whsec_%%")), b"whsec_%%");
        assert_eq!(standard_key(&Secret::new("plain")), b"plain");
    }
}
