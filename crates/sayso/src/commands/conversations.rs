//! `sayso conversations`: what was said (S9.1).

use sayso_sdk::{Client, v1};

use super::{Context, list};
use crate::args::ConversationsCommand;
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{Output, time, visible};

pub(crate) async fn run(context: &Context, command: ConversationsCommand) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    match command {
        ConversationsCommand::Ls { agent, limit } => {
            ls(context, &client, agent.unwrap_or_default(), limit.limit).await
        }
        ConversationsCommand::Show { id } => show(context, &client, &id).await,
    }
}

async fn ls(
    context: &Context,
    client: &Client,
    agent: String,
    limit: u32,
) -> Result<Exit, Failure> {
    let fetch = async |page_size: u32, page_token: String| {
        let request = v1::ListConversationsRequest {
            agent: agent.clone(),
            created_by: String::new(),
            page_size,
            page_token,
        };
        let page = client.list_conversations(request).await?;
        Ok((page.conversations, page.next_page_token))
    };
    let (conversations, next_page_token) = list::up_to(limit, fetch).await?;
    let output = &context.output;
    if output.json {
        output.message(&v1::ListConversationsResponse {
            conversations,
            next_page_token,
        })?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new([
        "TIME", "ID", "AGENT", "BEGUN BY", "LAST RUN", "STATUS", "TITLE",
    ]);
    for conversation in &conversations {
        table.row([
            Entry::new(time::second(conversation.created_at.as_ref())),
            Entry::new(&conversation.id),
            Entry::new(&conversation.agent),
            Entry::new(&conversation.created_by),
            Entry::new(&conversation.last_run_id),
            Entry::new(conversation.last_run_status().word()),
            Entry::new(&conversation.title),
        ]);
    }
    table.print(output, "no conversations")?;
    Ok(Exit::Done)
}

async fn show(context: &Context, client: &Client, id: &str) -> Result<Exit, Failure> {
    let conversation = client.get_conversation(id).await?;
    let messages = after(client, id, 0).await?;
    let output = &context.output;
    if output.json {
        output.message_line(&conversation)?;
        for message in &messages {
            output.message_line(message)?;
        }
        return Ok(Exit::Done);
    }
    output.line(format!(
        "{} with {}, begun by {}",
        visible::line(&conversation.id),
        visible::line(&conversation.agent),
        visible::line(&conversation.created_by)
    ))?;
    messages
        .iter()
        .try_for_each(|message| say(output, message))?;
    if conversation.last_run_status() != v1::RunStatus::Unspecified {
        output.aside(format!(
            "its last run {} is {}",
            visible::line(&conversation.last_run_id),
            conversation.last_run_status().word()
        ))?;
    }
    Ok(Exit::Done)
}

/// Everything that was said after a place.
pub(super) async fn after(
    client: &Client,
    conversation: &str,
    after_position: u64,
) -> Result<Vec<v1::Message>, Failure> {
    let (mut messages, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListMessagesRequest {
            conversation_id: conversation.to_owned(),
            after_position,
            page_size: 0,
            page_token,
        };
        let page = client.list_messages(request).await?;
        messages.extend(page.messages);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(messages);
        }
    }
}

/// Prints one message.
pub(super) fn say(output: &Output, message: &v1::Message) -> Result<(), Failure> {
    if output.json {
        output.message_line(message)?;
        return Ok(());
    }
    let who = match message.speaker() {
        v1::Speaker::Outside => format!("{} (outside)", visible::line(&message.name)),
        v1::Speaker::Unspecified | v1::Speaker::Person | v1::Speaker::Agent => {
            visible::line(&message.name).to_string()
        }
    };
    let asks = if message.question { " asks" } else { "" };
    let text = visible::cut_block(&message.text, usize::MAX);
    output.line(format!("{who}{asks}: {text}"))?;
    Ok(())
}
