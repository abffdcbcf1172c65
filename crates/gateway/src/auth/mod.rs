//! Who calls, and what they may do (S6.11).
//!
//! A call carries `authorization: Bearer <token>`. [`Authenticator`] knows whom a token belongs to,
//! [`access`] which scope each method needs, and [`Guarded`] puts both before every public gRPC
//! service. The web pages check their sessions through the same [`Authenticator`].

pub mod access;
mod authenticator;
mod guard;
mod known;
mod scope;
mod secret;
mod source;

use sayso_run::{Namespace, PrincipalId, Timestamp, Trust};
use sayso_service::error::{Coded, Kind};
use tonic::Request;

pub use access::Reach;
pub use authenticator::{Authenticator, Lease, OpenStream};
pub use guard::Guarded;
pub(crate) use guard::{NAMESPACE_HEADER, admit, bearer, session};
pub use scope::{Scope, Scopes};
pub use secret::{SecretHash, TokenSecret};

/// Whom a token speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The token: `tok_` and a time-ordered UUID.
    pub token: String,
    /// The tenant; nothing of another one is seen.
    pub namespace: Namespace,
    /// Who acts.
    pub principal: PrincipalId,
    /// What the token may do.
    pub scopes: Scopes,
    /// The trust of tasks that it starts.
    pub trust: Trust,
    /// When it ends by itself, by the database's clock.
    pub expires_at: Option<Timestamp>,
}

/// A call that was let in: who calls, and how far they reach with this method.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    lease: Lease,
    reach: Result<Reach, Coded>,
}

impl Session {
    pub(crate) fn new(lease: Lease, reach: Result<Reach, Coded>) -> Session {
        Session { lease, reach }
    }

    /// The session that [`Guarded`] left in a request.
    ///
    /// # Panics
    ///
    /// When the request did not come through [`Guarded`]: a fault in how the routes are put
    /// together, and then nothing may be answered.
    pub(crate) fn of<T>(request: &Request<T>) -> Session {
        request
            .extensions()
            .get::<Session>()
            .expect("every service is served behind Guarded")
            .clone()
    }

    /// Who calls.
    pub(crate) fn caller(&self) -> &Caller {
        self.lease.caller()
    }

    /// The token behind an open stream.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// How far the caller reaches.
    ///
    /// # Errors
    ///
    /// `token.scope_missing`; only methods whose refusals are audited can meet it.
    pub(crate) fn reach(&self) -> Result<Reach, Coded> {
        self.reach.clone()
    }

    /// Whether something of this requester is within reach.
    pub(crate) fn sees(&self, requester: &PrincipalId) -> bool {
        match &self.reach {
            Ok(Reach::Namespace) => true,
            Ok(Reach::Own) => self.caller().principal == *requester,
            Err(_) => false,
        }
    }
}

/// The refusals of a token.
pub(crate) mod refusal {
    use super::{Coded, Kind};

    pub(crate) fn missing() -> Coded {
        Coded::new(
            Kind::Unauthenticated,
            "token.missing",
            "Send a token as `authorization: Bearer sayso_…`; `sayso token create` makes one.",
        )
    }

    pub(crate) fn invalid() -> Coded {
        Coded::new(
            Kind::Unauthenticated,
            "token.invalid",
            "This token is not known here; check that it was copied whole and is meant for this server.",
        )
    }

    pub(crate) fn expired() -> Coded {
        Coded::new(
            Kind::Unauthenticated,
            "token.expired",
            "This token has expired; an admin makes a new one with `sayso token create`.",
        )
    }

    pub(crate) fn revoked() -> Coded {
        Coded::new(
            Kind::Unauthenticated,
            "token.revoked",
            "This token was revoked; an admin makes a new one with `sayso token create`.",
        )
    }

    pub(crate) fn unverifiable() -> Coded {
        Coded::new(
            Kind::Unavailable,
            "token.unverifiable",
            "Tokens cannot be checked at the moment because the database is away; try again soon.",
        )
    }
}
