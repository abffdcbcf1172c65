//! `sayso.v1.TokenService`.

use std::mem::take;

use sayso_driver::Journal;
use sayso_run::{PrincipalId, Timestamp, Trust};
use sayso_service::error::{Coded, Kind};
use sayso_store::TokenRow;
use sayso_wire::v1::token_service_server::TokenService;
use sayso_wire::{code, v1};
use tonic::{Request, Response, Status};

use super::Api;
use crate::auth::{Scope, Scopes, Session};
use crate::page::{ENTRIES, Pages};
use crate::request::{CHECKED, Check};
use crate::tokens::{self, CreateError, DEFAULT_LIFETIME, NewToken, RevokeError, Which};
use crate::{audit, refuse, show};

#[tonic::async_trait]
impl TokenService for Api {
    async fn create_token(
        &self,
        request: Request<v1::CreateTokenRequest>,
    ) -> Result<Response<v1::CreateTokenResponse>, Status> {
        let session = Session::of(&request);
        let new = new_token(&session, &request.into_inner())?;
        let actor = audit::actor(session.caller());
        let created = tokens::create(&self.0.store, &self.0.key, &actor, new).await;
        let created = created.map_err(not_created)?;
        Ok(Response::new(v1::CreateTokenResponse {
            token: Some(show::token(created.token)),
            secret: created.secret.expose().to_owned(),
        }))
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size)) as usize;
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let mut check = Check::new();
        let principal = check.filter::<PrincipalId>("principal", &asked.principal);
        check.done()?;
        let after = pages.read(&token)?;
        let after = after
            .as_deref()
            .map(|edge| Edge::parse(edge).ok_or_else(crate::page::malformed));
        let after = after.transpose()?;

        let rows = self
            .0
            .store
            .tokens()
            .list(&session.caller().namespace)
            .await;
        let mut rows = rows.map_err(|error| refuse::database("listing tokens", error))?;
        let now = self.0.store.now();
        rows.retain(|row| {
            (asked.include_ended || row.is_valid(now))
                && principal.as_ref().is_none_or(|by| *by == row.principal)
                && after.as_ref().is_none_or(|after| Edge::of(row) < *after)
        });
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows
            .last()
            .filter(|_| more)
            .map(|row| Edge::of(row).write());
        Ok(Response::new(v1::ListTokensResponse {
            tokens: rows.into_iter().map(show::token).collect(),
            next_page_token: pages.next(next),
        }))
    }

    async fn revoke_token(
        &self,
        request: Request<v1::RevokeTokenRequest>,
    ) -> Result<Response<v1::RevokeTokenResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let which = match &asked.token {
            Some(v1::revoke_token_request::Token::Id(id)) => Which::Id(id),
            Some(v1::revoke_token_request::Token::Name(name)) => Which::Name(name),
            None => {
                let mut check = Check::new();
                check.wrong("token", "is required: an id or a name");
                return Err(check.done().expect_err("a field was wrong").into());
            }
        };
        let caller = session.caller();
        let (store, key, actor) = (&self.0.store, &self.0.key, audit::actor(caller));
        let revoked = tokens::revoke(store, key, &actor, &caller.namespace, which).await;
        // Whatever came of writing it down: what is known of tokens may be wrong from here on.
        self.0.auth.forget();
        let token = revoked.map_err(not_revoked)?;
        Ok(Response::new(v1::RevokeTokenResponse {
            token: Some(show::token(token)),
        }))
    }
}

/// Where a page of tokens ends: they are listed newest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    created_at: Timestamp,
    id: String,
}

impl Edge {
    fn of(row: &TokenRow) -> Edge {
        Edge {
            created_at: row.created_at,
            id: row.id.clone(),
        }
    }

    fn write(&self) -> String {
        format!("{}:{}", self.created_at.micros(), self.id)
    }

    fn parse(text: &str) -> Option<Edge> {
        let (micros, id) = text.split_once(':')?;
        Some(Edge {
            created_at: Timestamp::from_micros(micros.parse().ok()?),
            id: id.to_owned(),
        })
    }
}

fn new_token(session: &Session, asked: &v1::CreateTokenRequest) -> Result<NewToken, Coded> {
    let mut check = Check::new();
    let name = check.id::<PrincipalId>("name", &asked.name);
    let principal = check.filter::<PrincipalId>("principal", &asked.principal);
    let scopes: Option<Scopes> = asked.scopes().map(scope).collect();
    if asked.scopes.len() != asked.scopes().count() || scopes.is_none() {
        check.wrong("scopes", "holds a scope that this version does not know");
    }
    let trust = match asked.trust() {
        v1::Trust::Unspecified if asked.trust == 0 => Some(Trust::Trusted),
        trust => Trust::try_from(trust).ok(),
    };
    if trust.is_none() {
        check.wrong("trust", "is none that this version knows");
    }
    let lifetime = check.duration("expires_after", asked.expires_after.as_ref());
    check.done()?;
    let trust = trust.expect(CHECKED);
    if trust == Trust::Operator && !session.caller().scopes.contains(Scope::Admin) {
        return Err(Coded::new(
            Kind::PermissionDenied,
            code::TOKEN_OPERATOR_TRUST,
            "Only an admin gives trust `operator`; choose `trusted`, or ask an admin.",
        ));
    }
    Ok(NewToken {
        namespace: session.caller().namespace.clone(),
        name: name.expect(CHECKED),
        principal,
        scopes: scopes.expect(CHECKED),
        trust,
        lifetime: lifetime.unwrap_or(DEFAULT_LIFETIME),
    })
}

const fn scope(scope: v1::Scope) -> Option<Scope> {
    match scope {
        v1::Scope::Unspecified => None,
        v1::Scope::Submit => Some(Scope::Submit),
        v1::Scope::Read => Some(Scope::Read),
        v1::Scope::Approver => Some(Scope::Approver),
        v1::Scope::Operator => Some(Scope::Operator),
        v1::Scope::Admin => Some(Scope::Admin),
    }
}

fn not_created(error: CreateError) -> Coded {
    match error {
        CreateError::Exists(_) => {
            Coded::new(Kind::Exists, code::TOKEN_EXISTS, sentence(&error)).field("name", "is taken")
        }
        CreateError::NoScope => Coded::new(Kind::Invalid, code::TOKEN_NO_SCOPE, sentence(&error))
            .field("scopes", "at least one is required"),
        CreateError::Lifetime => Coded::new(Kind::Invalid, code::TOKEN_LIFETIME, sentence(&error))
            .field("expires_after", "must be from 1 minute to 10 years"),
        CreateError::Randomness(_) => Coded::internal("making a token", &error),
        CreateError::Database(error) => refuse::database("making a token", error),
        CreateError::Audit(error) => audit::failed(error),
    }
}

fn not_revoked(error: RevokeError) -> Coded {
    match error {
        RevokeError::NotFound => Coded::new(
            Kind::NotFound,
            code::TOKEN_NOT_FOUND,
            "There is no such token here; `sayso token ls` lists them.",
        ),
        RevokeError::Database(error) => refuse::database("revoking a token", error),
        RevokeError::Audit(error) => audit::failed(error),
    }
}

/// An error as a sentence for people.
fn sentence(error: &CreateError) -> String {
    let text = error.to_string();
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}.", chars.as_str())
}
