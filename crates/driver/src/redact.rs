//! What readers are shown of steps and rows (S3.10).
//!
//! A step's exact content stays in the timeline: it is hashed, and an approved call is sent from it.
//! Where it holds what is nobody's business, a redacted view is stored beside it by the worker that
//! writes it, the only one that knows the values of secrets. The rows that lists show hold the
//! redacted text alone. What others write later changes neither arguments nor summaries; an edit
//! of a held call does, and whoever writes one redacts it likewise (S6.7).

use sayso_rules::Redaction;

use crate::journal::{Tree, Written};
use crate::project::Projected;

/// Gives each step its view.
pub(crate) fn views(redaction: &Redaction, steps: &mut [Written]) {
    for step in steps {
        step.view = redaction.differing(&step.content);
    }
}

/// The same for the runs that an append begins: their tasks were arguments of a call.
pub(crate) fn children(redaction: &Redaction, tree: &mut Tree) {
    for child in &mut tree.children {
        child.first.view = redaction.differing(&child.first.content);
        if let Some(view) = redaction.differing(&child.row.input) {
            child.row.input = view;
        }
    }
}

/// Leaves in the rows what readers may see.
pub(crate) fn rows(redaction: &Redaction, projected: &mut Projected) {
    let hide = |text: &mut String| {
        if let Some(view) = redaction.differing(text) {
            *text = view;
        }
    };
    let row = &mut projected.row;
    for text in [&mut row.output, &mut row.error_message] {
        text.iter_mut().for_each(hide);
    }
    for action in &mut projected.actions {
        hide(&mut action.args);
        action.result.iter_mut().for_each(hide);
    }
    for approval in &mut projected.approvals {
        hide(&mut approval.args);
        approval.original.iter_mut().for_each(hide);
        hide(&mut approval.task_input);
        hide(&mut approval.summary);
        hide(&mut approval.reason);
        if let Some(written) = &mut approval.written {
            hide(&mut written.text);
            written.unsupported.iter_mut().for_each(hide);
        }
    }
}
