//! JSON in which no field stands twice. Readers differ about which of two counts, and a decision must
//! not depend on that.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Any JSON, read for nothing but that: an error if an object has a field twice, in whatever spelling.
pub(super) struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Unique, D::Error> {
        reader.deserialize_any(Look)
    }
}

struct Look;

impl<'de> Visitor<'de> for Look {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            // `run_id` and `runId` are one field.
            let field = key.replace('_', "").to_ascii_lowercase();
            if !seen.insert(field) {
                return Err(A::Error::custom(format_args!("`{key}` stands here twice")));
            }
            map.next_value::<Unique>()?;
        }
        Ok(Unique)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        while items.next_element::<Unique>()?.is_some() {}
        Ok(Unique)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
        Ok(Unique)
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_stands_twice() {
        let is = |json: &str| serde_json::from_str::<Unique>(json).is_ok();
        assert!(is(
            r#"{"a": [1, -1, 1.5, null, true, "x"], "b": {"a": 1}, "c": [{"a": 1}, {"a": 2}]}"#
        ));
        for twice in [
            r#"{"verdict": 1, "verdict": 2}"#,
            r#"{"run_id": "a", "runId": "b"}"#,
            r#"{"decisions": [{"reason": "a", "reason": "a"}]}"#,
        ] {
            assert!(!is(twice), "{twice}");
        }
    }
}
