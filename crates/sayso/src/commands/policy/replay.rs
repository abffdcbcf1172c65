//! `sayso policy replay`: recorded runs judged under a bundle that need not be deployed.

use std::time::{Duration, SystemTime};

use sayso_sdk::v1;

use super::tone;
use crate::args::ReplayArgs;
use crate::commands::{Context, input};
use crate::outcome::{Exit, Failure};
use crate::output::visible;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How far back runs are judged where nothing is said.
const SINCE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Runs that one request judges.
const PAGE: u32 = 100;

pub(super) async fn run(context: &Context, args: ReplayArgs) -> Result<Exit, Failure> {
    let since = args.since.or_else(|| SystemTime::now().checked_sub(SINCE));
    let mut request = v1::ReplayRunsRequest {
        bundle: input::file(&args.bundle)?,
        agent: args.agent.unwrap_or_default(),
        after: since.map(prost_types::Timestamp::from),
        run_ids: args.run,
        page_size: PAGE,
        page_token: String::new(),
    };
    let client = context.connect().await?;
    let mut whole = v1::ReplayRunsResponse::default();
    loop {
        let page = client.replay_runs(request.clone()).await?;
        if !context.output.json {
            print(context, &page)?;
        }
        request.page_token = page.next_page_token.clone();
        add(&mut whole, page);
        if request.page_token.is_empty() {
            break;
        }
    }
    if context.output.json {
        context.output.message(&whole)?;
    } else {
        let named = !request.run_ids.is_empty();
        context.output.line(summary(&whole, named))?;
    }
    Ok(Exit::Done)
}

/// Puts a page behind those before it.
fn add(whole: &mut v1::ReplayRunsResponse, page: v1::ReplayRunsResponse) {
    whole.changes.extend(page.changes);
    whole.skipped.extend(page.skipped);
    whole.runs += page.runs;
    whole.calls += page.calls;
    whole.asks_recorded += page.asks_recorded;
    whole.asks += page.asks;
    whole.oldest_created_at = page.oldest_created_at.or(whole.oldest_created_at);
}

fn print(context: &Context, page: &v1::ReplayRunsResponse) -> Result<(), Failure> {
    let output = &context.output;
    let paint = |action: v1::PolicyAction| output.style.paint(tone(action), action.word());
    for change in &page.changes {
        let before = match change.recorded_rule.as_str() {
            "" => String::new(),
            rule => format!(" ({})", visible::line(rule)),
        };
        output.line(format!(
            "{} {} {}: {}{before} becomes {} ({}): {}",
            visible::line(&change.run_id),
            visible::line(&change.call_id),
            visible::line(&change.tool),
            paint(change.recorded_action()),
            paint(change.action()),
            visible::line(&change.rule),
            visible::line(&change.reason)
        ))?;
    }
    for skipped in &page.skipped {
        output.line(format!(
            "{} cannot be judged: {}",
            visible::line(&skipped.run_id),
            visible::line(&skipped.why)
        ))?;
    }
    Ok(())
}

fn summary(whole: &v1::ReplayRunsResponse, named: bool) -> String {
    let told = format!(
        "{} of {} verdicts change in {} runs; {} asks became {}",
        whole.changes.len(),
        whole.calls,
        whole.runs,
        whole.asks_recorded,
        whole.asks
    );
    if named || whole.runs == 0 {
        return told;
    }
    let days = days(whole.oldest_created_at, SystemTime::now());
    format!(
        "{told}\nover {days:.1} days: {:.1} asks a day then, {:.1} with this bundle",
        f64::from(whole.asks_recorded) / days,
        f64::from(whole.asks) / days
    )
}

/// How long ago the oldest run was created, in days: at least one, since an hour tells little of a
/// day.
fn days(oldest: Option<prost_types::Timestamp>, now: SystemTime) -> f64 {
    let oldest = oldest.and_then(|oldest| SystemTime::try_from(oldest).ok());
    let age = oldest.and_then(|oldest| now.duration_since(oldest).ok());
    age.unwrap_or(DAY).max(DAY).as_secs_f64() / DAY.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S5.12: the forecast counts by the age of the oldest run, and by a whole day at least.
    #[test]
    fn s5_12_asks_are_forecast_by_the_day() {
        let now = SystemTime::UNIX_EPOCH + 10 * DAY;
        let at = |days: u32| {
            Some(prost_types::Timestamp::from(
                SystemTime::UNIX_EPOCH + days * DAY,
            ))
        };
        assert!((days(at(6), now) - 4.0).abs() < 1e-9);
        assert!((days(at(10), now) - 1.0).abs() < 1e-9);
        assert!((days(None, now) - 1.0).abs() < 1e-9);
    }
}
