//! The tools that come with sayso and need no server.

use sayso_driver::{ToolDefinition, ToolHints, ToolKind};
use sayso_rules::Bundle;
use sayso_rules::bundle::Builtin;
use sayso_rules::judge::START_AGENT;

use crate::artifact;

/// The name of the control tool that asks a person (S1.8).
const ASK_PERSON: &str = "ask_person";

/// The built-in and control tools that a bundle gives its agent.
pub(crate) fn granted(bundle: &Bundle) -> Vec<ToolDefinition> {
    let mut tools: Vec<ToolDefinition> = bundle
        .builtins
        .iter()
        .filter_map(|builtin| definition(builtin.name()))
        .collect();
    if bundle.interaction {
        tools.push(ask_person());
    }
    if !bundle.agents.is_empty() {
        tools.push(start_agent(bundle.agents.iter()));
    }
    tools
}

/// A built-in as it is defined now; `None` if this version has none of that name.
pub(crate) fn definition(name: &str) -> Option<ToolDefinition> {
    (name == Builtin::CreateArtifact.name()).then(artifact::definition)
}

fn ask_person() -> ToolDefinition {
    ToolDefinition {
        registered: ASK_PERSON.to_owned(),
        model_name: ASK_PERSON.to_owned(),
        kind: ToolKind::Control,
        description: "Asks the person who is responsible for this task, and waits for the answer. \
                      Use it when you cannot go on without knowing something that only they can \
                      tell."
            .to_owned(),
        input_schema: concat!(
            r#"{"type":"object","properties":{"#,
            r#""question":{"type":"string","minLength":1,"maxLength":16384,"description":"The question, complete in itself."}"#,
            r#"},"required":["question"],"additionalProperties":false}"#
        )
        .to_owned(),
        hints: ToolHints {
            read_only: Some(true),
            destructive: Some(false),
            idempotent: Some(true),
            open_world: Some(false),
        },
        origin: String::new(),
    }
}

/// The tool that starts one of these agents (S3.6).
fn start_agent<'a>(agents: impl Iterator<Item = &'a String>) -> ToolDefinition {
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "agent": {"type": "string", "enum": agents.collect::<Vec<_>>(), "description": "Who."},
            "input": {
                "type": "string",
                "minLength": 1,
                "description": "The task, complete in itself: the agent sees nothing else.",
            },
        },
        "required": ["agent", "input"],
        "additionalProperties": false,
    });
    ToolDefinition {
        registered: START_AGENT.to_owned(),
        model_name: START_AGENT.to_owned(),
        kind: ToolKind::Agent,
        description:
            "Gives a task to another agent and waits for what it says in the end. Several \
                      calls in one answer work at the same time."
                .to_owned(),
        input_schema: schema.to_string(),
        hints: ToolHints::default(),
        origin: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_gets_what_it_grants() {
        let names = |text: &str| -> Vec<String> {
            granted(&Bundle::parse(text).unwrap())
                .into_iter()
                .map(|tool| tool.registered)
                .collect()
        };
        assert_eq!(names("name: a\ninstructions: x\n"), [""; 0]);
        assert_eq!(
            names("name: a\ninstructions: x\ninteraction: true\nbuiltins: [create_artifact]\n"),
            ["create_artifact", "ask_person"]
        );
        assert_eq!(
            names("name: a\ninstructions: x\nagents: [b]\n"),
            ["start_agent"]
        );
    }
}
