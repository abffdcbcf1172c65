use sayso_sdk::{Client, v1};

use super::{Context, Finding, Report};
use crate::client;
use crate::outcome::Failure;

/// The gateway: reached, and whether it takes the token.
pub(super) async fn check(context: &Context, report: &mut Report<'_>) -> Result<(), Failure> {
    let server = &context.global.server;
    let token = client::token(&context.global);
    let connected = Client::connect(server, token.as_deref().unwrap_or_default()).await;
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            let advice = "start it with `sayso up` or `sayso serve gateway`, or name its address with --server";
            return report.note("gateway", &Finding::wrong(error.to_string(), advice));
        }
    };
    let answer = client
        .list_agents(v1::ListAgentsRequest {
            page_size: 1,
            ..Default::default()
        })
        .await;
    let finding = match (token, answer) {
        (Ok(_), Ok(_)) => Finding::Well(format!("{server} answers and takes the token")),
        (Ok(_), Err(error)) if error.code() == "token.scope_missing" => {
            Finding::Well(format!("{server} answers and knows the token"))
        }
        (Ok(_), Err(error)) => Finding::wrong(
            format!("{error} [{}]", error.code()),
            "give another token with --token or SAYSO_TOKEN if it is about that; else see the gateway's log",
        ),
        (Err(_), Err(error)) if error.code() == "token.invalid" => {
            Finding::Well(format!("{server} answers; there is no token to try"))
        }
        (Err(_), Err(error)) => Finding::wrong(
            format!("{error} [{}]", error.code()),
            "see the gateway's log",
        ),
        (Err(_), Ok(_)) => Finding::wrong(
            format!("{server} answers without a token"),
            "it is not sayso, or something before it adds a token: check --server",
        ),
    };
    report.note("gateway", &finding)
}
