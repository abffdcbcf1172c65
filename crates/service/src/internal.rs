//! Calls between services are signed: no internal call skips authentication.
//!
//! A caller sends `authorization: SaysoInternal <service>.<expiry>.<mac>`,
//! where expiry is in seconds since 1970 and the MAC is HMAC-SHA256 under the
//! cluster key over the rest. The token lives for a minute and says who calls,
//! not what is called: it keeps strangers on the network out and tells siblings
//! apart for the log. Whoever holds the cluster key is trusted, and whoever can
//! read the traffic could reuse a token for a minute; where the network is not
//! trusted, mTLS goes around it.
//!
//! One token serves many calls ([`SignInternal`] renews it half-way through its
//! life), so signing costs nothing per call; checking costs one MAC. Clocks of
//! two hosts may differ by half a minute.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use futures::future::{Either, Ready, ready};
use hmac::{Hmac, KeyInit, Mac};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Request, Response};
use sha2::Sha256;
use tonic::service::Interceptor;
use tower::{Layer, Service};

use crate::config::Key;
use crate::error::{Coded, Kind};
use crate::guard;

/// How long a token is valid.
pub const LIFETIME: Duration = Duration::from_secs(60);

const SCHEME: &str = "SaysoInternal ";

/// How far the clocks of two hosts may be apart.
const SKEW: Duration = Duration::from_secs(30);

/// Keeps these MACs apart from any other use of the key.
const CONTEXT: &[u8] = b"sayso internal call v1\n";

type HmacSha256 = Hmac<Sha256>;

fn mac(key: &Key) -> HmacSha256 {
    let mut mac = HmacSha256::new_from_slice(key.bytes()).expect("HMAC takes a key of any length");
    mac.update(CONTEXT);
    mac
}

fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Signs the calls of one service. Clones share one token.
#[derive(Clone)]
pub struct SignInternal {
    inner: Arc<Signer>,
}

struct Signer {
    service: String,
    mac: HmacSha256,
    token: ArcSwap<Token>,
}

struct Token {
    header: HeaderValue,
    renew_at: Instant,
}

impl std::fmt::Debug for SignInternal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SignInternal({})", self.inner.service)
    }
}

impl SignInternal {
    /// Signs as `service` (`scheduler`, `approval_hub`) under the cluster key.
    ///
    /// # Panics
    ///
    /// When the name has other characters than `a-z`, `0-9`, `-` and `_`: names
    /// of services are part of the code.
    pub fn new(service: &str, key: &Key) -> SignInternal {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_';
        assert!(
            !service.is_empty() && service.bytes().all(fits),
            "{service:?} names a service"
        );
        let mac = mac(key);
        let token = ArcSwap::from_pointee(issue(&mac, service, unix_seconds()));
        let service = service.to_owned();
        SignInternal {
            inner: Arc::new(Signer {
                service,
                mac,
                token,
            }),
        }
    }

    /// The value of the `authorization` header, valid for half a minute or more.
    pub fn header(&self) -> HeaderValue {
        let token = self.inner.token.load();
        if Instant::now() < token.renew_at {
            return token.header.clone();
        }
        // Several calls may find it old at once; each makes one, any will do.
        let fresh = issue(&self.inner.mac, &self.inner.service, unix_seconds());
        let header = fresh.header.clone();
        self.inner.token.store(Arc::new(fresh));
        header
    }

    /// Signs a request.
    pub fn sign(&self, headers: &mut HeaderMap) {
        headers.insert(AUTHORIZATION, self.header());
    }
}

/// For generated clients that are not on a [`Peer`](crate::peer::Peer), which
/// signs by itself.
impl Interceptor for SignInternal {
    fn call(
        &mut self,
        mut request: tonic::Request<()>,
    ) -> Result<tonic::Request<()>, tonic::Status> {
        let header = self.header();
        let text = header.to_str().expect("a token is ASCII");
        let value = text.parse().expect("a token is a metadata value");
        request.metadata_mut().insert(AUTHORIZATION.as_str(), value);
        Ok(request)
    }
}

fn issue(mac: &HmacSha256, service: &str, now: u64) -> Token {
    let body = format!("{service}.{}", now + LIFETIME.as_secs());
    let signature = mac.clone().chain_update(body.as_bytes()).finalize();
    let signature = hex::encode(signature.into_bytes());
    let mut header = HeaderValue::try_from(format!("{SCHEME}{body}.{signature}"))
        .expect("a token is a header value");
    header.set_sensitive(true);
    Token {
        header,
        renew_at: Instant::now() + LIFETIME / 2,
    }
}

/// Who called, in the extensions of a request that [`VerifyInternal`] let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalCaller {
    /// The service that signed the call.
    pub service: Arc<str>,
}

/// A tower layer that lets in signed calls alone. Others are refused with
/// `UNAUTHENTICATED` and the code `internal.unauthenticated`, whatever the
/// reason; the log has it.
#[derive(Clone)]
pub struct VerifyInternal {
    mac: HmacSha256,
}

impl std::fmt::Debug for VerifyInternal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VerifyInternal")
    }
}

impl VerifyInternal {
    /// Checks under the cluster key.
    pub fn new(key: &Key) -> VerifyInternal {
        VerifyInternal { mac: mac(key) }
    }

    /// Who signed a request with these headers.
    ///
    /// # Errors
    ///
    /// `internal.unauthenticated` when nobody did, or not validly now.
    pub fn verify(&self, headers: &HeaderMap) -> Result<InternalCaller, Coded> {
        self.verify_at(headers, unix_seconds()).map_err(|refusal| {
            tracing::warn!("an internal call was refused: {}", refusal.reason());
            Coded::new(
                Kind::Unauthenticated,
                "internal.unauthenticated",
                "This port is for sayso's own services: sign with the cluster's key (cluster.key), and keep the hosts' clocks within 30 s.",
            )
        })
    }

    fn verify_at(&self, headers: &HeaderMap, now: u64) -> Result<InternalCaller, Refusal> {
        let header = headers.get(AUTHORIZATION).ok_or(Refusal::Absent)?;
        let token = header.to_str().ok().and_then(|h| h.strip_prefix(SCHEME));
        let token = token.ok_or(Refusal::Malformed)?;
        let (body, signature) = token.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let (service, expiry) = body.split_once('.').ok_or(Refusal::Malformed)?;
        let mut given = [0; 32];
        hex::decode_to_slice(signature, &mut given).map_err(|_| Refusal::Malformed)?;
        // The signature first, and in constant time: nothing that a stranger
        // wrote is believed before.
        self.mac
            .clone()
            .chain_update(body.as_bytes())
            .verify_slice(&given)
            .map_err(|_| Refusal::Signature)?;
        let expiry: u64 = expiry.parse().map_err(|_| Refusal::Malformed)?;
        if expiry <= now {
            return Err(Refusal::Expired);
        }
        if expiry > now + LIFETIME.as_secs() + SKEW.as_secs() {
            return Err(Refusal::FromTheFuture);
        }
        Ok(InternalCaller {
            service: Arc::from(service),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Absent,
    Malformed,
    Signature,
    Expired,
    FromTheFuture,
}

impl Refusal {
    fn reason(self) -> &'static str {
        match self {
            Refusal::Absent => "it is not signed",
            Refusal::Malformed => "its authorization is not a token of ours",
            Refusal::Signature => "it is signed with another key",
            Refusal::Expired => "its token has expired",
            Refusal::FromTheFuture => "its token expires too late; the caller's clock is ahead",
        }
    }
}

impl<S> Layer<S> for VerifyInternal {
    type Service = Verified<S>;

    fn layer(&self, inner: S) -> Verified<S> {
        Verified {
            verify: self.clone(),
            inner,
        }
    }
}

/// A service behind [`VerifyInternal`].
#[derive(Clone, Debug)]
pub struct Verified<S> {
    verify: VerifyInternal,
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Verified<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<R>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.verify.verify(request.headers()) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Either::Right(self.inner.call(request))
            }
            Err(refused) => Either::Left(ready(Ok(guard::status(refused)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().expect("a header value"))])
    }

    fn token(key: &Key, now: u64) -> String {
        let token = issue(&mac(key), "scheduler", now);
        token.header.to_str().expect("ASCII").to_owned()
    }

    #[test]
    fn a_signed_call_names_its_caller_while_the_token_lives() {
        let key = Key::generate();
        let verify = VerifyInternal::new(&key);
        let headers = headers(&token(&key, NOW));
        for now in [NOW - 30, NOW, NOW + 59] {
            let caller = verify.verify_at(&headers, now).expect("valid");
            assert_eq!(&*caller.service, "scheduler");
        }
        assert_eq!(verify.verify_at(&headers, NOW + 60), Err(Refusal::Expired));
        let early = verify.verify_at(&headers, NOW - 31);
        assert_eq!(early, Err(Refusal::FromTheFuture));
    }

    #[test]
    fn no_internal_call_skips_authentication() {
        let key = Key::generate();
        let verify = VerifyInternal::new(&key);
        let good = token(&key, NOW);
        let foreign = token(&Key::generate(), NOW);
        let renamed = good.replace("scheduler", "executor");
        let prolonged = good.replace("1700000060", "1700000061");
        let cut = &good[..good.len() - 2];
        for (given, refusal) in [
            (foreign.as_str(), Refusal::Signature),
            (&renamed, Refusal::Signature),
            (&prolonged, Refusal::Signature),
            (cut, Refusal::Malformed),
            ("SaysoInternal ", Refusal::Malformed),
            ("SaysoInternal a.b.c", Refusal::Malformed),
            ("Bearer x", Refusal::Malformed),
        ] {
            assert_eq!(
                verify.verify_at(&headers(given), NOW),
                Err(refusal),
                "{given}"
            );
        }
        let absent = verify.verify_at(&HeaderMap::new(), NOW);
        assert_eq!(absent, Err(Refusal::Absent));
        let coded = verify.verify(&HeaderMap::new()).expect_err("refused");
        assert_eq!(coded.code, "internal.unauthenticated");
    }

    #[test]
    fn a_token_serves_many_calls_and_hides_in_debug_output() {
        let key = Key::generate();
        let sign = SignInternal::new("gateway", &key);
        assert_eq!(sign.header(), sign.clone().header());
        let mut signed = HeaderMap::new();
        sign.sign(&mut signed);
        VerifyInternal::new(&key).verify(&signed).expect("valid");
        assert!(!format!("{signed:?} {sign:?}").contains("SaysoInternal gateway"));
    }

    #[test]
    fn a_token_is_renewed_half_way() {
        let key = Key::generate();
        let sign = SignInternal::new("gateway", &key);
        let old = issue(&sign.inner.mac, "gateway", NOW);
        let old_header = old.header.clone();
        sign.inner.token.store(Arc::new(Token {
            renew_at: Instant::now(),
            ..old
        }));
        let fresh = sign.header();
        assert_ne!(fresh, old_header);
        assert_eq!(sign.header(), fresh, "kept");
    }
}
