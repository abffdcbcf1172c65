use super::delegate::delegated;
use super::{Caused, Judgement, Ruling, ToolOutput};
use crate::actor::Actor;
use crate::id::{ApprovalId, CallId, WorkerId};
use crate::origin::ArgumentOrigin;
use crate::quorum::Quorum;
use crate::state::{Call, Phase, Refusal, RunState};
use crate::step::{
    AwaitingApproval, AwaitingInput, DenyCause, Escalated, Marks, Retried, Step, ToolBlocked,
    ToolDenied, ToolOutcome, ToolResult, ToolStarted, Trust, TrustLowered,
};
use crate::summary::summarise;
use crate::time::Timestamp;

impl RunState {
    /// Calls that were judged: answered, held, or started by the worker that asked.
    pub(super) fn judged(
        &self,
        judgements: Vec<Judgement>,
        worker: &WorkerId,
        expires_at: Timestamp,
    ) -> Result<Caused, Refusal> {
        self.check_live()?;
        let (mut settled, mut held) = (Caused::new(), Vec::new());
        let (mut asks, mut started) = (Caused::new(), Caused::new());
        for judgement in judgements {
            let Judgement {
                call: id,
                ruling,
                shown,
            } = judgement;
            let call = self
                .call(&id)
                .ok_or_else(|| Refusal::UnknownTarget(id.to_string()))?;
            if call.phase != Phase::Proposed {
                return Err(Refusal::CallNotOpen {
                    call: id,
                    why: "it was judged before",
                });
            }
            match self.with_doubt(call, ruling) {
                Ruling::Allow { rule, marks } => {
                    let lowered = self.trust_after(&started);
                    started.extend(start(call, worker, marks, Some(rule), lowered));
                }
                Ruling::Delegate { rule, child } => {
                    let trust = self.trust_after(&started);
                    started.push(delegated(&self.run, call, child, Some(rule), trust));
                }
                Ruling::Ask {
                    rule,
                    reason,
                    quorum,
                    origins,
                } => {
                    // Identical calls of one answer take the place of an earlier one together.
                    let superseded = self.superseded_by(call).into_iter();
                    let new: Caused = superseded.filter(|step| !settled.contains(step)).collect();
                    settled.extend(new);
                    let shown = shown.as_deref().unwrap_or(&call.args);
                    let summary = summarise(self, call, shown);
                    held.push(self.hold(
                        call,
                        (rule, reason),
                        (quorum, origins),
                        summary,
                        expires_at,
                    ));
                }
                Ruling::AskPerson { question } => {
                    let asked = AwaitingInput {
                        call: call.id.clone(),
                        question,
                    };
                    asks.push((self.agent(), Step::AwaitingInput(asked)));
                }
                Ruling::Deny { rule, reason } => settled.push((
                    Actor::System,
                    deny(call, DenyCause::Rule, Some(rule), Some(reason)),
                )),
                Ruling::NotGranted => {
                    settled.push((Actor::System, deny(call, DenyCause::NotGranted, None, None)))
                }
                Ruling::InvalidArguments { message } => {
                    settled.push((
                        Actor::System,
                        refuse(call, ToolOutcome::InvalidArguments, message),
                    ));
                }
                Ruling::PermissionDenied { message } => {
                    settled.push((
                        Actor::System,
                        refuse(call, ToolOutcome::PermissionDenied, message),
                    ));
                }
            }
        }
        if !held.is_empty() {
            let summary = match held.as_slice() {
                [one] => one.summary.clone(),
                several => format!(
                    "{} calls: {}",
                    several.len(),
                    several
                        .iter()
                        .map(|b| b.summary.as_str())
                        .collect::<Vec<_>>()
                        .join("; ")
                ),
            };
            let approvals = held
                .iter()
                .map(|blocked| blocked.approval.clone())
                .collect();
            settled.extend(
                held.into_iter()
                    .map(|blocked| (Actor::System, Step::ToolBlocked(blocked))),
            );
            settled.push((
                Actor::System,
                Step::AwaitingApproval(AwaitingApproval { approvals, summary }),
            ));
        }
        settled.append(&mut asks);
        settled.append(&mut started);
        Ok(settled)
    }

    /// After an unknown outcome the same tool with the same bytes is asked for, whatever the rules
    /// allow (S4.5).
    fn with_doubt(&self, call: &Call, ruling: Ruling) -> Ruling {
        let Ruling::Allow { rule, marks } = ruling else {
            return ruling;
        };
        let mut others = self.calls.iter();
        let doubtful =
            others.any(|other| other.is_in_doubt() && other.fingerprint == call.fingerprint);
        if doubtful && !marks.idempotent {
            return Ruling::Ask {
                rule: "unknown_outcome".into(),
                reason: "the same call was sent before and its outcome is unknown: it may have taken effect".into(),
                quorum: Quorum::default(),
                origins: Vec::new(),
            };
        }
        Ruling::Allow { rule, marks }
    }

    /// How far the run is trusted after steps that are about to be appended.
    fn trust_after(&self, steps: &[(Actor, Step)]) -> Trust {
        let lowered = steps.iter().rev().find_map(|(_, step)| match step {
            Step::TrustLowered(lowered) => Some(lowered.to),
            _ => None,
        });
        lowered.unwrap_or(self.trust)
    }

    fn hold(
        &self,
        call: &Call,
        (rule, reason): (String, String),
        (quorum, origins): (Quorum, Vec<ArgumentOrigin>),
        summary: String,
        expires_at: Timestamp,
    ) -> ToolBlocked {
        let decided_before = self.calls.iter().rev().find(|other| {
            other.id != call.id && other.fingerprint == call.fingerprint && other.cycle < call.cycle
        });
        let approved_before = decided_before
            .and_then(|other| other.approval.as_ref())
            .and_then(|approval| approval.outcome.as_ref())
            .filter(|outcome| outcome.denied.is_none())
            .and_then(|outcome| outcome.by.as_ref());
        let reason = match approved_before {
            Some(by) => {
                format!("{reason} (an identical earlier call of this run was approved by {by})")
            }
            None => reason,
        };
        ToolBlocked {
            call: call.id.clone(),
            approval: ApprovalId::of(&self.run, &call.id),
            digest: call.digest,
            rule,
            reason,
            summary,
            expires_at,
            quorum,
            origins,
        }
    }

    /// A new call identical to one still pending from an earlier turn takes its place (S6.5).
    fn superseded_by(&self, call: &Call) -> Caused {
        self.held()
            .filter(|other| other.fingerprint == call.fingerprint && other.cycle < call.cycle)
            .map(|other| {
                (
                    Actor::System,
                    deny(other, DenyCause::Superseded, None, None),
                )
            })
            .collect()
    }

    /// An approved call is about to be sent, or an idempotent one again.
    pub(super) fn executes(
        &self,
        id: CallId,
        worker: WorkerId,
        marks: Marks,
    ) -> Result<Caused, Refusal> {
        self.check_live()?;
        let call = self
            .call(&id)
            .ok_or_else(|| Refusal::UnknownTarget(id.to_string()))?;
        match &call.phase {
            Phase::Cleared => Ok(start(call, &worker, marks, None, self.trust)),
            Phase::Unknown {
                idempotent: true, ..
            } => {
                let rule = match &call.clearance {
                    Some(crate::Clearance::Rule(rule)) => Some(rule.clone()),
                    Some(crate::Clearance::Person(_)) | None => None,
                };
                let again = Marks {
                    idempotent: true,
                    ..marks
                };
                Ok(start(call, &worker, again, rule, self.trust))
            }
            Phase::Proposed
            | Phase::Held
            | Phase::Asked
            | Phase::Started { .. }
            | Phase::Delegated
            | Phase::Unknown { .. }
            | Phase::Finished(_) => Err(Refusal::CallNotOpen {
                call: id,
                why: "it is not approved and waiting to be sent",
            }),
        }
    }

    /// An approved call that cannot be sent any more is answered in place of being sent.
    pub(super) fn withheld(
        &self,
        id: CallId,
        outcome: ToolOutcome,
        message: String,
    ) -> Result<Caused, Refusal> {
        self.check_live()?;
        match self.call(&id) {
            Some(call) if call.phase == Phase::Cleared => {
                let step = refuse(call, outcome, message);
                Ok(vec![(Actor::System, step)])
            }
            Some(_) | None => Err(Refusal::CallNotOpen {
                call: id,
                why: "it is not approved and waiting to be sent",
            }),
        }
    }

    /// A result is a fact: taken once, from whoever sent the call, at any time and in any status.
    pub(super) fn output_of(&self, output: ToolOutput) -> Result<Caused, Refusal> {
        let call = self
            .call(&output.call)
            .ok_or_else(|| Refusal::UnknownTarget(output.call.to_string()))?;
        let in_doubt = call.is_in_doubt() && call.sent_by.as_ref() == Some(&output.worker);
        match &call.phase {
            Phase::Finished(_) if in_doubt => Ok(vec![(Actor::System, result_of(output))]),
            Phase::Started { worker, .. } | Phase::Unknown { worker, .. }
                if *worker == output.worker =>
            {
                Ok(vec![(Actor::System, result_of(output))])
            }
            Phase::Proposed
            | Phase::Held
            | Phase::Asked
            | Phase::Cleared
            | Phase::Started { .. }
            | Phase::Delegated
            | Phase::Unknown { .. }
            | Phase::Finished(_) => Err(Refusal::CallNotOpen {
                call: output.call,
                why: "this worker has not sent it, or it has its result",
            }),
        }
    }

    /// The escalations that are due by now and were not before (S6.12).
    fn escalations(&self, now: Timestamp) -> impl Iterator<Item = (Actor, Step)> {
        let open = self
            .held()
            .filter_map(|call| Some((call, call.approval.as_ref()?)))
            .filter(move |(_, approval)| approval.expires_at > now);
        open.flat_map(move |(call, approval)| {
            let due = approval
                .quorum
                .escalate
                .iter()
                .skip(approval.escalated.len());
            due.take_while(move |step| approval.requested_at.plus_micros(step.after_micros) <= now)
                .map(|step| {
                    let escalated = Escalated {
                        call: call.id.clone(),
                        approval: approval.id.clone(),
                        to: step.to.clone(),
                    };
                    (Actor::System, Step::Escalated(escalated))
                })
        })
    }

    /// What time alone brings: every approval that has passed its time counts as denied (S6.8), and
    /// an automatic retry that is due begins (S1.6).
    pub(super) fn ticked(&self, now: Timestamp) -> Caused {
        if self.end.is_some() {
            return Caused::new();
        }
        let due = self.scheduled.filter(|(_, due_at)| *due_at <= now);
        let retried = due.map(|(attempt, _)| (Actor::System, Step::Retried(Retried { attempt })));
        self.expired(now)
            .chain(self.escalations(now))
            .chain(retried)
            .collect()
    }

    fn expired(&self, now: Timestamp) -> impl Iterator<Item = (Actor, Step)> {
        self.held()
            .filter(move |call| {
                call.approval
                    .as_ref()
                    .is_some_and(|approval| approval.expires_at <= now)
            })
            .map(|call| (Actor::System, deny(call, DenyCause::Timeout, None, None)))
    }

    /// Every call that has not been sent is closed.
    pub(super) fn close_open(&self, cause: DenyCause, by: &Actor, reason: Option<&str>) -> Caused {
        self.calls
            .iter()
            .filter(|call| {
                matches!(
                    call.phase,
                    Phase::Proposed | Phase::Held | Phase::Asked | Phase::Cleared
                )
            })
            .map(|call| {
                (
                    by.clone(),
                    deny(call, cause, None, reason.map(str::to_owned)),
                )
            })
            .collect()
    }
}

/// A call is sent. If an outsider's words may come back, the run is trusted less from here on (S5.8).
fn start(
    call: &Call,
    worker: &WorkerId,
    marks: Marks,
    rule: Option<String>,
    trust: Trust,
) -> Caused {
    let approval = match &rule {
        Some(_) => None,
        None => call.approval.as_ref().map(|approval| approval.id.clone()),
    };
    let started = Step::ToolStarted(ToolStarted {
        call: call.id.clone(),
        digest: call.digest,
        rule,
        approval,
        worker: worker.clone(),
        idempotent: marks.idempotent,
        untrusted_output: marks.untrusted_output,
        sensitive_output: marks.sensitive_output,
    });
    let mut steps = vec![(Actor::System, started)];
    if marks.untrusted_output && trust > Trust::Untrusted {
        let lowered = TrustLowered {
            call: Some(call.id.clone()),
            tool: call.tool.clone(),
            from: trust,
            to: Trust::Untrusted,
        };
        steps.push((Actor::System, Step::TrustLowered(lowered)));
    }
    steps
}

fn deny(call: &Call, cause: DenyCause, rule: Option<String>, reason: Option<String>) -> Step {
    Step::ToolDenied(ToolDenied {
        call: call.id.clone(),
        approval: call.approval.as_ref().map(|approval| approval.id.clone()),
        cause,
        reason,
        rule,
        goes_on: false,
        votes: Vec::new(),
    })
}

fn result_of(output: ToolOutput) -> Step {
    Step::ToolResult(ToolResult {
        call: output.call,
        outcome: output.outcome,
        content: output.content.replace('\0', "\u{fffd}"),
        cut_bytes: output.cut_bytes,
        took_micros: output.took_micros,
        artifact: output.artifact,
    })
}

pub(super) fn refuse(call: &Call, outcome: ToolOutcome, message: String) -> Step {
    Step::ToolResult(ToolResult {
        call: call.id.clone(),
        outcome,
        content: message,
        cut_bytes: 0,
        took_micros: 0,
        artifact: None,
    })
}
