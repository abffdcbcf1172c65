//! Times and durations for people: UTC, to the second in lists, to the millisecond in timelines.

use prost_types::{Duration, Timestamp};
use sayso_wire::time::from_timestamp;

/// `2026-03-01 09:30:00Z`; a dash if there is none.
pub(crate) fn second(time: Option<&Timestamp>) -> String {
    match rfc3339(time) {
        Some(text) => format!("{} {}Z", &text[..10], &text[11..19]),
        None => "-".to_owned(),
    }
}

/// `09:30:00.123`.
pub(crate) fn clock(time: Option<&Timestamp>) -> String {
    match rfc3339(time) {
        Some(text) => text[11..23].to_owned(),
        None => "-".to_owned(),
    }
}

/// `2026-03-01T09:30:00.123456Z`; years beyond 9999 are not times of ours.
fn rfc3339(time: Option<&Timestamp>) -> Option<String> {
    let time = from_timestamp(time?).ok()?;
    Some(time.to_string()).filter(|text| text.len() == "2026-03-01T09:30:00.123456Z".len())
}

/// `340 ms`, `12.3 s`, `4 min 10 s`, `3 h 5 min`, `2 d 4 h`.
pub(crate) fn length(duration: Option<&Duration>) -> String {
    match duration {
        Some(duration) => micros(
            duration
                .seconds
                .saturating_mul(1_000_000)
                .saturating_add(i64::from(duration.nanos) / 1000)
                .unsigned_abs(),
        ),
        None => "-".to_owned(),
    }
}

/// The same of microseconds.
pub(crate) fn micros(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    match seconds {
        0 if micros < 1000 => "<1 ms".to_owned(),
        0 => format!("{} ms", micros / 1000),
        1..=59 => format!("{seconds}.{} s", micros / 100_000 % 10),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        let time = Timestamp {
            seconds: 1_772_357_400,
            nanos: 123_456_000,
        };
        assert_eq!(second(Some(&time)), "2026-03-01 09:30:00Z");
        assert_eq!(clock(Some(&time)), "09:30:00.123");
        assert_eq!(second(None), "-");
        let absurd = Timestamp {
            seconds: i64::MAX / 1_000_001,
            nanos: 0,
        };
        assert_eq!(clock(Some(&absurd)), "-");
    }

    #[test]
    fn lengths_have_two_units_at_most() {
        for (given, said) in [
            (12, "<1 ms"),
            (340_999, "340 ms"),
            (12_340_000, "12.3 s"),
            (250_000_000, "4 min 10 s"),
            (11_100_000_000, "3 h 5 min"),
            (187_200_000_000, "2 d 4 h"),
        ] {
            assert_eq!(micros(given), said);
        }
    }
}
