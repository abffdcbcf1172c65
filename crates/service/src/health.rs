//! Whether a process may be given work: named checks behind `/livez`,
//! `/readyz` and gRPC health (`S10.2`).
//!
//! Alive means that the process answers at all; it does not depend on anything
//! else, or a broken database would get every process restarted. Ready means
//! that every check passes and that the process is not being stopped.
//!
//! Checks run when somebody asks, all at once, at most once a second however
//! many ask, and a check without an answer for two seconds counts as failed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use futures::Stream;
use futures::future::{BoxFuture, join_all};
use http::StatusCode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health as GrpcHealth, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::error::{Coded, Kind};
use crate::metrics::{self, Metrics};

/// How long one round of checks answers for.
const FRESH: Duration = Duration::from_secs(1);

/// How long a check may take.
const PATIENCE: Duration = Duration::from_secs(2);

type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The health of one process. Clones share it.
#[derive(Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

struct Inner {
    checks: Mutex<Vec<(&'static str, Check)>>,
    services: Mutex<Vec<&'static str>>,
    draining: CancellationToken,
    last: tokio::sync::Mutex<Option<(Instant, Report)>>,
}

/// The outcome of a round of checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What is not well: the check's name and a sentence.
    pub failing: Vec<(&'static str, String)>,
}

impl Report {
    /// Whether nothing fails.
    pub fn ready(&self) -> bool {
        self.failing.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ready() {
            return writeln!(f, "ready");
        }
        for (name, problem) in &self.failing {
            writeln!(f, "{name}: {problem}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checks: Vec<_> = self.checks().into_iter().map(|(name, _)| name).collect();
        f.debug_struct("Health").field("checks", &checks).finish()
    }
}

impl Default for Health {
    fn default() -> Health {
        Health::new()
    }
}

impl Health {
    /// Health without checks: ready.
    pub fn new() -> Health {
        Health {
            inner: Arc::new(Inner {
                checks: Mutex::new(Vec::new()),
                services: Mutex::new(vec![""]),
                draining: CancellationToken::new(),
                last: tokio::sync::Mutex::new(None),
            }),
        }
    }

    /// Adds a check: `Ok`, or a sentence that says what is wrong. It must not
    /// hold secrets: anyone who reaches the port reads it.
    pub fn check<F, A>(&self, name: &'static str, check: F)
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), String>> + Send + 'static,
    {
        let check: Check = Arc::new(move || Box::pin(check()));
        lock(&self.inner.checks).push((name, check));
    }

    /// Names a gRPC service (`sayso.v1.RunService`) whose gRPC health follows
    /// readiness, besides the process as a whole (the empty name).
    pub fn service(&self, name: &'static str) {
        lock(&self.inner.services).push(name);
    }

    /// From now on not ready: the process is being stopped.
    pub fn drain(&self) {
        self.inner.draining.cancel();
    }

    /// What the checks say, at most a second old.
    pub async fn report(&self) -> Report {
        if self.inner.draining.is_cancelled() {
            return Report {
                failing: vec![("shutdown", "this process is stopping".to_owned())],
            };
        }
        // Held while the checks run: whoever asks meanwhile gets their result.
        let mut last = self.inner.last.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < FRESH
        {
            return report.clone();
        }
        let checks = self.checks();
        let outcomes = join_all(checks.iter().map(|(name, check)| async move {
            let outcome = match tokio::time::timeout(PATIENCE, check()).await {
                Ok(outcome) => outcome,
                Err(_elapsed) => Err(format!("no answer for {} s", PATIENCE.as_secs())),
            };
            outcome.err().map(|problem| (*name, problem))
        }))
        .await;
        let report = Report {
            failing: outcomes.into_iter().flatten().collect(),
        };
        *last = Some((Instant::now(), report.clone()));
        report
    }

    /// `/livez`, `/readyz` (503 with what fails, a line each) and `/metrics`.
    pub fn pages(&self, metrics: Metrics) -> Router {
        let health = self.clone();
        let ready = move || {
            let health = health.clone();
            async move {
                let report = health.report().await;
                let status = match report.ready() {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                (status, report.to_string())
            }
        };
        let metrics = move || {
            let text = metrics.render();
            async move { ([(http::header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text) }
        };
        Router::new()
            .route("/livez", get(|| async { "alive\n" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
    }

    /// The gRPC health service.
    pub(crate) fn grpc(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService(self.clone()))
    }

    fn checks(&self) -> Vec<(&'static str, Check)> {
        lock(&self.inner.checks).clone()
    }

    fn knows(&self, service: &str) -> bool {
        lock(&self.inner.services).contains(&service)
    }

    async fn serving(&self, service: &str) -> ServingStatus {
        if !self.knows(service) {
            return ServingStatus::ServiceUnknown;
        }
        match self.report().await.ready() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Only pushes and clones happen under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `grpc.health.v1.Health` over [`Health`].
#[derive(Clone, Debug)]
pub(crate) struct HealthService(Health);

#[tonic::async_trait]
impl GrpcHealth for HealthService {
    type WatchStream =
        Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send + 'static>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        match self.0.serving(&service).await {
            ServingStatus::ServiceUnknown => Err(Coded::new(
                Kind::NotFound,
                "health.unknown_service",
                "There is no such service here; leave the name empty to ask for the process.",
            )
            .into()),
            status => Ok(Response::new(answer(status))),
        }
    }

    /// Sends the status, then each change of it; ends when the process drains.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let service = request.into_inner().service;
        let start = (self.0.clone(), service, None);
        let stream = futures::stream::unfold(start, |(health, service, last)| async move {
            loop {
                let waits = last.is_some() && !health.inner.draining.is_cancelled();
                if waits {
                    let draining = health.inner.draining.cancelled();
                    let _ended_by_either = tokio::time::timeout(FRESH, draining).await;
                }
                let draining = health.inner.draining.is_cancelled();
                let status = health.serving(&service).await;
                if last != Some(status) {
                    return Some((Ok(answer(status)), (health, service, Some(status))));
                }
                if draining {
                    return None;
                }
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use futures::StreamExt;
    use tower::ServiceExt;

    use super::*;

    async fn page(health: &Health, path: &str) -> (StatusCode, String) {
        let request = http::Request::get(path).body(axum::body::Body::empty());
        let router = health.pages(Metrics::new());
        let response = router.oneshot(request.expect("a request")).await;
        let response = response.expect("infallible");
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 4096).await;
        let text = String::from_utf8(body.expect("a body").to_vec());
        (status, text.expect("text"))
    }

    async fn watch(health: &Health, service: &str) -> <HealthService as GrpcHealth>::WatchStream {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let watch = health.grpc_for_tests().watch(Request::new(request)).await;
        watch.expect("a stream").into_inner()
    }

    impl Health {
        fn grpc_for_tests(&self) -> HealthService {
            HealthService(self.clone())
        }
    }

    #[tokio::test]
    async fn s10_2_readiness_names_what_fails_and_liveness_does_not_care() {
        let health = Health::new();
        health.check("database", || async { Ok(()) });
        health.check("broker", || async { Err("no connection".to_owned()) });
        let (status, text) = page(&health, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "broker: no connection\n");
        assert_eq!(
            page(&health, "/livez").await,
            (StatusCode::OK, "alive\n".into())
        );
        assert!(page(&health, "/metrics").await.1.ends_with("# EOF\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn s10_2_a_check_that_hangs_fails_and_checks_run_once_a_second() {
        let health = Health::new();
        let rounds = Arc::new(AtomicUsize::new(0));
        let counted = rounds.clone();
        health.check("slow", move || {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        });
        let (a, b) = tokio::join!(health.report(), health.report());
        assert_eq!(a, b);
        assert_eq!(a.failing, [("slow", "no answer for 2 s".to_owned())]);
        assert_eq!(rounds.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH).await;
        health.report().await;
        assert_eq!(rounds.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn s10_2_grpc_health_follows_readiness_and_ends_with_the_process() {
        let health = Health::new();
        health.service("sayso.v1.RunService");
        let up = Arc::new(AtomicBool::new(false));
        let seen = up.clone();
        health.check("database", move || {
            let up = seen.load(Ordering::Relaxed);
            async move { up.then_some(()).ok_or("away".to_owned()) }
        });
        let mut watched = watch(&health, "sayso.v1.RunService").await;
        let mut next = async || {
            let item = watched.next().await?;
            Some(item.expect("no error").status())
        };
        assert_eq!(next().await, Some(ServingStatus::NotServing));
        up.store(true, Ordering::Relaxed);
        assert_eq!(next().await, Some(ServingStatus::Serving));
        health.drain();
        assert_eq!(next().await, Some(ServingStatus::NotServing));
        assert_eq!(next().await, None);
    }

    #[tokio::test]
    async fn s10_2_an_unknown_service_is_said_to_be_unknown() {
        let health = Health::new();
        let request = HealthCheckRequest {
            service: "nobody".to_owned(),
        };
        let refused = health.grpc_for_tests().check(Request::new(request)).await;
        assert_eq!(refused.expect_err("unknown").code(), tonic::Code::NotFound);
        let first = watch(&health, "nobody").await.next().await;
        let first = first.expect("an item").expect("no error").status();
        assert_eq!(first, ServingStatus::ServiceUnknown);
    }
}
