//! `sayso policy judge`: traces judged offline, one a line.
//!
//! Everything is read before anything is printed: a file with a bad line gives no half answer.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;

use sayso_rules::bundle::Action;
use sayso_rules::trace::{Answer, BadTrace, judge, read};
use sayso_sdk::{Coded, Kind};

use super::bundle;
use crate::args::JudgeArgs;
use crate::commands::{Context, input};
use crate::outcome::{Exit, Failure};
use crate::output::visible;

pub(super) fn run(context: &Context, args: &JudgeArgs) -> Result<Exit, Failure> {
    let bundle = bundle(&args.bundle)?;
    let traces = read(&input::file(&args.traces)?).map_err(|bad| not_a_trace(&bad))?;
    let answers = judge(&bundle, &traces);
    let text = if context.output.json {
        lines_of_json(&answers)
    } else {
        lines(&answers)
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    drop(out);
    context.output.aside(summary(&answers))?;
    Ok(Exit::Done)
}

fn not_a_trace(bad: &BadTrace) -> Failure {
    let mut message = bad.to_string();
    let mut source = bad.source();
    while let Some(cause) = source {
        write!(message, ": {cause}").expect(WRITES);
        source = cause.source();
    }
    let coded = Coded::new(Kind::Invalid, "trace.malformed", message);
    Failure::Given(coded.with("line", bad.line.to_string()))
}

const WRITES: &str = "writing to memory does not fail";

fn lines_of_json(answers: &[Answer]) -> String {
    let mut text = String::new();
    for answer in answers {
        text += &serde_json::to_string(answer).expect("verdicts have a JSON form");
        text.push('\n');
    }
    text
}

fn lines(answers: &[Answer]) -> String {
    let mut text = String::new();
    for answer in answers {
        for (at, verdict) in answer.verdicts.iter().enumerate() {
            writeln!(
                text,
                "{} {}: {} by {} ({}): {}",
                visible::line(&answer.id),
                at + 1,
                verdict.action,
                verdict.rule,
                verdict.trust,
                visible::line(&verdict.reason)
            )
            .expect(WRITES);
        }
    }
    text
}

fn summary(answers: &[Answer]) -> String {
    let verdicts = || answers.iter().flat_map(|answer| &answer.verdicts);
    let count = |action| {
        verdicts()
            .filter(|verdict| verdict.action == action)
            .count()
    };
    format!(
        "{} traces, {} calls: {} allowed, {} asked, {} denied",
        answers.len(),
        verdicts().count(),
        count(Action::Allow),
        count(Action::Ask),
        count(Action::Deny)
    )
}
