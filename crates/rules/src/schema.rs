//! The JSON Schema of a bundle, for editors (`sayso schema bundle`).
//!
//! It helps while a bundle is written: it knows every key, every word and the forms of short texts.
//! [`crate::Bundle::parse`] stays the judge, and knows more: what clears a floor, what stands twice.
//! A test holds the two together.

use serde_json::{Value, json};

use crate::bundle::{
    ArgRole, Builtin, Effect, Excluded, HookTrust, MAX_TRIGGERS, Preset, SummaryBy, ValueSource,
};
use crate::trust::Trust;

/// The schema, JSON Schema 2020-12, as pretty JSON with a line's end.
#[must_use]
pub fn bundle() -> String {
    format!("{:#}\n", bundle_value())
}

fn bundle_value() -> Value {
    let mut schema = closed(
        &["name"],
        json!({
            "name": pattern("^[a-z0-9-]{1,63}$", "The agent's name."),
            "description": text("What the agent is for, for people."),
            "role": pattern("^[a-z0-9-]{1,63}$", "The ceiling: the role to attach at deploy."),
            "tier": pattern("^[A-Za-z0-9_-]{1,63}$", "The tier of models that answers."),
            "instructions": text("The system prompt."),
            "interaction": flag("Whether the agent gets `ask_person`."),
            "summary": {
                "description": "Who puts held calls into a sentence for the reviewer: the run's own data, or a model as well.",
                "enum": SummaryBy::ALL.map(|(word, _)| word),
            },
            "builtins": {
                "description": "The built-in tools granted.",
                "type": "array",
                "uniqueItems": true,
                "items": { "enum": Builtin::ALL.map(Builtin::name) },
            },
            "servers": {
                "description": "The MCP servers granted, by name.",
                "type": "object",
                "propertyNames": { "pattern": "^[A-Za-z0-9_-]{1,63}$" },
                "additionalProperties": { "oneOf": [process(), http()] },
            },
            "agents": {
                "description": "The agents that it may start with `start_agent`.",
                "type": "array",
                "uniqueItems": true,
                "items": { "type": "string", "pattern": "^[a-z0-9-]{1,63}$" },
            },
            "tools": {
                "description": "Marks on tools: exact names or globs; an exact key wins.",
                "type": "object",
                "propertyNames": glob(),
                "additionalProperties": marks(),
            },
            "permissions": permissions(),
            "triggers": {
                "description": "What starts the agent by itself.",
                "type": "array",
                "maxItems": MAX_TRIGGERS,
                "items": { "oneOf": [schedule(), webhook()] },
            },
        }),
    );
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("A sayso bundle");
    schema["$defs"] = json!({
        "conditionsOnValues": closed_any(json!({
            "equals": scalar(),
            "oneOf": { "type": "array", "items": scalar() },
            "glob": text("A text of this form: `*` stands for anything."),
            "min": { "type": "number" },
            "max": { "type": "number" },
            "maxLength": { "type": "integer", "minimum": 0 },
        })),
        "provenance": closed_any(json!({
            "from": sources("Every value in it comes from one of these."),
            "linksFrom": sources("Every URL, mail address and account number in it does."),
            "max": { "type": "number", "description": "A number not above this is enough by itself." },
        })),
        "alternative": closed_any(json!({
            "args": some_places(&json!({ "$ref": "#/$defs/provenance" })),
            "roles": {
                "type": "object",
                "minProperties": 1,
                "propertyNames": { "enum": &ArgRole::ALL.map(ArgRole::as_str)[..6] },
                "additionalProperties": { "$ref": "#/$defs/provenance" },
            },
        })),
    });
    schema
}

fn schedule() -> Value {
    closed(
        &["cron", "input"],
        json!({
            "cron": pattern(
                r"^\s*\S+\s+\S+\s+\S+\s+\S+\s+\S+\s*$",
                "Minute, hour, day of month, month, day of week.",
            ),
            "timezone": text("The IANA zone in which it is meant; UTC if none is named."),
            "input": text("What each run is asked."),
        }),
    )
}

fn webhook() -> Value {
    closed(
        &["webhook", "secret"],
        json!({
            "webhook": pattern("^[a-z0-9-]{1,63}$", "Its name: /hooks/<namespace>/<name>."),
            "secret": pattern("^[A-Za-z0-9_]{1,64}$", "The name of the secret that signs its calls."),
            "trust": { "enum": [HookTrust::Untrusted.as_str(), HookTrust::Trusted.as_str()] },
        }),
    )
}

fn process() -> Value {
    closed(
        &["command"],
        json!({
            "command": {
                "description": "The program and its arguments.",
                "type": "array",
                "minItems": 1,
                "items": { "type": "string" },
            },
            "env": { "type": "object", "additionalProperties": { "type": "string" } },
            "trustAnnotations": flag("Whether what the server says of its tools is believed."),
            "perRun": flag("Whether each run gets a process of its own."),
        }),
    )
}

fn http() -> Value {
    closed(
        &["url"],
        json!({
            "url": url(),
            "headers": { "type": "object", "additionalProperties": { "type": "string" } },
            "trustAnnotations": flag("Whether what the server says of its tools is believed."),
            "perRun": flag("Whether each run gets a session of its own."),
        }),
    )
}

fn marks() -> Value {
    let role = json!({ "enum": ArgRole::ALL.map(ArgRole::as_str) });
    let kind = pattern("^[A-Za-z0-9_.-]{1,64}$", "A kind of thing, such as order.");
    let with_kind = closed(&["role"], json!({ "role": role, "kind": kind }));
    closed(
        &[],
        json!({
            "review": { "enum": ["required", "not_required"] },
            "effect": { "enum": Effect::ALL.map(Effect::as_str) },
            "idempotent": flag("Whether a call may be made twice."),
            "timeout": duration(),
            "maxResult": pattern("^[0-9]+(B|KiB|MiB)$", "The most that is kept of a result."),
            "untrustedOutput": flag("Whether outsiders have a say in what it returns."),
            "sensitiveOutput": flag("Whether what it returns is a secret."),
            "roles": places(&json!({ "oneOf": [role, with_kind] })),
            "returns": places(&kind),
        }),
    )
}

fn permissions() -> Value {
    let action = json!({ "enum": ["allow", "ask", "deny"] });
    let trust = json!({ "enum": Trust::ALL.map(Trust::as_str) });
    let when = closed(
        &[],
        json!({
            "trust": trust,
            "trustBelow": trust,
            "effect": {
                "type": "array",
                "uniqueItems": true,
                "items": { "enum": Effect::ALL.map(Effect::as_str) },
            },
            "args": places(&json!({ "$ref": "#/$defs/conditionsOnValues" })),
            "secretRead": flag("Whether the run has called a tool marked sensitiveOutput."),
        }),
    );
    let alternative = json!({ "$ref": "#/$defs/alternative" });
    let target = pattern(
        "^[a-z0-9-]{1,63}$",
        "A target: `sayso target add` makes one.",
    );
    let group = pattern("^[a-z0-9-]{1,63}$", "A group: `sayso group add` makes one.");
    let rule = closed(
        &["tool", "action"],
        json!({
            "tool": glob(),
            "action": action,
            "when": when,
            "unless": { "oneOf": [alternative, { "type": "array", "items": alternative }] },
            "approvers": closed_any(json!({
                "group": group,
                "count": { "type": "integer", "minimum": 1, "maximum": 16 },
                "exclude": {
                    "type": "array",
                    "uniqueItems": true,
                    "items": { "enum": Excluded::ALL.map(Excluded::as_str) },
                },
            })),
            "escalate": {
                "type": "array",
                "maxItems": 8,
                "items": closed(
                    &["after", "to"],
                    json!({
                        "after": duration(),
                        "to": { "oneOf": [
                            closed(&["group"], json!({ "group": group })),
                            closed(&["target"], json!({ "target": target })),
                        ] },
                    }),
                ),
            },
        }),
    );
    let notify = closed(
        &["url"],
        json!({
            "url": url(),
            "secret": pattern("^[A-Za-z0-9_]{1,64}$", "The name of the secret that signs it."),
        }),
    );
    closed(
        &[],
        json!({
            "preset": { "enum": Preset::ALL.map(Preset::as_str) },
            "default": action,
            "rules": { "type": "array", "items": rule },
            "approvalTimeout": duration(),
            "notify": notify,
        }),
    )
}

/// A mapping with these keys and no others.
fn closed(required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// The same, that has at least one of the keys.
fn closed_any(properties: Value) -> Value {
    let mut schema = closed(&[], properties);
    schema["minProperties"] = json!(1);
    schema
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn flag(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn pattern(pattern: &str, description: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": description })
}

fn duration() -> Value {
    pattern(
        "^[0-9]+(ms|s|m|h|d)$",
        "A duration: 500ms, 30s, 10m, 1h or 7d.",
    )
}

fn url() -> Value {
    pattern("^https?://[^\\s@]+$", "An http or https URL.")
}

fn glob() -> Value {
    pattern(
        "^[A-Za-z0-9_.*-]{1,128}$",
        "The name of a tool, or a glob: `*` stands for anything.",
    )
}

fn scalar() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

fn sources(description: &str) -> Value {
    json!({
        "description": description,
        "type": "array",
        "uniqueItems": true,
        "items": { "enum": ValueSource::ALL.map(ValueSource::as_str) },
    })
}

/// A mapping from places in arguments or results.
fn places(value: &Value) -> Value {
    json!({
        "type": "object",
        "propertyNames": { "pattern": "^([^/]|/([^~]|~[01])*$)" },
        "additionalProperties": value,
    })
}

/// The same, that names one at least.
fn some_places(value: &Value) -> Value {
    let mut schema = places(value);
    schema["minProperties"] = json!(1);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bundle;
    use crate::preset;

    /// Whether the schema takes a bundle that is written in JSON or in what YAML shares with it.
    fn takes(bundle: &Value) -> bool {
        let validator = jsonschema::validator_for(&bundle_value()).unwrap();
        validator.is_valid(bundle)
    }

    fn with(lines: Value) -> Value {
        let mut bundle = json!({ "name": "a" });
        for (key, value) in lines.as_object().unwrap() {
            bundle[key] = value.clone();
        }
        bundle
    }

    fn rule(more: Value) -> Value {
        let mut rule = json!({ "tool": "*", "action": "ask" });
        for (key, value) in more.as_object().unwrap() {
            rule[key] = value.clone();
        }
        with(json!({ "permissions": { "rules": [rule] } }))
    }

    fn marks(marks: Value) -> Value {
        with(json!({ "tools": { "shop.*": marks } }))
    }

    #[test]
    fn s10_6_the_schema_takes_what_the_parser_takes() {
        for bundle in [
            json!({ "name": "a" }),
            with(
                json!({ "role": "support", "tier": "fast", "interaction": true, "summary": "model",
                "builtins": ["create_artifact"], "instructions": "x", "description": "y" }),
            ),
            with(json!({ "servers": {
                "git": { "command": ["x", "y"], "env": { "LANG": "C" }, "perRun": true },
                "web": { "url": "https://h/x", "headers": { "a": "b" }, "trustAnnotations": true } } })),
            marks(
                json!({ "review": "required", "effect": "outward", "idempotent": false,
                "timeout": "20s", "maxResult": "1MiB", "untrustedOutput": false,
                "sensitiveOutput": true, "returns": { "id": "order", "/a/b": "x" },
                "roles": { "to": "destination", "/a~1b/0": { "role": "object", "kind": "file" } } }),
            ),
            rule(
                json!({ "when": { "trust": "operator", "trustBelow": "trusted",
                "effect": ["read", "write"], "secretRead": false, "args": {
                "/a": { "equals": 1, "oneOf": ["x", true, 2.5], "glob": "*", "min": -1, "max": 1e3, "maxLength": 0 } } } }),
            ),
            rule(json!({ "unless": { "roles": { "amount": { "max": 50 } } } })),
            rule(
                json!({ "approvers": { "group": "finance", "count": 2, "exclude": ["author", "writers"] },
                "escalate": [{ "after": "10m", "to": { "group": "leads" } },
                             { "after": "20m", "to": { "target": "oncall" } }] }),
            ),
            rule(
                json!({ "unless": [{ "args": { "to": { "from": ["task", "own"] }, "/b": { "linksFrom": [] } } }] }),
            ),
            with(
                json!({ "permissions": { "preset": "balanced", "default": "deny",
                "approvalTimeout": "30m", "notify": { "url": "http://h", "secret": "K" } } }),
            ),
            with(json!({ "triggers": [
                { "cron": "30 2 * * *", "timezone": "Europe/Berlin", "input": "x" },
                { "cron": "0 * * * MON-FRI", "input": "" },
                { "webhook": "orders", "secret": "KEY" },
                { "webhook": "till", "secret": "KEY", "trust": "trusted" } ] })),
        ] {
            Bundle::parse(&bundle.to_string()).unwrap_or_else(|error| panic!("{bundle}: {error}"));
            assert!(takes(&bundle), "{bundle}");
        }
    }

    #[test]
    fn s10_6_the_schema_refuses_what_the_parser_refuses() {
        for bundle in [
            json!({}),
            json!({ "name": "A b" }),
            with(json!({ "colour": "blue" })),
            with(json!({ "builtins": ["hammer"] })),
            with(json!({ "builtins": "create_artifact" })),
            with(json!({ "servers": { "a.b": { "command": ["x"] } } })),
            with(json!({ "servers": { "a": { "command": [] } } })),
            with(json!({ "servers": { "a": { "command": ["x"], "url": "http://h" } } })),
            with(json!({ "servers": { "a": { "url": "ftp://h" } } })),
            with(json!({ "tools": { "a?": {} } })),
            marks(json!({ "effect": "delete" })),
            marks(json!({ "timeout": 20 })),
            marks(json!({ "maxResult": "1KB" })),
            marks(json!({ "roles": { "to": "target" } })),
            marks(json!({ "roles": { "to": { "kind": "x" } } })),
            marks(json!({ "roles": { "/a~2": "free" } })),
            marks(json!({ "roles": { "": "free" } })),
            marks(json!({ "returns": { "id": "a b" } })),
            rule(json!({ "action": "perhaps" })),
            rule(json!({ "when": { "trust": "low" } })),
            rule(json!({ "when": { "effect": "write" } })),
            rule(json!({ "when": { "effect": ["write", "write"] } })),
            rule(json!({ "when": { "args": { "a": {} } } })),
            rule(json!({ "when": { "args": { "a": { "equals": null } } } })),
            rule(json!({ "when": { "args": { "a": { "maxLength": -1 } } } })),
            rule(json!({ "unless": {} })),
            rule(json!({ "unless": [{}] })),
            rule(json!({ "unless": { "roles": {} } })),
            rule(json!({ "unless": { "args": {} } })),
            rule(json!({ "unless": { "roles": { "free": { "from": [] } } } })),
            rule(json!({ "unless": { "roles": { "label": {} } } })),
            rule(json!({ "unless": { "args": { "a": { "from": ["web"] } } } })),
            rule(json!({ "unless": { "args": { "a": { "glob": "*" } } } })),
            rule(json!({ "approvers": { "group": "A B" } })),
            rule(json!({ "approvers": { "count": 0 } })),
            rule(json!({ "approvers": {} })),
            rule(json!({ "escalate": [{ "after": "1m", "to": { "target": "A B" } }] })),
            rule(json!({ "escalate": [{ "after": "1m", "to": {} }] })),
            rule(json!({ "escalate": [{ "after": "1m", "to": { "group": "g", "target": "x" } }] })),
            with(json!({ "permissions": { "preset": "loose" } })),
            with(json!({ "triggers": [{ "cron": "0 * * *", "input": "x" }] })),
            with(json!({ "triggers": [{ "cron": "0 * * * *" }] })),
            with(json!({ "triggers": [{ "webhook": "A", "secret": "KEY" }] })),
            with(json!({ "triggers": [{ "webhook": "a" }] })),
            with(json!({ "triggers": [{ "webhook": "a", "secret": "KEY", "trust": "operator" }] })),
            with(json!({ "triggers": [{ "webhook": "a", "secret": "KEY", "input": "x" }] })),
            with(json!({ "permissions": { "approvalTimeout": "soon" } })),
            with(json!({ "permissions": { "notify": { "secret": "K" } } })),
        ] {
            assert!(Bundle::parse(&bundle.to_string()).is_err(), "{bundle}");
            assert!(!takes(&bundle), "{bundle}");
        }
    }

    #[test]
    fn s10_6_the_presets_fit_the_schema() {
        for preset in Preset::ALL {
            let bundle = Bundle::parse(preset.text()).unwrap();
            let canonical: Value = serde_json::from_str(&bundle.to_canonical_json()).unwrap();
            assert!(takes(&canonical), "{preset}");
            assert!(!preset::rules(preset).is_empty());
        }
    }
}
