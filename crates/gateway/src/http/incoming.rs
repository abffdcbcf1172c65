//! Makes the request's message of what came over HTTP: its body or its query, then its path, then its
//! headers. What stands in two places has to be the same in both.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use prost_reflect::{
    DeserializeOptions, DynamicMessage, FieldDescriptor, MessageDescriptor, Value,
};
use serde_json::Deserializer;
use serde_json::error::Category;

use super::problem::{Problem, shortened};
use super::query;
use super::table::{Place, PlaceBody};
use super::template::{Captured, decoded};
use super::unique::Unique;
use crate::api::MAX_REQUEST;

/// What makes a request safe to send again.
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const KEY_FIELD: &str = "idempotency_key";

/// The id of the last event that a reconnecting watcher saw, and where the watch goes on.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const FROM_FIELD: &str = "from_sequence";

/// How a door reads what comes in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// The types of bodies of JSON.
    json: &'static [&'static str],
    /// Whether fields and parameters that are not known are passed over, as the protocol has it.
    lenient: bool,
}

impl Dialect {
    /// The API: what is not known is a mistake.
    pub(crate) const OWN: Dialect = Dialect {
        json: &["application/json"],
        lenient: false,
    };
    /// A2A: what is not known may be of a later version.
    pub(crate) const A2A: Dialect = Dialect {
        json: &["application/json", "application/a2a+json"],
        lenient: true,
    };
}

/// What came in, but for its body.
pub(crate) struct Incoming<'r> {
    pub(crate) place: &'r Place,
    pub(crate) captured: Captured<'r>,
    pub(crate) query: Option<&'r str>,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) dialect: Dialect,
}

impl Incoming<'_> {
    /// The request's message.
    pub(crate) async fn message(&self, body: Body) -> Result<DynamicMessage, Problem> {
        let input = self.place.method.input();
        let in_path: Vec<&str> = self.place.template.fields().collect();
        let query = self.query.unwrap_or_default();
        let mut message = match &self.place.body {
            PlaceBody::None => query::read(query, &input, &in_path, self.dialect.lenient)?,
            PlaceBody::Json | PlaceBody::Pieces(_)
                if !query.is_empty() && !self.dialect.lenient =>
            {
                return Err(Problem::invalid(
                    "This request has no query; send its fields in the body.",
                ));
            }
            PlaceBody::Json => json(&whole(body).await?, self.headers, &input, self.dialect)?,
            PlaceBody::Pieces(_) => DynamicMessage::new(input.clone()),
        };
        for (name, given) in in_path.iter().zip(&self.captured) {
            let given = decoded(given).ok_or_else(|| Problem::field(name, "must be UTF-8"))?;
            set(&mut message, name, given, "the path")?;
        }
        if let Some(key) = self.header(&KEY)?
            && input.get_field_by_name(KEY_FIELD).is_some()
        {
            set(&mut message, KEY_FIELD, key.to_owned(), "a header")?;
        }
        if let Some(last) = self.header(&LAST_EVENT)?
            && let Some(from) = input.get_field_by_name(FROM_FIELD)
        {
            go_on(&mut message, &from, last)?;
        }
        Ok(message)
    }

    /// The body is of one of these types.
    pub(crate) fn check_type(&self, wanted: &[&str]) -> Result<(), Problem> {
        check_type(self.headers, wanted)
    }

    /// A header's text; it stands once or not at all.
    fn header(&self, name: &HeaderName) -> Result<Option<&str>, Problem> {
        let mut values = self.headers.get_all(name).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let text = std::str::from_utf8(value.as_bytes()).ok();
        match (text, values.next()) {
            (Some(text), None) => Ok(Some(text)),
            _ => Err(Problem::field(name.as_str(), "must be one text in UTF-8")),
        }
    }
}

/// Sets a text that stands outside the body. It may stand in the body too, if it is the same.
fn set(
    message: &mut DynamicMessage,
    name: &str,
    value: String,
    place: &str,
) -> Result<(), Problem> {
    let differs = {
        let there = message.get_field_by_name(name);
        let there = there.as_deref().and_then(Value::as_str).unwrap_or_default();
        !there.is_empty() && there != value
    };
    if differs {
        let problem = format!("is in {place} too, and differs");
        return Err(Problem::field(name, problem));
    }
    message.set_field_by_name(name, Value::String(value));
    Ok(())
}

/// A watch goes on behind the last event that was seen, whatever its address says.
fn go_on(message: &mut DynamicMessage, from: &FieldDescriptor, last: &str) -> Result<(), Problem> {
    let next = last
        .parse::<u64>()
        .ok()
        .and_then(|last| last.checked_add(1));
    let wrong = || {
        Problem::field(
            LAST_EVENT.as_str(),
            "must be the id of an event of this stream",
        )
    };
    message.set_field(from, Value::U64(next.ok_or_else(wrong)?));
    Ok(())
}

/// The whole body, if it is not too large.
pub(crate) async fn whole(body: Body) -> Result<Bytes, Problem> {
    match Limited::new(body, MAX_REQUEST).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::too_large(MAX_REQUEST)),
        Err(_) => Err(Problem::invalid("The body broke off.")),
    }
}

/// The type of the body, without its parameters, is one of these.
pub(crate) fn check_type(headers: &HeaderMap, wanted: &[&str]) -> Result<(), Problem> {
    let given = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let given = given.unwrap_or_default().split(';').next();
    let given = given.unwrap_or_default().trim();
    if wanted
        .iter()
        .any(|wanted| wanted.eq_ignore_ascii_case(given))
    {
        return Ok(());
    }
    Err(Problem::unsupported_type(&wanted.join("` or `")))
}

/// A body of JSON as a message; an empty one as an empty message.
fn json(
    body: &[u8],
    headers: &HeaderMap,
    input: &MessageDescriptor,
    dialect: Dialect,
) -> Result<DynamicMessage, Problem> {
    if body.is_empty() {
        return Ok(DynamicMessage::new(input.clone()));
    }
    check_type(headers, dialect.json)?;
    let message = read(body, input, dialect)?;
    if !dialect.lenient {
        let unique = serde_json::from_slice::<Unique>(body);
        unique.map_err(|error| unreadable(&error, ""))?;
    }
    Ok(message)
}

/// JSON as a message.
pub(crate) fn read(
    body: &[u8],
    input: &MessageDescriptor,
    dialect: Dialect,
) -> Result<DynamicMessage, Problem> {
    let options = DeserializeOptions::new().deny_unknown_fields(!dialect.lenient);
    let mut reader = Deserializer::from_slice(body);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut reader, &mut track);
    let message = DynamicMessage::deserialize_with_options(input.clone(), tracked, &options);
    let message = message.map_err(|error| unreadable(&error, &track.path().to_string()))?;
    reader.end().map_err(|error| unreadable(&error, ""))?;
    Ok(message)
}

fn unreadable(error: &serde_json::Error, path: &str) -> Problem {
    match error.classify() {
        Category::Data if !path.is_empty() && path != "." => {
            Problem::field(path, error.to_string())
        }
        Category::Data => Problem::invalid(shortened(format!("The body does not fit: {error}."))),
        Category::Syntax | Category::Eof | Category::Io => {
            Problem::invalid(shortened(format!("The body is not JSON: {error}.")))
        }
    }
}

#[cfg(test)]
mod tests {
    use sayso_wire::json::descriptor;
    use sayso_wire::v1;

    use super::*;

    fn start(body: &str) -> Result<v1::StartRunRequest, serde_json::Value> {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            "application/json; charset=utf-8".parse().unwrap(),
        );
        let input = descriptor::<v1::StartRunRequest>();
        let message = json(body.as_bytes(), &headers, &input, Dialect::OWN);
        let message = message.map_err(|p| p.json().parse::<serde_json::Value>().unwrap())?;
        Ok(message.transcode_to().unwrap())
    }

    #[test]
    fn s6_13_a_body_is_read_in_either_spelling() {
        let expected = v1::StartRunRequest {
            agent: "desk".into(),
            idempotency_key: "k".into(),
            ..v1::StartRunRequest::default()
        };
        let camel = r#"{"agent": "desk", "idempotencyKey": "k", "input": null}"#;
        assert_eq!(start(camel), Ok(expected.clone()));
        let snake = r#"{"agent": "desk", "idempotency_key": "k"}"#;
        assert_eq!(start(snake), Ok(expected));
        assert_eq!(start(""), Ok(v1::StartRunRequest::default()));
    }

    #[test]
    fn s10_5_a_bad_body_is_refused_and_says_where() {
        let deep = format!("{{\"agent\": {}", "[".repeat(100_000));
        for body in [
            "{",
            "nonsense",
            "null",
            "[]",
            "\"x\"",
            "{} {}",
            "{\"agent\":}",
            "\u{0}",
            "{\"input\": \"\\ud800\"}",
            deep.as_str(),
            "1e999",
            "{\"agent\": 1e999}",
        ] {
            let refused = start(body).unwrap_err();
            assert_eq!(refused["code"], "request.invalid", "{refused}");
            assert_eq!(refused["status"], 400);
        }
        for (body, field) in [
            (r#"{"agent": 5}"#, "agent"),
            (r#"{"agent": {"a": 1}}"#, "agent"),
        ] {
            assert_eq!(start(body).unwrap_err()["fields"][0]["field"], field);
        }
        let unknown = start(r#"{"colour": "red"}"#).unwrap_err();
        assert!(unknown.to_string().contains("colour"), "{unknown}");
        let twice = start(r#"{"agent": "a", "agent": "b"}"#).unwrap_err();
        assert!(twice.to_string().contains("twice"), "{twice}");
    }

    #[test]
    fn a_body_of_another_type_is_not_read() {
        let input = descriptor::<v1::StartRunRequest>();
        let refused = json(b"{}", &HeaderMap::new(), &input, Dialect::OWN).unwrap_err();
        assert!(refused.json().contains("http.unsupported_media_type"));
    }
}
