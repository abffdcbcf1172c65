//! `sayso.v1.TargetService` (S8.2, S8.3). Every change is written down, of an address no more than is
//! shown.

use http::Uri;
use sayso_driver::Takes;
use sayso_rules::bundle::{is_agent_name, is_secret_name};
use sayso_service::config::MailAddress;
use sayso_service::error::{Coded, Kind};
use sayso_store::{Added, MAX_TARGETS, NewTarget, TargetKind, TargetRow};
use sayso_wire::internal::{self, Caller};
use sayso_wire::time::timestamp;
use sayso_wire::v1::target_service_server::TargetService;
use sayso_wire::{code, v1};
use serde_json::json;
use tonic::{Request, Response, Status};

use super::{Api, on_behalf, record};
use crate::auth::Session;
use crate::refuse;
use crate::request::{CHECKED, Check};

/// The longest address, in bytes.
const MAX_ADDRESS: usize = 2_048;

#[tonic::async_trait]
impl TargetService for Api {
    async fn create_target(
        &self,
        request: Request<v1::CreateTargetRequest>,
    ) -> Result<Response<v1::CreateTargetResponse>, Status> {
        let session = Session::of(&request);
        let target = new_target(request.into_inner())?;
        let (caller, targets) = (session.caller(), self.0.store.targets());
        let failed = |error| refuse::database("adding a target", error);
        let added = targets.add(&caller.namespace, &target, &caller.principal);
        match added.await.map_err(failed)? {
            Added::Added => {}
            Added::Exists => return Err(exists().into()),
            Added::TooMany => return Err(too_many().into()),
        }
        let details = json!({
            "kind": target.kind.as_str(),
            "address": shown_address(target.kind, &target.address),
            "secret": target.secret,
            "approvals": target.takes.approvals,
            "failures": target.takes.failures,
        });
        record(&self.0, &session, "target.create", &target.name, details).await?;
        let row = targets.get(&caller.namespace, &target.name).await;
        let row = row.map_err(failed)?.ok_or_else(no_target)?;
        Ok(Response::new(v1::CreateTargetResponse {
            target: Some(shown(row)),
        }))
    }

    async fn list_targets(
        &self,
        request: Request<v1::ListTargetsRequest>,
    ) -> Result<Response<v1::ListTargetsResponse>, Status> {
        let session = Session::of(&request);
        let namespace = &session.caller().namespace;
        let rows = self.0.store.targets().list(namespace).await;
        let rows = rows.map_err(|error| refuse::database("listing targets", error))?;
        Ok(Response::new(v1::ListTargetsResponse {
            targets: rows.into_iter().map(shown).collect(),
        }))
    }

    async fn test_target(
        &self,
        request: Request<v1::TestTargetRequest>,
    ) -> Result<Response<v1::TestTargetResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        name(&asked.name)?;
        let caller: Caller = on_behalf(&session)?;
        let request = internal::TestTargetRequest {
            caller: Some(caller),
            request: Some(asked.clone()),
        };
        let tested = self.0.notifier().test_target(request).await;
        let tested = tested.map_err(|status| refuse::sibling("notifier", &status))?;
        let tested = tested.into_inner().response.unwrap_or_default();
        let details = json!({ "delivered": tested.delivered });
        record(&self.0, &session, "target.test", &asked.name, details).await?;
        Ok(Response::new(tested))
    }

    async fn delete_target(
        &self,
        request: Request<v1::DeleteTargetRequest>,
    ) -> Result<Response<v1::DeleteTargetResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        name(&asked.name)?;
        let targets = self.0.store.targets();
        let removed = targets
            .remove(&session.caller().namespace, &asked.name)
            .await;
        let removed = removed.map_err(|error| refuse::database("removing a target", error))?;
        let Some(removed) = removed else {
            return Err(no_target().into());
        };
        let details = json!({
            "kind": removed.kind.as_str(),
            "address": shown_address(removed.kind, &removed.address),
        });
        record(&self.0, &session, "target.delete", &asked.name, details).await?;
        Ok(Response::new(v1::DeleteTargetResponse {}))
    }
}

const NAME: &str = "must be 1 to 63 of a-z, 0-9 and -";

fn name(name: &str) -> Result<(), Coded> {
    let mut check = Check::new();
    if !is_agent_name(name) {
        check.wrong("name", NAME);
    }
    check.done()
}

fn new_target(asked: v1::CreateTargetRequest) -> Result<NewTarget, Coded> {
    let mut check = Check::new();
    if !is_agent_name(&asked.name) {
        check.wrong("name", NAME);
    }
    let kind = match asked.kind() {
        v1::TargetKind::Webhook => Some(TargetKind::Webhook),
        v1::TargetKind::Email => Some(TargetKind::Email),
        v1::TargetKind::Slack => Some(TargetKind::Slack),
        v1::TargetKind::Unspecified => {
            check.wrong("kind", "must be webhook, email or slack");
            None
        }
    };
    let problem = match kind {
        Some(TargetKind::Webhook | TargetKind::Slack) => bad_url(&asked.address),
        Some(TargetKind::Email) => MailAddress::parse(&asked.address).err(),
        None => None,
    };
    if asked.address.len() > MAX_ADDRESS {
        check.wrong("address", format!("must have at most {MAX_ADDRESS} bytes"));
    } else if let Some(problem) = problem {
        check.wrong("address", problem);
    }
    if !asked.secret.is_empty() {
        if kind.is_some_and(|kind| kind != TargetKind::Webhook) {
            check.wrong(
                "secret",
                "must be empty: only what a webhook gets is signed",
            );
        } else if !is_secret_name(&asked.secret) {
            check.wrong("secret", "must be 1 to 64 letters, digits and underscores");
        }
    }
    let takes = takes(&mut check, asked.events());
    check.done()?;
    Ok(NewTarget {
        name: asked.name,
        kind: kind.expect(CHECKED),
        address: asked.address.trim().to_owned(),
        secret: Some(asked.secret).filter(|secret| !secret.is_empty()),
        takes,
    })
}

fn takes(check: &mut Check, events: impl Iterator<Item = v1::TargetEvent>) -> Takes {
    let mut takes = Takes {
        approvals: false,
        failures: false,
    };
    for event in events {
        match event {
            v1::TargetEvent::Approvals => takes.approvals = true,
            v1::TargetEvent::Failures => takes.failures = true,
            v1::TargetEvent::Unspecified => {
                check.wrong("events", "must be approvals, failures, or both");
            }
        }
    }
    if !takes.approvals && !takes.failures {
        (takes.approvals, takes.failures) = (true, true);
    }
    takes
}

/// What is wrong with a URL.
fn bad_url(address: &str) -> Option<String> {
    const WANTED: &str = "must be an http or https URL such as https://hooks.example.org/sayso";
    let uri: Option<Uri> = address.trim().parse().ok();
    let fits = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
    });
    (!fits).then(|| WANTED.to_owned())
}

/// An address as far as it is shown: of a URL its origin, since the rest may be a secret.
fn shown_address(kind: TargetKind, address: &str) -> String {
    match kind {
        TargetKind::Email => address.to_owned(),
        TargetKind::Webhook | TargetKind::Slack => {
            let uri: Option<Uri> = address.parse().ok();
            let origin = uri.and_then(|uri| {
                let (scheme, host) = (uri.scheme_str()?, uri.host()?);
                let port = uri.port().map(|port| format!(":{port}"));
                Some(format!("{scheme}://{host}{}", port.unwrap_or_default()))
            });
            origin.unwrap_or_default()
        }
    }
}

fn shown(row: TargetRow) -> v1::Target {
    let kind = match row.kind {
        TargetKind::Webhook => v1::TargetKind::Webhook,
        TargetKind::Email => v1::TargetKind::Email,
        TargetKind::Slack => v1::TargetKind::Slack,
    };
    let events = [
        (row.takes.approvals, v1::TargetEvent::Approvals),
        (row.takes.failures, v1::TargetEvent::Failures),
    ];
    let events = events.into_iter().filter(|(takes, _)| *takes);
    v1::Target {
        address: shown_address(row.kind, &row.address),
        name: row.name,
        kind: kind.into(),
        secret: row.secret.unwrap_or_default(),
        events: events.map(|(_, event)| event.into()).collect(),
        created_by: row.created_by.into(),
        created_at: Some(timestamp(row.created_at)),
    }
}

fn no_target() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::TARGET_NOT_FOUND,
        "There is no such target here; `sayso target ls` lists them.",
    )
}

fn exists() -> Coded {
    Coded::new(
        Kind::Exists,
        code::TARGET_EXISTS,
        "There is a target of this name; remove it first, or choose another name.",
    )
}

fn too_many() -> Coded {
    Coded::new(
        Kind::Precondition,
        code::TARGET_TOO_MANY,
        format!("A namespace has at most {MAX_TARGETS} targets; remove one first."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: v1::TargetKind, address: &str, secret: &str) -> v1::CreateTargetRequest {
        v1::CreateTargetRequest {
            name: "ops".into(),
            kind: kind.into(),
            address: address.into(),
            secret: secret.into(),
            events: Vec::new(),
        }
    }

    /// S8.3: internal addresses are addresses.
    #[test]
    fn s8_3_an_address_may_be_internal() {
        for address in [
            "http://127.0.0.1:9",
            "http://metadata.internal/x",
            "https://[::1]/y",
        ] {
            new_target(asked(v1::TargetKind::Webhook, address, "KEY")).unwrap();
        }
        let takes = new_target(asked(v1::TargetKind::Email, "ops@x.example", ""))
            .unwrap()
            .takes;
        assert!(takes.approvals && takes.failures);
    }

    /// S10.5: all that is wrong is told at once.
    #[test]
    fn s10_5_mistakes_are_told_by_field() {
        let fields = |request| {
            let refused = new_target(request).unwrap_err();
            let fields = refused.fields.into_iter().map(|(field, _)| field);
            fields.collect::<Vec<_>>().join(" ")
        };
        let webhook = |address| fields(asked(v1::TargetKind::Webhook, address, "A-B"));
        assert_eq!(webhook("ftp://x"), "address secret");
        assert_eq!(webhook("http://"), "address secret");
        assert_eq!(webhook("/x"), "address secret");
        let email = fields(asked(v1::TargetKind::Email, "a@b\r\nBcc: c@d", "KEY"));
        assert_eq!(email, "address secret");
        assert_eq!(fields(asked(v1::TargetKind::Unspecified, "", "")), "kind");
    }

    /// S8.2: what may be a secret in a URL is not shown.
    #[test]
    fn s8_2_of_a_url_the_origin_is_shown() {
        let slack = |address| shown_address(TargetKind::Slack, address);
        let origin = slack("https://hooks.slack.com/services/T0/B0/secret?x=y");
        assert_eq!(origin, "https://hooks.slack.com");
        assert_eq!(slack("http://user:word@[::1]:80/x"), "http://[::1]:80");
    }
}
