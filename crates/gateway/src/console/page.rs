//! What all pages look like, and the page of an error.

use axum::response::{IntoResponse, Redirect, Response};
use maud::{DOCTYPE, Markup, html};
use sayso_service::error::{Coded, Kind};
use tonic::Status;

use super::assets::{ICON, SCRIPT, STYLE};
use super::posted::FORM_VALUE;
use super::text::shown;
use super::visitor::Visitor;

/// A page for a visitor.
pub(super) fn page(title: &str, visitor: &Visitor, body: &Markup) -> Markup {
    let caller = visitor.caller();
    let bar = html! {
        nav aria-label="Pages" {
            a href="/" { "Inbox" }
            a href="/runs" { "Runs" }
            a href="/agents" { "Agents" }
        }
        div.who {
            span title="Whom this session speaks for, and where" {
                (caller.principal.as_str()) " · " (caller.namespace.as_str())
            }
            form method="post" action="/logout" {
                (form_value(visitor))
                button.quiet { "Log out" }
            }
        }
    };
    frame(title, None, &bar, body)
}

/// A page for nobody in particular. With `again` the browser loads that page next.
pub(super) fn bare(title: &str, again: Option<&str>, body: &Markup) -> Markup {
    frame(title, again, &html! {}, body)
}

fn frame(title: &str, again: Option<&str>, bar: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(path) = again {
                    meta http-equiv="refresh" content=(format!("0; url={path}"));
                }
                title { (shown(title)) " · sayso" }
                link rel="stylesheet" href=(STYLE.path);
                link rel="icon" href=(ICON.path) type="image/svg+xml";
                script src=(SCRIPT.path) defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header.bar {
                    a.brand href="/" { "sayso" }
                    (bar)
                }
                main #main {
                    p #offline .notice.bad role="status" hidden {
                        "Live updates have stopped. " a href="" { "Reload the page" } " to see what is new."
                    }
                    (body)
                }
            }
        }
    }
}

/// The hidden field that every form carries.
pub(super) fn form_value(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(FORM_VALUE) value=(visitor.form_value()); }
}

/// The hidden field that makes it safe to send a form twice.
pub(super) fn once() -> Markup {
    html! { input type="hidden" name="key" value=(uuid::Uuid::now_v7().simple()); }
}

/// A refusal or failure within a page.
pub(super) fn notice(refused: &Coded) -> Markup {
    html! {
        div.notice.bad role="alert" {
            p { (shown(&refused.message)) }
            @for (field, problem) in &refused.fields {
                p { code { (shown(field)) } " " (shown(problem)) }
            }
            p.code { code { (shown(&refused.code)) } }
        }
    }
}

/// A refusal or failure in place of a page.
#[derive(Debug)]
pub(super) struct Refused(Coded);

impl From<Coded> for Refused {
    fn from(refused: Coded) -> Refused {
        Refused(refused)
    }
}

impl From<Status> for Refused {
    fn from(status: Status) -> Refused {
        Refused(Coded::from_status(&status))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(refused) = self;
        if refused.kind == Kind::Unauthenticated {
            return Redirect::to("/login?ended=yes").into_response();
        }
        let title = match refused.kind {
            Kind::NotFound => "Not found",
            Kind::PermissionDenied => "Not allowed",
            Kind::Unavailable => "Away for the moment",
            _ => "That did not work",
        };
        let body = html! {
            h1 { (title) }
            (notice(&refused))
            p { a href="/" { "Back to the inbox" } }
        };
        (refused.kind.http(), bare(title, None, &body)).into_response()
    }
}
