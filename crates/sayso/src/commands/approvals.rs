//! `sayso approvals`: what waits for a person, and what was decided.

use sayso_sdk::v1;

use super::{Context, list};
use crate::args::{ApprovalsArgs, ApprovalsCommand, ListApprovalsArgs};
use crate::outcome::{Exit, Failure};
use crate::output::card;

pub(crate) async fn run(context: &Context, args: ApprovalsArgs) -> Result<Exit, Failure> {
    match args.command {
        Some(ApprovalsCommand::Show { id }) => show(context, &id).await,
        None => ls(context, args.list).await,
    }
}

async fn show(context: &Context, id: &str) -> Result<Exit, Failure> {
    let approval = context.connect().await?.get_approval(id).await?;
    if context.output.json {
        context.output.message(&approval)?;
    } else {
        context
            .output
            .line(card::card(&approval, &context.output))?;
    }
    Ok(Exit::Done)
}

async fn ls(context: &Context, args: ListApprovalsArgs) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let statuses = match (args.all, args.status.is_empty()) {
        (true, _) => Vec::new(),
        (false, true) => vec![v1::ApprovalStatus::Pending.into()],
        (false, false) => args.status.into_iter().map(i32::from).collect(),
    };
    let filter = v1::ListApprovalsRequest {
        statuses,
        run_id: args.run.unwrap_or_default(),
        agent: args.agent.unwrap_or_default(),
        tool: args.tool.unwrap_or_default(),
        requester: args.requester.unwrap_or_default(),
        group: args.group.unwrap_or_default(),
        decided_by: args.decided_by.unwrap_or_default(),
        ..v1::ListApprovalsRequest::default()
    };
    let fetch = async |page_size: u32, page_token: String| {
        let request = v1::ListApprovalsRequest {
            page_size,
            page_token,
            ..filter.clone()
        };
        let page = client.list_approvals(request).await?;
        Ok((page.approvals, page.next_page_token))
    };
    let (approvals, next_page_token) = list::up_to(args.limit.limit, fetch).await?;
    if context.output.json {
        let listed = v1::ListApprovalsResponse {
            approvals,
            next_page_token,
        };
        context.output.message(&listed)?;
        return Ok(Exit::Done);
    }
    card::table(&approvals).print(&context.output, "nothing waits")?;
    if !next_page_token.is_empty() {
        context.output.aside(format!(
            "there are more: --limit {}",
            args.limit.limit.saturating_mul(2)
        ))?;
    }
    if approvals
        .iter()
        .any(|approval| approval.status() == v1::ApprovalStatus::Pending)
    {
        context.output.aside("look closer: sayso approvals show APPROVAL; decide: sayso approve APPROVAL, sayso deny APPROVAL")?;
    }
    Ok(Exit::Done)
}
