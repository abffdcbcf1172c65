use sayso_driver::{ApprovalRow, ApprovalStatus, Deciders};
use sayso_run::Timestamp;
use sayso_wire::shown::shown;
use sayso_wire::time::timestamp;
use sayso_wire::v1;

use super::origin::origin;

/// An approval with all that a reviewer needs, and what came of it (S6.3).
pub fn approval(row: &ApprovalRow) -> v1::Approval {
    let cause = row
        .closed_cause
        .map_or(v1::DenyCause::Unspecified, v1::DenyCause::from);
    v1::Approval {
        id: row.approval.to_string(),
        namespace: row.namespace.to_string(),
        run_id: row.run.to_string(),
        call_id: row.call.to_string(),
        agent: row.agent.to_string(),
        requester: row.requester.to_string(),
        task_input: row.task_input.clone(),
        tool: row.tool.clone(),
        args_json: row.args.clone(),
        args_shown: shown(&row.args),
        original_args_json: row.original.clone(),
        original_args_shown: row.original.as_deref().map(shown),
        edited_by: row.edited_by.as_ref().map(ToString::to_string),
        digest: row.digest.to_string(),
        definition_digest: row.definition.to_string(),
        summary: row.summary.clone(),
        rule: row.rule.clone(),
        reason: row.reason.clone(),
        trust: v1::Trust::from(row.trust).into(),
        sequence: row.seq,
        status: status(row.status).into(),
        requested_at: Some(timestamp(row.requested_at)),
        expires_at: Some(timestamp(row.expires_at)),
        decided_by: row.decided_by.as_ref().map(ToString::to_string),
        decided_at: row.decided_at.map(timestamp),
        decision_reason: row.decision_reason.clone(),
        closed_cause: cause.into(),
        action_status: v1::ActionStatus::from(row.action_status).into(),
        trust_lowered: None,
        origins: row.origins.iter().map(origin).collect(),
        approved_before: None,
        written_summary: row.written.as_ref().map(|written| v1::WrittenSummary {
            text: written.text.clone(),
            unsupported: written.unsupported.clone(),
            model: written.model.clone(),
        }),
        deciders: row
            .deciders
            .as_ref()
            .map(|deciders| shown_deciders(deciders, row.escalates_at)),
    }
}

fn shown_deciders(deciders: &Deciders, escalates_at: Option<Timestamp>) -> v1::Deciders {
    v1::Deciders {
        group: deciders.group.clone().unwrap_or_default(),
        escalated_to: deciders.widened.clone(),
        needed: deciders.needed,
        author_excluded: deciders.no_author,
        writers_excluded: deciders.no_writers,
        voters: deciders.voters.iter().map(ToString::to_string).collect(),
        escalates_at: escalates_at.map(timestamp),
    }
}

const fn status(status: ApprovalStatus) -> v1::ApprovalStatus {
    match status {
        ApprovalStatus::Pending => v1::ApprovalStatus::Pending,
        ApprovalStatus::Approved => v1::ApprovalStatus::Approved,
        ApprovalStatus::Denied => v1::ApprovalStatus::Denied,
        ApprovalStatus::Expired => v1::ApprovalStatus::Expired,
        ApprovalStatus::Closed => v1::ApprovalStatus::Closed,
    }
}

/// The stored form of a status that a filter names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredStatus(pub ApprovalStatus);

impl TryFrom<v1::ApprovalStatus> for StoredStatus {
    type Error = ();

    fn try_from(shown: v1::ApprovalStatus) -> Result<StoredStatus, ()> {
        let mut all = ApprovalStatus::ALL.into_iter();
        all.find(|stored| status(*stored) == shown)
            .map(StoredStatus)
            .ok_or(())
    }
}
