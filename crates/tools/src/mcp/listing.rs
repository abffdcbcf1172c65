//! A server's tools as definitions.

use std::collections::BTreeMap;

use rmcp::model::{JsonObject, Tool};
use sayso_driver::{ToolDefinition, ToolHints, ToolKind};
use sayso_rules::bundle::Transport;
use serde_json::Value;

use crate::name;

/// How many tools one server may offer.
pub(super) const MAX_TOOLS: usize = 5000;

/// The tools of one server, as it listed them at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    tools: Vec<ToolDefinition>,
}

impl Listing {
    /// Takes what can be taken of a server's answer. A name that breaks the rule is left out, and
    /// so is one that stands there twice: nothing says which of the two a call would reach (B38).
    pub(super) fn of(server: &str, origin: &str, listed: Vec<Tool>) -> Self {
        let mut tools: BTreeMap<String, Option<ToolDefinition>> = BTreeMap::new();
        for tool in listed {
            let Some(registered) = name::registered(server, &tool.name) else {
                tracing::warn!(server, tool = %tool.name.escape_debug(), "a tool is left out: its name, with the server's, must be 1 to 128 of A-Z a-z 0-9 _ . -");
                continue;
            };
            tools
                .entry(registered.clone())
                .and_modify(|kept| {
                    tracing::warn!(server, tool = %registered, "a tool is left out: the server lists it more than once");
                    *kept = None;
                })
                .or_insert_with(|| Some(definition(registered.clone(), origin, tool)));
        }
        Self {
            tools: tools.into_values().flatten().collect(),
        }
    }

    /// The tools by registered name; the model names are not given yet.
    pub(crate) fn tools(&self) -> &[ToolDefinition] {
        &self.tools
    }

    /// The tool of that name.
    pub(crate) fn find(&self, registered: &str) -> Option<&ToolDefinition> {
        self.tools
            .binary_search_by(|tool| tool.registered.as_str().cmp(registered))
            .ok()
            .map(|at| &self.tools[at])
    }
}

fn definition(registered: String, origin: &str, tool: Tool) -> ToolDefinition {
    let hints = tool.annotations.unwrap_or_default();
    ToolDefinition {
        registered,
        model_name: String::new(),
        kind: ToolKind::Mcp,
        description: tool
            .description
            .map(|text| text.replace('\0', "\u{fffd}"))
            .unwrap_or_default(),
        input_schema: schema_text(&tool.input_schema),
        hints: ToolHints {
            read_only: hints.read_only_hint,
            destructive: hints.destructive_hint,
            idempotent: hints.idempotent_hint,
            open_world: hints.open_world_hint,
        },
        origin: origin.to_owned(),
    }
}

/// The one text of a schema: keys in order, since the text is hashed and neither a server's order
/// nor that of a `Value` can be relied on. Providers want the type said; arguments are objects.
fn schema_text(schema: &JsonObject) -> String {
    let mut schema = schema.clone();
    schema
        .entry("type")
        .or_insert_with(|| Value::String("object".to_owned()));
    let mut text = String::new();
    write_object(&schema, &mut text);
    text
}

fn write_object(object: &JsonObject, text: &mut String) {
    let sorted: BTreeMap<&String, &Value> = object.iter().collect();
    text.push('{');
    for (index, (key, value)) in sorted.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&Value::String(key.clone()).to_string());
        text.push(':');
        write(value, text);
    }
    text.push('}');
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(object) => write_object(object, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text);
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string());
        }
    }
}

/// Where a server's tools run, as an approval binds it (S6.1): its URL, or its command line with
/// each argument quoted that holds anything but plain characters.
pub(super) fn origin(transport: &Transport) -> String {
    match transport {
        Transport::Http { url, .. } => url.clone(),
        Transport::Stdio { command, .. } => command
            .iter()
            .map(|argument| quoted(argument))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

fn quoted(argument: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_./:=@%+,-".contains(&b);
    if !argument.is_empty() && argument.bytes().all(plain) {
        argument.to_owned()
    } else {
        format!("{argument:?}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: Value) -> Tool {
        let Value::Object(schema) = schema else {
            panic!("a schema is an object");
        };
        Tool::new(name.to_owned(), "d", schema)
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing
            .tools()
            .iter()
            .map(|tool| tool.registered.as_str())
            .collect()
    }

    /// S3.5: names that break the rule are left out; B38: so are names given twice.
    #[test]
    fn unusable_names_are_left_out() {
        let listing = Listing::of(
            "crm",
            "",
            vec![
                tool("update_contact", json!({})),
                tool("update.contact", json!({})),
                tool("a b", json!({})),
                tool("", json!({})),
                tool(&"x".repeat(125), json!({})),
                tool("twice", json!({"title": "one"})),
                tool("twice", json!({"title": "two"})),
                tool("twice", json!({})),
            ],
        );
        assert_eq!(
            names(&listing),
            ["crm.update.contact", "crm.update_contact"]
        );
        assert!(listing.find("crm.update.contact").is_some());
        assert!(listing.find("crm.twice").is_none());
    }

    /// S6.1: the same schema has the same digest, in whatever order its keys came.
    #[test]
    fn a_schema_has_one_text() {
        let one = r#"{"type":"object","properties":{"b":{"enum":[2,1.5]},"a":{}}}"#;
        let two = r#"{"properties":{"a":{},"b":{"enum":[2,1.5]}}}"#;
        let text = |source: &str| {
            let Listing { tools } = Listing::of(
                "s",
                "",
                vec![tool("t", serde_json::from_str(source).unwrap())],
            );
            tools[0].input_schema.clone()
        };
        assert_eq!(text(one), text(two));
        assert_eq!(
            text(one),
            r#"{"properties":{"a":{},"b":{"enum":[2,1.5]}},"type":"object"}"#
        );
    }

    /// S6.1: another command line is another origin.
    #[test]
    fn command_lines_cannot_be_mistaken() {
        let of = |command: &[&str]| {
            origin(&Transport::Stdio {
                command: command.iter().map(|&part| part.to_owned()).collect(),
                env: BTreeMap::new(),
            })
        };
        assert_eq!(
            of(&["git-mcp", "--repo", "/srv/r"]),
            "git-mcp --repo /srv/r"
        );
        assert_ne!(of(&["a", "b c"]), of(&["a", "b", "c"]));
        assert_ne!(of(&["a", ""]), of(&["a"]));
        assert_eq!(of(&["a", "b \"c"]), r#"a "b \"c""#);
    }
}
