//! `sayso logs`: what went wrong around an agent (S8.1).

use sayso_sdk::v1;

use super::{Context, list, runs};
use crate::args::LogsArgs;
use crate::outcome::{Exit, Failure};
use crate::output::style::Tone;
use crate::output::table::{Entry, Table};
use crate::output::time;

pub(crate) async fn run(context: &Context, args: &LogsArgs) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let fetch = async |page_size: u32, page_token: String| {
        let request = v1::ListAgentLogsRequest {
            agent: args.agent.clone(),
            after: runs::timestamp(args.after),
            run_id: args.run.clone().unwrap_or_default(),
            page_size,
            page_token,
        };
        let page = client.list_agent_logs(request).await?;
        Ok((page.entries, page.next_page_token))
    };
    let (entries, next_page_token) = list::up_to(args.limit.limit, fetch).await?;
    if context.output.json {
        context.output.message(&v1::ListAgentLogsResponse {
            entries,
            next_page_token,
        })?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["TIME", "LEVEL", "CODE", "MESSAGE", "RUN"]);
    for entry in &entries {
        let level = entry.level();
        table.row([
            Entry::new(time::second(entry.at.as_ref())),
            match level {
                v1::LogLevel::Warn => Entry::toned(level.word(), Tone::Waits),
                v1::LogLevel::Error => Entry::toned(level.word(), Tone::Bad),
                v1::LogLevel::Info | v1::LogLevel::Unspecified => Entry::new(level.word()),
            },
            Entry::new(&entry.code),
            Entry::new(&entry.message),
            Entry::new(&entry.run_id),
        ]);
    }
    table.print(&context.output, "nothing in the log")?;
    Ok(Exit::Done)
}
