//! Logging in with a token, and out.

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode, Uri};
use maud::html;
use sayso_service::error::{Coded, Kind};
use serde::Deserialize;

use super::Console;
use super::page::{self, Refused};
use super::posted::{Posted, PostedLogin};
use super::text::shown;
use super::visitor::{SESSION, header};
use crate::auth::TokenSecret;

/// What the login is asked to do afterwards.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Afterwards {
    /// The page to go to.
    #[serde(default)]
    next: String,
    /// Whether there was a session.
    #[serde(default)]
    ended: String,
}

/// The login.
pub(super) async fn show(Query(afterwards): Query<Afterwards>) -> Response {
    let notice = (!afterwards.ended.is_empty()).then_some("Your session has ended. Log in again.");
    form(StatusCode::OK, destination(&afterwards.next), notice)
}

/// Opens a session for a token.
pub(super) async fn log_in(
    State(console): State<Console>,
    uri: Uri,
    headers: HeaderMap,
    PostedLogin(mut fields): PostedLogin,
) -> Result<Response, Refused> {
    let next = fields.take("next");
    let next = destination(&next);
    let token = fields.take("token");
    let lease = match console.api.0.auth.verify(&token).await {
        Ok(lease) => lease,
        Err(refused) if refused.kind == Kind::Unauthenticated => {
            let notice = Some(refused.message.as_str());
            return Ok(form(StatusCode::UNAUTHORIZED, next, notice));
        }
        Err(refused) => return Err(refused.into()),
    };
    let secret = TokenSecret::parse(&token).expect("it was just verified");
    let now = console.now();
    let session = console
        .sessions
        .begin(secret.hash(), lease.caller().expires_at, now);
    let session = session.map_err(|error| Coded::internal("opening a session", &error))?;
    let seconds = session.ends_at.micros_since(now) / 1_000_000;
    let value = console.sessions.write(&session);
    let cookie = cookie(&value, seconds, is_https(&uri, &headers));
    Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response())
}

/// Takes the session from the browser.
pub(super) async fn log_out(uri: Uri, headers: HeaderMap, _: Posted) -> Response {
    let cookie = cookie("", 0, is_https(&uri, &headers));
    ([(SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}

/// Leads to the login and back to this page.
pub(super) fn first(path: &str, had_session: bool) -> Response {
    let ended = if had_session { "&ended=yes" } else { "" };
    Redirect::to(&format!("/login?next={}{ended}", destination(path))).into_response()
}

/// The login in place of the answer to a form whose session has ended.
pub(super) fn again(refused: &Coded) -> Response {
    let notice = format!("{} Nothing was done.", refused.message);
    form(StatusCode::UNAUTHORIZED, "/", Some(&notice))
}

/// Asks the browser for the same page once more, from within this site.
pub(super) fn step_inside(path: &str) -> Response {
    let path = destination(path);
    let body = html! { p { a href=(path) { "Go on" } } };
    page::bare("One moment", Some(path), &body).into_response()
}

/// Where the login may lead: to our pages alone.
fn destination(path: &str) -> &str {
    let is_id = |id: &str| {
        !id.is_empty()
            && id
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    let known = ["/approvals/", "/runs/"];
    let is_page = |prefix| path.strip_prefix(prefix).is_some_and(is_id);
    if path == "/runs" || known.into_iter().any(is_page) {
        path
    } else {
        "/"
    }
}

fn form(status: StatusCode, next: &str, notice: Option<&str>) -> Response {
    let body = html! {
        section.card.login {
            h1 { "Log in" }
            @if let Some(notice) = notice {
                p.notice.bad role="alert" { (shown(notice)) }
            }
            form method="post" action="/login" {
                input type="hidden" name="next" value=(next);
                label for="token" { "Your token" }
                input #token type="password" name="token" required autofocus
                    autocomplete="current-password" spellcheck="false" placeholder="sayso_…";
                button.primary { "Log in" }
            }
            p.hint {
                "An admin makes a token:"
                code.command { "sayso token create --name NAME --scope approver" }
            }
        }
    };
    (status, page::bare("Log in", None, &body)).into_response()
}

/// Scripts never see it, other sites never send it, and it never goes over a plain connection once
/// it was given over a safe one.
fn cookie(value: &str, seconds: i64, https: bool) -> String {
    let secure = if https { "; Secure" } else { "" };
    format!("{SESSION}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Whether the browser reached us over https, itself or through a proxy that says so.
fn is_https(uri: &Uri, headers: &HeaderMap) -> bool {
    let forwarded = header(headers, "x-forwarded-proto");
    let forwarded = forwarded.and_then(|protocols| protocols.split(',').next());
    forwarded.map_or_else(
        || uri.scheme_str() == Some("https"),
        |protocol| protocol.trim().eq_ignore_ascii_case("https"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_leads_to_our_pages_alone() {
        for ours in ["/", "/runs", "/runs/run_1", "/approvals/apr_0-f"] {
            assert_eq!(destination(ours), ours);
        }
        for other in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/runs/",
            "/runs/../logout",
            "/runs/a?b=c",
            "/approvals/x\r\nset-cookie: a=b",
        ] {
            assert_eq!(destination(other), "/", "{other}");
        }
    }

    #[test]
    fn the_cookie_is_out_of_reach_of_scripts_and_other_sites() {
        assert_eq!(
            cookie("v", 60, true),
            "sayso_session=v; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure"
        );
        let proxied = HeaderMap::from_iter([(
            http::HeaderName::from_static("x-forwarded-proto"),
            http::HeaderValue::from_static("https, http"),
        )]);
        assert!(is_https(&Uri::from_static("/login"), &proxied));
        assert!(!is_https(&Uri::from_static("/login"), &HeaderMap::new()));
        let direct = Uri::from_static("https://sayso.example/login");
        assert!(is_https(&direct, &HeaderMap::new()));
    }
}
