//! The steps of a timeline as sentences. A type that this version does not know is shown as it is
//! (S2.2).

use std::collections::HashMap;

use maud::{Markup, html};
use sayso_run::{
    ApprovalId, CallId, CompactionKind, DenyCause, EndedBy, EscalatedTo, RunId, Step, ToolOutcome,
};
use sayso_wire::v1;

use super::text::{SHORT, cut, shown, time_of_day};

/// The tools behind the calls of a run, by the calls' ids.
pub(super) type Calls = HashMap<String, String>;

/// One entry: who did what and when, and what was said or sent.
struct Entry {
    sentence: Markup,
    /// Prose, laid out by its own first letter.
    prose: Option<String>,
    /// Arguments and results, laid out from left to right.
    exact: Option<String>,
}

impl Entry {
    fn of(sentence: Markup) -> Entry {
        Entry {
            sentence,
            prose: None,
            exact: None,
        }
    }

    fn prose(mut self, text: impl Into<String>) -> Entry {
        self.prose = Some(text.into()).filter(|text| !text.is_empty());
        self
    }

    fn maybe(self, text: Option<String>) -> Entry {
        self.prose(text.unwrap_or_default())
    }

    fn exact(mut self, text: impl Into<String>) -> Entry {
        self.exact = Some(text.into()).filter(|text| !text.is_empty());
        self
    }
}

/// A step as an item of the timeline.
pub(super) fn entry(run: &str, step: &v1::RunStep, calls: &Calls) -> Markup {
    let entry = read(step).map_or_else(|| as_it_is(step), |read| told(read, step, calls));
    let whole = format!("/runs/{run}/steps/{}", step.sequence);
    let prose = entry.prose.as_deref().map(|text| cut(text, SHORT));
    let exact = entry.exact.as_deref().map(|text| cut(text, SHORT));
    let is_cut = prose.iter().chain(&exact).any(|text| text.is_cut());
    html! {
        li #(format!("step-{}", step.sequence)) .step data-type=(shown_type(step)) {
            div.what {
                a.number href=(whole) title="This step, as it was recorded" { (step.sequence) }
                span { (entry.sentence) }
                (time_of_day(step.at.as_ref()))
            }
            @if let Some(prose) = prose { div.text dir="auto" { (prose) } }
            @if let Some(exact) = exact { pre.text dir="ltr" tabindex="0" { (exact) } }
            @if !step.advice.is_empty() {
                p.hint { code { (shown(&step.code)) } " " (shown(&step.advice)) }
            }
            @if is_cut { p { a href=(whole) { "Show all" } } }
        }
    }
}

/// The step's type, if it is a word: it becomes an attribute that the style and the script read.
fn shown_type(step: &v1::RunStep) -> &str {
    let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    if is_word(&step.r#type) {
        &step.r#type
    } else {
        "unknown"
    }
}

fn read(step: &v1::RunStep) -> Option<Step> {
    let version = u16::try_from(step.version).ok()?;
    Step::decode(&step.r#type, version, &step.content_json).ok()
}

fn as_it_is(step: &v1::RunStep) -> Entry {
    let sentence = html! { code { (shown(&step.r#type)) } " by " (who(&step.actor)) };
    Entry::of(sentence).exact(step.content_json.as_str())
}

fn told(read: Step, step: &v1::RunStep, calls: &Calls) -> Entry {
    let who = who(&step.actor);
    let tool = |call: &CallId| tool(call, calls);
    match read {
        Step::TriggerReceived(it) => {
            let agent = it.agent.as_str();
            let asker = match &it.trigger {
                Some(name) => html! { (it.source.as_str()) " " strong { (name) } },
                None => html! { (person(it.principal.as_str())) },
            };
            let sentence = html! {
                (asker) " asked " strong { (agent) } " (" (it.trust.as_str()) "):"
            };
            Entry::of(sentence).prose(it.input)
        }
        Step::ToolsListed(it) => Entry::of(match it.count {
            0 => html! { "The agent has no tools." },
            1 => html! { "1 tool is on offer." },
            count => html! { (count) " tools are on offer." },
        }),
        Step::UserMessage(it) => {
            let sentence = html! {
                @match &it.outside {
                    Some(name) => { (shown(name)) ", who is outside, wrote:" }
                    None => { (who) " wrote:" }
                }
            };
            Entry::of(sentence).prose(it.text)
        }
        Step::Thinking(it) => Entry::of(html! { (who) " thought:" }).prose(it.text),
        Step::AssistantMessage(it) => {
            let calls = match it.calls {
                0 => String::new(),
                1 => ", with 1 call".to_owned(),
                count => format!(", with {count} calls"),
            };
            let model = html! { span.hint { " " (shown(&it.model)) ", cycle " (it.cycle) } };
            let sentence = html! { (who) " answered" (calls) (if it.text.is_empty() { "." } else { ":" }) (model) };
            Entry::of(sentence).prose(it.text)
        }
        Step::ToolCall(it) => {
            let sentence = html! { (who) " wants to call " (named(&it.tool)) ":" };
            Entry::of(sentence).exact(it.args)
        }
        Step::ToolBlocked(it) => {
            let sentence = html! {
                "Held for a person: " (tool(&it.call)) " (" code { (shown(&it.rule)) } ")"
                (review(&it.approval))
            };
            Entry::of(sentence).prose(format!("{}\n{}", it.summary, it.reason))
        }
        Step::AwaitingApproval(it) => Entry::of(match it.approvals.len() {
            1 => html! { "The run waits for a decision." },
            count => html! { "The run waits for " (count) " decisions." },
        }),
        Step::ToolEdited(it) => {
            let sentence = html! { (who) " edited " (tool(&it.call)) ":" (review(&it.approval)) };
            Entry::of(sentence).exact(it.args)
        }
        Step::VoteCast(it) => Entry::of(html! {
            (who) " voted to approve " (tool(&it.call)) "; more are needed." (review(&it.approval))
        }),
        Step::Escalated(it) => Entry::of(html! {
            "Nobody has decided " (tool(&it.call)) ": "
            @match &it.to {
                EscalatedTo::Group(group) => { strong { (shown(group)) } " may decide as well." }
                EscalatedTo::Target(target) => {
                    "the target " strong { (shown(target)) } " is reminded."
                }
            }
            (review(&it.approval))
        }),
        Step::SummaryWritten(it) => {
            let sentence = html! {
                strong { (shown(&it.model)) } " put " (tool(&it.call)) " into words:"
                (review(&it.approval))
            };
            Entry::of(sentence).prose(it.text)
        }
        Step::ToolApproved(it) => {
            let sentence = html! { (who) " approved " (tool(&it.call)) "." (review(&it.approval)) };
            Entry::of(sentence).maybe(it.reason)
        }
        Step::ToolDenied(it) => {
            let link = html! { @if let Some(approval) = &it.approval { (review(approval)) } };
            let sentence = html! { (denied(it.cause, &who, &tool(&it.call))) (link) };
            Entry::of(sentence).maybe(it.reason)
        }
        Step::ToolStarted(it) => {
            let by = html! {
                @match (&it.rule, &it.approval) {
                    (Some(rule), _) => { ", allowed by " code { (shown(rule)) } }
                    (None, Some(_)) => ", as approved",
                    (None, None) => "",
                }
            };
            Entry::of(html! { (tool(&it.call)) " was sent" (by) "." })
        }
        Step::TrustLowered(it) => Entry::of(html! {
            "From here on the run is " (it.to.as_str()) ": "
            @match &it.call {
                Some(call) => { "what " (tool(call)) " returns may be an outsider's words." }
                None => "the message before was written by somebody who is trusted no further.",
            }
        }),
        Step::Continued(it) => Entry::of(html! {
            "The conversation goes on in "
            a href=(format!("/runs/{}", it.run)) { code { (shown(it.run.as_str())) } }
            ", which begins with the last message."
        }),
        Step::TakenOver(it) => {
            let sentence =
                html! { "Another worker took the run over: " (shown(it.worker.as_str())) "." };
            Entry::of(sentence)
        }
        Step::ToolResult(it) => {
            let missing =
                html! { @if it.cut_bytes > 0 { span.mark { "⟨" (it.cut_bytes) " bytes cut⟩" } } };
            let sentence = html! { (came(it.outcome, &tool(&it.call))) " " (missing) };
            Entry::of(sentence).exact(it.content)
        }
        Step::RepeatLoop(it) => Entry::of(html! {
            "Stopped: the same call of " (tool(&it.call)) " came " (it.count) " times in a row."
        }),
        Step::AwaitingInput(it) => Entry::of(html! { (who) " asks a person:" }).prose(it.question),
        Step::SpendingCap(it) => Entry::of(html! {
            "The namespace met its monthly cap of " strong { (it.cap.to_string()) } ", having spent " (it.spent.to_string()) "."
        }),
        Step::ChildStarted(it) => {
            let sentence = html! { (tool(&it.call)) " started " (run_link(&it.child)) ", a run of " strong { (it.agent.as_str()) } ":" };
            Entry::of(sentence).prose(it.input)
        }
        Step::ChildFinished(it) => {
            let sentence = html! { (run_link(&it.child)) " ended (" (it.ended_by.as_str()) "):" };
            Entry::of(sentence).prose(it.content)
        }
        Step::Compaction(it) => {
            let what = match it.kind {
                CompactionKind::Prune => "The content of older results was left out",
                CompactionKind::Brief => "A brief took the place of older turns",
            };
            let sentence = html! { (what) ", up to cycle " (it.upto) ": the conversation had about " (it.tokens) " tokens." };
            Entry::of(sentence).maybe(it.brief)
        }
        Step::RetryScheduled(it) => {
            let sentence = html! { "No model answered (" code { (shown(it.code.as_str())) } "); retry " (it.attempt) " of 5 is due at " (it.due_at.to_string()) "." };
            Entry::of(sentence).prose(it.message)
        }
        Step::ModelFailover(it) => {
            let sentence =
                html! { (shown(&it.from)) " was unavailable; " (shown(&it.to)) " was asked." };
            Entry::of(sentence).prose(it.reason)
        }
        Step::Completion(it) => match it.ended_by {
            // The answer stands right above.
            EndedBy::Answer => Entry::of(completed(it.ended_by)),
            EndedBy::MaxCycles
            | EndedBy::SpendingCap
            | EndedBy::ProviderBilling
            | EndedBy::Error
            | EndedBy::Cancelled => Entry::of(completed(it.ended_by)).prose(it.output),
        },
        Step::Failed(it) => {
            let sentence = html! { "The run failed: " code { (shown(it.code.as_str())) } };
            Entry::of(sentence).prose(it.message)
        }
        Step::Retried(it) => Entry::of(html! { (who) " retried the run (" (it.attempt) " of 5)." }),
        Step::Cancelled(it) => Entry::of(html! { (who) " cancelled the run." }).maybe(it.reason),
    }
}

/// An actor: `principal:NAME`, `agent:NAME` or `system`.
fn who(actor: &str) -> Markup {
    match actor.split_once(':') {
        Some(("principal", name)) => person(name),
        Some(("agent", name)) => html! { strong { (shown(name)) } },
        _ if actor == "system" => html! { "sayso" },
        _ => html! { (shown(actor)) },
    }
}

fn run_link(run: &RunId) -> Markup {
    html! { a href=(format!("/runs/{run}")) { (run.as_str()) } }
}

fn person(name: &str) -> Markup {
    html! { strong.person { (shown(name)) } }
}

fn tool(call: &CallId, calls: &Calls) -> Markup {
    match calls.get(call.as_str()) {
        Some(tool) => named(tool),
        None => html! { code { (shown(call.as_str())) } },
    }
}

fn named(tool: &str) -> Markup {
    html! { code { (cut(tool, SHORT)) } }
}

fn review(approval: &ApprovalId) -> Markup {
    html! { " " a href=(format!("/approvals/{approval}")) { "Approval" } }
}

fn denied(cause: DenyCause, who: &Markup, tool: &Markup) -> Markup {
    match cause {
        DenyCause::Person => html! { (who) " denied " (tool) "." },
        DenyCause::Rule => html! { "A rule denies " (tool) "." },
        DenyCause::NotGranted => html! { (tool) " is not available to the agent." },
        DenyCause::Timeout => html! { "Nobody decided " (tool) " in time." },
        DenyCause::Cancelled => html! { (tool) " was rejected: " (who) " cancelled the run." },
        DenyCause::RunEnded => html! { (tool) " was closed: the run ended first." },
        DenyCause::Superseded => {
            html! { (tool) " was closed: an identical later call took its place." }
        }
    }
}

fn came(outcome: ToolOutcome, tool: &Markup) -> Markup {
    match outcome {
        ToolOutcome::Ok => html! { (tool) " answered:" },
        ToolOutcome::Error => html! { (tool) " answered with an error:" },
        ToolOutcome::Timeout => html! { (tool) " did not answer in time; it may have acted." },
        ToolOutcome::InvalidArguments => {
            html! { (tool) " did not run: the arguments do not fit." }
        }
        ToolOutcome::PermissionDenied => {
            html! { (tool) " did not run: the agent's role does not permit it." }
        }
        ToolOutcome::Mismatch => {
            html! { (tool) " did not run: it is not what was approved." }
        }
        ToolOutcome::Unknown => {
            html! { "Whether " (tool) " took effect is not known." }
        }
        ToolOutcome::Unreachable => html! { (tool) " could not be reached; nothing was sent." },
    }
}

fn completed(ended_by: EndedBy) -> Markup {
    match ended_by {
        EndedBy::Answer => html! { "The run is complete." },
        EndedBy::MaxCycles => html! { "The run reached its cap of 20 cycles." },
        EndedBy::SpendingCap => html! { "The run stopped at the spending cap." },
        EndedBy::ProviderBilling => html! { "The provider refuses for money; the run stopped." },
        EndedBy::Error => html! { "The run ended with an error." },
        EndedBy::Cancelled => html! { "The run was cancelled." },
    }
}

#[cfg(test)]
mod tests {
    use sayso_run::{AssistantMessage, StepKind, ToolCall, Usage};

    use super::*;

    fn recorded(step: &Step) -> v1::RunStep {
        v1::RunStep {
            sequence: 7,
            actor: "agent:desk".into(),
            r#type: step.kind().as_str().into(),
            version: step.kind().version().into(),
            content_json: step.encode(),
            ..v1::RunStep::default()
        }
    }

    fn html(step: &v1::RunStep) -> String {
        let calls = Calls::from([("call_1_1".to_owned(), "shop.refund".to_owned())]);
        entry("run_1", step, &calls).into_string()
    }

    /// S2.2: an unknown type or version is shown as it is, as text.
    #[test]
    fn s2_2_an_unknown_type_is_shown_as_it_is() {
        let step = v1::RunStep {
            sequence: 3,
            actor: "system".into(),
            r#type: "dream<b>".into(),
            version: 1,
            content_json: r#"{"of":"<i>sheep"}"#.into(),
            ..v1::RunStep::default()
        };
        let html = html(&step);
        assert!(html.contains("dream&lt;b&gt;"), "{html}");
        assert!(html.contains("&lt;i&gt;sheep"), "{html}");
        assert!(html.contains("data-type=\"unknown\""), "{html}");
        let later = v1::RunStep {
            r#type: StepKind::Retried.as_str().into(),
            version: 70_000,
            content_json: "{}".into(),
            ..v1::RunStep::default()
        };
        assert!(
            super::entry("run_1", &later, &Calls::new())
                .into_string()
                .contains("retried")
        );
    }

    /// B46: neither a tool's name nor its arguments become markup.
    #[test]
    fn b46_calls_are_text() {
        let step = recorded(&Step::ToolCall(ToolCall {
            call: CallId::of(1, 1),
            tool: "evil\u{202e}<b>".into(),
            model_name: "evil".into(),
            args: "{\"a\":\"<script>\u{200b}\"}".into(),
            definition: None,
        }));
        let html = html(&step);
        assert!(
            html.contains("evil<span class=\"mark\">⟨U+202E⟩</span>&lt;b&gt;"),
            "{html}"
        );
        assert!(
            html.contains("&lt;script&gt;<span class=\"mark\">⟨U+200B⟩</span>"),
            "{html}"
        );
    }

    #[test]
    fn long_texts_are_cut_with_a_way_to_all_of_them() {
        let answer = |text: String| {
            html(&recorded(&Step::AssistantMessage(AssistantMessage {
                cycle: 1,
                seen: 1,
                text,
                calls: 0,
                model: "m".into(),
                cost: None,
                usage: Usage::default(),
            })))
        };
        let long = answer("x".repeat(SHORT + 5));
        assert!(long.contains("⟨5 bytes more⟩"));
        assert!(long.contains("<a href=\"/runs/run_1/steps/7\">Show all</a>"));
        assert!(!answer("x".into()).contains("Show all"));
    }

    #[test]
    fn a_denial_names_who_and_the_tool() {
        let step = recorded(&Step::ToolDenied(sayso_run::ToolDenied {
            call: CallId::of(1, 1),
            approval: Some(ApprovalId::new("apr_1").unwrap()),
            cause: DenyCause::Person,
            reason: Some("Too much.".into()),
            rule: None,
            goes_on: false,
            votes: Vec::new(),
        }));
        let html = html(&step);
        assert!(html.contains("denied <code>shop.refund</code>."), "{html}");
        assert!(html.contains("/approvals/apr_1"), "{html}");
        assert!(html.contains("Too much."), "{html}");
    }
}
