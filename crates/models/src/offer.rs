//! A tool as it is offered to a model.
//!
//! Providers take only part of JSON Schema at the top of a tool's arguments: it must be an object
//! with `properties`, and `oneOf`, `anyOf`, `allOf`, `not` and `enum` may not stand there; one tool
//! that breaks this has the whole request refused. MCP servers list such tools. What would be refused
//! is told to the model in the description instead; arguments are checked against the true schema
//! all the same, before anything runs.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use sayso_driver::ToolDefinition;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

const NOT_AT_THE_TOP: &[&str] = &["oneOf", "anyOf", "allOf", "not", "enum"];

/// A tool in a request.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) name: &'a str,
    pub(crate) description: Cow<'a, str>,
    pub(crate) schema: Box<RawValue>,
}

impl<'a> Offer<'a> {
    /// The tool, its schema's exact text if a provider takes it.
    pub(crate) fn of(tool: &'a ToolDefinition) -> Self {
        let Schema(members) = serde_json::from_str(&tool.input_schema).unwrap_or_default();
        let mut description = Cow::Borrowed(tool.description.as_str());
        let mut kept: Vec<(String, &str)> = Vec::with_capacity(members.len() + 2);
        let mut changed = false;
        for (key, value) in members {
            if NOT_AT_THE_TOP.contains(&key.as_str()) {
                changed = true;
                let _infallible = write!(
                    description.to_mut(),
                    "\nThe arguments must also satisfy this JSON Schema: {{\"{key}\":{}}}",
                    value.get()
                );
            } else if key == "type" && value.get() != OBJECT {
                changed = true;
            } else {
                kept.push((key, value.get()));
            }
        }
        for (key, value) in [("type", OBJECT), ("properties", "{}")] {
            if !kept.iter().any(|(known, _)| known == key) {
                changed = true;
                kept.push((key.to_owned(), value));
            }
        }
        let text = if changed {
            written(&kept)
        } else {
            tool.input_schema.clone()
        };
        Self {
            name: &tool.model_name,
            description,
            schema: RawValue::from_string(text).expect("a schema is whole or made of whole values"),
        }
    }
}

const OBJECT: &str = "\"object\"";

fn written(members: &[(String, &str)]) -> String {
    let members: Vec<String> = members
        .iter()
        .map(|(key, value)| {
            let key = serde_json::to_string(key).expect("a string is JSON");
            format!("{key}:{value}")
        })
        .collect();
    format!("{{{}}}", members.join(","))
}

/// The members of a schema in their order; a schema that is no object has none.
#[derive(Default)]
struct Schema<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Schema<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Schema<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Schema(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tool;

    fn offered(schema: &str) -> (String, String) {
        let mut tool = tool("shop.get", "shop_get");
        tool.description = "Gets.".into();
        tool.input_schema = schema.into();
        let offer = Offer::of(&tool);
        (
            offer.schema.get().to_owned(),
            offer.description.into_owned(),
        )
    }

    #[test]
    fn a_schema_that_providers_take_goes_out_to_the_byte() {
        let schema = "{\"type\": \"object\",\n \"properties\":{\"n\":{\"maximum\":1.10}}, \"required\":[\"n\"]}";
        assert_eq!(offered(schema), (schema.to_owned(), "Gets.".to_owned()));
    }

    #[test]
    fn a_schema_that_providers_refuse_is_made_acceptable_and_the_rest_is_told() {
        assert_eq!(
            offered(r#"{"type":"object"}"#).0,
            r#"{"type":"object","properties":{}}"#
        );
        for schema in ["true", "", "{}", r#"{"type":["object","null"]}"#] {
            assert_eq!(
                offered(schema).0,
                r#"{"type":"object","properties":{}}"#,
                "{schema}"
            );
        }
        assert_eq!(
            offered(r#"{"type":"object","anyOf":[{"required":["a"]}],"properties":{"a":{}}}"#),
            (
                r#"{"type":"object","properties":{"a":{}}}"#.to_owned(),
                "Gets.\nThe arguments must also satisfy this JSON Schema: {\"anyOf\":[{\"required\":[\"a\"]}]}"
                    .to_owned()
            )
        );
    }
}
