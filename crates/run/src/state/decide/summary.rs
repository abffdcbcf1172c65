//! Taking a model's sentence on a held call (S6.2).

use super::{Caused, Summarised};
use crate::actor::Actor;
use crate::limits;
use crate::state::{Call, Entry, Outcome, Phase, Refusal, RunState};
use crate::step::{Step, SummaryWritten};
use crate::support::Support;

impl RunState {
    /// The held calls on which a model has not written yet.
    pub fn unsummarised(&self) -> impl Iterator<Item = &Call> {
        self.held().filter(|call| {
            let approval = call.approval.as_ref();
            approval.is_some_and(|approval| approval.written.is_none())
        })
    }

    /// Taken as long as the run lives, also for a call that somebody has decided meanwhile: it is paid
    /// for.
    pub(super) fn summarised(&self, it: Summarised) -> Result<Caused, Refusal> {
        self.check_live()?;
        let unknown = || Refusal::UnknownTarget(it.approval.to_string());
        let call = self.call_of(&it.approval).ok_or_else(unknown)?;
        let approval = call.approval.as_ref().ok_or_else(unknown)?;
        if call.digest != it.digest {
            return Err(Refusal::Changed(it.approval));
        }
        if approval.written.is_some() {
            return Err(Refusal::Stale("the call has its summary"));
        }
        let text = one_line(&it.text);
        if text.is_empty() {
            return Err(Refusal::Stale("the model wrote nothing"));
        }
        let written = SummaryWritten {
            call: call.id.clone(),
            approval: it.approval,
            digest: it.digest,
            unsupported: self.support().missing(&text),
            text,
            model: it.model,
            usage: it.usage,
            cost: it.cost,
        };
        Ok(vec![(Actor::System, Step::SummaryWritten(written))])
    }

    /// Everything that was said in the run, or asked or answered by its tools.
    fn support(&self) -> Support {
        let mut support = Support::default();
        support.add(self.trigger.agent.as_str());
        let unseen = self.unseen.iter().map(|(_, entry)| entry);
        for entry in self.seen.iter().chain(unseen) {
            match entry {
                Entry::User(text) | Entry::Assistant { text, .. } => support.add(text),
                Entry::LateResult(_) | Entry::UnknownOutcome(_) => {}
            }
        }
        for call in &self.calls {
            support.add(&call.tool);
            support.add(&call.args);
            if let Phase::Finished(finished) = &call.phase
                && let Outcome::Result { content, .. } = &finished.outcome
            {
                support.add(content);
            }
        }
        support
    }
}

/// A text as one line of bounded length.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(limits::MAX_SUMMARY_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
