//! A run: where it stands, in a list and by itself.

use std::fmt::Write as _;

use sayso_sdk::v1::{self, RunStatus};

use super::style::Tone;
use super::table::{Entry, Table};
use super::{Output, time, visible};
use crate::commands::pause::since;

/// How the status is coloured.
pub(crate) fn tone(status: RunStatus) -> Option<Tone> {
    match status {
        RunStatus::Completed => Some(Tone::Good),
        RunStatus::Failed => Some(Tone::Bad),
        RunStatus::AwaitingInput | RunStatus::AwaitingApproval => Some(Tone::Waits),
        RunStatus::Cancelled => Some(Tone::Faint),
        RunStatus::Unspecified | RunStatus::Pending | RunStatus::Running => None,
    }
}

/// Several runs.
pub(crate) fn table(runs: &[v1::Run]) -> Table<7> {
    let mut table = Table::new([
        "RUN", "AGENT", "STATUS", "ENDED BY", "CREATED", "TOOK", "INPUT",
    ]);
    for run in runs {
        let status = run.status();
        table.row([
            Entry::new(&run.id),
            Entry::new(&run.agent),
            match tone(status) {
                Some(tone) => Entry::toned(status.word(), tone),
                None if run.pause.is_some() => {
                    Entry::toned(format!("{} (paused)", status.word()), Tone::Waits)
                }
                None => Entry::new(status.word()),
            },
            Entry::new(dash(run.ended_by().word())),
            Entry::new(time::second(run.created_at.as_ref())),
            Entry::new(time::length(run.duration.as_ref())),
            Entry::new(beginning(&run.input)),
        ]);
    }
    table
}

/// The first line of a text, as far as a list has room for it.
fn beginning(text: &str) -> String {
    const ROOM: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() <= ROOM && line.len() == text.trim_end().len() {
        return line.to_owned();
    }
    let mut begun: String = line.chars().take(ROOM).collect();
    begun.push('…');
    begun
}

fn dash(word: &str) -> &str {
    if word.is_empty() { "-" } else { word }
}

/// One run, by itself.
pub(crate) fn details(run: &v1::Run, output: &Output) -> String {
    let status = run.status();
    let word = match tone(status) {
        Some(tone) => output.style.paint(tone, status.word()),
        None => status.word().into(),
    };
    let mut text = format!("{}  {word}", visible::line(&run.id));
    let mut add = |name: &str, value: String| {
        write!(text, "\n  {name:<10} {}", indented(&value))
            .expect("writing to memory does not fail");
    };
    add(
        "agent",
        format!(
            "{} (revision {})",
            visible::line(&run.agent),
            short(&run.revision_id)
        ),
    );
    add(
        "asked by",
        format!("{} ({})", visible::line(&run.requester), run.trust().word()),
    );
    if let Some(lowered) = &run.trust_lowered {
        add("trust", trust_lowered(lowered));
    }
    add("task", visible::cut_block(&run.input, 2000));
    let so_far = if run.ended_at.is_some() {
        ""
    } else {
        " so far"
    };
    let took = time::length(run.duration.as_ref());
    let created = time::second(run.created_at.as_ref());
    add("took", format!("{took}{so_far}, created {created}"));
    add("used", usage(run));
    if run.retries > 0 {
        add("retries", run.retries.to_string());
    }
    if run.approval_expires_at.is_some() {
        let expires = time::second(run.approval_expires_at.as_ref());
        add(
            "waits",
            format!("for a person; its first approval counts as denied at {expires}"),
        );
    }
    if let Some(pause) = &run.pause {
        let what = match pause.agent.as_str() {
            "" => "the namespace",
            _ => "the agent",
        };
        add("paused", format!("with {what}, {}", since(pause)));
    }
    if run.ended_by() != v1::EndedBy::Unspecified {
        add("ended by", run.ended_by().word().to_owned());
    }
    if let Some(failure) = &run.failure {
        add(
            "failure",
            format!(
                "{} [{}]",
                visible::block(&failure.message),
                visible::line(&failure.code)
            ),
        );
        add("advice", visible::line(&failure.advice));
    }
    if !run.hint.is_empty() {
        add("hint", visible::line(&run.hint));
    }
    if !run.parent_run_id.is_empty() {
        let (parent, root) = (&run.parent_run_id, &run.root_run_id);
        let text = if parent == root {
            format!("a child of {}", visible::line(parent))
        } else {
            format!(
                "a child of {}, below {}",
                visible::line(parent),
                visible::line(root)
            )
        };
        add("tree", text);
    }
    if !run.imported_from.is_empty() {
        add(
            "copy",
            format!("read-only, of {}", visible::line(&run.imported_from)),
        );
    }
    if run.has_open_calls {
        add("open", "calls were sent that have no result yet".to_owned());
    }
    if let Some(said) = &run.output {
        add("output", visible::block(said));
    }
    text
}

/// What lowered a run's trust (S5.8).
pub(crate) fn trust_lowered(lowered: &v1::TrustLowered) -> String {
    if lowered.call_id.is_empty() {
        return format!(
            "{} until a message (step {}), whose writer is trusted no further; {} since",
            lowered.before().word(),
            lowered.sequence,
            lowered.after().word()
        );
    }
    format!(
        "{} until {} ({}, step {}), whose result may be an outsider's words; {} since",
        lowered.before().word(),
        visible::line(&lowered.tool),
        visible::line(&lowered.call_id),
        lowered.sequence,
        lowered.after().word()
    )
}

/// How a watched run ended, in a line or two; the timeline has said the rest.
pub(crate) fn ending(run: &v1::Run, output: &Output) -> String {
    let status = run.status();
    let word = match tone(status) {
        Some(tone) => output.style.paint(tone, status.word()),
        None => status.word().into(),
    };
    let mut text = format!("{} {word}", visible::line(&run.id));
    if run.ended_by() != v1::EndedBy::Unspecified {
        write!(text, ", ended by {}", run.ended_by().word())
            .expect("writing to memory does not fail");
    }
    let took = time::length(run.duration.as_ref());
    write!(text, " after {took}; {}", usage(run)).expect("writing to memory does not fail");
    for advice in [
        run.failure.as_ref().map(|failure| &failure.advice),
        Some(&run.hint),
    ] {
        if let Some(advice) = advice.filter(|advice| !advice.is_empty()) {
            write!(text, "\n{}", visible::line(advice)).expect("writing to memory does not fail");
        }
    }
    text
}

fn usage(run: &v1::Run) -> String {
    let cycles = match run.cycles {
        1 => "1 cycle".to_owned(),
        cycles => format!("{cycles} cycles"),
    };
    let cost = match run.cost.as_str() {
        "" => String::new(),
        cost => format!(", {}", visible::line(cost)),
    };
    match &run.usage {
        Some(usage) if usage.input_tokens + usage.output_tokens > 0 => format!(
            "{cycles}, {} tokens in, {} out{cost}",
            usage.input_tokens, usage.output_tokens
        ),
        Some(_) | None => format!("{cycles}{cost}"),
    }
}

/// The beginning of 64 hex digits.
pub(crate) fn short(digits: &str) -> String {
    visible::line(&digits.chars().take(12).collect::<String>())
}

/// A value over several lines, under the name before it.
pub(crate) fn indented(value: &str) -> String {
    value.replace('\n', "\n             ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_shows_the_beginning_of_a_task() {
        assert_eq!(beginning("Refund A-17"), "Refund A-17");
        assert_eq!(beginning("Refund A-17\n"), "Refund A-17");
        assert_eq!(beginning("Refund\nA-17"), "Refund…");
        assert_eq!(beginning(&"ü".repeat(61)), format!("{}…", "ü".repeat(60)));
    }

    /// S2.6: a failed run says what to do.
    #[test]
    fn s2_6_a_failed_run_says_what_to_do() {
        let run = v1::Run {
            id: "run_1".into(),
            status: RunStatus::Failed.into(),
            ended_by: v1::EndedBy::Error.into(),
            cycles: 1,
            failure: Some(v1::RunFailure {
                code: "run.no_role".into(),
                message: "the agent has no role".into(),
                advice: "Attach a role.".into(),
            }),
            ..v1::Run::default()
        };
        let output = Output {
            json: false,
            terminal: false,
            style: super::super::style::Style::PLAIN,
        };
        assert_eq!(
            ending(&run, &output),
            "run_1 failed, ended by error after -; 1 cycle\nAttach a role."
        );
        let details = details(&run, &output);
        assert!(
            details.contains("failure    the agent has no role [run.no_role]"),
            "{details}"
        );
    }
}
