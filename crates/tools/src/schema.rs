//! Arguments against a tool's JSON Schema (S3.7).
//!
//! Schemas come from servers, so a schema is input too: regular expressions run in linear time,
//! nothing is fetched, and compiled schemas are kept in a bounded cache. A schema that does not
//! compile cannot be held against a call: only that the arguments are an object is checked, which
//! is said in the log once for each time it is compiled.

use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{PatternOptions, Validator};
use sayso_run::Digest;
use serde_json::Value;

use crate::arguments::MAX_LISTED;
use crate::recent::Recent;

/// How many compiled schemas are kept.
const KEPT: usize = 1024;

/// How long the sentence about one problem may be, in bytes.
const MAX_SENTENCE: usize = 300;

/// How deep a schema may nest: compiling it takes stack for each level.
const MAX_DEPTH: usize = 128;

/// Compiled schemas by the digest of their text; `None` where the text does not compile.
pub(crate) struct Schemas {
    compiled: Mutex<Recent<Digest, Option<Arc<Validator>>>>,
}

impl std::fmt::Debug for Schemas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Schemas")
    }
}

impl Schemas {
    pub(crate) fn new() -> Self {
        Self {
            compiled: Mutex::new(Recent::new(KEPT)),
        }
    }

    /// What is wrong with arguments, one sentence a problem, with its JSON pointer. `tool` is for
    /// the log.
    pub(crate) fn problems(&self, tool: &str, schema: &str, arguments: &Value) -> Vec<String> {
        let Some(validator) = self.validator(tool, schema) else {
            return Vec::new();
        };
        validator
            .iter_errors(arguments)
            .take(MAX_LISTED + 1)
            .map(|error| {
                let pointer = error.instance_path().as_str();
                let pointer = if pointer.is_empty() { "/" } else { pointer };
                // Without the value: the model knows what it wrote, and it may be a secret.
                let mut sentence = format!("{pointer}: {}", error.masked());
                if sentence.len() > MAX_SENTENCE {
                    sentence.truncate(sentence.floor_char_boundary(MAX_SENTENCE));
                    sentence.push('…');
                }
                sentence
            })
            .collect()
    }

    fn validator(&self, tool: &str, schema: &str) -> Option<Arc<Validator>> {
        let key = Digest::of(schema.as_bytes());
        let known = self
            .compiled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if let Some(known) = known {
            return known;
        }
        let made = match compile(schema) {
            Ok(validator) => Some(Arc::new(validator)),
            Err(why) => {
                tracing::warn!(
                    tool,
                    why,
                    "the tool's schema does not compile: arguments are checked for being an object only"
                );
                None
            }
        };
        self.compiled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, made.clone());
        made
    }
}

fn compile(schema: &str) -> Result<Validator, String> {
    let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
    if depth(&schema) > MAX_DEPTH {
        return Err(format!("nested deeper than {MAX_DEPTH} levels"));
    }
    jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .offline()
        .build(&schema)
        .map_err(|error| {
            let mut why = error.to_string();
            why.truncate(why.floor_char_boundary(MAX_SENTENCE));
            why
        })
}

/// Parsed text nests at most 128 deep: serde_json sees to it.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(schema: Value, arguments: Value) -> Vec<String> {
        Schemas::new().problems("t.t", &schema.to_string(), &arguments)
    }

    /// S3.7: the model is told each problem and where it is.
    #[test]
    fn problems_carry_their_pointers() {
        let schema = json!({
            "type": "object",
            "properties": {
                "id": {"type": "string", "pattern": "^[A-Z]-[0-9]+$"},
                "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}}
            },
            "required": ["id", "amount"],
            "additionalProperties": false
        });
        let found = problems(schema, json!({"id": "x", "lines": [1, 0, "2"], "extra": 1}));
        for pointer in ["/id: ", "/lines/1: ", "/lines/2: ", "/: "] {
            assert!(found.iter().any(|p| p.starts_with(pointer)), "{found:?}");
        }
        assert!(found.iter().any(|p| p.contains("amount")), "{found:?}");
        assert!(found.iter().any(|p| p.contains("extra")), "{found:?}");
    }

    #[test]
    fn a_schema_that_does_not_compile_checks_nothing() {
        for broken in [
            json!({"type": "objekt"}),
            json!({"$ref": "https://elsewhere.example/schema.json"}),
            json!({"properties": {"a": {"pattern": "("}}}),
        ] {
            assert_eq!(
                problems(broken.clone(), json!({"a": "x"})),
                [""; 0],
                "{broken}"
            );
        }
        assert_eq!(
            Schemas::new().problems("t.t", "not json", &json!({})),
            [""; 0]
        );
    }

    #[test]
    fn a_hostile_schema_ends() {
        for hostile in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"$dynamicRef": "#x", "$dynamicAnchor": "x"}),
            json!({"properties": {"a": {"pattern": "^(a+)+$"}}}),
        ] {
            let long = format!("{}b", "a".repeat(50_000));
            problems(hostile, json!({"a": long}));
        }
    }

    #[test]
    fn a_huge_value_is_not_repeated_to_the_model() {
        let found = problems(
            json!({"maxProperties": 0}),
            json!({"a": "é".repeat(10_000)}),
        );
        assert_eq!(found.len(), 1);
        assert!(found[0].len() < 310);
    }
}
