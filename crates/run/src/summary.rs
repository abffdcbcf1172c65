use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::state::{Call, Outcome, Phase, RunState};
use crate::step::ToolOutcome;

/// How many arguments a summary names.
const SHOWN_ARGS: usize = 6;
/// How much of one value it shows, in characters.
const SHOWN_CHARS: usize = 80;
/// Fields whose value names the record that holds them, in order of preference.
const NAME_FIELDS: [&str; 9] = [
    "name",
    "display_name",
    "full_name",
    "title",
    "customer",
    "subject",
    "label",
    "email",
    "description",
];

/// One sentence that lets a reviewer decide without reading JSON (S6.2): the tool and its arguments,
/// with ids followed by the names that the run has already looked up. Made from the run's own data,
/// without a model. `args` are the arguments as people may see them (S3.10).
pub fn summarise(state: &RunState, call: &Call, args: &str) -> String {
    let Ok(Fields(fields)) = serde_json::from_str::<Fields>(args) else {
        return format!("Run {}", call.tool);
    };
    if fields.is_empty() {
        return format!("Run {} without arguments", call.tool);
    }
    let known = looked_up(state);
    let shown: Vec<String> = fields
        .iter()
        .take(SHOWN_ARGS)
        .map(|(key, value)| format!("{key} {}", show(value.get(), &known)))
        .collect();
    let more = fields.len().saturating_sub(SHOWN_ARGS);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("Run {} with {}{more}", call.tool, shown.join(", "))
}

/// The values that earlier results hold, each parsed once.
fn looked_up(state: &RunState) -> Vec<Value> {
    state
        .calls
        .iter()
        .filter_map(|call| match &call.phase {
            Phase::Finished(finished) => match &finished.outcome {
                Outcome::Result {
                    outcome: ToolOutcome::Ok,
                    content,
                } => serde_json::from_str(content).ok(),
                Outcome::Result { .. } | Outcome::Denied { .. } | Outcome::RepeatLoop { .. } => {
                    None
                }
            },
            Phase::Proposed
            | Phase::Held
            | Phase::Asked
            | Phase::Cleared
            | Phase::Started { .. }
            | Phase::Delegated
            | Phase::Unknown { .. } => None,
        })
        .collect()
}

fn show(raw: &str, known: &[Value]) -> String {
    match serde_json::from_str::<Value>(raw) {
        Ok(Value::String(text)) => {
            let name = known.iter().find_map(|value| name_of(value, &text));
            let shown = cut(&text.split_whitespace().collect::<Vec<_>>().join(" "));
            match name {
                Some(name) if name != text => format!("\"{shown}\" ({})", cut(&name)),
                _ => format!("\"{shown}\""),
            }
        }
        Ok(Value::Array(items)) => format!("{} items", items.len()),
        Ok(Value::Object(fields)) => format!("{} fields", fields.len()),
        Ok(Value::Number(_) | Value::Bool(_) | Value::Null) | Err(_) => cut(raw),
    }
}

/// The name of the record that holds this id, depth first.
fn name_of(value: &Value, id: &str) -> Option<String> {
    match value {
        Value::Object(fields) => {
            let holds_id = fields.values().any(|field| field.as_str() == Some(id));
            let name = NAME_FIELDS
                .iter()
                .find_map(|field| match fields.get(*field) {
                    Some(Value::String(name)) if !name.is_empty() => Some(name.clone()),
                    _ => None,
                });
            if holds_id && name.is_some() {
                return name;
            }
            fields.values().find_map(|field| name_of(field, id))
        }
        Value::Array(items) => items.iter().find_map(|item| name_of(item, id)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// An object's fields in their order, with the exact bytes of each value.
struct Fields(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
