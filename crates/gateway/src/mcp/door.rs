//! Who comes in over HTTP, before anything of the request is read.
//!
//! **Names.** A page of another site can make its own name lead to this machine (DNS rebinding) and
//! then ask this server as if it were its own. It cannot make the browser lie about the name. So this
//! server answers to addresses, to `localhost` and to the names that configuration gives it
//! (`mcp.allowed_hosts`, and those in `services.gateway.connect`), and to no other; and a page may ask
//! only if it stands on this machine, under one of those names, or is the server's own.
//!
//! **Tokens** are asked for with every request, whatever it is. The methods behind the tools check
//! them again, with what they need.
//!
//! **Sessions.** A client of the revisions with a handshake may expect to be given the name of a session
//! and sends it along from then on. It gets one, and it stands for nothing: whatever name comes, on
//! whatever gateway, is taken and not looked at, and there is nothing to end (`DELETE` is answered 405).
//!
//! A refusal is a JSON-RPC error without an id, as the protocol has it, with the stable code in
//! `data`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{HOST, ORIGIN, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri};
use rmcp::model::ErrorCode;
use sayso_service::error::{Coded, Kind};
use serde_json::json;
use uuid::Uuid;

use crate::auth::{Authenticator, bearer};

/// The name of a session.
const SESSION: &str = "mcp-session-id";
/// The revision that a client speaks.
const REVISION: &str = "mcp-protocol-version";

/// What decides who comes in.
#[derive(Clone, Debug)]
pub(super) struct Door {
    auth: Authenticator,
    names: Arc<[String]>,
}

impl Door {
    /// `names` are the server's beside its addresses.
    pub(super) fn new(auth: &Authenticator, names: &[String]) -> Door {
        Door {
            auth: auth.clone(),
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
        }
    }

    async fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Coded> {
        check_names(uri, headers, &self.names)?;
        let secret = bearer(headers)?;
        self.auth.verify(secret).await?;
        Ok(())
    }
}

/// Lets a request in, or answers it with the refusal.
pub(super) async fn enter(State(door): State<Door>, request: Request, next: Next) -> Response {
    match door.check(request.uri(), request.headers()).await {
        Ok(()) => {
            let begins = begins(request.headers());
            let mut response = next.run(request).await;
            if begins && response.status().is_success() {
                response.headers_mut().insert(SESSION, session());
            }
            response
        }
        Err(coded) => refused(&coded),
    }
}

/// Whether it is a client's first request in a revision with a handshake: those after it name the
/// revision, and those of the revision without one always do.
fn begins(headers: &HeaderMap) -> bool {
    !headers.contains_key(REVISION) && !headers.contains_key(SESSION)
}

fn session() -> HeaderValue {
    let name = Uuid::now_v7().simple().to_string();
    HeaderValue::try_from(name).expect("hex digits are a header's value")
}

fn refused(coded: &Coded) -> Response {
    let body = json!({
        "jsonrpc": "2.0",
        "error": {
            "code": ErrorCode::INVALID_REQUEST.0,
            "message": coded.message,
            "data": {"code": coded.code},
        },
    });
    let mut response = (coded.kind.http(), Json(body)).into_response();
    if coded.kind == Kind::Unauthenticated {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}

/// Whether the request means this server, and no page of a stranger sends it.
fn check_names(uri: &Uri, headers: &HeaderMap, names: &[String]) -> Result<(), Coded> {
    let called = called(uri, headers).filter(|called| is_ours(called.host(), names));
    let Some(called) = called else {
        return Err(Coded::new(
            Kind::PermissionDenied,
            "mcp.host_refused",
            "This server is not called by this name; call it by its address, or have its operator add the name to `mcp.allowed_hosts`.",
        ));
    };
    let mut origins = headers.get_all(ORIGIN).iter();
    if origins.all(|origin| may_ask(origin, &called, names)) {
        return Ok(());
    }
    Err(Coded::new(
        Kind::PermissionDenied,
        "mcp.origin_refused",
        "Pages of this origin may not ask this server; its operator can add the page's host to `mcp.allowed_hosts`.",
    ))
}

/// How the server was called. HTTP/2 says it in the URI.
fn called(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    if let Some(authority) = uri.authority() {
        return Some(authority.clone());
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next()?;
    if hosts.next().is_some() {
        return None;
    }
    Authority::try_from(host.as_bytes()).ok()
}

/// An address cannot be made to lead elsewhere; a name can, unless it is one of ours.
fn is_ours(host: &str, names: &[String]) -> bool {
    address(host).is_some() || is_local(host) || is_named(host, names)
}

fn may_ask(origin: &HeaderValue, called: &Authority, names: &[String]) -> bool {
    let origin = origin.to_str().ok().and_then(|text| text.split_once("://"));
    let Some(("http" | "https", page)) = origin else {
        return false;
    };
    let Ok(page) = page.parse::<Authority>() else {
        return false;
    };
    page.as_str().eq_ignore_ascii_case(called.as_str())
        || is_local(page.host())
        || is_named(page.host(), names)
}

fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || address(host).is_some_and(|ip| ip.is_loopback())
}

fn is_named(host: &str, names: &[String]) -> bool {
    names.iter().any(|name| host.eq_ignore_ascii_case(name))
}

fn address(host: &str) -> Option<IpAddr> {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), String> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        let names = ["sayso.example".to_owned()];
        check_names(&Uri::from_static("/mcp"), &headers, &names)
            .map_err(|refused| refused.code.into_owned())
    }

    /// S6.13: a name that somebody else made lead here is not this server's.
    #[test]
    fn s6_13_a_rebound_name_is_refused() {
        for ours in [
            "127.0.0.1:7400",
            "localhost",
            "LOCALHOST:1",
            "[::1]:7400",
            "10.0.0.7:7400",
            "sayso.example",
            "Sayso.Example:443",
        ] {
            assert_eq!(check(ours, None), Ok(()), "{ours}");
        }
        for other in [
            "evil.example",
            "evil.example:7400",
            "127.0.0.1.evil.example",
            "sayso.example.evil.example",
            "localhost.evil.example",
            "",
            "a b",
        ] {
            let refused = Err("mcp.host_refused".to_owned());
            assert_eq!(check(other, None), refused, "{other}");
        }
        let headers = HeaderMap::new();
        let http2 = Uri::from_static("http://evil.example/mcp");
        assert!(check_names(&http2, &headers, &[]).is_err());
        let http2 = Uri::from_static("http://127.0.0.1:7400/mcp");
        assert_eq!(check_names(&http2, &headers, &[]), Ok(()));
    }

    #[test]
    fn s6_13_a_strangers_page_is_refused() {
        for ours in [
            "http://localhost:3000",
            "http://127.0.0.1:6274",
            "https://sayso.example",
            "http://10.0.0.7:7400",
        ] {
            assert_eq!(check("10.0.0.7:7400", Some(ours)), Ok(()), "{ours}");
        }
        for other in [
            "http://evil.example",
            "http://10.0.0.8:7400",
            "http://10.0.0.7:1",
            "null",
            "",
            "file://localhost",
            "http://localhost.evil.example",
            "http://localhost/",
        ] {
            let refused = Err("mcp.origin_refused".to_owned());
            assert_eq!(check("10.0.0.7:7400", Some(other)), refused, "{other}");
        }
    }

    #[test]
    fn several_hosts_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(HOST, "127.0.0.1".parse().unwrap());
        headers.append(HOST, "evil.example".parse().unwrap());
        assert!(check_names(&Uri::from_static("/mcp"), &headers, &[]).is_err());
    }
}
