//! When a schedule is due: five cron fields in a time zone (S8.5).
//!
//! Where clocks change, a schedule of fixed times (`30 2 * * *`) comes once on each day: a local
//! time that does not exist comes at the first moment after the gap, one that exists twice comes the
//! first time only. A schedule with a wildcard or a step in its hours or minutes keeps real time
//! between its ticks: nothing comes within the gap, and the repeated hour is an hour like any other.
//!
//! Pure: the time is handed in, and the zones are compiled in.

use std::fmt;

use chrono::DateTime;
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use thiserror::Error;

/// The zone of a schedule that names none.
pub const DEFAULT_ZONE: &str = "UTC";

/// A cron expression in a time zone.
#[derive(Clone)]
pub struct Schedule {
    cron: Cron,
    zone: Tz,
}

/// Text that is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadSchedule {
    /// Not five fields.
    #[error(
        "a cron expression has five fields: minute, hour, day of month, month, day of week; here \
         are {0}"
    )]
    Fields(usize),
    /// A field does not have the form of its kind.
    #[error("this is no cron expression: {0}")]
    Cron(String),
    /// The zone is not in the IANA database.
    #[error("there is no such time zone: IANA names are expected, such as Europe/Berlin or UTC")]
    Zone,
    /// The expression never matches, as 30 February.
    #[error("this never comes")]
    Never,
}

impl Schedule {
    /// Reads an expression of five fields and an IANA zone.
    ///
    /// # Errors
    ///
    /// [`BadSchedule`].
    pub fn new(cron: &str, zone: &str) -> Result<Self, BadSchedule> {
        let zone = zone_of(zone)?;
        let fields = cron.split_whitespace().count();
        if fields != 5 {
            return Err(BadSchedule::Fields(fields));
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let parsed = parser.parse(cron);
        let cron = parsed.map_err(|error| BadSchedule::Cron(error.to_string()))?;
        let schedule = Self { cron, zone };
        match schedule.next_after(0) {
            Some(_) => Ok(schedule),
            None => Err(BadSchedule::Never),
        }
    }

    /// The first tick after a time, both in microseconds since 1970 in UTC; `None` if none ever
    /// comes.
    #[must_use]
    pub fn next_after(&self, micros: i64) -> Option<i64> {
        let second = DateTime::from_timestamp(micros.div_euclid(1_000_000), 0)?;
        let local = second.with_timezone(&self.zone);
        let next = self.cron.find_next_occurrence(&local, false).ok()?;
        next.timestamp().checked_mul(1_000_000)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schedule({self})")
    }
}

/// As in `30 2 * * * Europe/Berlin`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.cron.as_str(), self.zone.name())
    }
}

/// A zone by its IANA name.
pub(crate) fn zone_of(name: &str) -> Result<Tz, BadSchedule> {
    name.parse().map_err(|_| BadSchedule::Zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(utc: &str) -> i64 {
        DateTime::parse_from_rfc3339(utc)
            .unwrap()
            .timestamp_micros()
    }

    /// The ticks from one time to another, in UTC.
    fn ticks(cron: &str, zone: &str, from: &str, until: &str) -> Vec<String> {
        let schedule = Schedule::new(cron, zone).unwrap();
        let (mut at, end) = (micros(from), micros(until));
        let mut ticks = Vec::new();
        while let Some(next) = schedule.next_after(at).filter(|next| *next < end) {
            ticks.push(DateTime::from_timestamp_micros(next).unwrap());
            at = next;
        }
        // As in 29T01:30.
        let shown = ticks
            .iter()
            .map(|tick| format!("{tick:?}")[8..16].to_owned());
        shown.collect()
    }

    /// B54: in the missing hour at the next valid moment, once.
    #[test]
    fn b54_a_local_time_that_does_not_exist_comes_after_the_gap() {
        let around = ticks(
            "30 2 * * *",
            "Europe/Berlin",
            "2025-03-28T12:00:00Z",
            "2025-03-31T12:00:00Z",
        );
        assert_eq!(around, ["29T01:30", "30T01:00", "31T00:30"]);
    }

    /// B54: in the repeated hour the first time only.
    #[test]
    fn b54_a_local_time_that_exists_twice_comes_once() {
        let berlin = ticks(
            "30 2 * * *",
            "Europe/Berlin",
            "2025-10-25T12:00:00Z",
            "2025-10-28T00:00:00Z",
        );
        assert_eq!(berlin, ["26T00:30", "27T01:30"]);
        let new_york = ticks(
            "30 1 * * *",
            "America/New_York",
            "2025-11-01T12:00:00Z",
            "2025-11-04T00:00:00Z",
        );
        assert_eq!(new_york, ["02T05:30", "03T06:30"]);
    }

    /// B54: an hourly schedule keeps one hour of real time over both changes.
    #[test]
    fn b54_an_hourly_schedule_keeps_an_hour_of_real_time() {
        for (from, until) in [
            ("2025-03-29T20:30:00Z", "2025-03-30T06:30:00Z"),
            ("2025-10-25T20:30:00Z", "2025-10-26T06:30:00Z"),
        ] {
            let ticks = ticks("0 * * * *", "Europe/Berlin", from, until);
            let hours = ["21", "22", "23", "00", "01", "02", "03", "04", "05", "06"];
            let hours_of: Vec<&str> = ticks.iter().map(|tick| &tick[3..5]).collect();
            assert_eq!(hours_of, hours, "{ticks:?}");
        }
    }

    #[test]
    fn the_next_tick_is_always_later() {
        let schedule = Schedule::new("* * * * *", "UTC").unwrap();
        let minute = micros("2026-01-01T00:01:00Z");
        assert_eq!(schedule.next_after(minute - 1), Some(minute));
        assert_eq!(schedule.next_after(minute), Some(minute + 60_000_000));
        assert_eq!(schedule.next_after(minute + 1), Some(minute + 60_000_000));
        assert_eq!(schedule.next_after(i64::MAX), None);
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_the_reason() {
        let bad = |cron, zone| Schedule::new(cron, zone).unwrap_err();
        assert_eq!(bad("0 2 * *", "UTC"), BadSchedule::Fields(4));
        assert_eq!(bad("0 0 2 * * *", "UTC"), BadSchedule::Fields(6));
        assert_eq!(bad("@daily", "UTC"), BadSchedule::Fields(1));
        assert!(matches!(bad("61 * * * *", "UTC"), BadSchedule::Cron(_)));
        assert!(matches!(bad("a b c d e", "UTC"), BadSchedule::Cron(_)));
        assert_eq!(bad("0 2 * * *", "Berlin"), BadSchedule::Zone);
        assert_eq!(bad("0 0 30 2 *", "UTC"), BadSchedule::Never);
        assert!(Schedule::new("*/5 8-18 * JAN-MAR,7 MON-FRI", "Asia/Kolkata").is_ok());
        assert!(Schedule::new("0 0 29 2 *", "UTC").is_ok());
    }
}
