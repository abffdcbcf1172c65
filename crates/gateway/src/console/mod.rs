//! The web pages: the inbox, one approval, runs and their timelines.
//!
//! Pages are rendered here and work without a script; the one script swaps in what is newer. They
//! stand on the public API: every page asks its methods in this process, as the token behind the
//! session, so scopes, four-eyes, namespaces and the audit of refused decisions are the same as over
//! gRPC, and there is no second place that decides.
//!
//! # Who may, and who only seems to
//!
//! - **The session** is a value in a cookie, sealed under a key that every gateway derives from the
//!   chain key ([`session`]). It holds no token, only the hash by which the database knows one, and
//!   each request asks the [`Authenticator`](crate::auth::Authenticator) about it as a gRPC call
//!   would: it ends within a second of the token's revocation, on every gateway, and no gateway
//!   remembers anything. Logging out takes the cookie from the browser; what ends a session that was
//!   copied is the token's revocation, or twelve hours.
//! - **A form** counts only if the browser says that it comes from a page of ours, and carries a
//!   value that is bound to the session ([`posted`]). A GET decides nothing, ever (S6.13).
//! - **What agents, models and tools wrote** is text on these pages and nothing else ([`text`]), and
//!   the headers forbid everything that is not ours ([`headers`]), so that a hole in the first does
//!   not open the second.
//!
//! Referrer-Policy is `same-origin` and not `no-referrer`: under the latter a browser sends `Origin:
//! null` with our own forms, and over plain HTTP, where it sends no `Sec-Fetch-Site` either, nothing
//! would tell them from another site's.
//!
//! # Pages
//!
//! | path | what |
//! |---|---|
//! | `/` | the inbox: what waits for a decision, live |
//! | `/approvals/{id}` | one approval, with everything of S6.3, to be decided |
//! | `/runs`, `/runs/{id}` | the newest runs; one run with its timeline, live, to be cancelled |
//! | `/runs/{id}/steps/{number}` | one step as it was recorded |
//! | `/events/inbox`, `/events/runs/{id}` | what the script listens to |
//! | `/login`, `/logout`, `/assets/…` | |

mod agents;
mod approval;
mod assets;
mod editing;
mod headers;
mod inbox;
mod live;
mod login;
mod page;
mod posted;
mod run;
mod runs;
mod session;
mod text;
mod timeline;
mod visitor;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::map_response;
use axum::routing::{get, post};
use sayso_driver::Journal;
use sayso_run::Timestamp;

use crate::Shared;
use crate::api::Api;
use session::Sessions;

/// The largest form: a reason and a message of 1 MiB each, as browsers encode them.
const MAX_FORM: usize = 8 * 1024 * 1024;

/// What every page works with.
#[derive(Clone)]
struct Console {
    api: Api,
    sessions: Sessions,
}

impl Console {
    /// The database's time.
    fn now(&self) -> Timestamp {
        self.api.0.store.now()
    }
}

/// The pages.
pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    let console = Console {
        api: Api(Arc::clone(shared)),
        sessions: Sessions::of(&shared.key),
    };
    Router::new()
        .route("/", get(inbox::show))
        .route("/login", get(login::show).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/approvals/{id}", get(approval::show))
        .route("/approvals/{id}/decide", post(approval::decide))
        .route("/approvals/{id}/edit", post(approval::edit))
        .route("/agents", get(agents::show))
        .route("/agents/{name}", get(agents::one))
        .route("/runs", get(runs::show))
        .route("/runs/{id}", get(run::show))
        .route("/runs/{id}/cancel", post(run::cancel))
        .route("/runs/{id}/steps/{number}", get(run::step))
        .route("/events/inbox", get(live::inbox))
        .route("/events/runs/{id}", get(live::run))
        .route("/assets/{name}", get(assets::serve))
        .layer(DefaultBodyLimit::max(MAX_FORM))
        .layer(map_response(headers::guard))
        .with_state(console)
}
