use sayso_driver::{Append, AppendError, LeaseChange, Written};
use sayso_run::{Step, TriggerReceived};

use super::recipient::recipient;

/// Refuses what no database should be asked to store: text with a NUL, and appends that contradict
/// themselves.
pub(super) fn check(append: &Append) -> Result<(), AppendError> {
    let refuse = |why: String| Err(AppendError::Refused(why));
    if let Some(field) = field_with_nul(append) {
        return refuse(format!(
            "request.invalid_text: {field} holds a NUL character"
        ));
    }
    let mut seq = append.expected;
    for step in &append.steps {
        seq += 1;
        if step.recorded.seq != seq {
            return refuse(format!("step {seq} is numbered {}", step.recorded.seq));
        }
    }
    if append.row.seq != seq || append.row.run != append.run {
        return refuse(format!(
            "the row of {} at {} does not belong to {} at {seq}",
            append.row.run, append.row.seq, append.run
        ));
    }
    if append.expected == 0 {
        match append.lease {
            LeaseChange::Hold { .. } | LeaseChange::Release { .. } => {
                return refuse("a run that does not exist yet has no lease".into());
            }
            LeaseChange::None | LeaseChange::Claim { .. } | LeaseChange::ClaimAndRelease { .. } => {
            }
        }
        if trigger(append).is_none() {
            return refuse("a timeline begins with `trigger_received`".into());
        }
    }
    for child in &append.tree.children {
        let begun = trigger_of(&child.first);
        let of_parent = begun.and_then(|trigger| trigger.parent.as_deref());
        let carries_on = begun.and_then(|trigger| trigger.conversation.as_deref());
        let is_child = of_parent.is_some_and(|parent| parent.run == append.run);
        let is_next = carries_on.is_some_and(|conversation| {
            conversation.carried && append.row.conversation.as_ref() == Some(&conversation.id)
        });
        if !is_child && !is_next {
            return refuse(format!(
                "{} begins neither as a child of {} nor after it",
                child.row.run, append.run
            ));
        }
    }
    let bound = append.start_key.is_some() || append.not_after.is_some();
    if append.tick.is_some() && (append.expected > 0 || bound) {
        return refuse("a tick is taken by a start without a key and a deadline".into());
    }
    Ok(())
}

/// What started the run, of an append that makes it.
pub(super) fn trigger(append: &Append) -> Option<&TriggerReceived> {
    trigger_of(append.steps.first()?)
}

/// What started a run, of its first step.
pub(super) fn trigger_of(first: &Written) -> Option<&TriggerReceived> {
    match &first.recorded.step {
        Step::TriggerReceived(trigger) => Some(trigger),
        _ => None,
    }
}

fn field_with_nul(append: &Append) -> Option<&'static str> {
    let row = &append.row;
    let texts = [
        ("the input", Some(row.input.as_str())),
        ("the output", row.output.as_deref()),
        ("the error's code", row.error_code.as_deref()),
        ("the error's message", row.error_message.as_deref()),
        (
            "the idempotency key",
            append.start_key.as_ref().map(|key| key.key.as_str()),
        ),
    ];
    let steps = append.steps.iter().flat_map(|step| {
        [
            ("a step", Some(step.content.as_str())),
            ("a step's view", step.view.as_deref()),
        ]
    });
    let actions = append.actions.iter().flat_map(|action| {
        [
            ("a tool's name", Some(action.tool.as_str())),
            ("an argument", Some(action.args.as_str())),
            ("a result", action.result.as_deref()),
            ("a clearance", action.cleared_by.as_deref()),
        ]
    });
    let approvals = append.approvals.iter().flat_map(|approval| {
        [
            ("a tool's name", Some(approval.tool.as_str())),
            ("an argument", Some(approval.args.as_str())),
            ("the input", Some(approval.task_input.as_str())),
            ("a rule", Some(approval.rule.as_str())),
            ("a rule's reason", Some(approval.reason.as_str())),
            ("a summary", Some(approval.summary.as_str())),
            (
                "a written summary",
                approval.written.as_ref().map(|it| it.text.as_str()),
            ),
            ("a reason", approval.decision_reason.as_deref()),
        ]
    });
    let feedback = append
        .feedback
        .iter()
        .map(|feedback| ("a note", feedback.note.as_deref()));
    let messages = append
        .messages
        .iter()
        .map(|message| ("a message", Some(message.said.text.as_str())));
    let deliveries = append.deliveries.iter().flat_map(|delivery| {
        let to = recipient(&delivery.to);
        [
            ("a URL", to.url),
            ("a secret's name", to.secret),
            ("a target's name", to.target),
            ("a delivery's id", Some(delivery.id.as_str())),
        ]
    });
    texts
        .into_iter()
        .chain(steps)
        .chain(actions)
        .chain(approvals)
        .chain(feedback)
        .chain(deliveries)
        .chain(messages)
        .find(|(_, text)| text.is_some_and(|text| text.as_bytes().contains(&0)))
        .map(|(name, _)| name)
}
