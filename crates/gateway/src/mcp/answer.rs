//! Answers and refusals as results of tools.

use prost::{Message, Name};
use rmcp::model::{CallToolResult, ContentBlock};
use sayso_service::error::Coded;
use sayso_wire::json::to_json;
use serde_json::{Value, json};

/// The answer of a method, in canonical JSON.
pub(super) fn told<M: Message + Name>(message: &M) -> CallToolResult {
    let value = serde_json::from_str(&to_json(message));
    CallToolResult::structured(value.expect("what was written as JSON reads as JSON"))
}

/// The answer of a method that lists: a list that is empty is there too, so that whoever reads it
/// sees that there is nothing.
pub(super) fn listed<M: Message + Name>(message: &M, list: &str) -> CallToolResult {
    let value = serde_json::from_str(&to_json(message));
    let mut value: Value = value.expect("what was written as JSON reads as JSON");
    if let Some(members) = value.as_object_mut() {
        let _there = members.entry(list).or_insert_with(|| json!([]));
    }
    CallToolResult::structured(value)
}

/// A refusal or failure: an error of the tool, whose text is a JSON object with the stable code
/// (S10.5). It has no structured form, since clients check that against the shape of answers.
pub(super) fn refused(coded: &Coded) -> CallToolResult {
    let mut told = json!({"code": coded.code, "message": coded.message});
    if !coded.fields.is_empty() {
        let fields = coded.fields.iter();
        told["fields"] = fields
            .map(|(field, problem)| json!({"field": field, "problem": problem}))
            .collect();
    }
    if !coded.metadata.is_empty() {
        told["metadata"] = json!(coded.metadata);
    }
    CallToolResult::error(vec![ContentBlock::text(told.to_string())])
}

#[cfg(test)]
mod tests {
    use sayso_service::error::Kind;
    use sayso_wire::v1;

    use super::*;

    /// S10.5: the code is where programs find it, with the fields at fault.
    #[test]
    fn s10_5_a_refusal_is_an_error_with_its_code() {
        let coded = Coded::new(Kind::Invalid, "request.invalid", "Correct it.")
            .field("approval_id", "is required")
            .with("done", "no");
        let result = refused(&coded);
        assert_eq!(result.is_error, Some(true));
        assert_eq!(result.structured_content, None);
        let text = result.content[0].as_text().unwrap();
        let told: Value = serde_json::from_str(&text.text).unwrap();
        assert_eq!(
            told,
            json!({
                "code": "request.invalid",
                "message": "Correct it.",
                "fields": [{"field": "approval_id", "problem": "is required"}],
                "metadata": {"done": "no"},
            })
        );
    }

    #[test]
    fn an_empty_list_is_there() {
        let result = listed(&v1::ListApprovalsResponse::default(), "approvals");
        assert_eq!(result.structured_content, Some(json!({"approvals": []})));
    }
}
