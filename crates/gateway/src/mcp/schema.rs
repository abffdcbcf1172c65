//! The shape of a method's answer, as JSON Schema: what canonical JSON makes of its message.

use prost::Name;
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use rmcp::model::JsonObject;
use sayso_wire::json::descriptor;
use serde_json::{Map, Value, json};

/// The schema of a message, with those of the messages in it.
pub(super) fn of<M: Name>() -> JsonObject {
    let mut definitions = Map::new();
    let mut schema = object(&descriptor::<M>(), &mut definitions);
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

fn object(message: &MessageDescriptor, definitions: &mut JsonObject) -> JsonObject {
    let properties: JsonObject = message
        .fields()
        .map(|field| (field.json_name().to_owned(), property(&field, definitions)))
        .collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema
}

fn property(field: &FieldDescriptor, definitions: &mut JsonObject) -> Value {
    if let Kind::Message(entry) = field.kind()
        && field.is_map()
    {
        let value = single(&entry.map_entry_value_field().kind(), definitions);
        return json!({"type": "object", "additionalProperties": value});
    }
    let value = single(&field.kind(), definitions);
    if field.is_list() {
        json!({"type": "array", "items": value})
    } else {
        value
    }
}

fn single(kind: &Kind, definitions: &mut JsonObject) -> Value {
    match kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Uint32 | Kind::Fixed32 => {
            json!({"type": "integer"})
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => {
            json!({"type": "string", "description": "A whole number."})
        }
        Kind::Float | Kind::Double => json!({"type": "number"}),
        Kind::String => json!({"type": "string"}),
        Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Kind::Enum(words) => one_of(words),
        Kind::Message(message) => nested(message, definitions),
    }
}

/// A newer server's value is the number.
fn one_of(words: &EnumDescriptor) -> Value {
    let names: Vec<String> = words
        .values()
        .map(|value| value.name().to_owned())
        .collect();
    json!({"anyOf": [{"enum": names}, {"type": "integer"}]})
}

fn nested(message: &MessageDescriptor, definitions: &mut JsonObject) -> Value {
    match message.full_name() {
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.Duration" => json!({"type": "string", "pattern": "^-?[0-9.]+s$"}),
        _ => {
            let name = message.name();
            if !definitions.contains_key(name) {
                // Stands there first, so that a message within itself comes to an end.
                definitions.insert(name.to_owned(), Value::Null);
                let schema = object(message, definitions);
                definitions.insert(name.to_owned(), Value::Object(schema));
            }
            json!({"$ref": format!("#/$defs/{name}")})
        }
    }
}

#[cfg(test)]
mod tests {
    use sayso_wire::v1;

    use super::*;

    #[test]
    fn s6_13_an_answer_has_the_shape_that_its_schema_says() {
        let schema = of::<v1::DecideApprovalResponse>();
        assert_eq!(schema["type"], "object");
        let outcome = &schema["properties"]["outcome"];
        assert_eq!(outcome, &json!({"$ref": "#/$defs/DecisionOutcome"}));
        let outcome = &schema["$defs"]["DecisionOutcome"]["properties"];
        assert_eq!(outcome["decidedAt"]["format"], "date-time");
        assert_eq!(outcome["alreadyRecorded"]["type"], "boolean");
        assert_eq!(schema["properties"]["lastSequence"]["type"], "string");
        let list = of::<v1::ListApprovalsResponse>();
        assert_eq!(list["properties"]["approvals"]["type"], "array");
    }
}
