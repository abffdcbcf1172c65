//! `sayso feedback`: how well tasks went (S7.1).

use sayso_sdk::v1;

use super::{Context, input, list, runs};
use crate::args::FeedbackCommand;
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{time, visible};

pub(crate) async fn run(context: &Context, command: FeedbackCommand) -> Result<Exit, Failure> {
    match command {
        FeedbackCommand::Record {
            task,
            score,
            note,
            label,
            source,
        } => {
            let note = note.as_deref().map(input::text).transpose()?;
            let run = task.starts_with("run_");
            let request = v1::RecordFeedbackRequest {
                task_id: if run { String::new() } else { task.clone() },
                run_id: if run { task } else { String::new() },
                score,
                source: source.into(),
                labels: label,
                note: note.unwrap_or_default(),
            };
            record(context, request).await
        }
        FeedbackCommand::Ls {
            agent,
            label,
            source,
            since,
            limit,
        } => {
            let request = v1::ListFeedbackRequest {
                agent: agent.unwrap_or_default(),
                labels: label,
                source: source.unwrap_or_default().into(),
                after: runs::timestamp(since),
                ..v1::ListFeedbackRequest::default()
            };
            ls(context, &request, limit.limit).await
        }
    }
}

async fn record(context: &Context, request: v1::RecordFeedbackRequest) -> Result<Exit, Failure> {
    let recorded = context.connect().await?.record_feedback(request).await?;
    let output = &context.output;
    if output.json {
        output.message(&recorded)?;
    } else {
        output.line(format!(
            "{} was rated {} ({})",
            visible::line(&recorded.task_id),
            recorded.score,
            recorded.source().word()
        ))?;
    }
    Ok(Exit::Done)
}

async fn ls(
    context: &Context,
    request: &v1::ListFeedbackRequest,
    limit: u32,
) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let sums = std::cell::RefCell::new(Vec::new());
    let fetch = async |page_size: u32, page_token: String| {
        let request = v1::ListFeedbackRequest {
            page_size,
            page_token,
            ..request.clone()
        };
        let page = client.list_feedback(request).await?;
        sums.replace(page.summaries);
        Ok((page.feedback, page.next_page_token))
    };
    let (feedback, next_page_token) = list::up_to(limit, fetch).await?;
    let summaries = sums.into_inner();
    let output = &context.output;
    if output.json {
        output.message(&v1::ListFeedbackResponse {
            feedback,
            next_page_token,
            summaries,
        })?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new([
        "TIME", "AGENT", "SCORE", "SOURCE", "BY", "LABELS", "NOTE", "RUN",
    ]);
    for rating in &feedback {
        table.row([
            Entry::new(time::second(rating.at.as_ref())),
            Entry::new(&rating.agent),
            Entry::new(rating.score.to_string()),
            Entry::new(rating.source().word()),
            Entry::new(&rating.by),
            Entry::new(rating.labels.join(" ")),
            Entry::new(&rating.note),
            Entry::new(&rating.run_id),
        ]);
    }
    table.print(output, "no ratings")?;
    for sum in &summaries {
        output.line(format!(
            "{}: {} rated {:.3} on average",
            sum.source().word(),
            sum.count,
            sum.mean
        ))?;
    }
    Ok(Exit::Done)
}
