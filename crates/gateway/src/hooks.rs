//! Webhooks in: `POST /hooks/<namespace>/<name>` starts a run of the agent whose bundle has a trigger
//! of that name; the body is what it is asked (S8.5).
//!
//! **Who may call** is whoever holds the secret that the trigger names. A call is signed in one of
//! two forms ([`signature`]): with `webhook-id`, `webhook-timestamp` and `webhook-signature` as
//! Standard Webhooks have it, or with `X-Sayso-Signature` over the body. Where `webhook-signature` is
//! sent it is what counts, and its time must be within five minutes of the database's clock, so that
//! an old call cannot be played again. The plain form knows no time: it keeps out whoever lacks the
//! secret, and nobody who has seen a call.
//!
//! **Once.** The same `webhook-id` starts one run, whenever it comes again; with another body it is
//! refused. (Two calls with one id between which somebody else changes the trigger are two.)
//!
//! **Nothing is given away.** An unknown namespace or name, a signature that does not fit, and a
//! secret that this installation lacks are answered alike, after the same work. Only the agent's log
//! says which secret is missing.
//!
//! | status | code | when |
//! |---|---|---|
//! | 202 | | the run was started, or had been by the same id: `run_id`, `task_id`, `already_started` |
//! | 400 | `request.invalid_text` | the body is not UTF-8, or holds a NUL |
//! | 401 | `hook.refused` | there is no such hook, or the signature does not fit |
//! | 401 | `hook.expired` | the signature fits, and its time is not now |
//! | 409 | `request.key_reused` | the id came before with another body |
//! | 413 | `request.too_large` | the body is over 1 MiB |
//! | 503 | `database.unavailable`, `service.unavailable` | try again |

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, http};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use sayso_run::{Digest, Namespace, limits};
use sayso_service::config::Secret;
use sayso_service::error::{Coded, Kind};
use sayso_service::signature::{self, SAYSO_HEADER, STANDARD_HEADERS};
use sayso_service::telemetry::propagate;
use sayso_store::{LogLevel, NewLogEntry, SecretsError, TriggerRow};
use sayso_wire::{code, internal, v1};
use serde_json::json;

use crate::{Shared, refuse};

/// How far the time of a call may be from the database's.
const WINDOW_MICROS: i64 = 5 * 60 * 1_000_000;

/// Between two entries in an agent's log about the same missing secret.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The longest idempotency key.
const MAX_KEY: usize = 255;

/// Stands in for the secret of a hook that does not exist, so that looking for one takes as long.
const NOBODYS: &str = "a hook that does not exist is verified all the same";

struct Hooks {
    shared: Arc<Shared>,
    /// When an agent's log last said that a secret is missing.
    told: Mutex<HashMap<(Namespace, String), Instant>>,
}

/// The one route.
pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    let hooks = Hooks {
        shared: Arc::clone(shared),
        told: Mutex::default(),
    };
    Router::new()
        .route("/hooks/{namespace}/{name}", post(call))
        .layer(DefaultBodyLimit::max(limits::MAX_TEXT_BYTES))
        .with_state(Arc::new(hooks))
}

async fn call(
    State(hooks): State<Arc<Hooks>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    match hooks.start(&namespace, &name, &headers, body).await {
        Ok(started) => (StatusCode::ACCEPTED, Json(started)).into_response(),
        Err(refused) => {
            let body = json!({ "error": { "code": refused.code, "message": refused.message } });
            (refused.kind.http(), Json(body)).into_response()
        }
    }
}

impl Hooks {
    async fn start(
        &self,
        namespace: &str,
        name: &str,
        headers: &HeaderMap,
        body: Result<Bytes, BytesRejection>,
    ) -> Result<serde_json::Value, Coded> {
        let body = body.map_err(unread)?;
        let trigger = self.trigger(namespace, name).await?;
        let secret = self.secret(trigger.as_ref()).await?;
        let signed = Signed::of(headers);
        let fits = signed.fits(secret.as_ref().unwrap_or(&Secret::new(NOBODYS)), &body);
        let (Some(trigger), Some(_), true) = (trigger, secret, fits) else {
            return Err(refused());
        };
        if let Some(timestamp) = signed.timestamp {
            self.check_time(timestamp).await?;
        }
        let input = String::from_utf8(body.into()).map_err(|_| not_text())?;
        if input.contains('\0') {
            return Err(not_text());
        }
        self.run(trigger, input, signed.id).await
    }

    /// The trigger of that name; a name that none can have is no error of its own.
    async fn trigger(&self, namespace: &str, name: &str) -> Result<Option<TriggerRow>, Coded> {
        let Ok(namespace) = Namespace::new(namespace) else {
            return Ok(None);
        };
        if name.contains('\0') {
            return Ok(None);
        }
        let found = self.shared.store.triggers().get(&namespace, name).await;
        found.map_err(|error| refuse::database("looking for a webhook", error))
    }

    /// The secret that signs the trigger's calls: the agent's own, the namespace's, or one that this
    /// installation has for everybody.
    async fn secret(&self, trigger: Option<&TriggerRow>) -> Result<Option<Secret>, Coded> {
        let Some(trigger) = trigger else {
            return Ok(None);
        };
        let keys = self.shared.secret_keys.as_ref();
        let (namespace, agent) = (&trigger.namespace, &trigger.agent);
        let secrets = self.shared.store.secrets();
        let stored = match secrets
            .find(keys, namespace, Some(agent), &trigger.secret)
            .await
        {
            Ok(stored) => stored,
            Err(SecretsError::Database(error)) => {
                return Err(refuse::database("looking for a webhook's secret", error));
            }
            Err(error @ (SecretsError::NoKey | SecretsError::Seal { .. })) => {
                return Err(Coded::internal("opening a webhook's secret", &error));
            }
        };
        if let Some(value) = stored {
            return Ok(Some(Secret::new(value)));
        }
        let source = self.shared.secrets.get(&trigger.secret);
        let why = match source.map(sayso_service::config::SecretSource::resolve) {
            Some(Ok(secret)) => return Ok(Some(secret)),
            Some(Err(error)) => format!("cannot be had: {error}"),
            None => format!("is not set: `sayso secret set {}`", trigger.secret),
        };
        if !self.may_tell(trigger) {
            return Ok(None);
        }
        let message = format!(
            "a call of the webhook `{}` was refused: its secret `{}` {why}",
            trigger.name, trigger.secret
        );
        tracing::warn!(namespace = %trigger.namespace, agent = %trigger.agent, "{message}");
        let entry = NewLogEntry {
            namespace: trigger.namespace.clone(),
            agent: trigger.agent.clone(),
            run: None,
            level: LogLevel::Error,
            code: "trigger.secret_missing".to_owned(),
            message,
        };
        let written = self.shared.store.agent_logs().append(&entry).await;
        written.map_err(|error| refuse::database("writing an agent's log", error))?;
        Ok(None)
    }

    /// Whether it is time to say again that a secret is missing: anybody can call, and a log that
    /// strangers fill helps nobody.
    fn may_tell(&self, trigger: &TriggerRow) -> bool {
        // A map of times is whole whatever panicked beside it.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|_, at| at.elapsed() < LOG_EVERY);
        let key = (trigger.namespace.clone(), trigger.name.clone());
        let first = !told.contains_key(&key);
        if first {
            told.insert(key, Instant::now());
        }
        first
    }

    /// Whether the time that the caller has signed is about now.
    async fn check_time(&self, timestamp: &str) -> Result<(), Coded> {
        let now = self.shared.store.sync_clock().await;
        let now = now.map_err(|error| refuse::database("reading the clock", error))?;
        let seconds: Option<i64> = timestamp.parse().ok();
        let signed_at = seconds.and_then(|seconds| seconds.checked_mul(1_000_000));
        let near = |at: i64| now.micros().abs_diff(at) <= WINDOW_MICROS.unsigned_abs();
        if signed_at.is_some_and(near) {
            return Ok(());
        }
        Err(Coded::new(
            Kind::Unauthenticated,
            "hook.expired",
            "The call was signed more than five minutes ago or ahead: sign it anew, and check the clock.",
        ))
    }

    async fn run(
        &self,
        trigger: TriggerRow,
        input: String,
        id: Option<&str>,
    ) -> Result<serde_json::Value, Coded> {
        let shared = &self.shared;
        let (namespace, agent) = (&trigger.namespace, &trigger.agent);
        let current = shared.current.get(&shared.store, namespace, agent).await?;
        let revision = current.ok_or_else(refused)?;
        let start = internal::StartRunRequest {
            caller: Some(internal::Caller {
                namespace: namespace.to_string(),
                principal: trigger.changed_by.to_string(),
                trust: v1::Trust::from(trigger.trust).into(),
                reach: internal::Reach::Own.into(),
            }),
            agent: agent.to_string(),
            revision_id: revision.to_string(),
            input,
            source: v1::StartSource::Webhook.into(),
            idempotency_key: id.map(|id| key(&trigger.name, id)).unwrap_or_default(),
            traceparent: propagate::traceparent().unwrap_or_default(),
            trigger: trigger.name,
        };
        let started = shared.scheduler().start_run(start).await;
        let started = started.map_err(|status| refuse::sibling("scheduler", &status))?;
        let started = started.into_inner();
        Ok(json!({
            "run_id": started.run_id,
            "task_id": started.task_id,
            "already_started": started.already_started,
        }))
    }
}

/// The key under which a call's id is remembered.
fn key(hook: &str, id: &str) -> String {
    let key = format!("hook:{hook}:{id}");
    if key.len() <= MAX_KEY {
        return key;
    }
    format!("hook:{hook}:sha256:{}", Digest::of(id.as_bytes()).to_hex())
}

/// What a call says about itself.
struct Signed<'h> {
    id: Option<&'h str>,
    /// The time that `webhook-signature` covers, where that is what counts.
    timestamp: Option<&'h str>,
    standard: Option<&'h str>,
    sayso: Option<&'h str>,
}

impl<'h> Signed<'h> {
    fn of(headers: &'h HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let [id, timestamp, standard] = STANDARD_HEADERS.map(text);
        Self {
            id: id.filter(|id| !id.is_empty()),
            timestamp: standard.and(timestamp),
            standard,
            sayso: text(SAYSO_HEADER),
        }
    }

    fn fits(&self, secret: &Secret, body: &[u8]) -> bool {
        match (self.standard, self.id, self.timestamp) {
            (Some(given), Some(id), Some(timestamp)) => {
                signature::is_standard(secret, id, timestamp, body, given)
            }
            (Some(_), _, _) => false,
            (None, _, _) => signature::is_sayso(secret, body, self.sayso.unwrap_or_default()),
        }
    }
}

fn refused() -> Coded {
    Coded::new(
        Kind::Unauthenticated,
        "hook.refused",
        "There is no such hook here, or the signature does not fit its secret and the exact body.",
    )
}

fn not_text() -> Coded {
    Coded::new(
        Kind::Invalid,
        code::REQUEST_INVALID_TEXT,
        "The body becomes what the agent is asked: it has to be UTF-8 text without NUL characters.",
    )
}

fn unread(rejection: BytesRejection) -> Coded {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Coded::new(
            Kind::TooLarge,
            code::REQUEST_TOO_LARGE,
            format!(
                "The body is larger than {} bytes; send less.",
                limits::MAX_TEXT_BYTES
            ),
        ),
        _ => Coded::new(
            Kind::Invalid,
            code::REQUEST_INVALID,
            "The body broke off while it was read; send it again.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()))
            .collect::<Vec<(http::HeaderName, http::HeaderValue)>>()
            .into_iter()
            .collect()
    }

    /// S8.5: either form is taken, and where the one with a time is sent it is what counts.
    #[test]
    fn s8_5_either_signature_is_taken_and_the_one_with_a_time_counts() {
        let (secret, body) = (Secret::new("key"), b"{}".as_slice());
        let fits = |pairs: &[(&'static str, &str)]| Signed::of(&headers(pairs)).fits(&secret, body);
        let plain = signature::sayso(&secret, body);
        let standard = signature::standard(&secret, "msg_1", 7, body);
        let (id, time) = (("webhook-id", "msg_1"), ("webhook-timestamp", "7"));
        assert!(fits(&[("x-sayso-signature", &plain)]));
        assert!(fits(&[id, time, ("webhook-signature", &standard)]));
        assert!(fits(&[id, ("x-sayso-signature", &plain)]));
        let wrong = ("webhook-signature", "v1,AAAA");
        assert!(!fits(&[id, time, wrong, ("x-sayso-signature", &plain)]));
        assert!(!fits(&[id, ("webhook-signature", &standard)]));
        assert!(!fits(&[]));
    }

    #[test]
    fn an_id_of_any_length_makes_a_key() {
        assert_eq!(key("orders", "msg_1"), "hook:orders:msg_1");
        let long = key("orders", &"x".repeat(4096));
        assert!(
            long.len() <= MAX_KEY && long.starts_with("hook:orders:sha256:"),
            "{long}"
        );
    }
}
