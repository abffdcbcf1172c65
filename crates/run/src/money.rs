//! Money: amounts, prices and what an answer costs, in whole millionths (S4.6).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::step::Usage;

/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// A currency by its code: three capital letters, such as `USD`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The code.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a currency's code is ASCII")
    }
}

impl FromStr for Currency {
    type Err = BadMoney;
    fn from_str(text: &str) -> Result<Self, BadMoney> {
        let code: [u8; 3] = text.as_bytes().try_into().map_err(|_| BadMoney::Currency)?;
        if code.iter().all(u8::is_ascii_uppercase) {
            Ok(Self(code))
        } else {
            Err(BadMoney::Currency)
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An amount of money. Written as a decimal number with its currency: `12.50 USD`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Money {
    millionths: u64,
    currency: Currency,
}

/// Text that is no amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadMoney {
    /// Not a number and a currency.
    #[error("an amount is a decimal number and a currency, such as 12.50 USD")]
    Form,
    /// The currency is not three capital letters.
    #[error("a currency is three capital letters, such as USD")]
    Currency,
    /// More than six digits after the point.
    #[error("an amount has at most six digits after the point")]
    TooFine,
    /// More than can be counted.
    #[error("an amount is at most 1000000000")]
    TooMuch,
}

/// The largest amount that is read, in whole units: sums stay far below what can be counted.
const MOST: u64 = 1_000_000_000;

impl Money {
    /// So many millionths of a currency.
    pub const fn new(millionths: u64, currency: Currency) -> Self {
        Self {
            millionths,
            currency,
        }
    }

    /// The millionths.
    pub const fn millionths(self) -> u64 {
        self.millionths
    }

    /// The currency.
    pub const fn currency(self) -> Currency {
        self.currency
    }

    /// The sum; `None` if the currencies differ.
    #[must_use]
    pub fn plus(self, other: Money) -> Option<Money> {
        let millionths = self.millionths.saturating_add(other.millionths);
        (self.currency == other.currency).then_some(Money::new(millionths, self.currency))
    }
}

impl FromStr for Money {
    type Err = BadMoney;
    fn from_str(text: &str) -> Result<Self, BadMoney> {
        let (number, currency) = text.trim().split_once(' ').ok_or(BadMoney::Form)?;
        let currency = currency.trim().parse()?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err(BadMoney::Form);
        }
        if fraction.len() > 6 {
            return Err(BadMoney::TooFine);
        }
        let whole: u64 = whole.parse().map_err(|_| BadMoney::TooMuch)?;
        if whole > MOST {
            return Err(BadMoney::TooMuch);
        }
        let fraction: u64 = format!("{fraction:0<6}")
            .parse()
            .map_err(|_| BadMoney::Form)?;
        Ok(Money::new(whole * MILLION + fraction, currency))
    }
}

/// Two digits after the point, or as many as are needed.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millionths / MILLION, self.millionths % MILLION);
        let fraction = format!("{rest:06}");
        let needed = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{whole}.{} {}", &fraction[..needed], self.currency)
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl TryFrom<String> for Money {
    type Error = BadMoney;
    fn try_from(text: String) -> Result<Self, BadMoney> {
        text.parse()
    }
}

impl From<Money> for String {
    fn from(money: Money) -> String {
        money.to_string()
    }
}

/// What a model's tokens cost, by the million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// A million tokens of requests.
    pub input: u64,
    /// A million tokens of requests that were read from the provider's cache.
    pub cached: u64,
    /// A million tokens of answers.
    pub output: u64,
    /// The currency; the others are its millionths.
    pub currency: Currency,
}

impl Price {
    /// What an answer costs, rounded up to the next millionth.
    #[must_use]
    pub fn cost(&self, usage: Usage) -> Money {
        let cached = usage.cached.min(usage.input);
        let parts = [
            (usage.input - cached, self.input),
            (cached, self.cached),
            (usage.output, self.output),
        ];
        let sum: u128 = parts
            .iter()
            .map(|(tokens, price)| u128::from(*tokens) * u128::from(*price))
            .sum();
        let millionths = sum.div_ceil(u128::from(MILLION));
        Money::new(u64::try_from(millionths).unwrap_or(u64::MAX), self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(text: &str) -> Money {
        text.parse().unwrap()
    }

    #[test]
    fn amounts_are_read_and_written_as_people_write_them() {
        for (text, millionths, shown) in [
            ("12.50 USD", 12_500_000, "12.50 USD"),
            ("3 EUR", 3_000_000, "3.00 EUR"),
            ("0.000125 USD", 125, "0.000125 USD"),
            ("0.1 USD", 100_000, "0.10 USD"),
            (" 7.125  USD ", 7_125_000, "7.125 USD"),
        ] {
            assert_eq!(money(text).millionths(), millionths, "{text}");
            assert_eq!(money(text).to_string(), shown);
        }
        let bad = |text: &str| text.parse::<Money>().unwrap_err();
        for text in [
            "", "12.50", "USD", "-1 USD", "1. USD", ".5 USD", "1e3 USD", "1,5 USD",
        ] {
            assert_eq!(bad(text), BadMoney::Form, "{text}");
        }
        assert_eq!(bad("1 usd"), BadMoney::Currency);
        assert_eq!(bad("1 DOLLAR"), BadMoney::Currency);
        assert_eq!(bad("0.0000001 USD"), BadMoney::TooFine);
        assert_eq!(bad("99999999999999999999 USD"), BadMoney::TooMuch);
        assert_eq!(bad("1000000001 USD"), BadMoney::TooMuch);
    }

    #[test]
    fn only_the_same_currency_adds_up() {
        assert_eq!(
            money("1 USD").plus(money("0.5 USD")),
            Some(money("1.50 USD"))
        );
        assert_eq!(money("1 USD").plus(money("1 EUR")), None);
    }

    /// S4.6: cached tokens have a price of their own, and nothing is rounded down.
    #[test]
    fn s4_6_an_answer_costs_what_its_tokens_cost() {
        let price = Price {
            input: 3_000_000,
            cached: 300_000,
            output: 15_000_000,
            currency: "USD".parse().unwrap(),
        };
        let cost = |input, cached, output| {
            price
                .cost(Usage {
                    input,
                    cached,
                    output,
                })
                .millionths()
        };
        assert_eq!(cost(1_000_000, 0, 0), 3_000_000);
        assert_eq!(
            cost(1_000_000, 400_000, 100_000),
            1_800_000 + 120_000 + 1_500_000
        );
        assert_eq!(cost(1, 1, 0), 1);
        assert_eq!(cost(0, 0, 0), 0);
        assert_eq!(cost(5, 9, 0), 2);
    }
}
