//! The one record that a read returned (S5.9).

use crate::bundle::Step;
use crate::json::Json;
use crate::provenance::kinds::{Named, named};
use crate::provenance::text::normal;

/// A scalar within a result, and where it stands.
pub(crate) type Field<'j, 't> = (Vec<Step<'j>>, &'j Json<'t>);

/// Every scalar of a value with its place, in order.
pub(crate) fn leaves<'j, 't>(value: &'j Json<'t>) -> Vec<Field<'j, 't>> {
    let mut found = Vec::new();
    walk(value, &mut Vec::new(), &mut found);
    found
}

fn walk<'j, 't>(value: &'j Json<'t>, path: &mut Vec<Step<'j>>, found: &mut Vec<Field<'j, 't>>) {
    match value {
        Json::Null => {}
        Json::Bool(_) | Json::Number(_) | Json::Text(_) => found.push((path.clone(), value)),
        Json::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                walk(item, path, found);
                path.pop();
            }
        }
        Json::Map(entries) => {
            for (key, item) in entries {
                path.push(Step::Key(key));
                walk(item, path, found);
                path.pop();
            }
        }
    }
}

/// The fields of the one record that a result is about, given the arguments of the read.
///
/// A mapping is a record; so is the one mapping in a list, or the one that has a field equal to an
/// argument; it does not matter whether a result wraps its records (`{"results": […]}`). Records that
/// are listed within a record, as the comments on an issue, are no part of it.
pub(crate) fn one_record<'j, 't>(result: &'j Json<'t>, args: &Json<'_>) -> Vec<Field<'j, 't>> {
    let wanted: Vec<String> = leaves(args)
        .iter()
        .filter_map(|(_, value)| plain(value))
        .map(normal)
        .collect();
    let mut found = Vec::new();
    match result {
        Json::Map(_) | Json::List(_) => {
            record(result, &wanted, false, &mut Vec::new(), &mut found);
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => {}
    }
    found
}

/// `within` is whether a record stands around the value already: what is listed there is no part of
/// that record.
fn record<'j, 't>(
    value: &'j Json<'t>,
    wanted: &[String],
    within: bool,
    path: &mut Vec<Step<'j>>,
    found: &mut Vec<Field<'j, 't>>,
) {
    match value {
        Json::Null => {}
        Json::Bool(_) | Json::Number(_) | Json::Text(_) => found.push((path.clone(), value)),
        Json::Map(entries) => {
            let within = within || !is_wrapper(entries);
            for (key, item) in entries {
                if within && is_record_list(item) && !lists_addresses(key) {
                    continue;
                }
                path.push(Step::Key(key));
                record(item, wanted, within, path, found);
                path.pop();
            }
        }
        Json::List(items) if items.iter().any(is_compound) => {
            if let Some(index) = the_one(items, wanted) {
                path.push(Step::Index(index));
                record(&items[index], wanted, true, path, found);
                path.pop();
            }
        }
        // A bare list is no record; a list of texts within one belongs to it.
        Json::List(items) => {
            if path.iter().any(|step| matches!(step, Step::Key(_))) {
                for (index, item) in items.iter().enumerate() {
                    path.push(Step::Index(index));
                    record(item, wanted, within, path, found);
                    path.pop();
                }
            }
        }
    }
}

/// Whether a mapping is no record but what a result wraps one in: it holds one list of records at
/// most, and beside it nothing but counts and the like.
fn is_wrapper(entries: &[(std::borrow::Cow<'_, str>, Json<'_>)]) -> bool {
    let lists = entries.iter().filter(|(_, item)| is_record_list(item));
    lists.count() <= 1
        && entries.iter().all(|(key, item)| match item {
            Json::Text(_) => BESIDE_RECORDS.contains(&key.to_ascii_lowercase().as_str()),
            Json::Number(_) => matches!(named(key), Named::Other(_)),
            Json::Null | Json::Bool(_) | Json::List(_) | Json::Map(_) => true,
        })
}

/// Texts that a wrapper holds beside its records.
const BESIDE_RECORDS: [&str; 8] = [
    "cursor",
    "next",
    "next_page",
    "object",
    "previous",
    "query",
    "status",
    "type",
];

/// Whether a record lists its own addresses under that name, each a small mapping.
fn lists_addresses(key: &str) -> bool {
    let (Named::Other(noun) | Named::Id(noun)) = named(key) else {
        return false;
    };
    matches!(
        noun.as_str(),
        "address" | "attendee" | "email" | "iban" | "mail" | "participant" | "phone" | "recipient"
    )
}

fn is_record_list(value: &Json<'_>) -> bool {
    matches!(value, Json::List(items) if items.iter().any(is_compound))
}

fn is_compound(value: &Json<'_>) -> bool {
    matches!(value, Json::Map(_) | Json::List(_))
}

/// Which of several the arguments meant: the only one, or the only one with a field that equals
/// one of them.
fn the_one(items: &[Json<'_>], wanted: &[String]) -> Option<usize> {
    let is_record = |item: &Json<'_>| matches!(item, Json::Map(_));
    if let [one] = items {
        return is_record(one).then_some(0);
    }
    let mut equal = items.iter().enumerate().filter(|(_, item)| {
        leaves(item)
            .iter()
            .filter_map(|(_, value)| plain(value))
            .any(|value| wanted.contains(&normal(value)))
    });
    let (index, item) = equal.next()?;
    (equal.next().is_none() && is_record(item)).then_some(index)
}

/// A scalar's text.
pub(crate) fn plain<'j>(value: &'j Json<'_>) -> Option<&'j str> {
    match value {
        Json::Text(text) => Some(text),
        Json::Number(digits) => Some(digits),
        Json::Bool(true) => Some("true"),
        Json::Bool(false) => Some("false"),
        Json::Null | Json::List(_) | Json::Map(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(result: &str, args: &str) -> String {
        let (result, args) = (Json::read(result).unwrap(), Json::read(args).unwrap());
        let fields = one_record(&result, &args);
        let values: Vec<&str> = fields
            .iter()
            .filter_map(|(_, value)| plain(value))
            .collect();
        values.join(" ")
    }

    #[test]
    fn s5_9_a_lookup_is_of_one_record() {
        let query = r#"{"name":"Bob"}"#;
        for (result, expected) in [
            (r#"{"id":1,"mail":"b"}"#, "1 b"),
            (r#"[{"id":1}]"#, "1"),
            (r#"[{"id":1},{"id":2}]"#, ""),
            (
                r#"[{"id":1,"name":"Bob"},{"id":2,"name":"Bobby"}]"#,
                "1 Bob",
            ),
            (r#"[{"id":1,"name":"bob"},{"id":2,"name":"Bob"}]"#, ""),
            (r#"{"results":[{"id":1}],"total":1}"#, "1 1"),
            (r#"{"results":[{"id":1},{"id":2}]}"#, ""),
            (r#"{"results":[{"id":1,"name":"Bob"},{"id":2}]}"#, "1 Bob"),
            (r#"{"id":1,"to":["x","y"],"owner":{"id":7}}"#, "1 x y 7"),
            (r#"{"id":1,"by":[{"id":7}]}"#, "1"),
            (r#"{"name":"Bob","by":[{"id":7}]}"#, "Bob"),
            (r#"{"id":1,"meta":{"by":[{"id":7}]}}"#, "1"),
            (
                r#"{"id":1,"emails":[{"kind":"work","mail":"b"}]}"#,
                "1 work b",
            ),
            (r#"{"results":[{"id":1}],"ads":[{"id":7}]}"#, ""),
            (r#"{"data":{"results":[{"id":1}],"total":1}}"#, "1 1"),
            (r#"["a","b"]"#, ""),
            (r#"["a"]"#, ""),
            (r#""a@b""#, ""),
            (r#"[[{"id":1}]]"#, ""),
            (r#"[{"id":1},"Bob"]"#, ""),
            ("null", ""),
        ] {
            assert_eq!(found(result, query), expected, "{result}");
        }
    }
}
