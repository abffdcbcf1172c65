//! What a form brings, once it is certain that a page of ours sent it.
//!
//! Two locks, so that one that fails (an old browser, a proxy that rewrites, a leaked page) is not
//! enough:
//!
//! 1. the browser says where the request comes from: `Sec-Fetch-Site`, or where it does not send that
//!    (plain HTTP), `Origin`; a request with neither is no form of a browser and is refused, programs
//!    have the API;
//! 2. the form carries the value of the session, compared in constant time.
//!
//! The login has no session yet, so the first lock is its only one. The refusals, which only these
//! pages answer, are `form.foreign` and `form.stale`.

use std::collections::HashMap;

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::Uri;
use http::header::{HOST, ORIGIN};
use sayso_service::error::{Coded, Kind};

use super::Console;
use super::page::Refused;
use super::visitor::{Visitor, header};

/// The field with the value of the session.
pub(super) const FORM_VALUE: &str = "form";

/// The fields of a form.
#[derive(Debug, Default)]
pub(super) struct Fields(HashMap<String, String>);

impl Fields {
    /// A field's text, without the blanks around it and with the line breaks of this world; empty if
    /// the form has no such field.
    pub(super) fn take(&mut self, name: &str) -> String {
        self.take_if_there(name).unwrap_or_default()
    }

    /// The same; none if the form has no such field.
    pub(super) fn take_if_there(&mut self, name: &str) -> Option<String> {
        let given = self.0.remove(name)?;
        Some(given.trim().replace("\r\n", "\n"))
    }

    /// A form with these fields.
    #[cfg(test)]
    pub(super) fn of<const N: usize>(fields: [(&str, &str); N]) -> Self {
        let fields = fields.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Self(fields.into())
    }
}

/// A form of a session.
pub(super) struct Posted {
    pub(super) visitor: Visitor,
    pub(super) fields: Fields,
}

impl FromRequest<Console> for Posted {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Console) -> Result<Posted, Response> {
        let request = from_here(request).map_err(IntoResponse::into_response)?;
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, console).await?;
        let mut fields = read(Request::from_parts(parts, body)).await?;
        let value = fields.take(FORM_VALUE);
        if !console.sessions.is_form_of(visitor.session(), &value) {
            return Err(Refused::from(stale()).into_response());
        }
        Ok(Posted { visitor, fields })
    }
}

/// The form of the login, which has no session yet.
pub(super) struct PostedLogin(pub(super) Fields);

impl FromRequest<Console> for PostedLogin {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Console) -> Result<PostedLogin, Response> {
        let request = from_here(request).map_err(IntoResponse::into_response)?;
        read(request).await.map(PostedLogin)
    }
}

/// The request, if the browser says that a page of ours sent it.
fn from_here(request: Request) -> Result<Request, Refused> {
    if is_from_here(request.headers(), request.uri()) {
        Ok(request)
    } else {
        let message = "This form was not sent from a page of this server, so nothing was done; open the page here and try again.";
        Err(Coded::new(Kind::PermissionDenied, "form.foreign", message).into())
    }
}

fn is_from_here(headers: &HeaderMap, uri: &Uri) -> bool {
    if let Some(site) = header(headers, "sec-fetch-site") {
        return site == "same-origin";
    }
    let host = uri.authority().map(|authority| authority.as_str());
    let host = host.or_else(|| header(headers, HOST.as_str()));
    let origin = header(headers, ORIGIN.as_str()).and_then(|origin| origin.split_once("://"));
    match (origin, host) {
        (Some((_, origin)), Some(host)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

async fn read(request: Request) -> Result<Fields, Response> {
    match Form::from_request(request, &()).await {
        Ok(Form(fields)) => Ok(Fields(fields)),
        Err(rejection) => Err(Refused::from(unreadable(&rejection)).into_response()),
    }
}

fn unreadable(rejection: &FormRejection) -> Coded {
    let (kind, code) = match rejection.status() {
        http::StatusCode::PAYLOAD_TOO_LARGE => (Kind::TooLarge, "request.too_large"),
        _ => (Kind::Invalid, "request.invalid"),
    };
    let message = "The form cannot be read, so nothing was done; go back, shorten what you wrote, and send it again.";
    Coded::new(kind, code, message)
}

fn stale() -> Coded {
    let message = "This form belongs to a session that has ended, so nothing was done; open the page again and repeat it.";
    Coded::new(Kind::PermissionDenied, "form.stale", message)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn is_ours(headers: &[(&'static str, &'static str)]) -> bool {
        let pairs = headers.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        is_from_here(&pairs.collect(), &Uri::from_static("/logout"))
    }

    #[test]
    fn a_form_of_another_site_is_told_apart() {
        let host = ("host", "sayso.example:8080");
        assert!(is_ours(&[
            ("sec-fetch-site", "same-origin"),
            ("origin", "null")
        ]));
        for site in ["same-site", "cross-site", "none", ""] {
            assert!(!is_ours(&[("sec-fetch-site", site), host]), "{site}");
        }
        assert!(is_ours(&[("origin", "http://sayso.example:8080"), host]));
        assert!(is_ours(&[("origin", "https://SAYSO.example:8080"), host]));
        for origin in [
            "null",
            "http://sayso.example",
            "http://evil.example",
            "sayso.example:8080",
        ] {
            assert!(!is_ours(&[("origin", origin), host]), "{origin}");
        }
        assert!(!is_ours(&[host]), "a browser says where a form comes from");
        let uri = Uri::from_static("http://sayso.example/logout");
        let headers =
            HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static("http://sayso.example"))]);
        assert!(
            is_from_here(&headers, &uri),
            "HTTP/2 names the host in the URI"
        );
    }

    #[test]
    fn fields_are_trimmed_and_their_line_breaks_unified() {
        let mut fields = Fields(HashMap::from([(
            "reason".to_owned(),
            " a\r\nb \r\n".to_owned(),
        )]));
        assert_eq!(fields.take("reason"), "a\nb");
        assert_eq!(fields.take("reason"), "");
    }
}
