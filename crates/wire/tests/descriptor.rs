//! The public API does not change by accident: `tests/api.txt` lists every service, method, message,
//! field number and enum value. A change shows there as a line that a person reviews; a line that
//! is gone or differs breaks clients, one that is new does not.
//!
//! `UPDATE_GOLDEN=1 cargo test -p sayso-wire --test descriptor` writes it anew.

use std::path::Path;

use prost_reflect::{Cardinality, EnumValueDescriptor, FieldDescriptor, Kind, MethodDescriptor};

#[test]
fn the_public_api_is_as_listed() {
    let listed = list();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &listed).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (number, (now, then)) in listed.lines().zip(golden.lines()).enumerate() {
        assert_eq!(now, then, "line {} of tests/api.txt", number + 1);
    }
    assert_eq!(listed, golden);
}

/// Every field, method and value of both APIs says what it is.
#[test]
fn everything_in_the_api_is_commented() {
    let mut checked = 0;
    for file in sayso_wire::json::pool().file_descriptor_protos() {
        if !file.package().starts_with("sayso.") {
            continue;
        }
        let info = file.source_code_info.as_ref().expect("source info is kept");
        // Paths end with a field's own number: 4 messages, 5 enums, 6 services, and within them
        // 2 fields, values, methods. All of these have even length.
        for location in &info.location {
            let path = location.path.as_slice();
            let declares = matches!(path, [4..=6, _] | [4..=6, _, 2, _]);
            assert!(
                !declares || !location.leading_comments().trim().is_empty(),
                "{} {path:?} has no comment",
                file.name()
            );
            checked += usize::from(declares);
        }
    }
    assert!(checked > 400, "only {checked} declarations were found");
}

fn list() -> String {
    let pool = sayso_wire::json::pool();
    let mut services: Vec<_> = pool.services().collect();
    services.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    let mut messages: Vec<_> = pool.all_messages().collect();
    messages.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    let mut enums: Vec<_> = pool.all_enums().collect();
    enums.sort_by(|a, b| a.full_name().cmp(b.full_name()));

    let mut lines = Vec::new();
    for service in services.iter().filter(|s| is_public(s.full_name())) {
        lines.push(format!("service {}", service.full_name()));
        lines.extend(service.methods().map(|method| line_of_method(&method)));
    }
    for message in messages.iter().filter(|m| is_public(m.full_name())) {
        lines.push(format!("message {}", message.full_name()));
        lines.extend(message.fields().map(|field| {
            let (number, name) = (field.number(), field.name());
            format!("  {number} {name} {}", kind(&field))
        }));
    }
    for values in enums.iter().filter(|e| is_public(e.full_name())) {
        lines.push(format!("enum {}", values.full_name()));
        let of_value =
            |value: EnumValueDescriptor| format!("  {} {}", value.number(), value.name());
        lines.extend(values.values().map(of_value));
    }
    lines.join("\n") + "\n"
}

fn line_of_method(method: &MethodDescriptor) -> String {
    let stream = |yes| if yes { "stream " } else { "" };
    let rules = sayso_wire::rule::rules(method);
    let places: Vec<String> = rules
        .iter()
        .map(|rule| format!("{} {}", rule.verb, rule.path))
        .collect();
    format!(
        "  {}({}{}) -> {}{} at {}",
        method.name(),
        stream(method.is_client_streaming()),
        method.input().name(),
        stream(method.is_server_streaming()),
        method.output().name(),
        places.join(", "),
    )
}

fn is_public(name: &str) -> bool {
    name.starts_with("sayso.v1.")
}

fn kind(field: &FieldDescriptor) -> String {
    let kind = match field.kind() {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(values) => values.full_name().to_owned(),
        scalar => format!("{scalar:?}"),
    };
    let cardinality = match field.cardinality() {
        Cardinality::Repeated => "repeated ",
        Cardinality::Optional if field.field_descriptor_proto().proto3_optional() => "optional ",
        Cardinality::Optional | Cardinality::Required => "",
    };
    match field.containing_oneof() {
        Some(oneof) if !field.field_descriptor_proto().proto3_optional() => {
            format!("{kind} of {}", oneof.name())
        }
        _ => format!("{cardinality}{kind}"),
    }
}
