//! Parts of messages: what an agent is told, and JSON inside and outside of protobuf.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::{Map, Number};
use thiserror::Error;

use super::v1;
use super::v1::part::Content;
use crate::json;

/// Why a part is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadPart {
    /// It holds nothing.
    #[error("parts[{0}] holds nothing: send `text` or `data`")]
    Empty(usize),
    /// It is a file, or a text or data of a type that is not read.
    #[error(
        "parts[{0}] is {1}, which agents here do not read: send `text` (text/…) or `data` (application/json)"
    )]
    Unsupported(usize, String),
}

/// The texts of a message's parts, and their data as JSON, with an empty line between.
///
/// # Errors
///
/// [`BadPart`] for files and for other types of content.
pub fn text_of(parts: &[v1::Part]) -> Result<String, BadPart> {
    let texts: Result<Vec<String>, BadPart> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| text(at, part))
        .collect();
    Ok(texts?.join("\n\n"))
}

fn text(at: usize, part: &v1::Part) -> Result<String, BadPart> {
    let media = part.media_type.split(';').next().unwrap_or_default();
    let media = media.trim().to_ascii_lowercase();
    let is = |what: &str| BadPart::Unsupported(at, what.to_owned());
    match &part.content {
        None => Err(BadPart::Empty(at)),
        Some(Content::Text(text)) if media.is_empty() || media.starts_with("text/") => {
            Ok(text.clone())
        }
        Some(Content::Text(text)) if is_json(&media) => Ok(text.clone()),
        Some(Content::Data(data)) if media.is_empty() || is_json(&media) => {
            Ok(value_of(data).to_string())
        }
        Some(Content::Text(_)) => Err(is(&format!("text of the type `{media}`"))),
        Some(Content::Data(_)) => Err(is(&format!("data of the type `{media}`"))),
        Some(Content::Raw(_)) => Err(is("a file")),
        Some(Content::Url(_)) => Err(is("a file behind a URL")),
    }
}

/// All of a message as JSON, for agents that are told all of it. Its parts are checked as for
/// [`text_of`].
///
/// # Errors
///
/// [`BadPart`] for files and for other types of content.
pub fn whole(message: &v1::Message) -> Result<String, BadPart> {
    text_of(&message.parts)?;
    Ok(json::to_json(message))
}

/// Whether a media type is JSON.
pub(super) fn is_json(media: &str) -> bool {
    media == "application/json" || media.ends_with("+json")
}

/// A protobuf value as JSON. Its numbers are 64-bit floating-point ones; whole ones are written
/// without a point.
pub fn value_of(value: &Value) -> serde_json::Value {
    match &value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::BoolValue(flag)) => (*flag).into(),
        Some(Kind::NumberValue(number)) => number_of(*number),
        Some(Kind::StringValue(text)) => text.as_str().into(),
        Some(Kind::ListValue(list)) => list.values.iter().map(value_of).collect(),
        Some(Kind::StructValue(fields)) => {
            let fields = fields.fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), value_of(value)));
            serde_json::Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Whole numbers up to this are exact in a 64-bit floating-point number.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn number_of(number: f64) -> serde_json::Value {
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is whole and within the range"
        )]
        let whole = number as i64;
        return whole.into();
    }
    Number::from_f64(number).map_or(serde_json::Value::Null, serde_json::Value::Number)
}

/// JSON as a protobuf value; none of a number that does not fit one.
pub(super) fn to_value(json: &serde_json::Value) -> Option<Value> {
    let kind = match json {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(flag) => Kind::BoolValue(*flag),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64()?),
        serde_json::Value::String(text) => Kind::StringValue(text.clone()),
        serde_json::Value::Array(items) => Kind::ListValue(ListValue {
            values: items.iter().map(to_value).collect::<Option<_>>()?,
        }),
        serde_json::Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| Some((name.clone(), to_value(value)?)));
            Kind::StructValue(Struct {
                fields: fields.collect::<Option<_>>()?,
            })
        }
    };
    Some(Value { kind: Some(kind) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(content: Content, media: &str) -> v1::Part {
        v1::Part {
            content: Some(content),
            media_type: media.into(),
            ..v1::Part::default()
        }
    }

    /// S6.13: an agent is told texts and data; whatever else is refused.
    #[test]
    fn s6_13_texts_and_data_are_read_and_nothing_else() {
        let json = serde_json::json!({"a": [1, 1.5, null, true, "x"], "big": 1e300});
        let data = Content::Data(to_value(&json).unwrap());
        let said = text_of(&[
            part(Content::Text("hello".into()), ""),
            part(Content::Text("<b>".into()), "Text/HTML; charset=utf-8"),
            part(data, "application/json"),
        ]);
        assert_eq!(
            said.unwrap(),
            "hello\n\n<b>\n\n{\"a\":[1,1.5,null,true,\"x\"],\"big\":1e+300}"
        );
        for refused in [
            part(Content::Raw(vec![1]), "text/plain"),
            part(Content::Url("https://x".into()), ""),
            part(Content::Text("x".into()), "image/png"),
        ] {
            let told = text_of(std::slice::from_ref(&refused)).unwrap_err();
            assert!(matches!(told, BadPart::Unsupported(0, _)), "{refused:?}");
        }
        assert_eq!(text_of(&[v1::Part::default()]), Err(BadPart::Empty(0)));
    }
}
