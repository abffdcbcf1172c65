//! One client type for a sibling service, wherever it runs.
//!
//! Services meet over gRPC in one process too. A generated client takes any
//! tower service, so a [`Peer`] is either a connection over TCP or the
//! sibling's routes themselves, called without HTTP/2 in between (2 µs instead
//! of 90). Signing, deadlines, panics, errors and metadata are the same either
//! way, and nobody who holds a client can tell.
//!
//! A peer never fails as a service: whatever goes wrong becomes a gRPC status.
//! `peer.unreachable` means that the call was certainly not received; with
//! `peer.lost` the connection broke while the answer was waited for, and whether
//! it was done is unknown.
//!
//! In one process services need clients of each other before they are built:
//! [`Peer::late`] gives a peer whose other end is bound afterwards.

mod remote;
mod spread;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwapOption;
use futures::future::BoxFuture;
use http::{Request, Response};
use tonic::body::Body;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use crate::BoxError;
use crate::config::Address;
use crate::error::{Coded, Kind};
use crate::guard;
use crate::internal::SignInternal;
use crate::telemetry::propagate;

use spread::Spread;

/// A sibling service; generated clients are made of it. Clones share its
/// connections.
#[derive(Clone)]
pub struct Peer {
    route: Route,
}

#[derive(Clone)]
enum Route {
    Remote(Arc<Spread>, SignInternal),
    Local(
        BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>,
        Option<SignInternal>,
    ),
    Late(Arc<ArcSwapOption<Peer>>),
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.route {
            Route::Remote(spread, _) => write!(f, "Peer({spread:?})"),
            Route::Local(..) => f.write_str("Peer(local)"),
            Route::Late(_) => f.write_str("Peer(late)"),
        }
    }
}

impl Peer {
    /// A sibling over TCP: one HTTP/2 connection to each address, made when the
    /// first call needs it and made again when it broke. Calls take the
    /// addresses in turn; one that cannot be reached is left out for a moment
    /// and the call goes to the next. Without addresses every call is refused
    /// with `peer.unreachable`.
    pub fn remote(addresses: &[Address], signer: SignInternal) -> Peer {
        Peer {
            route: Route::Remote(Arc::new(Spread::new(addresses)), signer),
        }
    }

    /// A sibling in this process: its routes, behind the same
    /// [`VerifyInternal`](crate::internal::VerifyInternal) layer as over TCP.
    pub fn local<S>(service: S, signer: SignInternal) -> Peer
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Peer::within(service, Some(signer))
    }

    /// Services of this process that anybody may call: calls carry what their callers put into them,
    /// and are not signed.
    pub fn unsigned<S>(service: S) -> Peer
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Peer::within(service, None)
    }

    fn within<S>(service: S, signer: Option<SignInternal>) -> Peer
    where
        S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        let service = BoxCloneSyncService::new(service.map_err(Into::into));
        Peer {
            route: Route::Local(service, signer),
        }
    }

    /// A peer to hand out before the other end exists. Until it is bound, and
    /// after the binding ended, calls are refused with `peer.unreachable`.
    pub fn late() -> (Peer, LateBinding) {
        let slot = Arc::new(ArcSwapOption::empty());
        let peer = Peer {
            route: Route::Late(slot.clone()),
        };
        (peer, LateBinding { slot })
    }
}

/// The other end of a late peer, to be bound once.
#[derive(Debug)]
#[must_use = "the peer refuses every call until it is bound"]
pub struct LateBinding {
    slot: Arc<ArcSwapOption<Peer>>,
}

impl LateBinding {
    /// Binds the peer for as long as the returned value lives.
    pub fn bind(self, peer: Peer) -> Bound {
        self.slot.store(Some(Arc::new(peer)));
        Bound { slot: self.slot }
    }
}

/// A late peer's binding. Services that hold clients of each other would keep
/// each other alive for ever; dropping this cuts the circle.
#[derive(Debug)]
#[must_use = "the peer is unbound again when this is dropped"]
pub struct Bound {
    slot: Arc<ArcSwapOption<Peer>>,
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.slot.store(None);
    }
}

impl Service<Request<Body>> for Peer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let deadline = guard::deadline(request.headers());
        match &mut self.route {
            Route::Remote(spread, signer) => {
                signer.sign(request.headers_mut());
                propagate::inject(request.headers_mut());
                let spread = spread.clone();
                let call = async move { Ok(spread.call(request).await) };
                Box::pin(async move { guard::answer(deadline, call).await })
            }
            Route::Local(service, signer) => {
                if let Some(signer) = signer {
                    signer.sign(request.headers_mut());
                }
                let call = answered(service.clone().oneshot(request));
                Box::pin(async move { guard::answer(deadline, call).await })
            }
            Route::Late(slot) => match slot.load_full() {
                Some(peer) => Peer::clone(&peer).call(request),
                None => Box::pin(async { Ok(guard::status(unbound())) }),
            },
        }
    }
}

/// The answer of a service in this process, its failure as a status.
async fn answered(
    call: impl Future<Output = Result<Response<Body>, BoxError>>,
) -> Result<Response<Body>, Infallible> {
    Ok(call
        .await
        .unwrap_or_else(|error| guard::status(Coded::internal("calling a sibling", &*error))))
}

fn unbound() -> Coded {
    Coded::new(
        Kind::Unavailable,
        "peer.unreachable",
        "A part of this process is not running yet, or not any more; try again in a moment.",
    )
}
