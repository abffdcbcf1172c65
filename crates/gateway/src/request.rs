//! Checks of what comes in. Every field of a request is checked, and all that is wrong with it is
//! told at once (S10.5).

use std::str::FromStr;
use std::time::Duration;

use sayso_run::{BadName, Timestamp, limits};
use sayso_service::error::{Coded, Kind};
use sayso_wire::code;
use sayso_wire::time::{from_duration, from_timestamp};

/// The longest idempotency key, in bytes.
const KEY_BYTES: usize = 255;
/// The longest text in a filter, in bytes.
const FILTER_BYTES: usize = 512;

/// Notes what is wrong with a request.
#[derive(Debug, Default)]
pub(crate) struct Check {
    fields: Vec<(String, String)>,
    /// A problem that has a code of its own, which then is the answer's.
    special: Option<(Kind, &'static str, &'static str)>,
}

impl Check {
    pub(crate) fn new() -> Check {
        Check::default()
    }

    /// Notes a problem.
    pub(crate) fn wrong(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.fields.push((field.into(), problem.into()));
    }

    /// A name or id that has to be there.
    pub(crate) fn id<T: FromStr<Err = BadName>>(&mut self, field: &str, given: &str) -> Option<T> {
        match given.parse() {
            Ok(id) => Some(id),
            Err(_) if given.is_empty() => {
                self.wrong(field, "is required");
                None
            }
            Err(bad) => {
                self.wrong(field, format!("must be {}", bad.rule));
                None
            }
        }
    }

    /// A name or id that may be left out.
    pub(crate) fn filter<T: FromStr<Err = BadName>>(
        &mut self,
        field: &str,
        given: &str,
    ) -> Option<T> {
        if given.is_empty() {
            None
        } else {
            self.id(field, given)
        }
    }

    /// A word in a filter that may be left out.
    pub(crate) fn word(&mut self, field: &str, given: String) -> Option<String> {
        if given.len() > FILTER_BYTES {
            self.wrong(field, format!("must have at most {FILTER_BYTES} bytes"));
        }
        self.no_nul(field, &given);
        (!given.is_empty()).then_some(given)
    }

    /// A person's text, which may be empty: at most 1 MiB and without a NUL.
    pub(crate) fn text(&mut self, field: &str, given: &str) {
        if given.len() > limits::MAX_TEXT_BYTES {
            let problem = format!(
                "has {} bytes; at most {} are taken",
                given.len(),
                limits::MAX_TEXT_BYTES
            );
            self.wrong(field, problem);
            self.special(Kind::TooLarge, code::REQUEST_TOO_LARGE, "The text is too long; shorten it, or hand it over as a file that the agent can read.");
        }
        self.no_nul(field, given);
    }

    /// An idempotency key; empty for none.
    pub(crate) fn key(&mut self, given: &str) {
        if given.len() > KEY_BYTES {
            self.wrong(
                "idempotency_key",
                format!("must have at most {KEY_BYTES} bytes"),
            );
        }
        self.no_nul("idempotency_key", given);
    }

    /// A time that may be left out.
    pub(crate) fn time(
        &mut self,
        field: &str,
        given: Option<&prost_types::Timestamp>,
    ) -> Option<Timestamp> {
        let given = given?;
        match from_timestamp(given) {
            Ok(time) => Some(time),
            Err(out_of_range) => {
                self.wrong(field, out_of_range.to_string());
                None
            }
        }
    }

    /// A duration that may be left out, within bounds.
    pub(crate) fn duration(
        &mut self,
        field: &str,
        given: Option<&prost_types::Duration>,
    ) -> Option<Duration> {
        let given = given?;
        match from_duration(given) {
            Ok(duration) => Some(duration),
            Err(out_of_range) => {
                self.wrong(field, out_of_range.to_string());
                None
            }
        }
    }

    /// Values of an enum in a filter. The unspecified one means any, so the filter is then empty.
    pub(crate) fn each<P, T>(&mut self, field: &str, given: &[i32]) -> Vec<T>
    where
        P: TryFrom<i32>,
        T: TryFrom<P>,
    {
        if given.contains(&0) {
            return Vec::new();
        }
        let read = |value: i32| {
            P::try_from(value)
                .ok()
                .and_then(|value| T::try_from(value).ok())
        };
        let values: Option<Vec<T>> = given.iter().map(|value| read(*value)).collect();
        values.unwrap_or_else(|| {
            self.wrong(field, "holds a value that this version does not know");
            Vec::new()
        })
    }

    /// Everything was right, or this is what was wrong.
    pub(crate) fn done(self) -> Result<(), Coded> {
        if self.fields.is_empty() {
            return Ok(());
        }
        let (kind, code, sentence) = self.special.unwrap_or((
            Kind::Invalid,
            code::REQUEST_INVALID,
            "The request is not valid; correct the fields that are named",
        ));
        let named: Vec<&str> = self
            .fields
            .iter()
            .map(|(field, _)| field.as_str())
            .collect();
        let message = format!("{} ({}).", sentence.trim_end_matches('.'), named.join(", "));
        let mut coded = Coded::new(kind, code, message);
        coded.fields = self.fields;
        Err(coded)
    }

    fn no_nul(&mut self, field: &str, given: &str) {
        if given.contains('\0') {
            self.wrong(field, "must not hold a NUL character");
            self.special(
                Kind::Invalid,
                code::REQUEST_INVALID_TEXT,
                "The text holds a character that cannot be stored; leave it out.",
            );
        }
    }

    fn special(&mut self, kind: Kind, code: &'static str, sentence: &'static str) {
        self.special.get_or_insert((kind, code, sentence));
    }
}

/// What a check found where the field has to be there: [`Check::done`] has been asked before.
pub(crate) const CHECKED: &str = "a missing field was noted, and done() refused the request";

#[cfg(test)]
mod tests {
    use sayso_run::RunId;

    use super::*;

    /// S10.5: all that is wrong is told at once, by field.
    #[test]
    fn s10_5_every_wrong_field_is_named() {
        let mut check = Check::new();
        check.id::<RunId>("run_id", "");
        check.id::<RunId>("run_id", "apr_1");
        check.key(&"k".repeat(256));
        check.time(
            "after",
            Some(&prost_types::Timestamp {
                seconds: 0,
                nanos: -1,
            }),
        );
        let refused = check.done().unwrap_err();
        assert_eq!(refused.code, "request.invalid");
        let fields: Vec<&str> = refused
            .fields
            .iter()
            .map(|(field, _)| field.as_str())
            .collect();
        assert_eq!(fields, ["run_id", "run_id", "idempotency_key", "after"]);
        assert!(refused.message.contains("run_id"), "{refused}");
    }

    #[test]
    fn s10_5_sizes_and_nuls_have_codes_of_their_own() {
        let code = |text: &str| {
            let mut check = Check::new();
            check.text("input", text);
            check.done().map_err(|refused| refused.code.into_owned())
        };
        assert_eq!(code("hello\n\u{202e}"), Ok(()));
        assert_eq!(code(&"x".repeat(limits::MAX_TEXT_BYTES)), Ok(()));
        assert_eq!(
            code(&"x".repeat(limits::MAX_TEXT_BYTES + 1)),
            Err("request.too_large".into())
        );
        assert_eq!(code("a\0b"), Err("request.invalid_text".into()));
    }

    #[test]
    fn what_may_be_left_out_may_be_left_out() {
        let mut check = Check::new();
        assert_eq!(check.filter::<RunId>("run_id", ""), None);
        assert_eq!(check.word("actor", String::new()), None);
        assert_eq!(check.time("after", None), None);
        assert_eq!(check.done(), Ok(()));
    }
}
