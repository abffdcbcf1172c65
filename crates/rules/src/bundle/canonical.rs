//! The one JSON text of a bundle.
//!
//! Built from the types, field by field in their declared order, never through
//! a `serde_json::Value`: the order of a `Value`'s keys depends on which crates
//! are built together.

use std::time::Duration;

use serde::Serializer;
use sha2::{Digest, Sha256};

use super::{Bundle, ToolMarks};
use crate::glob::Glob;

pub(super) fn json(bundle: &Bundle) -> String {
    serde_json::to_string(bundle).expect("a bundle holds only texts, flags, lists and text keys")
}

pub(super) fn hash(canonical: &str) -> String {
    hex::encode(Sha256::digest(canonical))
}

/// Marks keep their file order, in which globs are looked up.
pub(super) fn tools<S: Serializer>(
    tools: &[(Glob, ToolMarks)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(tools.iter().map(|(glob, marks)| (glob, marks)))
}

pub(super) fn known_duration<S: Serializer>(
    value: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let milliseconds = value.as_millis();
    let units = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let (unit, length) = largest_that_divides(milliseconds, units);
    serializer.collect_str(&format_args!("{}{unit}", milliseconds / length))
}

pub(super) fn duration<S: Serializer>(
    value: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => known_duration(value, serializer),
        None => serializer.serialize_none(),
    }
}

pub(super) fn size<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(bytes) => {
            let bytes = u128::from(*bytes);
            let (unit, length) =
                largest_that_divides(bytes, [("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)]);
            serializer.collect_str(&format_args!("{}{unit}", bytes / length))
        }
        None => serializer.serialize_none(),
    }
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The first unit of which a value is a whole multiple; the last unit is 1.
fn largest_that_divides<const N: usize>(
    value: u128,
    units: [(&'static str, u128); N],
) -> (&'static str, u128) {
    units
        .into_iter()
        .find(|(_, length)| value.is_multiple_of(*length))
        .expect("every value is a multiple of 1")
}
