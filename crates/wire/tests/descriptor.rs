//! The public API does not change by accident: `tests/api.txt` lists every service, method, message,
//! field number and enum value. A change shows there as a line that a person reviews; a line that
//! is gone or differs breaks clients, one that is new does not.
//!
//! `UPDATE_GOLDEN=1 cargo test -p sayso-wire --test descriptor` writes it anew.

use std::fmt::Write;
use std::path::Path;

use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

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
    let set = sayso_wire::json::pool();
    for file in set.file_descriptor_protos() {
        if !file.package().starts_with("sayso.") {
            continue;
        }
        let info = file.source_code_info.as_ref().expect("source info is kept");
        // Paths end with a field's own number: 4 messages, 5 enums, 6 services, and within them
        // 2 fields, values, methods. All of these have even length.
        for location in &info.location {
            let path = location.path.as_slice();
            let declares = match path {
                [4 | 5 | 6, _] => true,
                [4, _, 2, _] | [5, _, 2, _] | [6, _, 2, _] => true,
                _ => false,
            };
            assert!(
                !declares || !location.leading_comments().trim().is_empty(),
                "{} {path:?} has no comment",
                file.name()
            );
        }
    }
}

fn list() -> String {
    let pool = sayso_wire::json::pool();
    let mut out = String::new();
    let mut services: Vec<_> = pool
        .services()
        .filter(|s| is_public(s.full_name()))
        .collect();
    services.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    for service in services {
        writeln!(out, "service {}", service.full_name()).unwrap();
        for method in service.methods() {
            let stream = |yes| if yes { "stream " } else { "" };
            writeln!(
                out,
                "  {}({}{}) -> {}{}",
                method.name(),
                stream(method.is_client_streaming()),
                method.input().name(),
                stream(method.is_server_streaming()),
                method.output().name(),
            )
            .unwrap();
        }
    }
    let mut messages: Vec<_> = pool
        .all_messages()
        .filter(|m| is_public(m.full_name()))
        .collect();
    messages.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    for message in messages {
        write_message(&mut out, &message);
    }
    let mut enums: Vec<_> = pool
        .all_enums()
        .filter(|e| is_public(e.full_name()))
        .collect();
    enums.sort_by(|a, b| a.full_name().cmp(b.full_name()));
    for values in enums {
        write_enum(&mut out, &values);
    }
    out
}

fn is_public(name: &str) -> bool {
    name.starts_with("sayso.v1.")
}

fn write_message(out: &mut String, message: &MessageDescriptor) {
    writeln!(out, "message {}", message.full_name()).unwrap();
    for field in message.fields() {
        writeln!(
            out,
            "  {} {} {}",
            field.number(),
            field.name(),
            kind(&field)
        )
        .unwrap();
    }
}

fn write_enum(out: &mut String, values: &EnumDescriptor) {
    writeln!(out, "enum {}", values.full_name()).unwrap();
    for value in values.values() {
        writeln!(out, "  {} {}", value.number(), value.name()).unwrap();
    }
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
