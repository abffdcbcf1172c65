//! One POST to a client's receiver.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use sayso_service::address::is_public;
use sayso_store::PushTarget;

use crate::post::{Answer, USER_AGENT, answered};

/// The media type of the protocol.
const A2A_JSON: &str = "application/a2a+json";

/// What the receiver knows the task by.
const TOKEN: &str = "x-a2a-notification-token";

/// A name that leads to no public address.
#[derive(Debug, thiserror::Error)]
#[error("its name leads to no public address")]
struct NotPublic;

/// Resolves names to public addresses alone: looked at when the connection is made, so a name cannot
/// lead elsewhere by then.
struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|a| is_public(a.ip())).collect();
            if public.is_empty() {
                return Err(Box::new(NotPublic) as _);
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

/// A client for receivers that strangers name: follows no redirect, and reaches public addresses alone
/// unless `private` says otherwise.
pub(crate) fn client(timeout: Duration, private: bool) -> Result<Client, reqwest::Error> {
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .timeout(timeout);
    if !private {
        builder = builder.dns_resolver(std::sync::Arc::new(PublicOnly));
    }
    builder.build()
}

/// Whether a URL names an address that may not be called: addresses are not resolved.
pub(super) fn is_hidden(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<IpAddr>()
        .is_ok_and(|address| !is_public(address))
}

/// Sends a body once.
pub(super) async fn send(
    client: &Client,
    url: Url,
    target: &PushTarget,
    id: String,
    body: String,
) -> Answer {
    let mut request = client
        .post(url)
        .header(CONTENT_TYPE, A2A_JSON)
        .header("webhook-id", id);
    if !target.token.is_empty() {
        request = request.header(TOKEN, &target.token);
    }
    if !target.scheme.is_empty() {
        let value = format!("{} {}", target.scheme, target.credentials);
        request = request.header(AUTHORIZATION, value.trim_end());
    }
    answered(request.body(body).send().await)
}
