use std::collections::BTreeSet;

use sayso_driver::WriteError;
use sayso_run::{DenyCause, Outcome, Phase, RunState, Status, Step, ToolOutcome};

/// What has come about, each as its kind and one or two words.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Coverage(BTreeSet<(&'static str, String)>);

impl Coverage {
    /// Takes in what another seed has covered.
    pub fn merge(&mut self, other: Coverage) {
        self.0.extend(other.0);
    }

    /// Everything, as lines.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.0.iter().map(|(kind, what)| format!("{kind} {what}"));
        lines.collect()
    }

    fn saw(&mut self, kind: &'static str, what: String) {
        self.0.insert((kind, what));
    }

    /// Where each call of a run stands.
    pub(crate) fn phases(&self, state: Option<&RunState>) -> Vec<&'static str> {
        let calls = state.map_or(&[][..], RunState::calls);
        calls.iter().map(|call| phase(&call.phase)).collect()
    }

    /// An append has moved a run.
    pub(crate) fn moved(&mut self, before: Option<Status>, after: Status) {
        if before != Some(after) {
            let from = before.map_or("nothing", Status::as_str);
            self.saw("run", format!("{from} > {}", after.as_str()));
        }
    }

    /// A step was taken by a run whose calls stood so.
    pub(crate) fn step(&mut self, step: &Step, after: &RunState, phases: &[&'static str]) {
        self.saw("step", step.kind().as_str().to_owned());
        for (at, call) in after.calls().iter().enumerate() {
            let (from, to) = (phases.get(at).copied(), phase(&call.phase));
            if from != Some(to) {
                self.saw("call", format!("{} > {to}", from.unwrap_or("nothing")));
                self.saw("action", call.action_status().as_str().to_owned());
            }
        }
        match step {
            Step::ToolResult(step) => self.saw("outcome", outcome(step.outcome).to_owned()),
            Step::ToolDenied(step) => self.saw("denied", step.cause.as_str().to_owned()),
            Step::Failed(step) => self.saw("failed", step.code.as_str().to_owned()),
            Step::Completion(step) => self.saw("ended", step.ended_by.as_str().to_owned()),
            _ => {}
        }
    }

    /// Somebody was refused.
    pub(crate) fn refused(&mut self, error: &WriteError) {
        if let WriteError::Refused(refusal) = error {
            self.saw("refused", refusal.code().to_owned());
        }
    }
}

const fn phase(phase: &Phase) -> &'static str {
    match phase {
        Phase::Proposed => "proposed",
        Phase::Held => "held",
        Phase::Asked => "asked",
        Phase::Cleared => "cleared",
        Phase::Started { .. } => "started",
        Phase::Delegated => "delegated",
        Phase::Unknown { .. } => "unknown",
        Phase::Finished(finished) => match &finished.outcome {
            Outcome::Result { .. } => "result",
            Outcome::Denied {
                cause: DenyCause::Superseded,
                ..
            } => "superseded",
            Outcome::Denied { .. } => "denied",
            Outcome::RepeatLoop { .. } => "stopped",
        },
    }
}

const fn outcome(outcome: ToolOutcome) -> &'static str {
    match outcome {
        ToolOutcome::Ok => "ok",
        ToolOutcome::Error => "error",
        ToolOutcome::Timeout => "timeout",
        ToolOutcome::InvalidArguments => "invalid_arguments",
        ToolOutcome::PermissionDenied => "permission_denied",
        ToolOutcome::Mismatch => "mismatch",
        ToolOutcome::Unknown => "unknown",
        ToolOutcome::Unreachable => "unreachable",
    }
}
