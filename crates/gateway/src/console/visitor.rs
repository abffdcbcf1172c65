//! Who is at the browser.

use axum::extract::FromRequestParts;
use axum::response::{IntoResponse, Response};
use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderMap, Method};
use sayso_service::error::{Coded, Kind};
use tonic::Request;

use super::Console;
use super::login;
use super::page::Refused;
use super::session::BrowserSession;
use crate::auth::access::Access;
use crate::auth::{Caller, Lease, Reach, Session, refusal};

/// The cookie of the session.
pub(super) const SESSION: &str = "sayso_session";

/// Somebody with a session whose token holds.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    lease: Lease,
    session: BrowserSession,
    form_value: String,
}

impl Visitor {
    /// Whom the session speaks for.
    pub(super) fn caller(&self) -> &Caller {
        self.lease.caller()
    }

    /// The session.
    pub(super) fn session(&self) -> &BrowserSession {
        &self.session
    }

    /// What the forms of this session carry.
    pub(super) fn form_value(&self) -> &str {
        &self.form_value
    }

    /// A request to a method of the public API as this visitor, let in just as over gRPC.
    ///
    /// # Errors
    ///
    /// `token.scope_missing`, except of methods that refuse by themselves because the refusal goes
    /// on record.
    pub(super) fn ask<T>(&self, path: &'static str, message: T) -> Result<Request<T>, Coded> {
        let access = access(path);
        let reach = access.reach(self.caller().scopes);
        if !access.audited {
            reach.as_ref().map_err(Clone::clone)?;
        }
        let mut request = Request::new(message);
        let session = Session::new(self.lease.clone(), reach);
        request.extensions_mut().insert(session);
        Ok(request)
    }

    /// Why this visitor may not call a method at all; nothing if they may.
    pub(super) fn lacks(&self, path: &'static str) -> Option<Coded> {
        access(path).reach(self.caller().scopes).err()
    }

    /// Whether this visitor may call a method on what this principal asked for.
    pub(super) fn reaches(&self, path: &'static str, requester: &str) -> bool {
        match access(path).reach(self.caller().scopes) {
            Ok(Reach::Namespace) => true,
            Ok(Reach::Own) => self.caller().principal.as_str() == requester,
            Err(_) => false,
        }
    }
}

fn access(path: &'static str) -> &'static Access {
    Access::of(path).expect("pages ask methods of the public API, and all of them are in the table")
}

/// Lets a visitor in, or sends them to the login.
impl FromRequestParts<Console> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Visitor, Response> {
        let cookie = session_cookie(&parts.headers);
        match find(console, cookie).await {
            Ok(visitor) => Ok(visitor),
            Err(refused) if refused.kind == Kind::Unauthenticated => {
                Err(turned_away(parts, refused, cookie.is_some()))
            }
            Err(refused) => Err(Refused::from(refused).into_response()),
        }
    }
}

async fn find(console: &Console, cookie: Option<&str>) -> Result<Visitor, Coded> {
    let cookie = cookie.ok_or_else(refusal::missing)?;
    let session = console.sessions.read(cookie, console.now());
    let session = session.ok_or_else(refusal::expired)?;
    let lease = console.api.0.auth.verify_hash(&session.token).await?;
    Ok(Visitor {
        lease,
        form_value: console.sessions.form_value(&session),
        session,
    })
}

/// Pages lead to the login and back; what is not a page says no.
fn turned_away(parts: &Parts, refused: Coded, had_session: bool) -> Response {
    let path = parts.uri.path();
    if path.starts_with("/events/") {
        return (refused.kind.http(), refused.message).into_response();
    }
    if parts.method != Method::GET {
        return login::again(&refused);
    }
    // A strict cookie stays behind when a link on another site leads here. One step within this
    // site, and the browser brings it.
    let from_elsewhere = header(&parts.headers, "sec-fetch-site") == Some("cross-site");
    if from_elsewhere && !had_session {
        return login::step_inside(path);
    }
    login::first(path, had_session)
}

/// The cookie of the session, if there is one.
fn session_cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter();
    let pairs = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == SESSION).then_some(value)
    })
}

/// A header as text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_session_is_found_among_other_cookies() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=b; xsayso_session=no"));
        assert_eq!(session_cookie(&headers), None);
        headers.append(
            COOKIE,
            HeaderValue::from_static("c=d;sayso_session=yes.it_is; e"),
        );
        assert_eq!(session_cookie(&headers), Some("yes.it_is"));
    }
}
