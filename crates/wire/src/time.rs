//! Times and durations. Ours are microseconds; protobuf's are seconds and nanoseconds.

use std::time::Duration;

use sayso_run::Timestamp;
use thiserror::Error;

const MICROS: i64 = 1_000_000;

/// A time as protobuf has it.
pub fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    let nanos = at.micros().rem_euclid(MICROS) * 1000;
    prost_types::Timestamp {
        seconds: at.micros().div_euclid(MICROS),
        nanos: i32::try_from(nanos).expect("less than a second of nanoseconds fits an i32"),
    }
}

/// A time or duration that protobuf does not allow, or that microseconds in 64 bits do not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the {0} is out of range")]
pub struct OutOfRange(&'static str);

/// A time from protobuf. Nanoseconds are cut to microseconds.
///
/// # Errors
///
/// When the nanoseconds are not within their second, or the seconds are beyond our range.
pub fn from_timestamp(at: &prost_types::Timestamp) -> Result<Timestamp, OutOfRange> {
    if !(0..1_000_000_000).contains(&at.nanos) {
        return Err(OutOfRange("time"));
    }
    at.seconds
        .checked_mul(MICROS)
        .and_then(|micros| micros.checked_add(i64::from(at.nanos) / 1000))
        .map(Timestamp::from_micros)
        .ok_or(OutOfRange("time"))
}

/// A duration as protobuf has it; negative ones come out as zero.
pub fn duration_micros(micros: i64) -> prost_types::Duration {
    let micros = micros.max(0);
    prost_types::Duration {
        seconds: micros / MICROS,
        nanos: i32::try_from(micros % MICROS * 1000)
            .expect("less than a second of nanoseconds fits an i32"),
    }
}

/// A duration as protobuf has it, from the standard library's.
pub fn duration(duration: Duration) -> prost_types::Duration {
    duration_micros(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}

/// A duration from protobuf.
///
/// # Errors
///
/// When it is negative or malformed.
pub fn from_duration(duration: &prost_types::Duration) -> Result<Duration, OutOfRange> {
    match (
        u64::try_from(duration.seconds),
        u32::try_from(duration.nanos),
    ) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        _ => Err(OutOfRange("duration")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_back_as_they_went_also_before_1970() {
        for micros in [0, 1, -1, 999_999, -1_000_001, 1_772_357_400_123_456] {
            let at = Timestamp::from_micros(micros);
            let sent = timestamp(at);
            assert!((0..1_000_000_000).contains(&sent.nanos), "{sent:?}");
            assert_eq!(from_timestamp(&sent), Ok(at));
            assert_eq!(sent.to_string().parse(), Ok(sent));
        }
    }

    #[test]
    fn bad_times_and_durations_are_refused_and_never_panic() {
        let time = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        for bad in [
            time(i64::MAX, 0),
            time(i64::MIN, 1),
            time(0, -1),
            time(0, 1_000_000_000),
        ] {
            assert!(from_timestamp(&bad).is_err(), "{bad:?}");
        }
        let span = |seconds, nanos| prost_types::Duration { seconds, nanos };
        for bad in [
            span(-1, 0),
            span(0, -1),
            span(0, 1_000_000_000),
            span(i64::MIN, i32::MIN),
        ] {
            assert!(from_duration(&bad).is_err(), "{bad:?}");
        }
        assert_eq!(from_duration(&span(90, 5)), Ok(Duration::new(90, 5)));
        assert_eq!(duration(Duration::from_millis(1500)), span(1, 500_000_000));
        assert_eq!(duration_micros(-7), span(0, 0));
    }
}
