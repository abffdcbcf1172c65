use sayso_run::{
    Actor, Call, Clearance, DenyCause, Month, Outcome, Phase, RunState, Step, StepKind, Verdict,
    WorkerId,
};

use crate::journal::Written;
use crate::rows::{
    ActionRow, ApprovalRow, ApprovalStatus, Deciders, FeedbackRow, Lineage, MessageRow, RunRow,
    UsageRow,
};

/// The rows that an append changes.
#[derive(Debug, Clone)]
pub struct Projected {
    /// The run's row.
    pub row: RunRow,
    /// New and changed actions.
    pub actions: Vec<ActionRow>,
    /// New and changed approvals.
    pub approvals: Vec<ApprovalRow>,
    /// Decisions as feedback.
    pub feedback: Vec<FeedbackRow>,
    /// Messages of its conversation.
    pub messages: Vec<MessageRow>,
}

/// Projects the state after some steps onto the rows that those steps touched.
pub fn project(after: &RunState, steps: &[Written]) -> Projected {
    let mut touched: Vec<usize> = Vec::new();
    for step in steps {
        let Some(id) = call_of(&step.recorded.step) else {
            continue;
        };
        if let Some(at) = after.calls().iter().position(|call| call.id == *id)
            && !touched.contains(&at)
        {
            touched.push(at);
        }
    }
    if steps
        .iter()
        .any(|step| step.recorded.step.kind() == StepKind::UserMessage)
    {
        let answered = |call: &&Call| call.is_finished() && call.tool == crate::ASK_PERSON;
        touched.extend(
            after
                .calls()
                .iter()
                .enumerate()
                .filter(|(_, call)| answered(call))
                .map(|(at, _)| at),
        );
        touched.dedup();
    }
    touched.sort_unstable();
    touched.dedup();
    let calls: Vec<&Call> = touched.into_iter().map(|at| &after.calls()[at]).collect();
    Projected {
        row: run_row(after),
        actions: calls.iter().map(|call| action_row(after, call)).collect(),
        approvals: calls
            .iter()
            .filter_map(|call| approval_row(after, call))
            .collect(),
        feedback: steps
            .iter()
            .filter_map(|step| feedback_row(after, step))
            .collect(),
        messages: messages(after, steps),
    }
}

/// What these steps, the last of a run, say in its conversation (S9.1).
pub(crate) fn messages(after: &RunState, steps: &[Written]) -> Vec<MessageRow> {
    let (Some(conversation), Some(first)) = (&after.trigger().conversation, steps.first()) else {
        return Vec::new();
    };
    let from = first.recorded.seq;
    let said = after.said().iter().filter(|said| said.seq >= from);
    said.map(|said| MessageRow {
        conversation: conversation.id.clone(),
        run: after.run().clone(),
        said: said.clone(),
    })
    .collect()
}

fn call_of(step: &Step) -> Option<&sayso_run::CallId> {
    match step {
        Step::ToolCall(step) => Some(&step.call),
        Step::ToolBlocked(step) => Some(&step.call),
        Step::ToolEdited(step) => Some(&step.call),
        Step::VoteCast(step) => Some(&step.call),
        Step::Escalated(step) => Some(&step.call),
        Step::SummaryWritten(step) => Some(&step.call),
        Step::ToolApproved(step) => Some(&step.call),
        Step::ToolDenied(step) => Some(&step.call),
        Step::ToolStarted(step) => Some(&step.call),
        Step::ToolResult(step) => Some(&step.call),
        Step::RepeatLoop(step) => Some(&step.call),
        Step::AwaitingInput(step) => Some(&step.call),
        Step::ChildStarted(step) => Some(&step.call),
        Step::ChildFinished(step) => Some(&step.call),
        Step::TriggerReceived(_)
        | Step::ToolsListed(_)
        | Step::UserMessage(_)
        | Step::Thinking(_)
        | Step::AssistantMessage(_)
        | Step::AwaitingApproval(_)
        | Step::TrustLowered(_)
        | Step::TakenOver(_)
        | Step::ModelFailover(_)
        | Step::Compaction(_)
        | Step::SpendingCap(_)
        | Step::Continued(_)
        | Step::Completion(_)
        | Step::Failed(_)
        | Step::RetryScheduled(_)
        | Step::Retried(_)
        | Step::Cancelled(_) => None,
    }
}

/// The run's row.
pub fn run_row(state: &RunState) -> RunRow {
    let trigger = state.trigger();
    RunRow {
        run: state.run().clone(),
        task: trigger.task.clone(),
        namespace: trigger.namespace.clone(),
        agent: trigger.agent.clone(),
        revision: trigger.revision.clone(),
        principal: trigger.principal.clone(),
        trust: state.trust(),
        input: trigger.input.clone(),
        source: trigger.source,
        trigger: trigger.trigger.clone(),
        imported_from: None,
        lineage: trigger.parent.as_ref().map(|parent| Lineage {
            parent_run: parent.run.clone(),
            parent_task: parent.task.clone(),
            root_run: parent.root_run.clone(),
            root_task: parent.root_task.clone(),
        }),
        conversation: trigger.conversation.as_ref().map(|it| it.id.clone()),
        status: state.status(),
        seq: state.seq(),
        ended_by: state.ended_by(),
        output: state.output().map(str::to_owned),
        error_code: state
            .failure()
            .map(|failed| failed.code.as_str().to_owned()),
        error_message: state.failure().map(|failed| failed.message.clone()),
        cycles: state.cycles(),
        retries: state.retries(),
        usage: state.usage(),
        cost: state.cost(),
        created_at: state.started_at(),
        updated_at: state.head().at,
        ended_at: state.ended_at(),
        expires_at: state
            .held()
            .filter_map(|call| call.approval.as_ref())
            .map(|held| held.expires_at)
            .min(),
        open_calls: state.has_open_calls(),
    }
}

fn action_row(state: &RunState, call: &Call) -> ActionRow {
    let (result, denied) = match &call.phase {
        Phase::Finished(finished) => match &finished.outcome {
            Outcome::Result { content, .. } => (Some(content.clone()), None),
            Outcome::Denied { cause, reason } => (reason.clone(), Some(*cause)),
            Outcome::RepeatLoop { count } => (
                Some(format!("identical call number {count} in a row")),
                None,
            ),
        },
        Phase::Proposed
        | Phase::Held
        | Phase::Asked
        | Phase::Cleared
        | Phase::Started { .. }
        | Phase::Delegated
        | Phase::Unknown { .. } => (None, None),
    };
    ActionRow {
        run: state.run().clone(),
        call: call.id.clone(),
        tool: call.tool.clone(),
        status: call.action_status(),
        args: call.args.clone(),
        digest: call.digest,
        cleared_by: call.clearance.as_ref().map(|clearance| match clearance {
            Clearance::Rule(rule) => rule.clone(),
            Clearance::Person(by) => Actor::Principal(by.clone()).to_string(),
        }),
        result,
        denied,
        created_at: call.proposed_at,
        updated_at: state.head().at,
    }
}

fn approval_row(state: &RunState, call: &Call) -> Option<ApprovalRow> {
    let held = call.approval.as_ref()?;
    let trigger = state.trigger();
    let outcome = held.outcome.as_ref();
    let status = match outcome {
        None => ApprovalStatus::Pending,
        Some(outcome) => match outcome.denied {
            None => ApprovalStatus::Approved,
            Some(DenyCause::Person) => ApprovalStatus::Denied,
            Some(DenyCause::Timeout) => ApprovalStatus::Expired,
            Some(
                DenyCause::Rule
                | DenyCause::NotGranted
                | DenyCause::Cancelled
                | DenyCause::RunEnded
                | DenyCause::Superseded,
            ) => ApprovalStatus::Closed,
        },
    };
    Some(ApprovalRow {
        approval: held.id.clone(),
        namespace: trigger.namespace.clone(),
        run: state.run().clone(),
        call: call.id.clone(),
        agent: trigger.agent.clone(),
        origins: held.origins.clone(),
        deciders: Deciders::of(held),
        escalates_at: held.escalates_at().filter(|_| outcome.is_none()),
        requester: trigger.principal.clone(),
        tool: call.tool.clone(),
        args: call.args.clone(),
        original: call.edited.as_ref().map(|edited| edited.proposed.clone()),
        edited_by: call.edited.as_ref().map(|edited| edited.by.clone()),
        digest: call.digest,
        definition: call.definition?,
        task_input: trigger.input.clone(),
        trust: state.trust(),
        rule: held.rule.clone(),
        reason: held.reason.clone(),
        summary: held.summary.clone(),
        written: held.written.clone(),
        seq: held.seq,
        status,
        requested_at: held.requested_at,
        expires_at: held.expires_at,
        decided_by: outcome.and_then(|outcome| outcome.by.clone()),
        decided_at: outcome.map(|outcome| outcome.at),
        decision_reason: outcome.and_then(|outcome| outcome.reason.clone()),
        closed_cause: outcome.and_then(|outcome| outcome.denied),
        action_status: call.action_status(),
    })
}

/// Only a person's decision is feedback: expiry, cancel and the run's end leave none (S7.2).
fn feedback_row(state: &RunState, step: &Written) -> Option<FeedbackRow> {
    let Actor::Principal(by) = &step.recorded.actor else {
        return None;
    };
    let (verdict, approval, note) = match &step.recorded.step {
        Step::ToolApproved(approved) => (
            Verdict::Approve,
            approved.approval.clone(),
            approved.reason.clone(),
        ),
        Step::ToolDenied(denied) if denied.cause == DenyCause::Person => (
            Verdict::Deny,
            denied.approval.clone()?,
            denied.reason.clone(),
        ),
        _ => return None,
    };
    let trigger = state.trigger();
    Some(FeedbackRow {
        task: trigger.task.clone(),
        namespace: trigger.namespace.clone(),
        agent: trigger.agent.clone(),
        run: state.run().clone(),
        approval,
        by: by.clone(),
        score_millionths: match verdict {
            Verdict::Approve => 1_000_000,
            Verdict::Deny => 0,
        },
        note,
        at: step.recorded.at,
    })
}

/// What the answers, briefs and summaries among these steps cost.
pub(crate) fn usage(after: &RunState, steps: &[Written], worker: &WorkerId) -> Vec<UsageRow> {
    let used = steps.iter().filter_map(|step| {
        let (spent, tokens) = match &step.recorded.step {
            Step::AssistantMessage(answer) => (answer.cost, answer.usage),
            Step::Compaction(compaction) if compaction.model.is_some() => {
                (compaction.cost, compaction.usage)
            }
            Step::SummaryWritten(written) => (written.cost, written.usage),
            _ => return None,
        };
        Some(UsageRow {
            namespace: after.trigger().namespace.clone(),
            month: Month::of(step.recorded.at),
            worker: worker.clone(),
            spent,
            tokens,
        })
    });
    used.collect()
}
