//! Between what columns hold and what it means.

use sayso_run::{Digest, Timestamp};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as BadWord, StrDeserializer};

use crate::error::DatabaseError;

/// What could not be read.
pub(crate) type Why = String;

/// An optional time as a column.
pub(crate) const fn time(at: Option<Timestamp>) -> Option<i64> {
    match at {
        Some(at) => Some(at.micros()),
        None => None,
    }
}

/// A stored time.
pub(crate) const fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// A unit enum of the core by its stored word.
pub(crate) fn word<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, Why> {
    let words: StrDeserializer<'de, BadWord> = text.into_deserializer();
    T::deserialize(words).map_err(|error| error.to_string())
}

/// A stored SHA-256.
pub(crate) fn digest(bytes: &[u8]) -> Result<Digest, Why> {
    <[u8; 32]>::try_from(bytes)
        .map(Digest::from_bytes)
        .map_err(|_| format!("a digest has 32 bytes, not {}", bytes.len()))
}

/// A stored count, sequence number or size.
pub(crate) fn count<T: TryFrom<i64>>(value: i64) -> Result<T, Why> {
    T::try_from(value).map_err(|_| format!("{value} is out of range"))
}

/// A name or id by its rules.
pub(crate) fn name<T: TryFrom<String>>(text: String) -> Result<T, Why>
where
    T::Error: std::fmt::Display,
{
    T::try_from(text).map_err(|error| error.to_string())
}

/// Says whose row it was.
pub(crate) fn bad_row(
    table: &'static str,
    id: impl Into<String>,
) -> impl FnOnce(Why) -> DatabaseError {
    let id = id.into();
    move |why| DatabaseError::BadRow { table, id, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sayso_run::{DenyCause, EndedBy, Trust};

    #[test]
    fn words_of_the_core_are_read_as_they_are_written() {
        assert_eq!(word::<Trust>(Trust::Operator.as_str()), Ok(Trust::Operator));
        assert_eq!(word::<DenyCause>("run_ended"), Ok(DenyCause::RunEnded));
        assert_eq!(word::<EndedBy>("max_cycles"), Ok(EndedBy::MaxCycles));
        assert!(word::<EndedBy>("nonsense").is_err());
    }
}
