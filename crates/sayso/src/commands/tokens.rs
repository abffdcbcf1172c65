//! `sayso token`: who may call, as whom, for what (S6.11).

use sayso_sdk::v1;
use sayso_sdk::v1::revoke_token_request::Token as Named;
use sayso_wire::time::duration;

use super::{Context, list};
use crate::args::{CreateTokenArgs, TokenCommand};
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{time, visible};
use crate::wiring::tokens::{TokenRequest, create_in_database};

pub(crate) async fn run(context: &Context, command: TokenCommand) -> Result<Exit, Failure> {
    match command {
        TokenCommand::Create(args) => create(context, args).await,
        TokenCommand::Ls {
            principal,
            all,
            limit,
        } => ls(context, principal, all, limit.limit).await,
        TokenCommand::Revoke { token } => revoke(context, token).await,
    }
}

async fn create(context: &Context, args: CreateTokenArgs) -> Result<Exit, Failure> {
    let answer = match &args.config {
        Some(config) => v1::CreateTokenResponse {
            token: None,
            secret: create_in_database(config, in_database(context, &args)).await?,
        },
        None => {
            let request = v1::CreateTokenRequest {
                name: args.name.clone(),
                principal: args.principal.clone().unwrap_or_default(),
                scopes: args.scope.iter().copied().map(i32::from).collect(),
                trust: args.trust.unwrap_or(v1::Trust::Unspecified).into(),
                expires_after: args.expires.map(duration),
            };
            context.connect().await?.create_token(request).await?
        }
    };
    let output = &context.output;
    if output.json {
        output.message(&answer)?;
        return Ok(Exit::Done);
    }
    output.line(visible::line(&answer.secret))?;
    output.aside("this is shown once; use it as SAYSO_TOKEN")?;
    if let Some(token) = &answer.token {
        output.aside(format!(
            "{} acts as {}, may {}, expires {}",
            visible::line(&token.name),
            visible::line(&token.principal),
            scopes(token),
            time::second(token.expires_at.as_ref())
        ))?;
    }
    Ok(Exit::Done)
}

/// The namespace is there: the arguments require it beside a configuration.
fn in_database(context: &Context, args: &CreateTokenArgs) -> TokenRequest {
    TokenRequest {
        namespace: context.global.namespace.clone().unwrap_or_default(),
        name: args.name.clone(),
        principal: args.principal.clone(),
        scopes: args
            .scope
            .iter()
            .map(|scope| scope.word().to_owned())
            .collect(),
        trust: args.trust.map(|trust| trust.word().to_owned()),
        lifetime: args.expires,
    }
}

async fn ls(
    context: &Context,
    principal: Option<String>,
    all: bool,
    limit: u32,
) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let principal = principal.unwrap_or_default();
    let fetch = async |page_size: u32, page_token: String| {
        let request = v1::ListTokensRequest {
            principal: principal.clone(),
            include_ended: all,
            page_size,
            page_token,
        };
        let page = client.list_tokens(request).await?;
        Ok((page.tokens, page.next_page_token))
    };
    let (tokens, next_page_token) = list::up_to(limit, fetch).await?;
    if context.output.json {
        context.output.message(&v1::ListTokensResponse {
            tokens,
            next_page_token,
        })?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new([
        "TOKEN",
        "NAME",
        "PRINCIPAL",
        "SCOPES",
        "TRUST",
        "EXPIRES",
        "REVOKED",
    ]);
    for token in &tokens {
        table.row([
            Entry::new(&token.id),
            Entry::new(&token.name),
            Entry::new(&token.principal),
            Entry::new(scopes(token)),
            Entry::new(token.trust().word()),
            Entry::new(time::second(token.expires_at.as_ref())),
            Entry::new(time::second(token.revoked_at.as_ref())),
        ]);
    }
    table.print(&context.output, "no tokens")?;
    Ok(Exit::Done)
}

fn scopes(token: &v1::Token) -> String {
    let words: Vec<&str> = token.scopes().map(v1::Scope::word).collect();
    words.join(",")
}

async fn revoke(context: &Context, token: String) -> Result<Exit, Failure> {
    let named = if token.starts_with("tok_") {
        Named::Id(token)
    } else {
        Named::Name(token)
    };
    let revoked = context.connect().await?.revoke_token(named).await?;
    if context.output.json {
        context.output.message(&revoked)?;
    } else {
        let at = time::second(revoked.revoked_at.as_ref());
        context.output.line(format!(
            "{} was revoked at {at}",
            visible::line(&revoked.name)
        ))?;
    }
    Ok(Exit::Done)
}
