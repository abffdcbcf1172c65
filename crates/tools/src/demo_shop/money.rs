use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// An amount in euro cents. Written as a decimal text: `12.50`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cents(pub u64);

/// Text that is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not an amount such as 12.50")]
pub struct NotMoney(String);

impl FromStr for Cents {
    type Err = NotMoney;

    fn from_str(text: &str) -> Result<Self, NotMoney> {
        let not_money = || NotMoney(text.chars().take(40).collect());
        let (euros, cents) = text.split_once('.').unwrap_or((text, "00"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(euros) || !digits(cents) || cents.len() > 2 {
            return Err(not_money());
        }
        let euros: u64 = euros.parse().map_err(|_| not_money())?;
        let cents: u64 = format!("{cents:0<2}").parse().map_err(|_| not_money())?;
        euros
            .checked_mul(100)
            .and_then(|euros| euros.checked_add(cents))
            .map(Self)
            .ok_or_else(not_money)
    }
}

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

impl TryFrom<String> for Cents {
    type Error = NotMoney;

    fn try_from(text: String) -> Result<Self, NotMoney> {
        text.parse()
    }
}

impl From<Cents> for String {
    fn from(cents: Cents) -> Self {
        cents.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        for (text, cents) in [("12.50", 1250), ("12.5", 1250), ("7", 700), ("0.09", 9)] {
            assert_eq!(text.parse(), Ok(Cents(cents)), "{text}");
        }
        for bad in [
            "",
            "-1",
            "1.234",
            "1,50",
            "1.",
            ".5",
            "1e3",
            "99999999999999999999",
        ] {
            assert!(bad.parse::<Cents>().is_err(), "{bad}");
        }
        assert_eq!(Cents(5).to_string(), "0.05");
    }
}
