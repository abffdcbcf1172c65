use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time: microseconds since 1970-01-01 UTC.
///
/// Always the database's clock, handed in by the caller; the core never reads a clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time that is `micros` microseconds after the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// This time moved by `micros` microseconds; stops at the ends of the range.
    #[must_use]
    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// This time moved by a duration; stops at the end of the range.
    #[must_use]
    pub fn plus(self, duration: std::time::Duration) -> Self {
        self.plus_micros(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }

    /// Microseconds from `earlier` to this time; negative if `earlier` is later.
    pub const fn micros_since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// RFC 3339 in UTC with microseconds, such as `2026-03-01T09:30:00.000000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

/// The civil date of a day count since 1970-01-01, by the era arithmetic of the proleptic
/// Gregorian calendar (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
const fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// A calendar month in UTC. Written `2026-03`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: i64,
    month: i64,
}

impl Month {
    /// The month of a time.
    pub const fn of(at: Timestamp) -> Self {
        let (year, month, _) = civil(at.0.div_euclid(MICROS_A_DAY));
        Self { year, month }
    }

    /// When the next month begins.
    pub const fn end(self) -> Timestamp {
        let (year, month) = match self.month {
            12 => (self.year + 1, 1),
            month => (self.year, month + 1),
        };
        Timestamp(first_of(year, month).saturating_mul(MICROS_A_DAY))
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.month)
    }
}

const MICROS_A_DAY: i64 = 86_400_000_000;

/// The day count of the first of a month: the inverse of [`civil`].
const fn first_of(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S4.6: a month is a calendar month in UTC.
    #[test]
    fn s4_6_months_end_where_the_calendar_says() {
        for (micros, month, end) in [
            (0, "1970-01", "1970-02-01T00:00:00.000000Z"),
            (
                951_782_400_000_000,
                "2000-02",
                "2000-03-01T00:00:00.000000Z",
            ),
            (
                1_709_251_199_999_999,
                "2024-02",
                "2024-03-01T00:00:00.000000Z",
            ),
            (
                1_709_251_200_000_000,
                "2024-03",
                "2024-04-01T00:00:00.000000Z",
            ),
            (
                1_798_761_599_999_999,
                "2026-12",
                "2027-01-01T00:00:00.000000Z",
            ),
        ] {
            let of = Month::of(Timestamp::from_micros(micros));
            assert_eq!(
                (of.to_string(), of.end().to_string()),
                (month.into(), end.into())
            );
            assert_eq!(Month::of(of.end().plus_micros(-1)), of);
        }
    }

    #[test]
    fn prints_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_709_210_096_000_007, "2024-02-29T12:34:56.000007Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (4_107_542_399_999_999, "2100-02-28T23:59:59.999999Z"),
        ];
        for (micros, text) in cases {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }
}
