//! What stands before every public gRPC service: gRPC-web, the token, the scope.

use std::convert::Infallible;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use sayso_service::error::{Coded, Kind};
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic_web::{GrpcWebLayer, GrpcWebService};
use tower::{Layer, Service};

use super::access::{Access, Reach};
use super::{Authenticator, Lease, Session, refusal};
use crate::http::cors::Cors;

/// A gRPC service behind authentication, for gRPC and gRPC-web alike.
#[derive(Debug, Clone)]
pub struct Guarded<S> {
    web: GrpcWebService<Authenticated<S>>,
}

impl<S: Clone> Guarded<S> {
    /// Puts a service behind authentication; pages of these origins may call it.
    pub(crate) fn new(inner: S, auth: &Authenticator, cors: &Cors) -> Guarded<S> {
        let (auth, cors) = (auth.clone(), cors.clone());
        Guarded {
            web: GrpcWebLayer::new().layer(Authenticated { inner, auth, cors }),
        }
    }
}

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <GrpcWebService<Authenticated<S>> as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Body>>::poll_ready(&mut self.web, cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.web.call(request)
    }
}

/// Lets a call in with its [`Session`], or answers it with the refusal.
#[derive(Debug, Clone)]
pub struct Authenticated<S> {
    inner: S,
    auth: Authenticator,
    cors: Cors,
}

impl<S> Service<Request<Body>> for Authenticated<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let origin = self.cors.origin(request.headers());
        let answer = self.answer(request);
        let Some(origin) = origin else {
            return answer;
        };
        Box::pin(async move {
            let mut response = answer.await?;
            Cors::open(origin, response.headers_mut());
            Ok(response)
        })
    }
}

impl<S> Authenticated<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    fn answer(
        &mut self,
        mut request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        let Some(access) = Access::of(request.uri().path()) else {
            // There is no such method: the service says so itself.
            return Box::pin(self.inner.call(request));
        };
        let secret = match bearer(request.headers()) {
            Ok(secret) => secret,
            Err(refused) => return refuse(refused),
        };
        match self.auth.verify_now(secret) {
            Some(Ok(lease)) => match enter(&mut request, access, lease) {
                Ok(()) => Box::pin(self.inner.call(request)),
                Err(refused) => refuse(refused),
            },
            Some(Err(refused)) => refuse(refused),
            None => {
                let secret = secret.to_owned();
                let auth = self.auth.clone();
                // The one that was polled ready goes with the call, a clone stays.
                let clone = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, clone);
                Box::pin(async move {
                    let entered = auth
                        .verify(&secret)
                        .await
                        .and_then(|lease| enter(&mut request, access, lease));
                    match entered {
                        Ok(()) => inner.call(request).await,
                        Err(refused) => Ok(Status::from(refused).into_http()),
                    }
                })
            }
        }
    }
}

/// Leaves the session in the request, if the token's scopes let it call the method at all.
fn enter(request: &mut Request<Body>, access: &'static Access, lease: Lease) -> Result<(), Coded> {
    let reach = reach(request.headers(), access, &lease)?;
    // Nobody behind this needs the secret.
    request.headers_mut().remove(AUTHORIZATION);
    request.extensions_mut().insert(Session::new(lease, reach));
    Ok(())
}

/// How far the token reaches with the method. A refusal that is audited is the method's own to tell.
fn reach(
    headers: &HeaderMap,
    access: &Access,
    lease: &Lease,
) -> Result<Result<Reach, Coded>, Coded> {
    check_namespace(headers, lease.caller().namespace.as_str())?;
    let reach = access.reach(lease.caller().scopes);
    if !access.audited {
        reach.as_ref().map_err(Clone::clone)?;
    }
    Ok(reach)
}

/// Whether the token that these headers carry is one for the method at this path, before anything
/// else of the request is looked at. Whoever is let in by this comes through [`Guarded`] all the same.
///
/// # Errors
///
/// The refusal with which [`Guarded`] would answer.
pub(crate) async fn admit(
    auth: &Authenticator,
    headers: &HeaderMap,
    path: &str,
) -> Result<(), Coded> {
    let lease = verify(auth, headers).await?;
    match Access::of(path) {
        Some(access) => reach(headers, access, &lease).map(|_| ()),
        // There is no such method: the service says so itself.
        None => Ok(()),
    }
}

/// Whose token these headers carry, for an answer that is given here and not by a service, to those
/// who may call a method.
///
/// # Errors
///
/// The refusal with which [`Guarded`] would answer a call of that method.
pub(crate) async fn session(
    auth: &Authenticator,
    headers: &HeaderMap,
    access: &Access,
) -> Result<Session, Coded> {
    let lease = verify(auth, headers).await?;
    let reach = reach(headers, access, &lease)?;
    Ok(Session::new(lease, reach))
}

async fn verify(auth: &Authenticator, headers: &HeaderMap) -> Result<Lease, Coded> {
    let secret = bearer(headers)?;
    match auth.verify_now(secret) {
        Some(told) => told,
        None => auth.verify(secret).await,
    }
}

/// The header in which a caller may say which namespace it means.
pub(crate) const NAMESPACE_HEADER: &str = "sayso-namespace";

/// The token decides the namespace (S6.11); a caller who says that it means another one holds the
/// wrong token, and is told before anything is done.
fn check_namespace(headers: &HeaderMap, opened: &str) -> Result<(), Coded> {
    let meant = headers.get_all(NAMESPACE_HEADER);
    if meant
        .iter()
        .all(|meant| meant.as_bytes() == opened.as_bytes())
    {
        return Ok(());
    }
    Err(Coded::new(
        Kind::PermissionDenied,
        "token.other_namespace",
        format!("This token opens the namespace `{opened}`, not the one that was named."),
    ))
}

/// The token that a request carries.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Coded> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or_else(refusal::missing)?;
    if values.next().is_some() {
        return Err(Coded::new(
            Kind::Unauthenticated,
            "token.invalid",
            "Send one authorization header, not several.",
        ));
    }
    let text = value.to_str().map_err(|_| refusal::invalid())?;
    let (scheme, secret) = text.split_once(' ').ok_or_else(refusal::invalid)?;
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(secret.trim())
    } else {
        Err(refusal::invalid())
    }
}

fn refuse(refused: Coded) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
    let response = Status::from(refused).into_http();
    Box::pin(async move { Ok(response) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let values = values
            .iter()
            .map(|value| (AUTHORIZATION, value.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.append(name, value);
        }
        headers
    }

    /// S6.11: a namespace that is named must be the token's.
    #[test]
    fn s6_11_the_namespace_that_is_named_is_the_tokens() {
        let named = |names: &[&str]| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append(NAMESPACE_HEADER, name.parse().unwrap());
            }
            check_namespace(&headers, "shop").map_err(|refused| refused.code.into_owned())
        };
        assert_eq!(named(&[]), Ok(()));
        assert_eq!(named(&["shop"]), Ok(()));
        for other in [&["Shop"][..], &[""], &["shop", "other"]] {
            assert_eq!(
                named(other),
                Err("token.other_namespace".to_owned()),
                "{other:?}"
            );
        }
    }

    #[test]
    fn the_token_is_the_bearer_of_one_header() {
        assert_eq!(bearer(&headers(&["Bearer x"])), Ok("x"));
        assert_eq!(bearer(&headers(&["bearer  x "])), Ok("x"));
        let code = |values| bearer(&headers(values)).unwrap_err().code;
        assert_eq!(code(&[]), "token.missing");
        for bad in [&["Basic x"][..], &["x"], &["Bearer x", "Bearer y"]] {
            assert_eq!(code(bad), "token.invalid", "{bad:?}");
        }
    }
}
