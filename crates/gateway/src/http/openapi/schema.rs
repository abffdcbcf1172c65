//! Messages as JSON Schemas.
//!
//! What is answered is canonical; what is taken is more than that: a number may come as a string, an
//! enum's value as its number, and null is as good as nothing. The schemas of requests say so, because
//! a description that is stricter than the server is wrong.

use std::collections::BTreeMap;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::comments::Comments;

/// Whether a message comes in or goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    /// In a body.
    In,
    /// In a query: one value, or several of one field.
    Query,
    /// In an answer.
    Out,
}

/// The schemas that are referred to.
pub(super) struct Schemas<'c> {
    comments: &'c Comments,
    written: BTreeMap<String, Value>,
}

impl<'c> Schemas<'c> {
    pub(super) fn new(comments: &'c Comments) -> Schemas<'c> {
        Schemas {
            comments,
            written: BTreeMap::new(),
        }
    }

    /// All of them, by name.
    pub(super) fn written(self) -> Map<String, Value> {
        self.written.into_iter().collect()
    }

    /// A reference to a message's schema.
    pub(super) fn reference(&mut self, message: &MessageDescriptor, side: Side) -> Value {
        // No message of ours comes in and goes out; should one, its two schemas have two names.
        let name = match side {
            Side::Out => message.name().to_owned(),
            Side::In | Side::Query => format!("{}Input", message.name()),
        };
        if !self.written.contains_key(&name) {
            // Holds the place, for messages that hold themselves.
            self.written.insert(name.clone(), Value::Null);
            let schema = self.object(message, side, &[]);
            self.written.insert(name.clone(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// A message's schema without some of its fields.
    pub(super) fn object(
        &mut self,
        message: &MessageDescriptor,
        side: Side,
        without: &[&str],
    ) -> Value {
        let mut properties = Map::new();
        let fields = message.fields();
        for field in fields.filter(|field| !without.contains(&field.name())) {
            let mut schema = self.field(&field, side);
            let said = self.comments.of(&message.parent_file(), field.path());
            schema["description"] = said.into();
            properties.insert(field.json_name().to_owned(), schema);
        }
        let said = self.comments.of(&message.parent_file(), message.path());
        let mut schema = json!({
            "type": "object",
            "description": said,
            "properties": properties,
        });
        if side == Side::In {
            schema["additionalProperties"] = false.into();
            for names in exclusive(message) {
                let said = schema["description"].as_str().unwrap_or_default();
                let at_most_one = format!("{said}\n\nAt most one of {names}.");
                schema["description"] = at_most_one.into();
            }
        }
        schema
    }

    /// A field's schema.
    pub(super) fn field(&mut self, field: &FieldDescriptor, side: Side) -> Value {
        let one = self.kind(&field.kind(), side);
        if !field.is_list() {
            return if side == Side::In { or_null(one) } else { one };
        }
        let many = json!({"type": "array", "items": one});
        if side == Side::In {
            or_null(many)
        } else {
            many
        }
    }

    fn kind(&mut self, kind: &Kind, side: Side) -> Value {
        match kind {
            Kind::Bool => json!({"type": "boolean"}),
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Kind::Double | Kind::Float if side == Side::In => json!({"type": ["number", "string"]}),
            Kind::Double | Kind::Float => json!({"type": "number"}),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                number(side, i64::from(i32::MIN), i32::MAX as u64, false)
            }
            Kind::Uint32 | Kind::Fixed32 => number(side, 0, u64::from(u32::MAX), false),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
                number(side, i64::MIN, i64::MAX as u64, true)
            }
            Kind::Uint64 | Kind::Fixed64 => number(side, 0, u64::MAX, true),
            Kind::Enum(values) => self.enumeration(values, side),
            Kind::Message(message) => match message.full_name() {
                "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
                "google.protobuf.Duration" => {
                    json!({"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"})
                }
                _ => self.reference(message, side),
            },
        }
    }

    fn enumeration(&mut self, values: &EnumDescriptor, side: Side) -> Value {
        let name = values.name().to_owned();
        if !self.written.contains_key(&name) {
            let file = values.parent_file();
            let mut said = self.comments.of(&file, values.path());
            for value in values.values() {
                let meaning = self.comments.of(&file, value.path());
                said.push_str(&format!("\n- `{}`: {meaning}", value.name()));
            }
            let names: Vec<String> = values.values().map(|v| v.name().to_owned()).collect();
            let schema = json!({"type": "string", "enum": names, "description": said});
            self.written.insert(name.clone(), schema);
        }
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        match side {
            Side::In => json!({"anyOf": [reference, {"type": "integer"}]}),
            Side::Query | Side::Out => reference,
        }
    }
}

/// A whole number. 64 bits go out as a string, which no reader rounds.
fn number(side: Side, least: i64, most: u64, wide: bool) -> Value {
    let digits = if least < 0 {
        "^[+-]?[0-9]+$"
    } else {
        r"^\+?[0-9]+$"
    };
    match side {
        Side::Out if wide => json!({"type": "string", "pattern": digits}),
        Side::Out | Side::Query => json!({"type": "integer", "minimum": least, "maximum": most}),
        Side::In => json!({
            "type": ["integer", "string"],
            "minimum": least,
            "maximum": most,
            "pattern": digits,
        }),
    }
}

/// The same, or null.
fn or_null(mut schema: Value) -> Value {
    if let Some(Value::Array(kinds)) = schema.get_mut("anyOf") {
        kinds.push(json!({"type": "null"}));
        return schema;
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) => kinds.push("null".into()),
        Some(kind) => *kind = json!([kind, "null"]),
        None => return json!({"anyOf": [schema, {"type": "null"}]}),
    }
    schema
}

/// What may not be given together: the fields of each `oneof`.
fn exclusive(message: &MessageDescriptor) -> Vec<String> {
    let oneofs = message.oneofs().filter(|oneof| !oneof.is_synthetic());
    oneofs
        .map(|oneof| {
            let names = oneof
                .fields()
                .map(|field| format!("`{}`", field.json_name()));
            names.collect::<Vec<_>>().join(", ")
        })
        .collect()
}
