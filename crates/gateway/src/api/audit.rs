//! `sayso.v1.AuditService`.

use std::mem::take;

use sayso_run::Timestamp;
use sayso_service::error::Coded;
use sayso_store::{AuditEntry, AuditError, ListError, Page, PageRequest};
use sayso_wire::v1;
use sayso_wire::v1::audit_service_server::AuditService;
use tonic::{Request, Response, Status};

use super::Api;
use crate::audit::Said;
use crate::auth::Session;
use crate::page::{ENTRIES, Pages};
use crate::request::Check;
use crate::{audit, page, show};

#[tonic::async_trait]
impl AuditService for Api {
    async fn list_audit_entries(
        &self,
        request: Request<v1::ListAuditEntriesRequest>,
    ) -> Result<Response<v1::ListAuditEntriesResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let wanted = Wanted::of(asked)?;
        let from = pages.read(&token)?;
        let namespace = &session.caller().namespace;
        let log = self.0.store.audit();
        let asked = &wanted;
        let fetch = |request: PageRequest| async move {
            let page = log.list(namespace, &request).await?;
            Ok::<_, ListError>(asked.cut(page))
        };
        let keeps = |entry: &AuditEntry| wanted.keeps(entry);
        let rows = page::read(size, from, fetch, keeps, |entry| entry.content.len()).await;
        let (rows, next) = rows.map_err(|error| page::failed("listing the audit log", error))?;
        let entries = rows.into_iter().map(|row| {
            let said = Said::read(&row.content);
            show::audit_entry(row, said)
        });
        Ok(Response::new(v1::ListAuditEntriesResponse {
            entries: entries.collect(),
            next_page_token: pages.next(next),
        }))
    }

    async fn verify_audit(
        &self,
        request: Request<v1::VerifyAuditRequest>,
    ) -> Result<Response<v1::VerifyAuditResponse>, Status> {
        let session = Session::of(&request);
        let namespace = &session.caller().namespace;
        let verified = self.0.store.audit().verify(namespace, &self.0.keys).await;
        let result = match verified {
            Ok(head) => v1::verify_audit_response::Result::Verified(head.into()),
            Err(AuditError::Broken(broken)) => {
                v1::verify_audit_response::Result::Broken(broken.into())
            }
            Err(error @ (AuditError::NoNamespace(_) | AuditError::Database(_))) => {
                return Err(audit::failed(error).into());
            }
        };
        Ok(Response::new(v1::VerifyAuditResponse {
            result: Some(result),
        }))
    }
}

/// Which entries are listed.
struct Wanted {
    actor: Option<String>,
    action: Option<String>,
    subject: Option<String>,
    outcome: v1::AuditOutcome,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Wanted {
    fn of(asked: v1::ListAuditEntriesRequest) -> Result<Wanted, Coded> {
        let mut check = Check::new();
        if v1::AuditOutcome::try_from(asked.outcome).is_err() {
            check.wrong("outcome", "is none that this version knows");
        }
        let wanted = Wanted {
            outcome: asked.outcome(),
            since: check.time("after", asked.after.as_ref()),
            until: check.time("before", asked.before.as_ref()),
            actor: check.word("actor", asked.actor),
            action: check.word("action", asked.action),
            subject: check.word("subject", asked.subject),
        };
        check.done()?;
        Ok(wanted)
    }

    fn keeps(&self, entry: &AuditEntry) -> bool {
        let is = |wanted: &Option<String>, given: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == given)
        };
        let outside = self.since.is_some_and(|since| entry.at < since)
            || self.until.is_some_and(|until| entry.at >= until);
        if outside || !is(&self.action, &entry.kind) || !is(&self.actor, &entry.actor.to_string()) {
            return false;
        }
        let says_all = self.subject.is_none() && self.outcome == v1::AuditOutcome::Unspecified;
        says_all || {
            let said = Said::read(&entry.content);
            is(&self.subject, &said.subject)
                && [v1::AuditOutcome::Unspecified, said.outcome()].contains(&self.outcome)
        }
    }

    /// Entries are listed newest first: after one from before the time wanted come no others.
    fn cut(&self, mut page: Page<AuditEntry>) -> Page<AuditEntry> {
        let last = page.items.last();
        if let (Some(since), Some(last)) = (self.since, last)
            && last.at < since
        {
            page.next = None;
        }
        page
    }
}
