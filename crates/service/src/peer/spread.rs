//! Spreads calls over the instances of a service.
//!
//! Instances are taken in turn. Only what certainly was not received goes to
//! the next instance: a connection that could not be made, or one that was
//! closing and handed the request back. Anything later may have been acted on,
//! and it is for the caller to know whether it may be sent twice.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use tonic::body::Body;

use super::remote::{Failure, Link};
use crate::config::Address;
use crate::error::{Coded, Kind};
use crate::guard;

/// The instances of a service.
pub(super) struct Spread {
    links: Vec<Link>,
    next: AtomicUsize,
}

impl fmt::Debug for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.links).finish()
    }
}

impl Spread {
    pub(super) fn new(addresses: &[Address]) -> Spread {
        Spread {
            links: addresses.iter().cloned().map(Link::new).collect(),
            next: AtomicUsize::new(0),
        }
    }

    /// The answer of one of the instances, or a status that says why not.
    pub(super) async fn call(&self, mut request: Request<Body>) -> Response<Body> {
        let mut last = None;
        for link in self.in_turn() {
            match link.send(request).await {
                Ok(response) => return response,
                Err(Failure::NotSent {
                    request: back,
                    error,
                }) => {
                    tracing::debug!("{link:?} was not reached: {error}");
                    last = Some((link, error));
                    request = *back;
                }
                Err(Failure::Lost(error)) => {
                    tracing::warn!("the connection to {link:?} broke during a call: {error}");
                    return guard::status(lost(link));
                }
            }
        }
        match last {
            Some((link, error)) => {
                tracing::warn!("{link:?} cannot be reached: {error}");
                guard::status(unreachable(&format!("{link:?}")))
            }
            None => guard::status(unreachable("a service without addresses")),
        }
    }

    /// All instances, beginning with the one whose turn it is; those that could
    /// not be reached a moment ago come last.
    fn in_turn(&self) -> impl Iterator<Item = &Link> {
        let count = self.links.len();
        let first = match count {
            0 | 1 => 0,
            count => self.next.fetch_add(1, Ordering::Relaxed) % count,
        };
        let turn = move || (0..count).map(move |n| &self.links[(first + n) % count]);
        let well = turn().filter(|link| !link.failed_lately());
        well.chain(turn().filter(|link| link.failed_lately()))
    }
}

fn unreachable(what: &str) -> Coded {
    Coded::new(
        Kind::Unavailable,
        "peer.unreachable",
        format!("{what} cannot be reached; nothing was done. Try again in a moment."),
    )
}

fn lost(link: &Link) -> Coded {
    Coded::new(
        Kind::Unavailable,
        "peer.lost",
        format!(
            "The connection to {link:?} broke before it answered; whether it was done is unknown."
        ),
    )
}
