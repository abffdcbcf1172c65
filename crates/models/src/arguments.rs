//! Argument bytes on their way back to a provider.
//!
//! What a model wrote goes back exactly as it wrote it (S3.7), as long as a provider can read it. A
//! provider parses the history it gets, and refuses the **whole request** over one call that it
//! cannot parse: a stopped half of an object, a list, half of a surrogate pair. Such arguments never
//! ran (the judge refuses them, and the call's result says why), so `{}` stands for them in the
//! history. So it does for objects that hold a key twice: readers disagree about which one counts.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// What stands for arguments that no provider could read.
const NOTHING: &str = "{}";

/// The arguments as they may go back: the very bytes, or `{}`.
pub(crate) fn history(args: &str) -> &RawValue {
    whole_object(args)
        .unwrap_or_else(|| serde_json::from_str(NOTHING).expect("an empty object is JSON"))
}

/// The text as one JSON object that every reader reads alike.
fn whole_object(args: &str) -> Option<&RawValue> {
    let raw: &RawValue = serde_json::from_str(args).ok()?;
    (raw.get().starts_with('{') && is_sound(raw.get(), MOST_LEVELS)).then_some(raw)
}

/// Deeper values are refused by readers with the usual recursion limit.
const MOST_LEVELS: usize = 100;

/// Whether no object in it has a key twice and every string is whole. Numbers are not looked at: a
/// reader that rounds them rounds for itself.
fn is_sound(json: &str, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else {
        return false;
    };
    match json.as_bytes().first() {
        Some(b'{') => serde_json::from_str::<Members>(json)
            .is_ok_and(|members| members.0.iter().all(|value| is_sound(value.get(), levels))),
        Some(b'[') => serde_json::from_str::<Items>(json)
            .is_ok_and(|items| items.0.iter().all(|item| is_sound(item.get(), levels))),
        Some(b'"') => serde_json::from_str::<String>(json).is_ok(),
        _ => true,
    }
}

/// The values of an object without a repeated key.
struct Members<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object without a repeated key")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut keys = std::collections::BTreeSet::new();
                let mut values = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    if !keys.insert(key) {
                        return Err(A::Error::custom("a key stands here twice"));
                    }
                    values.push(value);
                }
                Ok(Members(values))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// The items of a list.
struct Items<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Items<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element::<&RawValue>()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3.7: numbers are never rounded, escapes and spaces stay.
    #[test]
    fn s3_7_what_a_provider_can_read_goes_back_to_the_byte() {
        for args in [
            "{}",
            r#"{"amount":1.10,"n":123456789012345678901234567890,"e":1e999}"#,
            r#"{ "s" : "\u00e9\ud83d\ude00é" , "l":[ {"a":1},{"a":1} ] }"#,
            "{\"a\":\n 1}",
        ] {
            assert_eq!(history(args).get(), args);
        }
        assert_eq!(history(" {\"a\":1}\n").get(), r#"{"a":1}"#);
    }

    #[test]
    fn what_no_provider_could_read_goes_back_as_nothing() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
        for args in [
            "",
            "[1]",
            "\"x\"",
            "null",
            r#"{"a":1"#,
            r#"{"a":1} {"b":2}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"o":{"a":1,"\u0061":2}}"#,
            r#"{"l":[{"a":1,"a":2}]}"#,
            r#"{"s":"\ud800"}"#,
            &deep,
        ] {
            assert_eq!(history(args).get(), "{}", "{args}");
        }
    }
}
