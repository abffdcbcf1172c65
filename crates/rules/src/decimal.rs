//! Numbers as they were written: exact, comparable, never rounded.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// How many digits after the point are kept.
const SCALE: usize = 12;
/// How many digits before the point are kept.
const WHOLE: usize = 24;

/// A decimal number, exact to twelve digits after the point (S3.7).
///
/// What does not fit is no number at all, rather than a rounded one: whoever compares with it then
/// says that it cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Decimal(i128);

/// The text is not a decimal number, or not one that can be kept exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a number has at most 24 digits before and 12 after the point, and nothing but digits in it"
)]
pub struct NotDecimal;

impl Decimal {
    /// The sum; `None` where it would not fit.
    #[must_use]
    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl FromStr for Decimal {
    type Err = NotDecimal;

    /// Reads `-12`, `12.50` or `1.25e3`, as JSON writes numbers; a leading `+` and zeros are taken.
    fn from_str(text: &str) -> Result<Self, NotDecimal> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], rest[at + 1..].parse().map_err(|_| NotDecimal)?),
            None => (rest, 0_i32),
        };
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = || whole.bytes().chain(part.bytes());
        if whole.is_empty()
            || (part.is_empty() && mantissa.contains('.'))
            || !digits().all(|b| b.is_ascii_digit())
        {
            return Err(NotDecimal);
        }
        // The power of ten of each digit, counted from the last that is kept.
        let first = i64::try_from(whole.len()).map_err(|_| NotDecimal)? - 1
            + i64::from(exponent)
            + i64::try_from(SCALE).map_err(|_| NotDecimal)?;
        let mut value = 0_i128;
        for (place, digit) in (0_i64..).zip(digits()).filter(|(_, digit)| *digit != b'0') {
            let power = u32::try_from(first - place).map_err(|_| NotDecimal)?;
            if usize::try_from(power).map_or(true, |power| power >= SCALE + WHOLE) {
                return Err(NotDecimal);
            }
            value += i128::from(digit - b'0') * 10_i128.pow(power);
        }
        Ok(Self(if negative { -value } else { value }))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:0>width$}", self.0.unsigned_abs(), width = SCALE + 1);
        let (whole, part) = digits.split_at(digits.len() - SCALE);
        let sign = if self.0 < 0 { "-" } else { "" };
        match part.trim_end_matches('0') {
            "" => write!(f, "{sign}{whole}"),
            part => write!(f, "{sign}{whole}.{part}"),
        }
    }
}

impl Serialize for Decimal {
    /// As a JSON number with exactly these digits.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::value::RawValue::from_string(self.to_string())
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s3_7_numbers_are_read_exactly_or_not_at_all() {
        for (text, shown) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("007", "7"),
            ("12.50", "12.5"),
            ("+1", "1"),
            ("1.25e3", "1250"),
            ("1E-3", "0.001"),
            ("0.000000000001", "0.000000000001"),
            ("999999999999999999999999", "999999999999999999999999"),
            ("0.1", "0.1"),
            ("1000000000000000000000000e-3", "1000000000000000000000"),
        ] {
            assert_eq!(
                text.parse::<Decimal>().unwrap().to_string(),
                shown,
                "{text}"
            );
        }
        for bad in [
            "",
            "-",
            ".",
            "1.",
            ".5",
            "1,5",
            "1e",
            "1e99999999999",
            "1e24",
            "1e-13",
            "0x1",
            "NaN",
            "1 ",
            "١",
            "--1",
            "1.2.3",
        ] {
            assert_eq!(bad.parse::<Decimal>(), Err(NotDecimal), "{bad:?}");
        }
    }

    #[test]
    fn sums_that_do_not_fit_are_none() {
        let big: Decimal = "999999999999999999999999".parse().unwrap();
        assert!(big.plus(big).is_some());
        assert_eq!(Decimal(i128::MAX).plus(Decimal(1)), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(value in any::<i64>(), scale in 0_usize..13) {
            let text = format!("{value}e-{scale}");
            let number: Decimal = text.parse().unwrap();
            prop_assert_eq!(number.to_string().parse(), Ok(number));
        }
    }
}
