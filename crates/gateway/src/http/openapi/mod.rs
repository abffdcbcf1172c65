//! The API's description: an OpenAPI 3.1 document, made of the same rules and comments that the API
//! itself is made of. `docs/openapi.json` is what it says; a test keeps it so.

mod comments;
mod schema;

use prost_reflect::{FieldDescriptor, MessageDescriptor};
use sayso_wire::code;
use serde_json::{Map, Value, json};

use super::problem::PROBLEM_JSON;
use super::query;
use super::table::{Place, PlaceBody, Table};
use comments::Comments;
use schema::{Schemas, Side};

const ABOUT: &str = "\
Runs, approvals, agents and everything around them. The same methods stand over gRPC; \
`docs/api.md` has the conventions.

A token is sent as `Authorization: Bearer …` and decides the namespace; a request that names another \
one in `Sayso-Namespace` is refused. Fields are called in camelCase, and those of a request may be \
called as in proto instead; fields with their default value are left out of answers. What is refused \
comes as a problem with a stable `code`.";

/// The document.
pub(super) fn document(table: &Table) -> Value {
    let comments = Comments::of_the_api();
    let mut schemas = Schemas::new(&comments);
    let mut paths = Map::new();
    let mut tags: Vec<Value> = Vec::new();
    for place in table.places() {
        let service = place.method.parent_service();
        let tag = json!({
            "name": service.name(),
            "description": comments.of(&service.parent_file(), service.path()),
        });
        if !tags.contains(&tag) {
            tags.push(tag);
        }
        let operation = operation(place, &comments, &mut schemas);
        let verbs = paths.entry(&place.path).or_insert_with(|| json!({}));
        verbs[place.verb.as_str().to_ascii_lowercase()] = operation;
    }
    let mut components = schemas.written();
    components.insert("Problem".to_owned(), problem());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "sayso",
            "version": "v1",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(place: &Place, comments: &Comments, schemas: &mut Schemas<'_>) -> Value {
    let method = &place.method;
    let service = method.parent_service();
    let said = comments.of(&service.parent_file(), method.path());
    let summary = said
        .split_once(". ")
        .map_or(said.as_str(), |(first, _)| first);
    let mut operation = json!({
        "operationId": method.name(),
        "tags": [service.name()],
        "summary": summary.trim_end_matches('.'),
        "description": said,
        "parameters": parameters(place, comments, schemas),
        "responses": {
            "200": answer(place, schemas),
            "default": {
                "description": "A refusal or failure; its code says which.",
                "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    });
    if let Some(body) = body(place, schemas) {
        operation["requestBody"] = body;
    }
    operation
}

/// Fields that are not in the request's body: those of the path, and the key, which is a header.
fn outside_body(place: &Place) -> Vec<&str> {
    let key = std::iter::once("idempotency_key");
    place.template.fields().chain(key).collect()
}

fn body(place: &Place, schemas: &mut Schemas<'_>) -> Option<Value> {
    match &place.body {
        PlaceBody::None => None,
        PlaceBody::Json => {
            let schema = schemas.object(&place.method.input(), Side::In, &outside_body(place));
            Some(json!({"content": {"application/json": {"schema": schema}}}))
        }
        PlaceBody::Pieces(_) => {
            let content: Map<String, Value> = super::BYTES
                .iter()
                .map(|kind| ((*kind).to_owned(), json!({})))
                .collect();
            Some(json!({"required": true, "content": content}))
        }
    }
}

fn answer(place: &Place, schemas: &mut Schemas<'_>) -> Value {
    let schema = schemas.reference(&place.method.output(), Side::Out);
    if place.is_watch() {
        json!({
            "description": "Server-sent events. Each is called after what it carries and holds this \
                            message; `end` says that nothing follows, `problem` why it broke off.",
            "content": {"text/event-stream": {"schema": schema}},
        })
    } else {
        json!({
            "description": "Done.",
            "content": {"application/json": {"schema": schema}},
        })
    }
}

fn parameters(place: &Place, comments: &Comments, schemas: &mut Schemas<'_>) -> Vec<Value> {
    let input = place.method.input();
    let about = |field: &FieldDescriptor| comments.of(&input.parent_file(), field.path());
    let mut parameters = Vec::new();
    for name in place.template.fields() {
        let said = input.get_field_by_name(name).map(|field| about(&field));
        parameters.push(json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": said,
            "schema": {"type": "string", "minLength": 1},
        }));
    }
    if place.body == PlaceBody::None {
        let in_path: Vec<&str> = place.template.fields().collect();
        let fields = input.fields().filter(query::fits);
        for field in fields.filter(|field| !in_path.contains(&field.name())) {
            parameters.push(json!({
                "name": field.name(),
                "in": "query",
                "description": about(&field),
                "schema": schemas.field(&field, Side::Query),
            }));
        }
    }
    parameters.extend(headers(&input));
    parameters
}

fn headers(input: &MessageDescriptor) -> impl Iterator<Item = Value> {
    let key = input.get_field_by_name("idempotency_key").map(|_| {
        json!({
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Makes it safe to send again: the same key with the same request is \
                            answered alike and done once.",
            "schema": {"type": "string", "maxLength": 255},
        })
    });
    let last = input.get_field_by_name("from_sequence").map(|_| {
        json!({
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The id of the last event that was seen: the stream goes on behind it.",
            "schema": {"type": "string", "pattern": "^[0-9]{1,19}$"},
        })
    });
    // Only streams go on.
    let last = last.filter(|_| input.name().starts_with("Watch"));
    key.into_iter().chain(last)
}

fn problem() -> Value {
    json!({
        "type": "object",
        "description": "What was refused or failed, and why (RFC 9457).",
        "required": ["type", "title", "status", "detail", "code"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string", "description": "The status in words."},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "What to do about it, for people."},
            "code": {
                "type": "string",
                "description": "What it is, for programs. A code never changes its meaning.",
                "examples": code::ALL,
            },
            "fields": {
                "type": "array",
                "description": "The fields at fault.",
                "items": {
                    "type": "object",
                    "required": ["field", "problem"],
                    "properties": {
                        "field": {"type": "string"},
                        "problem": {"type": "string"},
                    },
                },
            },
            "metadata": {
                "type": "object",
                "description": "Facts that belong to the code.",
                "additionalProperties": {"type": "string"},
            },
        },
    })
}
