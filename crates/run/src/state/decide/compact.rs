//! Making a conversation smaller (S4.4): only where a model is to be asked next.

use super::Caused;
use crate::actor::Actor;
use crate::state::{Effect, Next, Refusal, RunState};
use crate::step::{Compaction, CompactionKind, Step, Usage};

impl RunState {
    pub(super) fn prunes(&self, upto: u32, tokens: u64) -> Result<Caused, Refusal> {
        self.check_asks()?;
        if self.can_prune().is_none_or(|most| upto > most) {
            return Err(Refusal::Stale(
                "these results are not there to be taken out",
            ));
        }
        let pruned = Compaction {
            kind: CompactionKind::Prune,
            upto,
            tokens,
            brief: None,
            model: None,
            usage: Usage::default(),
            cost: None,
        };
        Ok(vec![(Actor::System, Step::Compaction(pruned))])
    }

    pub(super) fn takes_brief(&self, brief: Compaction) -> Result<Caused, Refusal> {
        self.check_asks()?;
        if brief.upto > self.cycles || brief.upto <= self.briefed_upto() {
            return Err(Refusal::Stale("the brief is of other turns"));
        }
        Ok(vec![(Actor::System, Step::Compaction(brief))])
    }

    fn check_asks(&self) -> Result<(), Refusal> {
        self.check_live()?;
        match self.next() {
            Next::Owed(owed) if matches!(owed.as_slice(), [Effect::AskModel { .. }]) => Ok(()),
            Next::Owed(_) | Next::Wait(_) | Next::Done => {
                Err(Refusal::Stale("no model is to be asked"))
            }
        }
    }
}
