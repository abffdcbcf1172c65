use super::Caused;
use super::calls::refuse;
use crate::actor::Actor;
use crate::failure::FailureCode;
use crate::id::{CallId, ToolSetId, WorkerId};
use crate::limits;
use crate::state::{Effect, Next, Phase, Refusal, RunState};
use crate::step::{DenyCause, Failed, Step, TakenOver, ToolOutcome, ToolsListed};

impl RunState {
    pub(super) fn tools_listed(&self, set: ToolSetId, count: u32) -> Result<Caused, Refusal> {
        self.check_live()?;
        if self.tools.is_some() {
            return Err(Refusal::Stale("the tools were listed before"));
        }
        Ok(vec![(
            Actor::System,
            Step::ToolsListed(ToolsListed { set, count }),
        )])
    }

    pub(super) fn takes_over(&self, worker: WorkerId, epoch: u64) -> Result<Caused, Refusal> {
        self.check_live()?;
        Ok(vec![(
            Actor::System,
            Step::TakenOver(TakenOver { worker, epoch }),
        )])
    }

    /// The run cannot go on: what is open is closed, the error is its last step.
    pub(super) fn fails(&self, code: FailureCode, message: String) -> Result<Caused, Refusal> {
        self.check_live()?;
        let mut caused = self.close_open(DenyCause::RunEnded, &Actor::System, None);
        caused.push((
            Actor::System,
            Step::Failed(Failed {
                code,
                message,
                unknown: Vec::new(),
            }),
        ));
        Ok(caused)
    }

    /// The reaper's word: whatever was sent and has no result is unknown.
    pub(super) fn reaped(&self, worker: WorkerId, message: String) -> Result<Caused, Refusal> {
        self.check_live()?;
        let sent = |call: &&crate::Call| {
            matches!(call.phase, Phase::Started { .. } | Phase::Unknown { .. }) && !call.unknown
        };
        let unknown: Vec<CallId> = self
            .calls
            .iter()
            .filter(sent)
            .map(|call| call.id.clone())
            .collect();
        let message = match unknown.as_slice() {
            [] => message,
            calls => format!("{message}; the outcome of {} is unknown", self.named(calls)),
        };
        let mut caused = self.takes_over(worker, 0)?;
        caused.extend(self.close_open(DenyCause::RunEnded, &Actor::System, None));
        let code = FailureCode::new(FailureCode::INTERRUPTED);
        caused.push((
            Actor::System,
            Step::Failed(Failed {
                code,
                message,
                unknown,
            }),
        ));
        Ok(caused)
    }

    /// Calls of a run that has ended, whose worker was lost: their outcome is unknown, and says so. If
    /// it becomes known after all, it is recorded.
    pub(super) fn lost(&self) -> Result<Caused, Refusal> {
        if self.end.is_none() {
            return Err(Refusal::Stale("a run that goes on is taken over"));
        }
        let sent = |call: &&crate::Call| matches!(call.phase, Phase::Started { .. });
        let sent = self.calls.iter().filter(sent);
        let results = sent.map(|call| {
            let told = crate::transcript::UNKNOWN.to_owned();
            (Actor::System, refuse(call, ToolOutcome::Unknown, told))
        });
        Ok(results.collect())
    }

    fn named(&self, calls: &[CallId]) -> String {
        let named: Vec<String> = calls
            .iter()
            .filter_map(|id| self.call(id))
            .map(|call| format!("{} ({})", call.id, call.tool))
            .collect();
        named.join(", ")
    }

    /// The failure that [`Effect::Interrupt`] owes: it names every call whose outcome is unknown.
    pub(super) fn interrupted(&self) -> Result<Caused, Refusal> {
        let Next::Owed(owed) = self.next() else {
            return Err(Refusal::Stale("nothing was interrupted"));
        };
        let [Effect::Interrupt { unknown }] = owed.as_slice() else {
            return Err(Refusal::Stale("nothing was interrupted"));
        };
        let message = match unknown.as_slice() {
            [] => format!(
                "the worker was interrupted {} times without progress; the run can be retried",
                limits::MAX_TAKEOVERS + 1
            ),
            calls => format!(
                "the worker was interrupted and the outcome of {} is unknown; the run can be retried",
                self.named(calls)
            ),
        };
        let mut caused = self.close_open(DenyCause::RunEnded, &Actor::System, None);
        let failed = Failed {
            code: FailureCode::new(FailureCode::INTERRUPTED),
            message,
            unknown: unknown.clone(),
        };
        caused.push((Actor::System, Step::Failed(failed)));
        Ok(caused)
    }
}
