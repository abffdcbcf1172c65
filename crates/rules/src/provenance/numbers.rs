//! Numbers in texts, with the currency that stands beside them.

use super::text::{Class, class, is_apostrophe};
use crate::decimal::Decimal;

/// What a text says of a sum.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sum {
    pub(crate) value: Decimal,
    /// Its currency, in small letters.
    pub(crate) currency: Option<Box<str>>,
}

/// Words for currencies; a code of three capitals is one too.
const CURRENCIES: [(&str, &str); 20] = [
    ("$", "usd"),
    ("dollar", "usd"),
    ("dollars", "usd"),
    ("€", "eur"),
    ("euro", "eur"),
    ("euros", "eur"),
    ("£", "gbp"),
    ("pound", "gbp"),
    ("pounds", "gbp"),
    ("¥", "jpy"),
    ("yen", "jpy"),
    ("₹", "inr"),
    ("rupees", "inr"),
    ("francs", "chf"),
    ("usd", "usd"),
    ("eur", "eur"),
    ("gbp", "gbp"),
    ("jpy", "jpy"),
    ("inr", "inr"),
    ("chf", "chf"),
];

/// The longest text that is one sum, in bytes.
const LONGEST: usize = 64;

/// A piece of a text between what separates numbers.
struct Piece<'t> {
    text: &'t str,
    /// Whether nothing but one blank stands before it.
    follows: bool,
}

/// Every number in a text that is a whole token: `50`, `1,000.50`, `12,50`, `1 000`, `$50`, `50 €`.
pub(crate) fn sums(text: &str) -> Vec<Sum> {
    scan(text).0
}

/// The one sum that a text is, and nothing else.
pub(crate) fn sum(text: &str) -> Option<Sum> {
    if text.len() > LONGEST {
        return None;
    }
    match (text.parse(), scan(text)) {
        (Ok(value), _) => Some(Sum {
            value,
            currency: None,
        }),
        (Err(_), (mut sums, 0)) if sums.len() == 1 => sums.pop(),
        (Err(_), _) => None,
    }
}

/// The same without its currency.
pub(crate) fn number(text: &str) -> Option<Decimal> {
    sum(text).map(|sum| sum.value)
}

/// The sums in a text, and how many pieces belong to none.
fn scan(text: &str) -> (Vec<Sum>, usize) {
    let pieces = pieces(text);
    let (mut sums, mut others) = (Vec::new(), 0);
    // A currency that no number before it took.
    let mut leading: Option<Box<str>> = None;
    let mut at = 0;
    while let Some(piece) = pieces.get(at) {
        let before = leading.take().filter(|_| piece.follows);
        let (found, taken) = grouped(&pieces[at..]).map_or_else(
            || (one(piece.text), 1),
            |(found, taken)| (Some(found), taken),
        );
        at += taken;
        let Some(mut found) = found else {
            leading = currency(piece.text);
            others += 1;
            continue;
        };
        if found.currency.is_none() && before.is_some() {
            found.currency = before;
            others -= 1;
        } else if found.currency.is_none()
            && let Some(next) = pieces.get(at).filter(|next| next.follows)
            && let Some(word) = currency(next.text)
        {
            found.currency = Some(word);
            at += 1;
        }
        sums.push(found);
    }
    (sums, others)
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let gap = |c: char| class(c) == Class::Gap && c != ',' && !is_apostrophe(c);
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut last_end: Option<usize> = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if !gap(c) {
            continue;
        }
        if at > from {
            let between = last_end.map(|end| &text[end..from]);
            let mut between = between.unwrap_or_default().chars();
            let blank = between.next().is_some_and(char::is_whitespace);
            pieces.push(Piece {
                text: &text[from..at],
                follows: blank && between.next().is_none(),
            });
            last_end = Some(at);
        }
        from = at + c.len_utf8();
    }
    pieces
}

/// Digits in groups of three with blanks between them: `1 000 000,50`.
fn grouped(pieces: &[Piece<'_>]) -> Option<(Sum, usize)> {
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (first, symbol) = strip_currency(pieces.first()?.text.trim_start_matches(is_apostrophe));
    if !(1..=3).contains(&first.len()) || !is_digits(first) || first.starts_with('0') {
        return None;
    }
    let mut joined = first.to_owned();
    let mut taken = 1;
    for piece in pieces[1..].iter().take_while(|piece| piece.follows) {
        let group = piece.text.get(..3).filter(|group| is_digits(group));
        let rest = piece.text.get(3..).unwrap_or_default();
        if group.is_none() || rest.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        joined.push_str(piece.text);
        taken += 1;
        if !rest.is_empty() {
            break;
        }
    }
    if taken < 2 {
        return None;
    }
    let mut found = one(&joined)?;
    found.currency = found.currency.or(symbol);
    Some((found, taken))
}

/// The one number that a piece is, without a currency and the end of a sentence.
fn one(piece: &str) -> Option<Sum> {
    let piece = piece.trim_matches(is_apostrophe);
    let piece = piece.trim_end_matches([',', '.', '?', '!', ':']);
    let (piece, mut currency) = strip_currency(piece.trim_start_matches(','));
    let (negative, digits) = match piece.strip_prefix('-') {
        Some(rest) => {
            let (digits, symbol) = strip_currency(rest);
            currency = currency.or(symbol);
            (true, digits)
        }
        None => (false, piece),
    };
    let plain = plain_number(digits)?;
    let signed = if negative { format!("-{plain}") } else { plain };
    Some(Sum {
        value: signed.parse().ok()?,
        currency,
    })
}

/// The currency that a piece names.
fn currency(piece: &str) -> Option<Box<str>> {
    let piece = piece.trim_matches([',', '.', '?', '!', ':']);
    let lower = piece.to_lowercase();
    let known = CURRENCIES.iter().find(|(word, _)| *word == lower);
    match known {
        Some((_, code)) => Some((*code).into()),
        None => is_code(piece).then(|| lower.into()),
    }
}

fn is_code(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|b| b.is_ascii_uppercase())
}

/// What is left of a piece without the currency that touches its digits.
fn strip_currency(piece: &str) -> (&str, Option<Box<str>>) {
    let symbol = |c: char| matches!(c, '$' | '€' | '£' | '¥' | '₹');
    let named = |text: &str| currency(text).filter(|_| !text.is_empty());
    if let Some(rest) = piece.strip_prefix(symbol) {
        return (rest.trim(), named(&piece[..piece.len() - rest.len()]));
    }
    if let Some(rest) = piece.strip_suffix(symbol) {
        return (rest.trim(), named(&piece[rest.len()..]));
    }
    if let Some((code, rest)) = piece.split_at_checked(3).filter(|(code, _)| is_code(code)) {
        return (rest.trim(), named(code));
    }
    let suffix = piece
        .len()
        .checked_sub(3)
        .and_then(|at| piece.split_at_checked(at))
        .filter(|(_, code)| is_code(code));
    match suffix {
        Some((rest, code)) => (rest.trim(), named(code)),
        None => (piece, None),
    }
}

/// Digits without their grouping: commas or apostrophes in groups of three, or one comma as a
/// decimal sign.
fn plain_number(text: &str) -> Option<String> {
    let digit = |c: char| c.is_ascii_digit();
    if !text.starts_with(digit)
        || !text
            .chars()
            .all(|c| digit(c) || matches!(c, '.' | ',') || is_apostrophe(c))
    {
        return None;
    }
    let is_group = |whole: &str, sign: fn(char) -> bool| {
        let mut parts = whole.split(sign);
        let first = parts.next().unwrap_or_default();
        (1..=3).contains(&first.len()) && parts.all(|part| part.len() == 3)
    };
    let (whole, part) = if text.contains(is_apostrophe) {
        // 1'234.50
        let (whole, part) = text.rsplit_once(['.', ',']).unwrap_or((text, ""));
        if !is_group(whole, is_apostrophe) {
            return None;
        }
        (whole.replace(is_apostrophe, ""), part)
    } else {
        match (text.rsplit_once('.'), text.rsplit_once(',')) {
            (None, None) => (text.to_owned(), ""),
            // 1.234,50
            (Some((before, _)), Some((whole, part))) if before.len() < whole.len() => {
                if part.contains(['.', ',']) || !is_group(whole, |c| c == '.') {
                    return None;
                }
                (whole.replace('.', ""), part)
            }
            // 1,234.50
            (Some((whole, part)), Some(_)) => {
                if !is_group(whole, |c| c == ',') {
                    return None;
                }
                (whole.replace(',', ""), part)
            }
            (Some((whole, part)), None) => (whole.to_owned(), part),
            (None, Some((whole, part))) => {
                if is_group(text, |c| c == ',') {
                    (text.replace(',', ""), "")
                } else if part.len() <= 2 && !whole.contains(',') {
                    (whole.to_owned(), part)
                } else {
                    return None;
                }
            }
        }
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (digits(&whole) && digits(part)).then(|| match part {
        "" => whole.clone(),
        part => format!("{whole}.{part}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sum: &Sum) -> String {
        match &sum.currency {
            Some(currency) => format!("{} {currency}", sum.value),
            None => sum.value.to_string(),
        }
    }

    #[test]
    fn s5_9_numbers_in_a_text() {
        let read = |text: &str| -> Vec<String> { sums(text).iter().map(shown).collect() };
        assert_eq!(
            read("Pay $50, then 1,000.50 or 1.234,5 and 12,50€; 98.70. EUR100 7USD -3 (8)"),
            [
                "50 usd", "1000.5", "1234.5", "12.5 eur", "98.7", "100 eur", "7 usd", "-3", "8"
            ]
        );
        for (text, expected) in [
            ("1,000", &["1000"][..]),
            ("1.000", &["1"]),
            ("1'234.50 or '7'", &["1234.5", "7"]),
            ("1 000 000,50 €", &["1000000.5 eur"]),
            ("1\u{a0}000", &["1000"]),
            ("$1 250.", &["1250 usd"]),
            ("12 and 34", &["12", "34"]),
            ("12 3456", &["12", "3456"]),
            ("EUR 50 USD 70", &["50 eur", "70 usd"]),
            ("50 EUR and 70 dollars", &["50 eur", "70 usd"]),
            ("£ 5 to BTC 3", &["5 gbp", "3 btc"]),
            ("-$3", &["-3 usd"]),
            ("1,000,000 and 12,3,4", &["1000000"]),
            ("1''000 1'00", &[]),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for none in [
            "2024-05-15",
            "12:00",
            "v1",
            "1.2.3",
            "10-50",
            "US133",
            "file13",
            "50k",
            "fifty",
            "٥٠",
            "５０",
            ",.",
        ] {
            assert_eq!(read(none), [""; 0], "{none}");
        }
    }

    #[test]
    fn s5_9_a_text_that_is_one_sum() {
        for (text, expected) in [
            ("50", "50"),
            ("5e1", "50"),
            ("50.00", "50"),
            ("€12.50", "12.5 eur"),
            ("1 000,50 EUR", "1000.5 eur"),
            ("EUR 3", "3 eur"),
        ] {
            assert_eq!(sum(text).as_ref().map(shown).as_deref(), Some(expected));
        }
        for none in ["", "50 60", "50 or so", "all", "50 EUR USD", "EUR"] {
            assert_eq!(sum(none), None, "{none}");
        }
    }
}
