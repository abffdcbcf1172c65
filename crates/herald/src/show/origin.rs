use std::collections::BTreeMap;

use sayso_driver::ApprovalRow;
use sayso_rules::leaves::leaves;
use sayso_run::ArgumentOrigin;
use sayso_wire::time::timestamp;
use sayso_wire::v1;

/// How much of a value that differs is shown, in bytes.
const VALUE_BYTES: usize = 512;

/// Where a value came from (S6.3).
pub(crate) fn origin(origin: &ArgumentOrigin) -> v1::ArgumentOrigin {
    let from = v1::OriginKind::from_word(origin.from.as_str());
    v1::ArgumentOrigin {
        pointer: origin.pointer.clone(),
        from: from.unwrap_or(v1::OriginKind::Unspecified).into(),
        tool: origin.tool.clone().unwrap_or_default(),
        call_id: origin
            .call
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}

/// The call that was approved before, and how this one differs (S6.3).
pub fn approved_before(row: &ApprovalRow, before: &ApprovalRow) -> v1::ApprovedBefore {
    v1::ApprovedBefore {
        approval_id: before.approval.to_string(),
        decided_by: before
            .decided_by
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        decided_at: before.decided_at.map(timestamp),
        changes: changes(&before.args, &row.args),
    }
}

fn changes(before: &str, after: &str) -> Vec<v1::ChangedArgument> {
    let mut values: BTreeMap<String, (Option<String>, Option<String>)> = BTreeMap::new();
    for leaf in leaves(before) {
        values.entry(leaf.pointer).or_default().0 = Some(cut(leaf.value));
    }
    for leaf in leaves(after) {
        values.entry(leaf.pointer).or_default().1 = Some(cut(leaf.value));
    }
    let differing = values
        .into_iter()
        .filter(|(_, (before, after))| before != after);
    differing
        .map(|(pointer, (before, after))| v1::ChangedArgument {
            pointer,
            before,
            after,
        })
        .collect()
}

/// The value, or its beginning with what is missing; two that only differ later are told apart.
fn cut(value: String) -> String {
    if value.len() <= VALUE_BYTES {
        return value;
    }
    let end = value.floor_char_boundary(VALUE_BYTES);
    let digest = sayso_run::Digest::of(value.as_bytes()).to_hex();
    format!(
        "{}⟨{} bytes more, {}⟩",
        &value[..end],
        value.len() - end,
        &digest[..8]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6.3: what differs from the call that was approved before is told value by value.
    #[test]
    fn s6_3_the_difference_is_told_by_value() {
        let told = changes(
            r#"{"to":"ann","amount":1.10,"cc":[]}"#,
            r#"{"to":"eve","amount":1.1,"bcc":"x"}"#,
        );
        let told: Vec<_> = told
            .iter()
            .map(|change| {
                (
                    change.pointer.as_str(),
                    change.before.as_deref(),
                    change.after.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("/amount", Some("1.10"), Some("1.1")),
                ("/bcc", None, Some("x")),
                ("/cc", Some(""), None),
                ("/to", Some("ann"), Some("eve")),
            ]
        );
        let long = |end: &str| format!(r#"{{"t":"{}{end}"}}"#, "x".repeat(VALUE_BYTES));
        assert_eq!(changes(&long("a"), &long("b")).len(), 1);
        assert_eq!(changes("{}", "{}"), []);
    }
}
