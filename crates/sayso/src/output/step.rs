//! What a step of a timeline says, for people. The set of steps is open (S2.2): one that this version
//! does not know is shown with its content as it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sayso_run::{
    AssistantMessage, CallId, Compaction, Completion, EscalatedTo, Failed, Step, ToolBlocked,
    ToolDenied, ToolOutcome, ToolResult, ToolStarted, TriggerReceived,
};
use sayso_sdk::v1;

use super::style::Tone;
use super::{time, visible};

/// What a step says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// How it went, if it is about that.
    pub(crate) tone: Option<Tone>,
    /// The text, made visible; may have several lines.
    pub(crate) text: String,
}

/// Tells steps in order: later ones speak of calls by their tools.
#[derive(Debug)]
pub(crate) struct Teller {
    tools: BTreeMap<CallId, String>,
    /// The last answer of the model, which the completion repeats.
    answer: String,
    /// Who gave that answer, and what it took.
    source: String,
    /// How much of one text is shown.
    bytes: usize,
}

impl Teller {
    /// Shows at most `bytes` of each text.
    pub(crate) fn new(bytes: usize) -> Teller {
        Teller {
            tools: BTreeMap::new(),
            answer: String::new(),
            source: String::new(),
            bytes,
        }
    }

    /// The model of the last answer and the tokens that it took.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// What a step says.
    pub(crate) fn tell(&mut self, step: &v1::RunStep) -> Said {
        let mut said = match decode(step) {
            Some(decoded) => self.known(decoded, &step.actor),
            None => said(None, self.long(&step.content_json)),
        };
        if !step.advice.is_empty() {
            let (code, advice) = (visible::line(&step.code), visible::line(&step.advice));
            write!(said.text, "\n{code}: {advice}").expect(WRITES);
        }
        said
    }

    fn known(&mut self, step: Step, actor: &str) -> Said {
        let actor = visible::line(actor.strip_prefix("principal:").unwrap_or(actor));
        match step {
            Step::TriggerReceived(trigger) => self.trigger(&trigger),
            Step::ToolsListed(listed) => said(
                None,
                format!("{} tools are offered to the model", listed.count),
            ),
            Step::UserMessage(message) => {
                said(None, format!("{actor}: {}", self.long(&message.text)))
            }
            Step::Thinking(thinking) => said(Some(Tone::Faint), self.long(&thinking.text)),
            Step::AssistantMessage(message) => self.answer(message),
            Step::ToolCall(call) => {
                let text = format!("{} {}", visible::line(&call.tool), self.long(&call.args));
                self.tools.insert(call.call, call.tool);
                said(None, text)
            }
            Step::ToolBlocked(blocked) => self.blocked(&blocked),
            Step::AwaitingApproval(waits) => said(
                Some(Tone::Waits),
                format!("a person decides: {}", visible::line(&waits.summary)),
            ),
            Step::ToolEdited(edited) => said(
                Some(Tone::Strong),
                format!(
                    "{actor} edited {}: {}",
                    self.call(&edited.call),
                    self.long(&edited.args)
                ),
            ),
            Step::VoteCast(vote) => said(
                Some(Tone::Waits),
                format!(
                    "{actor} voted to approve {}; more are needed",
                    self.call(&vote.call)
                ),
            ),
            Step::Escalated(escalated) => said(Some(Tone::Waits), {
                let call = self.call(&escalated.call);
                match &escalated.to {
                    EscalatedTo::Group(group) => format!(
                        "nobody has decided {call}: {} may decide as well",
                        visible::line(group)
                    ),
                    EscalatedTo::Target(target) => format!(
                        "nobody has decided {call}: the target {} is reminded",
                        visible::line(target)
                    ),
                }
            }),
            Step::SummaryWritten(written) => said(
                None,
                format!(
                    "{} put {} into words: {}{}",
                    visible::line(&written.model),
                    self.call(&written.call),
                    visible::line(&written.text),
                    flagged(&written.unsupported)
                ),
            ),
            Step::ToolApproved(approved) => {
                let text = format!("{} is approved by {actor}", self.call(&approved.call));
                said(
                    Some(Tone::Good),
                    with_reason(text, approved.reason.as_deref()),
                )
            }
            Step::ToolDenied(denied) => self.denied(&denied, &actor),
            Step::ToolStarted(started) => self.started(&started),
            Step::TrustLowered(lowered) => said(
                Some(Tone::Strong),
                match &lowered.call {
                    Some(call) => format!(
                        "the run is {} from here on: what {} returns may be an outsider's words",
                        lowered.to.as_str(),
                        self.call(call)
                    ),
                    None => format!(
                        "the run is {} from here on, as whoever wrote the message",
                        lowered.to.as_str()
                    ),
                },
            ),
            Step::Continued(next) => said(
                None,
                format!(
                    "the conversation goes on in {}, which begins with the last message",
                    visible::line(next.run.as_str())
                ),
            ),
            Step::TakenOver(taken) => said(
                Some(Tone::Faint),
                format!(
                    "worker {} goes on (epoch {})",
                    visible::line(taken.worker.as_str()),
                    taken.epoch
                ),
            ),
            Step::ToolResult(result) => self.result(&result),
            Step::RepeatLoop(repeat) => said(
                Some(Tone::Bad),
                format!(
                    "{} is not executed: the same call {} times in a row",
                    self.call(&repeat.call),
                    repeat.count
                ),
            ),
            Step::AwaitingInput(waits) => said(
                Some(Tone::Waits),
                format!("a person answers: {}", self.long(&waits.question)),
            ),
            Step::SpendingCap(met) => said(
                Some(Tone::Waits),
                format!(
                    "the monthly cap of {} is met: {} was spent",
                    met.cap, met.spent
                ),
            ),
            Step::ChildStarted(child) => said(
                None,
                format!(
                    "{} starts {}, a run of {}: {}",
                    self.call(&child.call),
                    child.child,
                    child.agent,
                    self.long(&child.input)
                ),
            ),
            Step::ChildFinished(child) => said(
                None,
                format!(
                    "{} ended ({}): {}",
                    child.child,
                    child.ended_by.as_str(),
                    self.long(&child.content)
                ),
            ),
            Step::Compaction(compaction) => self.compaction(&compaction),
            Step::RetryScheduled(retry) => said(
                Some(Tone::Waits),
                format!(
                    "{}: {}; retry {} is due at {}",
                    retry.code.as_str(),
                    visible::line(&retry.message),
                    retry.attempt,
                    retry.due_at
                ),
            ),
            Step::ModelFailover(failover) => said(
                Some(Tone::Faint),
                format!(
                    "{} is unavailable, {} is asked: {}",
                    visible::line(&failover.from),
                    visible::line(&failover.to),
                    visible::line(&failover.reason)
                ),
            ),
            Step::Completion(completion) => self.completion(&completion),
            Step::Failed(failed) => self.failed(&failed),
            Step::Retried(retried) => said(
                None,
                format!("{actor} lets it go on (retry {})", retried.attempt),
            ),
            Step::Cancelled(cancelled) => {
                let text = format!("{actor} ends it");
                said(
                    Some(Tone::Bad),
                    with_reason(text, cancelled.reason.as_deref()),
                )
            }
        }
    }

    fn compaction(&self, compaction: &Compaction) -> Said {
        let (upto, tokens) = (compaction.upto, compaction.tokens);
        let text = match &compaction.brief {
            None => format!("results up to cycle {upto} are left out ({tokens} tokens)"),
            Some(brief) => format!(
                "a brief stands for the cycles up to {upto} ({tokens} tokens): {}",
                self.long(brief)
            ),
        };
        said(Some(Tone::Faint), text)
    }

    fn trigger(&self, trigger: &TriggerReceived) -> Said {
        let asks = match (&trigger.trigger, trigger.source) {
            (Some(name), source) => format!("{} {}", source.as_str(), visible::line(name)),
            (None, _) => visible::line(trigger.principal.as_str()),
        };
        let text = format!(
            "{asks} asks {} ({}): {}",
            visible::line(trigger.agent.as_str()),
            trigger.trust.as_str(),
            self.long(&trigger.input)
        );
        said(Some(Tone::Strong), text)
    }

    fn answer(&mut self, message: AssistantMessage) -> Said {
        let mut source = format!("({}", visible::line(&message.model));
        if message.usage.input + message.usage.output > 0 {
            let usage = message.usage;
            write!(source, ", {} tokens in, {} out", usage.input, usage.output).expect(WRITES);
        }
        source.push(')');
        let text = match self.long(&message.text).as_str() {
            "" => source.clone(),
            text => format!("{text}  {source}"),
        };
        self.source = source;
        self.answer = message.text;
        said(None, text)
    }

    fn blocked(&self, blocked: &ToolBlocked) -> Said {
        let text = format!(
            "{} is held as {}: {} ({})",
            self.call(&blocked.call),
            blocked.approval,
            visible::line(&blocked.summary),
            visible::line(&blocked.rule),
        );
        said(Some(Tone::Waits), text)
    }

    fn denied(&self, denied: &ToolDenied, actor: &str) -> Said {
        let who = match (denied.cause, &denied.rule) {
            (sayso_run::DenyCause::Person | sayso_run::DenyCause::Cancelled, _) => {
                format!("by {actor}")
            }
            (_, Some(rule)) => format!("by {}", visible::line(rule)),
            (cause, None) => format!("({})", cause.as_str().replace('_', " ")),
        };
        let text = format!("{} is denied {who}", self.call(&denied.call));
        said(Some(Tone::Bad), with_reason(text, denied.reason.as_deref()))
    }

    fn started(&self, started: &ToolStarted) -> Said {
        let by = match (&started.approval, &started.rule) {
            (Some(approval), _) => format!("approval {approval}"),
            (None, Some(rule)) => format!("allowed by {}", visible::line(rule)),
            (None, None) => "allowed".to_owned(),
        };
        said(
            Some(Tone::Faint),
            format!("{} is sent ({by})", self.call(&started.call)),
        )
    }

    fn result(&self, result: &ToolResult) -> Said {
        let (tone, outcome) = match result.outcome {
            ToolOutcome::Ok => (Tone::Good, "answered"),
            ToolOutcome::Error => (Tone::Bad, "answered with an error"),
            ToolOutcome::Timeout => (Tone::Bad, "did not answer in time and may have acted"),
            ToolOutcome::InvalidArguments => (Tone::Bad, "did not run: its arguments are invalid"),
            ToolOutcome::PermissionDenied => {
                (Tone::Bad, "did not run: the role does not permit it")
            }
            ToolOutcome::Mismatch => (Tone::Bad, "did not run: it is not what was approved"),
            ToolOutcome::Unknown => (Tone::Bad, "may have taken effect, or not"),
            ToolOutcome::Unreachable => (Tone::Bad, "did not run: it could not be reached"),
        };
        let mut text = format!("{} {outcome}", self.call(&result.call));
        if result.took_micros > 0 {
            write!(text, " in {}", time::micros(result.took_micros)).expect(WRITES);
        }
        write!(text, ": {}", self.long(&result.content)).expect(WRITES);
        if result.cut_bytes > 0 {
            write!(
                text,
                " ({} bytes were cut before the model saw it)",
                result.cut_bytes
            )
            .expect(WRITES);
        }
        if let Some(artifact) = &result.artifact {
            write!(text, " (artifact {})", visible::line(artifact)).expect(WRITES);
        }
        said(Some(tone), text)
    }

    fn completion(&self, completion: &Completion) -> Said {
        let mut text = format!(
            "ended by {} after {}",
            completion.ended_by.as_str(),
            time::micros(completion.duration_micros)
        );
        if completion.output != self.answer {
            write!(text, ": {}", self.long(&completion.output)).expect(WRITES);
        }
        said(Some(Tone::Good), text)
    }

    fn failed(&self, failed: &Failed) -> Said {
        let mut text = format!(
            "{} [{}]",
            self.long(&failed.message),
            visible::line(failed.code.as_str())
        );
        for call in &failed.unknown {
            write!(
                text,
                "\nwhether {} took effect is not known",
                self.call(call)
            )
            .expect(WRITES);
        }
        said(Some(Tone::Bad), text)
    }

    /// A call by its tool.
    fn call(&self, call: &CallId) -> String {
        match self.tools.get(call) {
            Some(tool) => format!("{} ({call})", visible::line(tool)),
            None => call.to_string(),
        }
    }

    fn long(&self, text: &str) -> String {
        visible::cut_block(text.trim_end_matches('\n'), self.bytes)
    }
}

const WRITES: &str = "writing to memory does not fail";

/// The step, if this version knows it.
pub(crate) fn decode(step: &v1::RunStep) -> Option<Step> {
    let version = u16::try_from(step.version).ok()?;
    Step::decode(&step.r#type, version, &step.content_json).ok()
}

fn said(tone: Option<Tone>, text: String) -> Said {
    Said { tone, text }
}

fn with_reason(text: String, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("{text}: {}", visible::block(reason)),
        None => text,
    }
}

/// What a written summary says and nothing supports.
fn flagged(unsupported: &[String]) -> String {
    if unsupported.is_empty() {
        return String::new();
    }
    let flags: Vec<String> = unsupported.iter().map(|it| visible::line(it)).collect();
    format!("; neither arguments nor run have: {}", flags.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(kind: &str, content: &str) -> v1::RunStep {
        v1::RunStep {
            sequence: 1,
            actor: "principal:bob".into(),
            r#type: kind.into(),
            version: 1,
            content_json: content.into(),
            ..v1::RunStep::default()
        }
    }

    /// Later steps name a call by its tool; who decided and why is said.
    #[test]
    fn steps_are_sentences() {
        let mut teller = Teller::new(2000);
        let digest = "00".repeat(32);
        for (kind, content, text) in [
            (
                "tool_call",
                r#"{"call":"call_1_1","tool":"shop.refund_order","model_name":"shop_refund_order","args":"{\"amount\": 1.10}"}"#.to_owned(),
                r#"shop.refund_order {"amount": 1.10}"#,
            ),
            (
                "tool_approved",
                format!(r#"{{"call":"call_1_1","approval":"apr_1","digest":"{digest}","reason":"fine\u202e"}}"#),
                "shop.refund_order (call_1_1) is approved by bob: fine⟨U+202E⟩",
            ),
            (
                "tool_denied",
                r#"{"call":"call_1_1","cause":"rule","rule":"rules#0"}"#.to_owned(),
                "shop.refund_order (call_1_1) is denied by rules#0",
            ),
            (
                "tool_denied",
                r#"{"call":"call_1_1","cause":"not_granted"}"#.to_owned(),
                "shop.refund_order (call_1_1) is denied (not granted)",
            ),
            (
                "tool_result",
                r#"{"call":"call_1_1","outcome":"ok","content":"done","took_micros":12000}"#.to_owned(),
                "shop.refund_order (call_1_1) answered in 12 ms: done",
            ),
            ("retried", r#"{"attempt":2}"#.to_owned(), "bob lets it go on (retry 2)"),
            ("cancelled", r#"{"reason":"enough"}"#.to_owned(), "bob ends it: enough"),
        ] {
            assert_eq!(teller.tell(&step(kind, &content)).text, text, "{kind}");
        }
    }

    /// S2.2: what this version does not know is shown as it is.
    #[test]
    fn s2_2_an_unknown_step_is_shown() {
        let mut teller = Teller::new(2000);
        let told = teller.tell(&step("dream", r#"{"of":"\u001b"}"#));
        assert_eq!(told.text, r#"{"of":"\u001b"}"#);
    }

    /// The completion does not say the last answer again.
    #[test]
    fn an_answer_is_told_once() {
        let mut teller = Teller::new(2000);
        let answer = r#"{"cycle":1,"seen":2,"text":"All done.","calls":0,"model":"scripted","usage":{"input":9,"cached":0,"output":3}}"#;
        let told = teller.tell(&step("assistant_message", answer));
        assert_eq!(told.text, "All done.  (scripted, 9 tokens in, 3 out)");
        let completion = r#"{"output":"All done.","ended_by":"answer","duration_micros":1500000,"usage":{"input":9,"cached":0,"output":3}}"#;
        let told = teller.tell(&step("completion", completion));
        assert_eq!(told.text, "ended by answer after 1.5 s");
    }
}
