//! The columns that say who may decide an approval (S6.12), where its values came from
//! (S6.3), and what a model wrote of it (S6.2).

use sayso_driver::ApprovalRow;

/// All of it, as one JSON object.
pub(super) fn deciders(row: &ApprovalRow) -> Option<String> {
    let deciders = row.deciders.as_ref()?;
    Some(serde_json::to_string(deciders).expect("names, numbers and flags have a JSON form"))
}

/// The groups, each with a blank before and after it, so that one is found whole.
pub(super) fn groups(row: &ApprovalRow) -> Option<String> {
    let mut groups = row.deciders.as_ref()?.groups().peekable();
    groups.peek()?;
    Some(groups.fold(" ".to_owned(), |all, group| all + group + " "))
}

/// A model's sentence and its flags, as one JSON object.
pub(super) fn written(row: &ApprovalRow) -> Option<String> {
    let written = row.written.as_ref()?;
    Some(serde_json::to_string(written).expect("texts have a JSON form"))
}

/// Where the values came from, as one JSON list.
pub(super) fn origins(row: &ApprovalRow) -> Option<String> {
    let origins = (!row.origins.is_empty()).then_some(&row.origins)?;
    Some(serde_json::to_string(origins).expect("names and words have a JSON form"))
}
