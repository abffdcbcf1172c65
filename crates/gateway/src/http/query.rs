//! Fields of a request in its query: `?statuses=RUN_STATUS_FAILED&page_size=20`.
//!
//! A field is called as in proto (`page_size`) or as in JSON (`pageSize`); one that holds several
//! values is given several times. Numbers, times and durations are written as in JSON, without quotes;
//! messages of our own do not fit into a query.

use prost_reflect::{Cardinality, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use super::problem::Problem;
use super::template::decoded;

/// Messages that are one value in JSON.
const SCALARS: [&str; 2] = ["google.protobuf.Timestamp", "google.protobuf.Duration"];

/// Reads the fields of a query. Those of the path are not among them; what is not a field is passed
/// over where that is lenient.
pub(super) fn read(
    query: &str,
    input: &MessageDescriptor,
    in_path: &[&str],
    lenient: bool,
) -> Result<DynamicMessage, Problem> {
    let mut object = Map::new();
    for (name, text) in pairs(query)? {
        let field = field_of(input, &name).filter(|field| !in_path.contains(&field.name()));
        let Some(field) = field.filter(fits) else {
            if lenient {
                continue;
            }
            return Err(Problem::field(&name, "is not a parameter of this request"));
        };
        let value = value(&field, &name, text)?;
        match object.get_mut(field.name()) {
            None if field.cardinality() == Cardinality::Repeated => {
                object.insert(field.name().to_owned(), Value::Array(vec![value]));
            }
            None => {
                object.insert(field.name().to_owned(), value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(_) => return Err(Problem::field(&name, "is given twice")),
        }
    }
    let mut track = serde_path_to_error::Track::new();
    let object = Value::Object(object);
    let reader = serde_path_to_error::Deserializer::new(&object, &mut track);
    DynamicMessage::deserialize(input.clone(), reader)
        .map_err(|error| Problem::field(&track.path().to_string(), error.to_string()))
}

/// The field of this name, in either spelling.
pub(super) fn field_of(input: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    let field = input.get_field_by_name(name);
    field.or_else(|| input.get_field_by_json_name(name))
}

/// Whether a field can stand in a query.
pub(super) fn fits(field: &FieldDescriptor) -> bool {
    match field.kind() {
        Kind::Message(message) => SCALARS.contains(&message.full_name()),
        _ => true,
    }
}

/// The value as JSON has it.
fn value(field: &FieldDescriptor, name: &str, text: String) -> Result<Value, Problem> {
    match (field.kind(), text.as_str()) {
        (Kind::Bool, "true") => Ok(Value::Bool(true)),
        (Kind::Bool, "false") => Ok(Value::Bool(false)),
        (Kind::Bool, _) => Err(Problem::field(name, "must be true or false")),
        _ => Ok(Value::String(text)),
    }
}

/// Names and values of a query, decoded.
fn pairs(query: &str) -> Result<Vec<(String, String)>, Problem> {
    let text = |part: &str| {
        let unreadable = || Problem::invalid("The query holds what is not UTF-8.");
        decoded(&part.replace('+', " ")).ok_or_else(unreadable)
    };
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((text(name)?, text(value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use sayso_wire::json::descriptor;
    use sayso_wire::v1;

    use super::*;

    fn runs(query: &str) -> Result<v1::ListRunsRequest, String> {
        let read = read(query, &descriptor::<v1::ListRunsRequest>(), &[], false);
        let message = read.map_err(|problem| problem.json())?;
        Ok(message.transcode_to().unwrap())
    }

    #[test]
    fn s6_13_fields_are_read_from_a_query() {
        let asked = runs(
            "agent=desk&statuses=RUN_STATUS_FAILED&statuses=RUN_STATUS_CANCELLED\
             &created_after=2026-03-01T00:00:00%2B01:00&pageSize=20&requester=a+b",
        );
        let expected = v1::ListRunsRequest {
            agent: "desk".into(),
            statuses: vec![
                v1::RunStatus::Failed.into(),
                v1::RunStatus::Cancelled.into(),
            ],
            created_after: Some(prost_types::Timestamp {
                seconds: 1_772_319_600,
                nanos: 0,
            }),
            page_size: 20,
            requester: "a b".into(),
            ..v1::ListRunsRequest::default()
        };
        assert_eq!(asked, Ok(expected));
        assert_eq!(runs(""), Ok(v1::ListRunsRequest::default()));
    }

    #[test]
    fn s10_5_a_bad_query_is_refused_with_its_field() {
        for (query, field) in [
            ("page_size=-1", "page_size"),
            ("page_size=99999999999", "page_size"),
            ("page_size=", "page_size"),
            ("statuses=RUNNING", "statuses[0]"),
            ("created_after=yesterday", "created_after"),
            ("agent=a&agent=b", "agent"),
            ("colour=red", "colour"),
        ] {
            let refused = runs(query).unwrap_err();
            let told: Value = serde_json::from_str(&refused).unwrap();
            assert_eq!(told["code"], "request.invalid", "{query}");
            assert_eq!(told["fields"][0]["field"], field, "{query}: {told}");
        }
        assert!(runs("agent=%ff").unwrap_err().contains("UTF-8"));
        let watch = descriptor::<v1::WatchRunRequest>();
        assert!(read("steps_only=yes", &watch, &[], false).is_err());
        assert!(read("run_id=x", &watch, &["run_id"], false).is_err());
        let explain = descriptor::<v1::ExplainCallRequest>();
        assert!(read("imagined=x", &explain, &[], false).is_err());
    }
}
