//! Arguments of the tools, and the requests that they make. Only their form is looked at here; the
//! methods check what they say.

use rmcp::model::JsonObject;
use sayso_service::error::{Coded, Kind};
use sayso_wire::{code, v1};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Of `list_approvals`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListApprovals {
    #[serde(default = "waiting")]
    statuses: Vec<String>,
    #[serde(default)]
    agent: String,
    #[serde(default)]
    run_id: String,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    page_size: u32,
    #[serde(default)]
    page_token: String,
}

fn waiting() -> Vec<String> {
    vec![v1::ApprovalStatus::Pending.word().to_owned()]
}

/// Of `decide_approval`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecideApproval {
    id: String,
    decision: String,
    #[serde(default)]
    reason: String,
}

/// Of `start_run`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartRun {
    agent: String,
    input: String,
    #[serde(default)]
    idempotency_key: String,
}

/// Of `get_run`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GetRun {
    id: String,
}

/// Reads the arguments of a tool.
pub(super) fn read<T: DeserializeOwned>(given: JsonObject) -> Result<T, Coded> {
    serde_json::from_value(Value::Object(given)).map_err(|error| {
        let sentence = format!("The arguments do not fit the tool: {error}.");
        Coded::new(Kind::Invalid, code::REQUEST_INVALID, sentence)
    })
}

/// A word that is none of those known.
fn unknown(argument: &str, known: impl Iterator<Item = &'static str>) -> Coded {
    let known: Vec<&str> = known.collect();
    let problem = format!("must be one of {}", known.join(", "));
    let sentence = format!("The arguments do not fit the tool: {argument} {problem}.");
    Coded::new(Kind::Invalid, code::REQUEST_INVALID, sentence).field(argument, problem)
}

impl ListApprovals {
    pub(super) fn request(self) -> Result<v1::ListApprovalsRequest, Coded> {
        let status = |word: &String| {
            let all = v1::ApprovalStatus::ALL.iter();
            v1::ApprovalStatus::from_word(word)
                .map(i32::from)
                .ok_or_else(|| unknown("statuses", all.map(|status| status.word())))
        };
        Ok(v1::ListApprovalsRequest {
            statuses: self.statuses.iter().map(status).collect::<Result<_, _>>()?,
            agent: self.agent,
            run_id: self.run_id,
            tool: self.tool,
            page_size: self.page_size,
            page_token: self.page_token,
            ..v1::ListApprovalsRequest::default()
        })
    }
}

impl DecideApproval {
    pub(super) fn request(self) -> Result<v1::DecideApprovalRequest, Coded> {
        let verdict = v1::Verdict::from_word(&self.decision).ok_or_else(|| {
            let all = v1::Verdict::ALL.iter();
            unknown("decision", all.map(|verdict| verdict.word()))
        })?;
        Ok(v1::DecideApprovalRequest {
            approval_id: self.id,
            verdict: verdict.into(),
            reason: self.reason,
            ..v1::DecideApprovalRequest::default()
        })
    }
}

impl StartRun {
    pub(super) fn request(self) -> v1::StartRunRequest {
        v1::StartRunRequest {
            agent: self.agent,
            input: self.input,
            idempotency_key: self.idempotency_key,
        }
    }
}

impl GetRun {
    pub(super) fn request(self) -> v1::GetRunRequest {
        v1::GetRunRequest { run_id: self.id }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    /// S6.13: without arguments it is what waits now; an empty list of statuses is any.
    #[test]
    fn s6_13_what_waits_is_listed_unless_more_is_asked_for() {
        let statuses = |value| {
            let read: ListApprovals = read(arguments(value)).unwrap();
            read.request().map(|request| request.statuses)
        };
        let pending = i32::from(v1::ApprovalStatus::Pending);
        let denied = i32::from(v1::ApprovalStatus::Denied);
        assert_eq!(statuses(json!({})), Ok(vec![pending]));
        assert_eq!(statuses(json!({"statuses": []})), Ok(vec![]));
        assert_eq!(
            statuses(json!({"statuses": ["pending", "denied"]})),
            Ok(vec![pending, denied])
        );
        let refused = statuses(json!({"statuses": ["open"]})).unwrap_err();
        assert_eq!(refused.fields[0].0, "statuses");
        assert!(refused.message.contains("pending, approved"), "{refused}");
    }

    /// S10.5: arguments that do not fit are refused, and nothing is guessed.
    #[test]
    fn s10_5_arguments_that_do_not_fit_are_refused() {
        let decide = |value| {
            let read: Result<DecideApproval, Coded> = read(arguments(value));
            read.and_then(DecideApproval::request)
                .map(|request| request.verdict())
                .map_err(|refused| (refused.code.into_owned(), refused.message))
        };
        assert_eq!(
            decide(json!({"id": "apr_1", "decision": "deny"})),
            Ok(v1::Verdict::Deny)
        );
        for bad in [
            json!({"id": "apr_1", "decision": "maybe"}),
            json!({"id": "apr_1", "decision": "Approve"}),
            json!({"id": "apr_1"}),
            json!({"id": 1, "decision": "approve"}),
            json!({"id": "apr_1", "decision": "approve", "always": true}),
        ] {
            let (code, message) = decide(bad.clone()).unwrap_err();
            assert_eq!(code, "request.invalid", "{bad}");
            assert!(message.len() > 40, "{message}");
        }
    }
}
