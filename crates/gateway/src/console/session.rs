//! A browser's session: a value that only gateways can make, and that any of them can check.
//!
//! ```text
//! cookie = base64url( version, id, token hash, end ) . base64url( HMAC("session", the former) )
//! form   = base64url( HMAC("form", id) )
//! ```
//!
//! The key of the HMACs is a seal of the chain key over a label that names no chain, so it is the
//! same on every gateway, and nobody who reads the database has it. The token's hash is what the
//! database keeps of a token; it opens nothing by itself. The id is random: two sessions of one token
//! have different form values.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sayso_run::{ChainKey, Digest, Timestamp};
use sha2::Sha256;

use crate::auth::SecretHash;

/// How long a session lasts at most, in microseconds: a working day.
const LONGEST: i64 = 12 * 60 * 60 * 1_000_000;

/// What the key is derived for. No run and no namespace has a slash in its name, so nothing that is
/// stored was ever sealed under it.
const LABEL: &str = "console/sessions";

const VERSION: u8 = 1;
const ID_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
const BYTES: usize = 1 + ID_BYTES + HASH_BYTES + 8;

/// A browser's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrowserSession {
    id: [u8; ID_BYTES],
    /// The token that it speaks for.
    pub(super) token: SecretHash,
    /// When it ends, by the database's clock.
    pub(super) ends_at: Timestamp,
}

/// Makes and checks sessions.
#[derive(Clone)]
pub(super) struct Sessions {
    key: [u8; 32],
}

impl Sessions {
    /// Under a key that is derived from the chain key.
    pub(super) fn of(key: &ChainKey) -> Sessions {
        let seal = key.seal(LABEL, &Digest::of(LABEL.as_bytes()));
        Sessions {
            key: *seal.mac.as_bytes(),
        }
    }

    /// A new session for a token.
    ///
    /// # Errors
    ///
    /// When the system gives no randomness.
    pub(super) fn begin(
        &self,
        token: SecretHash,
        token_ends_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<BrowserSession, getrandom::Error> {
        let mut id = [0; ID_BYTES];
        getrandom::fill(&mut id)?;
        let longest = now.plus_micros(LONGEST);
        let ends_at = token_ends_at.map_or(longest, |end| end.min(longest));
        Ok(BrowserSession { id, token, ends_at })
    }

    /// What the cookie holds.
    pub(super) fn write(&self, session: &BrowserSession) -> String {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(VERSION);
        bytes.extend_from_slice(&session.id);
        bytes.extend_from_slice(&session.token);
        bytes.extend_from_slice(&session.ends_at.micros().to_be_bytes());
        let seal = self.mac("session", &bytes).finalize().into_bytes();
        let (bytes, seal) = (URL_SAFE_NO_PAD.encode(bytes), URL_SAFE_NO_PAD.encode(seal));
        format!("{bytes}.{seal}")
    }

    /// The session of a cookie, if it is one of ours and has not ended.
    pub(super) fn read(&self, cookie: &str, now: Timestamp) -> Option<BrowserSession> {
        let (bytes, seal) = cookie.split_once('.')?;
        let bytes = URL_SAFE_NO_PAD.decode(bytes).ok()?;
        let seal = URL_SAFE_NO_PAD.decode(seal).ok()?;
        self.mac("session", &bytes).verify_slice(&seal).ok()?;
        let (version, rest) = bytes.split_first()?;
        let (id, rest) = rest.split_first_chunk::<ID_BYTES>()?;
        let (token, rest) = rest.split_first_chunk::<HASH_BYTES>()?;
        let ends_at = Timestamp::from_micros(i64::from_be_bytes(rest.try_into().ok()?));
        (*version == VERSION && now < ends_at).then_some(BrowserSession {
            id: *id,
            token: *token,
            ends_at,
        })
    }

    /// The value that the session's forms carry.
    pub(super) fn form_value(&self, session: &BrowserSession) -> String {
        URL_SAFE_NO_PAD.encode(self.mac("form", &session.id).finalize().into_bytes())
    }

    /// Whether a form of this session carried its value; takes the same time for every wrong one.
    pub(super) fn is_form_of(&self, session: &BrowserSession, value: &str) -> bool {
        let value = URL_SAFE_NO_PAD.decode(value);
        value.is_ok_and(|value| self.mac("form", &session.id).verify_slice(&value).is_ok())
    }

    fn mac(&self, purpose: &str, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.key).expect("HMAC takes keys of any length");
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(bytes);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000);

    fn sessions(key: u8) -> Sessions {
        Sessions::of(&ChainKey::new("test", [key; 32]))
    }

    fn begin(token_ends_at: Option<Timestamp>) -> BrowserSession {
        sessions(1).begin([9; 32], token_ends_at, NOW).unwrap()
    }

    /// S6.11: another gateway with the same key knows the session; a changed one is none.
    #[test]
    fn s6_11_a_session_is_read_by_every_gateway_and_cannot_be_made_up() {
        let session = begin(None);
        let cookie = sessions(1).write(&session);
        assert_eq!(sessions(1).read(&cookie, NOW), Some(session));
        assert_eq!(sessions(2).read(&cookie, NOW), None);
        for at in 0..cookie.len() {
            let mut changed = cookie.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            let read = sessions(1).read(&changed, NOW);
            assert_eq!(read, None, "changed at {at}");
        }
        for other in [
            "",
            ".",
            "x",
            "x.y",
            &cookie[1..],
            &cookie[..cookie.len() - 1],
        ] {
            assert_eq!(sessions(1).read(other, NOW), None, "{other}");
        }
    }

    /// A session ends after twelve hours, and never after its token.
    #[test]
    fn a_session_ends_with_its_token_and_after_twelve_hours() {
        assert_eq!(begin(None).ends_at, NOW.plus_micros(LONGEST));
        let soon = NOW.plus_micros(5);
        let session = begin(Some(soon));
        assert_eq!(session.ends_at, soon);
        let cookie = sessions(1).write(&session);
        let before = NOW.plus_micros(4);
        assert!(sessions(1).read(&cookie, before).is_some());
        assert!(sessions(1).read(&cookie, soon).is_none());
        let later = NOW.plus_micros(2 * LONGEST);
        assert_eq!(begin(Some(later)).ends_at, NOW.plus_micros(LONGEST));
    }

    #[test]
    fn a_form_belongs_to_one_session() {
        let (one, other) = (begin(None), begin(None));
        let value = sessions(1).form_value(&one);
        assert!(sessions(1).is_form_of(&one, &value));
        assert!(!sessions(1).is_form_of(&other, &value));
        assert!(!sessions(2).is_form_of(&one, &value));
        assert!(!sessions(1).is_form_of(&one, ""));
        let cookie = sessions(1).write(&one);
        let (_, seal) = cookie.split_once('.').unwrap();
        assert!(!sessions(1).is_form_of(&one, seal));
    }
}
