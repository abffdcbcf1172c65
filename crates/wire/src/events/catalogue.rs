//! The catalogue of events as an AsyncAPI document (S8.4).

use sayso_run::StepKind;
use serde_json::{Map, Value, json};

use super::ApprovalChange;
use super::write::{approval_type, step_type};

/// Every event that this version publishes, as an AsyncAPI 3.0 document.
pub fn catalogue() -> Value {
    let mut messages = Map::new();
    let mut channels = Map::new();
    for kind in StepKind::ALL {
        let name = format!("step.{kind}");
        let about = format!("A step `{kind}` was recorded.");
        messages.insert(
            name.clone(),
            message(&step_type(*kind), &about, "stepHeaders"),
        );
        channels.insert(name.clone(), channel(kind.as_str(), &name, &about));
    }
    for change in ApprovalChange::ALL {
        let name = format!("approval.{}", change.as_str());
        let about = about_approval(change);
        messages.insert(
            name.clone(),
            message(approval_type(change), about, "approvalHeaders"),
        );
        let token = format!("approval_{}", change.as_str());
        channels.insert(name.clone(), channel(&token, &name, about));
    }
    let operations: Map<String, Value> = channels
        .keys()
        .map(|name| {
            let reference = format!("#/channels/{name}");
            let operation = json!({"action": "send", "channel": {"$ref": reference}});
            (name.clone(), operation)
        })
        .collect();
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "sayso events",
            "version": "1",
            "description": "What happens to runs and approvals: CloudEvents 1.0 in binary mode on the NATS JetStream stream `SAYSO_EVENTS`. At least once, in order per run; drop what has an id that was seen. The set of types is open.",
            "license": {"name": "Apache-2.0"}
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {
            "messages": messages,
            "parameters": {
                "namespace": {"description": "The tenant."},
                "agent": {"description": "Name of the agent."}
            },
            "schemas": schemas()
        }
    })
}

const fn about_approval(change: ApprovalChange) -> &'static str {
    match change {
        ApprovalChange::Requested => "An approval was asked for.",
        ApprovalChange::Decided => "A person decided an approval.",
        ApprovalChange::Closed => "An approval was closed without a decision, or expired.",
        ApprovalChange::Escalated => {
            "Nobody has decided an approval for a while: others may as well."
        }
        ApprovalChange::Updated => {
            "An approval was edited, voted on, or put into words by a model."
        }
    }
}

fn channel(token: &str, message: &str, about: &str) -> Value {
    let reference = format!("#/components/messages/{message}");
    json!({
        "address": format!("sayso.events.v1.{{namespace}}.{{agent}}.{token}"),
        "description": about,
        "messages": {"event": {"$ref": reference}},
        "parameters": {
            "namespace": {"$ref": "#/components/parameters/namespace"},
            "agent": {"$ref": "#/components/parameters/agent"}
        }
    })
}

fn message(kind: &str, about: &str, headers: &str) -> Value {
    let common = format!("#/components/schemas/{headers}");
    json!({
        "name": kind,
        "summary": about,
        "contentType": "application/json",
        "headers": {"allOf": [
            {"$ref": common},
            {"type": "object", "properties": {"ce-type": {"const": kind}}}
        ]},
        "payload": {"$ref": "#/components/schemas/step"}
    })
}

fn schemas() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let hex =
        |about: &str| json!({"type": "string", "pattern": "^[0-9a-f]{64}$", "description": about});
    let headers = json!({
        "ce-specversion": {"const": "1.0"},
        "ce-id": text("Says which happening this is: `<run>:<sequence>`, with `:approval` behind it for an approval's change. Also the header `Nats-Msg-Id`."),
        "ce-source": text("`/namespaces/<namespace>/agents/<agent>`"),
        "ce-type": text("The type."),
        "ce-subject": text("The run."),
        "ce-time": {"type": "string", "format": "date-time", "description": "When the step was recorded."},
        "ce-sequence": {"type": "string", "pattern": "^[0-9]{20}$", "description": "The step's number in its run."},
        "ce-dataref": text("Where the step can be read; only if it was too large, and then there is no body.")
    });
    let needed = [
        "ce-specversion",
        "ce-id",
        "ce-source",
        "ce-type",
        "ce-subject",
        "ce-time",
        "ce-sequence",
    ];
    json!({
        "stepHeaders": {"type": "object", "properties": headers, "required": needed},
        "approvalHeaders": {"allOf": [
            {"$ref": "#/components/schemas/stepHeaders"},
            {
                "type": "object",
                "properties": {"ce-approval": text("The approval.")},
                "required": ["ce-approval"]
            }
        ]},
        "step": {
            "type": "object",
            "description": "The step. Fields may be added.",
            "properties": {
                "run": text("The run."),
                "status": text("Where the run stands after the append that brought the step."),
                "seq": {"type": "integer", "minimum": 1, "description": "The step's number: 1, 2, 3 without gaps."},
                "at": {"type": "string", "format": "date-time", "description": "When it was recorded."},
                "actor": text("Who made it happen: `principal:NAME`, `agent:NAME` or `system`."),
                "type": text("The step's type."),
                "version": {"type": "integer", "minimum": 1, "description": "Version of the type's content."},
                "content": {"type": "object", "description": "The content; its fields depend on type and version. Known secrets are masked."},
                "content_sha256": hex("SHA-256 of the content as it was recorded."),
                "hash": hex("The chain's hash."),
                "seal": {
                    "type": "object",
                    "description": "Where the run pauses or ends: an HMAC of the hash.",
                    "properties": {"key": text("Id of the key."), "mac": hex("The HMAC-SHA256.")},
                    "required": ["key", "mac"]
                }
            },
            "required": ["run", "status", "seq", "at", "actor", "type", "version", "content", "content_sha256", "hash"]
        }
    })
}
