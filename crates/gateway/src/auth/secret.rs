//! What a caller sends: `sayso_` and 64 hex digits.
//!
//! The 32 bytes are random, so a plain SHA-256 is a safe way to store them: there is nothing to
//! guess. Look-ups go by that hash, which tells nobody who measures them anything about the secret.

use std::fmt;

use sha2::{Digest, Sha256};

const PREFIX: &str = "sayso_";
const BYTES: usize = 32;

/// The SHA-256 of a token's secret: all that is stored of it (S6.11).
pub type SecretHash = [u8; 32];

/// A token's secret. Never printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(String);

impl TokenSecret {
    /// A new one from the system's randomness.
    ///
    /// # Errors
    ///
    /// When the system gives no randomness.
    pub fn generate() -> Result<TokenSecret, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(TokenSecret(format!("{PREFIX}{}", hex::encode(bytes))))
    }

    /// Reads what a caller sent; `None` if it cannot be a token of ours.
    pub fn parse(text: &str) -> Option<TokenSecret> {
        is_secret(text).then(|| TokenSecret(text.to_owned()))
    }

    /// The text, to be shown once.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    pub fn hash(&self) -> SecretHash {
        hash(&self.0)
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// The hash of what a caller sent, if it can be a token of ours: a wrong one costs no look-up.
pub(super) fn hash_of(text: &str) -> Option<SecretHash> {
    is_secret(text).then(|| hash(text))
}

fn hash(text: &str) -> SecretHash {
    Sha256::digest(text.as_bytes()).into()
}

fn is_secret(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == 2 * BYTES
            && digits
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6.11: what is shown once is random, and only its hash is left of it.
    #[test]
    fn s6_11_a_secret_is_random_and_hides_itself() {
        let one = TokenSecret::generate().unwrap();
        let two = TokenSecret::generate().unwrap();
        assert_ne!(one.hash(), two.hash());
        assert_eq!(TokenSecret::parse(one.expose()).unwrap().hash(), one.hash());
        assert_eq!(hash_of(one.expose()), Some(one.hash()));
        assert!(!format!("{one:?}").contains(&one.expose()[6..20]));
    }

    #[test]
    fn what_cannot_be_a_token_is_told_apart() {
        let digits = "a1".repeat(32);
        assert!(TokenSecret::parse(&format!("sayso_{digits}")).is_some());
        for bad in [
            "",
            "sayso_",
            &digits,
            &format!("sayso_{digits}0"),
            &format!("sayso_{}", digits.to_uppercase()),
            &format!("Sayso_{digits}"),
        ] {
            assert!(TokenSecret::parse(bad).is_none(), "{bad}");
        }
    }
}
