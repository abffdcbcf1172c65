//! The body of a notification of an approval: built once, stored with the delivery, and sent as it is
//! ever after (B48, B50).
//!
//! `approval` carries the fields of S6.3. Arguments stand in it twice: `args` is the model's own
//! JSON, byte for byte, for programs; `args_shown` is a text for people's eyes. Both come from the
//! redacted view of the timeline where there is one: secrets are in neither (S3.10).

use sayso_driver::{ApprovalRow, ApprovalStatus, Notice};
use sayso_run::{ArgumentOrigin, StepKind};
use sayso_store::StoredStep;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use sayso_wire::shown::shown;

use crate::message::{Message, link};

/// Arguments larger than this, in bytes, are left out of `args`; `args_shown` has their beginning.
const LARGEST_ARGS: usize = 64 * 1024;

/// A redacted view that cannot be read: nothing is sent, since what it masks is unknown.
#[derive(Debug, Error)]
#[error("the redacted view of step {seq} cannot be read")]
pub(crate) struct UnreadableView {
    seq: u64,
    #[source]
    why: serde_json::Error,
}

#[derive(Serialize)]
struct Announcement<'a> {
    r#type: &'static str,
    approval: Approval<'a>,
}

#[derive(Serialize)]
struct Approval<'a> {
    id: &'a str,
    namespace: &'a str,
    run_id: &'a str,
    call_id: &'a str,
    agent: &'a str,
    requester: &'a str,
    task_input: String,
    summary: String,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a RawValue>,
    args_shown: String,
    rule: &'a str,
    reason: String,
    trust: &'static str,
    status: &'static str,
    sequence: u64,
    digest: String,
    definition_digest: String,
    origins: &'a [ArgumentOrigin],
    requested_at: String,
    expires_at: String,
    link: String,
}

/// What tells of a pending approval, or reminds of one. `masked` are the steps of its run whose
/// redacted view differs from the content.
pub(crate) fn announcement(
    notice: &Notice,
    row: &ApprovalRow,
    masked: &[StoredStep],
    public_url: &str,
) -> Result<Message, UnreadableView> {
    let views = Views::read(row, masked)?;
    let args = views.args.as_deref().unwrap_or(&row.args);
    let text = |view: &Option<String>, exact: &str| shown(view.as_deref().unwrap_or(exact));
    let approval = Approval {
        id: row.approval.as_str(),
        namespace: row.namespace.as_str(),
        run_id: row.run.as_str(),
        call_id: row.call.as_str(),
        agent: row.agent.as_str(),
        requester: row.requester.as_str(),
        task_input: text(&views.input, &row.task_input),
        summary: text(&views.summary, &row.summary),
        tool: &row.tool,
        args: (args.len() <= LARGEST_ARGS)
            .then(|| serde_json::from_str(args).ok())
            .flatten(),
        args_shown: shown(args),
        rule: &row.rule,
        reason: text(&views.reason, &row.reason),
        trust: row.trust.as_str(),
        status: ApprovalStatus::Pending.as_str(),
        sequence: row.seq,
        digest: row.digest.to_string(),
        definition_digest: row.definition.to_string(),
        origins: &row.origins,
        requested_at: row.requested_at.to_string(),
        expires_at: row.expires_at.to_string(),
        link: link(public_url, "approvals", row.approval.as_str()),
    };
    Ok(message(notice, approval))
}

fn message(notice: &Notice, approval: Approval<'_>) -> Message {
    let waits = match notice {
        Notice::Escalated(_) => "still waits",
        Notice::Pending(_) | Notice::Failed => "waits",
    };
    let tool = shown(approval.tool);
    Message {
        event: notice.as_str(),
        headline: format!("{} {waits} for a decision: {tool}", approval.agent),
        lines: vec![
            ("Summary", approval.summary.clone()),
            ("Tool", tool),
            ("Asked for by", approval.requester.to_owned()),
            ("Task", approval.task_input.clone()),
            ("Why it waits", approval.reason.clone()),
            ("Trust", approval.trust.to_owned()),
            ("Expires", approval.expires_at.clone()),
        ],
        arguments: Some(approval.args_shown.clone()),
        action: Some(("Look and decide", approval.link.clone())),
        json: crate::message::json(&Announcement {
            r#type: notice.as_str(),
            approval,
        }),
    }
}

/// What the redacted views say in the place of the exact texts.
#[derive(Debug, Default)]
struct Views {
    input: Option<String>,
    args: Option<String>,
    summary: Option<String>,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct TriggerView {
    input: String,
}

#[derive(Deserialize)]
struct CallView {
    call: String,
    args: String,
}

#[derive(Deserialize)]
struct BlockedView {
    approval: String,
    summary: String,
    reason: String,
}

impl Views {
    fn read(row: &ApprovalRow, masked: &[StoredStep]) -> Result<Self, UnreadableView> {
        let mut views = Self::default();
        for step in masked {
            views
                .take(row, step)
                .map_err(|why| UnreadableView { seq: step.seq, why })?;
        }
        Ok(views)
    }

    fn take(&mut self, row: &ApprovalRow, step: &StoredStep) -> Result<(), serde_json::Error> {
        let is = |kind: StepKind| step.kind == kind.as_str();
        if is(StepKind::TriggerReceived) {
            self.input = Some(serde_json::from_str::<TriggerView>(step.shown())?.input);
        } else if is(StepKind::ToolCall) {
            let view: CallView = serde_json::from_str(step.shown())?;
            if view.call == row.call.as_str() {
                self.args = Some(view.args);
            }
        } else if is(StepKind::ToolBlocked) {
            let view: BlockedView = serde_json::from_str(step.shown())?;
            if view.approval == row.approval.as_str() {
                self.summary = Some(view.summary);
                self.reason = Some(view.reason);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sayso_run::{
        ActionStatus, Actor, AgentName, ApprovalId, CallDigest, CallId, Digest, Namespace,
        PrincipalId, RunId, Timestamp, Trust,
    };
    use serde_json::Value;

    fn row(args: &str) -> ApprovalRow {
        let run = RunId::new("run_1").unwrap();
        let call = CallId::of(1, 1);
        let definition = Digest::of(b"definition");
        ApprovalRow {
            approval: ApprovalId::of(&run, &call),
            namespace: Namespace::new("shop").unwrap(),
            call: call.clone(),
            agent: AgentName::new("desk").unwrap(),
            requester: PrincipalId::new("ann").unwrap(),
            tool: "shop.refund".into(),
            args: args.into(),
            original: None,
            edited_by: None,
            written: None,
            digest: CallDigest::of(&run, &call, "shop.refund", &definition, args),
            definition,
            run,
            task_input: "Refund A-17 with key-123".into(),
            trust: Trust::Trusted,
            rule: "rules#0".into(),
            reason: "a rule asks".into(),
            summary: "Refund with key-123.".into(),
            seq: 5,
            status: ApprovalStatus::Pending,
            requested_at: Timestamp::from_micros(0),
            expires_at: Timestamp::from_micros(3_600_000_000),
            decided_by: None,
            decided_at: None,
            decision_reason: None,
            closed_cause: None,
            action_status: ActionStatus::PendingReview,
            origins: Vec::new(),
            deciders: None,
            escalates_at: None,
        }
    }

    fn step(seq: u64, kind: StepKind, view: &str) -> StoredStep {
        StoredStep {
            seq,
            at: Timestamp::from_micros(0),
            actor: Actor::System,
            kind: kind.as_str().into(),
            version: 1,
            content: "{}".into(),
            view: Some(view.into()),
            content_sha256: Digest::of(b""),
            hash: Digest::of(b""),
            seal: None,
        }
    }

    fn told(row: &ApprovalRow, masked: &[StoredStep]) -> Value {
        let notice = Notice::Pending(row.approval.clone());
        let message = announcement(&notice, row, masked, "https://sayso.example/").unwrap();
        serde_json::from_slice(&message.json).unwrap()
    }

    /// S6.3, S8.1: what a reviewer needs, and where to decide.
    #[test]
    fn s6_3_it_carries_what_a_reviewer_needs() {
        let row = row(r#"{"order_id":"A-17","amount":1.10}"#);
        let told = told(&row, &[]);
        let approval = &told["approval"];
        assert_eq!(told["type"], "approval.pending");
        for (field, value) in [
            ("id", row.approval.as_str()),
            ("run_id", "run_1"),
            ("call_id", "call_1_1"),
            ("agent", "desk"),
            ("requester", "ann"),
            ("tool", "shop.refund"),
            ("trust", "trusted"),
            ("rule", "rules#0"),
            ("status", "pending"),
            ("summary", "Refund with key-123."),
            ("expires_at", "1970-01-01T01:00:00.000000Z"),
        ] {
            assert_eq!(approval[field], value, "{field}");
        }
        assert_eq!(approval["args"]["order_id"], "A-17");
        let link = format!("https://sayso.example/approvals/{}", row.approval);
        assert_eq!(approval["link"], link);
    }

    /// B48, S3.7: the arguments stand in the body byte for byte, numbers and order of keys too; the
    /// text for people shows what cannot be seen.
    #[test]
    fn b48_arguments_are_the_exact_bytes() {
        let args = "{\"z\": 1.0, \"a\":\"\u{1f600} e\u{301} \u{2028} </x>\"}";
        let row = row(args);
        let notice = Notice::Escalated(row.approval.clone());
        let message = announcement(&notice, &row, &[], "https://sayso.example").unwrap();
        let body = String::from_utf8(message.json).unwrap();
        assert!(body.contains(&format!("\"args\":{args},")), "{body}");
        let told: Value = serde_json::from_str(&body).unwrap();
        let shown = told["approval"]["args_shown"].as_str().unwrap();
        assert_eq!(shown, args.replace('\u{2028}', "⟨U+2028⟩"));
    }

    /// S3.10, S6.3: where the timeline has a redacted view, nothing of what it masks is sent; views
    /// of other calls are none of this approval's.
    #[test]
    fn s3_10_what_the_views_mask_is_not_sent() {
        let row = row(r#"{"key":"key-123"}"#);
        let blocked = format!(
            r#"{{"approval":"{}","summary":"Refund with ***.","reason":"because of ***"}}"#,
            row.approval
        );
        let masked = [
            step(
                1,
                StepKind::TriggerReceived,
                r#"{"input":"Refund A-17 with ***"}"#,
            ),
            step(
                3,
                StepKind::ToolCall,
                r#"{"call":"call_1_1","args":"{\"key\":\"***\"}"}"#,
            ),
            step(
                4,
                StepKind::ToolCall,
                r#"{"call":"call_1_2","args":"{\"other\":\"***\"}"}"#,
            ),
            step(5, StepKind::ToolBlocked, &blocked),
        ];
        let told = told(&row, &masked);
        assert!(!told.to_string().contains("key-123"), "{told}");
        assert_eq!(told["approval"]["args"]["key"], "***");
        assert_eq!(told["approval"]["summary"], "Refund with ***.");
        assert_eq!(told["approval"]["task_input"], "Refund A-17 with ***");
    }

    /// S3.10: nothing is sent if what is masked cannot be told.
    #[test]
    fn s3_10_an_unreadable_view_stops_it() {
        let masked = [step(3, StepKind::ToolCall, r#"{"call":7}"#)];
        let row = row("{}");
        let notice = Notice::Pending(row.approval.clone());
        let error = announcement(&notice, &row, &masked, "https://sayso.example").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the redacted view of step 3 cannot be read"
        );
    }

    /// S6.3: large arguments are shown as far as a text for people goes, and marked.
    #[test]
    fn s6_3_large_arguments_are_cut_and_marked() {
        let args = format!(r#"{{"text":"{}"}}"#, "x".repeat(LARGEST_ARGS));
        let told = told(&row(&args), &[]);
        assert_eq!(told["approval"].get("args"), None);
        let shown = told["approval"]["args_shown"].as_str().unwrap();
        assert!(shown.ends_with("bytes more⟩") && shown.len() < 20_000);
    }
}
