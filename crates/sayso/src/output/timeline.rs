//! A timeline, step by step, with the text of an answer while it is written.
//!
//! Provisional text is shown as it comes, after the mark `…`. The step that holds the whole answer
//! settles it: what was shown already is not shown again, what is missing is added, and text that
//! turned out to be void (a failover, a lost connection) is said to be so and the answer shown in
//! full. Steps that are recorded together with an answer, and stand before it, come between. So a reader who copies from the terminal always has each answer once, and whole.

use sayso_run::Step;
use sayso_sdk::v1;
use sayso_sdk::v1::watch_run_response::Event;

use super::step::{Said, Teller, decode};
use super::style::{Style, Tone};
use super::{time, visible};

/// How much of one text is shown unless all of it is asked for.
const CUT: usize = 2000;

/// Where the text of a step goes on after a line break.
const INDENT: &str = "        ";

/// Puts steps into words as they come. Each method returns what is to be printed, line ends included.
#[derive(Debug)]
pub(crate) struct Timeline {
    style: Style,
    teller: Teller,
    writing: Option<Writing>,
}

/// The text that was shown of the answer that is being written.
#[derive(Debug)]
struct Writing {
    text: String,
    /// It can go on: its line has not ended.
    open: bool,
}

impl Timeline {
    /// Cuts long texts unless `full`.
    pub(crate) fn new(style: Style, full: bool) -> Timeline {
        Timeline {
            style,
            teller: Teller::new(if full { usize::MAX } else { CUT }),
            writing: None,
        }
    }

    /// What came.
    pub(crate) fn message(&mut self, message: &v1::WatchRunResponse) -> String {
        match &message.event {
            Some(Event::Step(step)) => self.step(step),
            Some(Event::Delta(delta)) => self.delta(&delta.text),
            Some(Event::Withdrawn(_)) => self.void("the model is asked again"),
            Some(Event::FreshStart(fresh)) => format!(
                "{}There is no step {}: the run has {} so far. From the start:\n",
                self.void("the timeline starts afresh"),
                fresh.asked_sequence,
                fresh.last_sequence
            ),
            None => String::new(),
        }
    }

    /// That the text shown of an answer does not count; nothing if none was shown.
    pub(crate) fn void(&mut self, why: &str) -> String {
        let Some(writing) = self.writing.take() else {
            return String::new();
        };
        let before = if writing.open { " " } else { INDENT };
        let why = format!("{before}(void: {why})");
        format!("{}\n", self.style.paint(Tone::Faint, &why))
    }

    /// A step.
    pub(crate) fn step(&mut self, step: &v1::RunStep) -> String {
        let Said { tone, text } = self.teller.tell(step);
        let Some(answer) = answer(step) else {
            return format!("{}{}", self.break_line(), self.entry(step, tone, &text));
        };
        let Some(writing) = self.writing.take() else {
            return self.entry(step, tone, &text);
        };
        let whole = format!("as above {}", self.teller.source());
        match answer.strip_prefix(&writing.text) {
            Some(rest) if writing.open => {
                let rest = indented(&visible::block(rest));
                format!("{rest}\n{}", self.entry(step, Some(Tone::Faint), &whole))
            }
            Some("") => self.entry(step, Some(Tone::Faint), &whole),
            Some(_) | None => {
                let before = if writing.open { "\n" } else { "" };
                format!("{before}{}", self.entry(step, tone, &text))
            }
        }
    }

    /// Ends the line of an answer that is being written, as something comes between.
    fn break_line(&mut self) -> &'static str {
        match &mut self.writing {
            Some(writing) if writing.open => {
                writing.open = false;
                "\n"
            }
            Some(_) | None => "",
        }
    }

    fn entry(&self, step: &v1::RunStep, tone: Option<Tone>, text: &str) -> String {
        let head = format!(
            "{:>4}  {}  {:<17}",
            step.sequence,
            time::clock(step.at.as_ref()),
            visible::line(&step.r#type)
        );
        let text = indented(text);
        let text = match tone {
            Some(tone) => self.style.paint(tone, &text),
            None => text.as_str().into(),
        };
        format!("{}  {text}\n", self.style.paint(Tone::Faint, &head))
    }

    fn delta(&mut self, text: &str) -> String {
        let shown = indented(&visible::block(text));
        let writing = self.writing.get_or_insert_with(|| Writing {
            text: String::new(),
            open: false,
        });
        writing.text.push_str(text);
        if std::mem::replace(&mut writing.open, true) {
            shown
        } else {
            format!("{INDENT}… {shown}")
        }
    }
}

fn indented(text: &str) -> String {
    text.replace('\n', &format!("\n{INDENT}"))
}

/// The text of an answer; none if the step is something else.
fn answer(step: &v1::RunStep) -> Option<String> {
    match decode(step)? {
        Step::AssistantMessage(message) => Some(message.text),
        Step::TriggerReceived(_)
        | Step::ToolsListed(_)
        | Step::UserMessage(_)
        | Step::Thinking(_)
        | Step::ToolCall(_)
        | Step::ToolBlocked(_)
        | Step::AwaitingApproval(_)
        | Step::ToolEdited(_)
        | Step::VoteCast(_)
        | Step::Escalated(_)
        | Step::SummaryWritten(_)
        | Step::ToolApproved(_)
        | Step::ToolDenied(_)
        | Step::ToolStarted(_)
        | Step::TrustLowered(_)
        | Step::TakenOver(_)
        | Step::ToolResult(_)
        | Step::RepeatLoop(_)
        | Step::AwaitingInput(_)
        | Step::ChildStarted(_)
        | Step::ChildFinished(_)
        | Step::Compaction(_)
        | Step::RetryScheduled(_)
        | Step::ModelFailover(_)
        | Step::SpendingCap(_)
        | Step::Completion(_)
        | Step::Failed(_)
        | Step::Retried(_)
        | Step::Cancelled(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds, nanos: 0 })
    }

    fn answer(text: &str) -> v1::RunStep {
        let content = serde_json::json!({
            "cycle": 1, "seen": 2, "text": text, "calls": 0, "model": "scripted",
            "usage": { "input": 9, "cached": 0, "output": 3 },
        });
        v1::RunStep {
            sequence: 3,
            at: at(1),
            r#type: "assistant_message".into(),
            version: 1,
            content_json: content.to_string(),
            ..v1::RunStep::default()
        }
    }

    fn delta(text: &str) -> v1::WatchRunResponse {
        let delta = v1::TextDelta {
            cycle: 1,
            text: text.into(),
        };
        v1::WatchRunResponse {
            event: Some(Event::Delta(delta)),
            run_status: 0,
        }
    }

    /// S2.4: text shown while it was written is not shown again, and what is missing is added.
    #[test]
    fn s2_4_streamed_text_is_shown_once() {
        let mut timeline = Timeline::new(Style::PLAIN, false);
        let mut seen = timeline.message(&delta("Looking "));
        seen += &timeline.message(&delta("it up"));
        seen += &timeline.step(&answer("Looking it up.\nWait."));
        assert_eq!(
            seen,
            "        … Looking it up.\n        Wait.\n   3  00:00:01.000  assistant_message  as above (scripted, 9 tokens in, 3 out)\n"
        );
    }

    /// S2.4: withdrawn text is said to be void, and the answer that counts is shown whole.
    #[test]
    fn s2_4_withdrawn_text_is_void() {
        let mut timeline = Timeline::new(Style::PLAIN, false);
        let mut seen = timeline.message(&delta("I will"));
        let withdrawn = v1::WatchRunResponse {
            event: Some(Event::Withdrawn(v1::DeltaWithdrawn { cycle: 1 })),
            run_status: 0,
        };
        seen += &timeline.message(&withdrawn);
        seen += &timeline.step(&answer("No."));
        assert_eq!(
            seen,
            "        … I will (void: the model is asked again)\n   3  00:00:01.000  assistant_message  No.  (scripted, 9 tokens in, 3 out)\n"
        );
        assert_eq!(timeline.void("again"), "");
    }

    /// Steps that are recorded together with an answer come between its text and itself.
    #[test]
    fn s2_4_steps_before_the_answer_come_between() {
        let mut timeline = Timeline::new(Style::PLAIN, false);
        let mut seen = timeline.message(&delta("Looking it up."));
        let listed = v1::RunStep {
            sequence: 2,
            at: at(1),
            r#type: "tools_listed".into(),
            version: 1,
            content_json: format!(r#"{{"set":"{}","count":3}}"#, "0".repeat(64)),
            ..v1::RunStep::default()
        };
        seen += &timeline.step(&listed);
        seen += &timeline.step(&answer("Looking it up."));
        assert_eq!(
            seen,
            "        … Looking it up.\n   2  00:00:01.000  tools_listed       3 tools are offered to the model\n   3  00:00:01.000  assistant_message  as above (scripted, 9 tokens in, 3 out)\n"
        );
        timeline.message(&delta("Loo"));
        timeline.step(&listed);
        assert!(
            timeline
                .step(&answer("Looking."))
                .contains("assistant_message  Looking.  (scripted")
        );
    }

    /// Text of which the beginning was missed is shown whole by its step.
    #[test]
    fn text_that_was_missed_is_shown_by_the_step() {
        let mut timeline = Timeline::new(Style::PLAIN, false);
        timeline.message(&delta("it up."));
        let seen = timeline.step(&answer("Looking it up."));
        assert!(seen.starts_with("\n   3  "), "{seen}");
        assert!(seen.contains("Looking it up."), "{seen}");
    }

    /// B46: no text can forge a step, or reach the terminal.
    #[test]
    fn b46_text_cannot_forge_a_step() {
        let mut timeline = Timeline::new(Style::PLAIN, false);
        let seen = timeline.step(&answer("hi\n   4  00:00:02.000  tool_approved\u{1b}[2J"));
        assert!(
            seen.contains("\n           4  00:00:02.000  tool_approved⟨U+001B⟩[2J"),
            "{seen}"
        );
        let long = answer(&"x".repeat(3000));
        assert!(timeline.step(&long).contains("x⟨1000 bytes more⟩"));
        assert!(
            !Timeline::new(Style::PLAIN, true)
                .step(&long)
                .contains("more")
        );
    }
}
