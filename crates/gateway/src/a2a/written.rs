//! Answers as JSON: canonical protobuf JSON, in which a field that the protocol requires stands also
//! where it has its default value.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use prost_reflect::{
    Cardinality, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    ReflectMessage, Value,
};
use sayso_service::error::Coded;
use sayso_wire::json::pool;
use serde_json::{Map, json};

use super::PACKAGE;

/// The option by which a field says that it is required, and its value.
const OPTION: &str = "google.api.field_behavior";
const REQUIRED: i32 = 2;

/// The required fields of each message of the protocol.
static REQUIRED_FIELDS: LazyLock<HashMap<String, Vec<FieldDescriptor>>> = LazyLock::new(|| {
    let Some(option) = pool().get_extension_by_name(OPTION) else {
        return HashMap::new();
    };
    let messages = pool().all_messages();
    let own = messages.filter(|message| message.package_name() == PACKAGE);
    own.map(|message| {
        let fields = message.fields().filter(|field| is_required(field, &option));
        (message.full_name().to_owned(), fields.collect())
    })
    .collect()
});

fn is_required(field: &FieldDescriptor, option: &ExtensionDescriptor) -> bool {
    let options = field.options();
    let value = options.get_extension(option);
    let values = value.as_list().unwrap_or_default();
    values
        .iter()
        .any(|value| value.as_enum_number() == Some(REQUIRED))
}

/// An encoded message as JSON.
pub(super) fn written(bytes: Bytes, output: MessageDescriptor) -> Result<serde_json::Value, Coded> {
    let message = DynamicMessage::decode(output, bytes)
        .map_err(|error| Coded::internal("reading an answer", &error))?;
    let mut json =
        serde_json::to_value(&message).map_err(|error| Coded::internal("writing JSON", &error))?;
    complete(&message, &mut json);
    Ok(json)
}

/// Adds the required fields that are left out, here and below.
fn complete(message: &DynamicMessage, json: &mut serde_json::Value) {
    let Some(object) = json.as_object_mut() else {
        return;
    };
    let descriptor = message.descriptor();
    if let Some(fields) = REQUIRED_FIELDS.get(descriptor.full_name()) {
        for field in fields {
            add(object, field);
        }
    }
    for (field, value) in message.fields() {
        let Some(json) = object.get_mut(field.json_name()) else {
            continue;
        };
        match value {
            Value::Message(message) => complete(message, json),
            Value::List(items) => {
                let places = json.as_array_mut().into_iter().flatten();
                for (item, json) in items.iter().zip(places) {
                    if let Value::Message(message) = item {
                        complete(message, json);
                    }
                }
            }
            _ => {}
        }
    }
}

fn add(object: &mut Map<String, serde_json::Value>, field: &FieldDescriptor) {
    let default = match (field.cardinality(), field.kind()) {
        (Cardinality::Repeated, _) if field.is_map() => json!({}),
        (Cardinality::Repeated, _) => json!([]),
        (_, Kind::String) => json!(""),
        (_, Kind::Int32) => json!(0),
        // A message that is not there has no default.
        _ => return,
    };
    object.entry(field.json_name()).or_insert(default);
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use sayso_wire::a2a::v1;
    use sayso_wire::json::descriptor;

    use super::*;

    /// S6.13: `nextPageToken` is there on the last page, and artifacts are not where they were not asked
    /// for.
    #[test]
    fn s6_13_required_fields_are_always_written() {
        let listed = v1::ListTasksResponse {
            tasks: vec![v1::Task {
                id: "run_1".into(),
                ..v1::Task::default()
            }],
            ..v1::ListTasksResponse::default()
        };
        let bytes = listed.encode_to_vec().into();
        let json = written(bytes, descriptor::<v1::ListTasksResponse>()).unwrap();
        let expected = json!({
            "tasks": [{"id": "run_1"}],
            "nextPageToken": "",
            "pageSize": 0,
            "totalSize": 0,
        });
        assert_eq!(json, expected);
    }
}
