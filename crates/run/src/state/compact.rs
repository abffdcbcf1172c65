//! A conversation that nears the model's context limit is made smaller (S4.4): first the content of
//! older results is taken out, then a brief takes the place of older turns. Whole turns only, so a
//! call and its result are never parted; what people said always stays.

use super::{Entry, Outcome, Phase, RunState};
use crate::limits;
use crate::step::{Compaction, CompactionKind, Usage};

/// A result that is not longer than this stays when others are taken out, in bytes.
pub(crate) const SMALL_RESULT: usize = 512;

/// What stands for the first turns of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// The last turn that it stands for.
    pub upto: u32,
    /// The brief.
    pub text: String,
}

impl RunState {
    /// What the provider counted of the last answer and its request, while that still tells the size
    /// of the conversation.
    pub fn measured(&self) -> Option<Usage> {
        self.measured
    }

    /// The last turn that a brief stands for; 0 if none does.
    pub fn briefed_upto(&self) -> u32 {
        self.brief.as_ref().map_or(0, |brief| brief.upto)
    }

    /// The last turn of which results can be taken out now, if that takes anything out.
    pub fn can_prune(&self) -> Option<u32> {
        let upto = self.cycles.saturating_sub(limits::WHOLE_TURNS);
        let from = self.pruned_upto.max(self.briefed_upto());
        let mut results = self.calls.iter().filter(|call| {
            (from + 1..=upto).contains(&call.cycle)
                && call.placeheld.is_none()
                && matches!(&call.phase, Phase::Finished(finished)
                    if matches!(&finished.outcome, Outcome::Result { content, .. }
                        if content.len() > SMALL_RESULT))
        });
        results.next().map(|_| upto)
    }

    /// The last turn for which a brief can stand now: the latest turns stay whole, while there are
    /// others.
    pub fn can_brief(&self) -> Option<u32> {
        let mut ends = (0..=limits::WHOLE_TURNS).rev();
        let upto = ends.find_map(|whole| {
            let upto = self.cycles.checked_sub(whole)?;
            (upto > self.briefed_upto()).then_some(upto)
        })?;
        Some(upto)
    }

    /// The turns that a brief is to stand for, as text: no model takes calls without the tools that
    /// they call. Each result is cut at `max_result` bytes.
    pub fn told_upto(&self, upto: u32, max_result: usize) -> String {
        let mut text = String::new();
        let mut add = |who: &str, what: &str| {
            text.push_str(who);
            text.push_str(": ");
            text.push_str(what);
            text.push_str("\n\n");
        };
        if let Some(brief) = &self.brief {
            add("Brief of what came before", &brief.text);
        }
        let mut turn = 0;
        for entry in &self.seen {
            if let Entry::Assistant { .. } = entry {
                turn += 1;
            }
            let of_turn = match entry {
                Entry::Assistant { .. } => turn,
                Entry::User(_)
                | Entry::Agent(_)
                | Entry::LateResult(_)
                | Entry::UnknownOutcome(_) => turn + 1,
            };
            if of_turn > upto {
                break;
            }
            match entry {
                Entry::User(said) => add("Person", said),
                Entry::Agent(said) => add("Agent", said),
                _ if of_turn <= self.briefed_upto() => {}
                Entry::LateResult(id) | Entry::UnknownOutcome(id) => {
                    if let Some(call) = self.call(id) {
                        let told = crate::transcript::told(call);
                        add(&format!("Later, of the call {id}"), cut(&told, max_result));
                    }
                }
                Entry::Assistant { text, calls, .. } => {
                    if !text.is_empty() {
                        add("Agent", text);
                    }
                    for call in calls.iter().filter_map(|id| self.call(id)) {
                        let told = crate::transcript::told(call);
                        let called = format!("Call {} of {}", call.id, call.model_name);
                        add(&called, cut(call.proposed_args(), max_result));
                        add(&format!("Result of {}", call.id), cut(&told, max_result));
                    }
                }
            }
        }
        text
    }

    pub(super) fn compacted(&mut self, step: &Compaction) -> Result<(), String> {
        if step.upto > self.cycles {
            return Err(format!("turn {} is not there yet", step.upto));
        }
        match (step.kind, &step.brief) {
            (CompactionKind::Prune, _) => self.pruned_upto = step.upto,
            (CompactionKind::Brief, Some(text)) => {
                self.brief = Some(Brief {
                    upto: step.upto,
                    text: text.clone(),
                });
            }
            (CompactionKind::Brief, None) => return Err("a brief without its text".into()),
        }
        self.measured = None;
        self.spend(step.usage, step.cost);
        Ok(())
    }
}

/// The first bytes of a text, at a character's edge.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
