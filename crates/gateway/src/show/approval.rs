use std::fmt::Write;

use sayso_driver::{ApprovalRow, ApprovalStatus};
use sayso_wire::time::timestamp;
use sayso_wire::v1;

/// How much of the arguments is shown to people, in bytes; the exact ones stand beside it.
const SHOWN_BYTES: usize = 16 * 1024;

/// An approval with all that a reviewer needs, and what came of it (S6.3).
pub(crate) fn approval(row: &ApprovalRow) -> v1::Approval {
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
        args_shown: visible(&row.args),
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
pub(crate) struct StoredStatus(pub(crate) ApprovalStatus);

impl TryFrom<v1::ApprovalStatus> for StoredStatus {
    type Error = ();

    fn try_from(shown: v1::ApprovalStatus) -> Result<StoredStatus, ()> {
        let mut all = ApprovalStatus::ALL.into_iter();
        all.find(|stored| status(*stored) == shown)
            .map(StoredStatus)
            .ok_or(())
    }
}

/// Text for people's eyes: what cannot be seen, or changes the direction of what can, is written as
/// its code point, and what is cut off is counted.
fn visible(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN_BYTES);
    let mut shown = String::with_capacity(end);
    for char in text[..end].chars() {
        if is_invisible(char) {
            write!(shown, "⟨U+{:04X}⟩", u32::from(char)).expect("writing to memory does not fail");
        } else {
            shown.push(char);
        }
    }
    let cut = text.len() - end;
    if cut > 0 {
        write!(shown, "⟨{cut} bytes more⟩").expect("writing to memory does not fail");
    }
    shown
}

/// Characters that a reader does not see: controls but line breaks and tabs, blanks other than the
/// common one, joiners, marks of direction, variation selectors, tags, and code points for private
/// use or none at all.
pub(crate) fn is_invisible(char: char) -> bool {
    match char {
        '\n' | '\t' => false,
        char if char.is_control() => true,
        '\u{a0}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{2000}'..='\u{200f}'
        | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}'
        | '\u{1680}'
        | '\u{2800}'
        | '\u{3000}'
        | '\u{3164}'
        | '\u{e000}'..='\u{f8ff}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1d159}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{10ffff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: &str) {
        assert_eq!(visible(text), shown);
    }

    /// S6.3: invisible and direction-changing characters are made visible.
    #[test]
    fn s6_3_what_cannot_be_seen_is_made_visible() {
        check("{\"to\": \"ann@example\"}", "{\"to\": \"ann@example\"}");
        check("a\u{202e}b\u{200b}c", "a⟨U+202E⟩b⟨U+200B⟩c");
        check(
            "tag\u{e0041}, \u{1f600} ünïcode\n\tx",
            "tag⟨U+E0041⟩, \u{1f600} ünïcode\n\tx",
        );
        check("bell\u{7} nbsp\u{a0}", "bell⟨U+0007⟩ nbsp⟨U+00A0⟩");
    }

    /// S6.3: what is cut is marked.
    #[test]
    fn s6_3_what_is_cut_is_marked() {
        let long = "ü".repeat(SHOWN_BYTES);
        let shown = visible(&long);
        assert!(shown.ends_with(&format!("⟨{SHOWN_BYTES} bytes more⟩")));
        assert_eq!(shown.matches('ü').count(), SHOWN_BYTES / 2);
    }
}
