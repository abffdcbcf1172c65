//! Account numbers inside texts (S5.9).
//!
//! Banks and their customers write them in groups, with dashes, dots or blanks between; all of these
//! are one number. A date is none.

/// The fewest digits of an account number.
pub(crate) const ACCOUNT_DIGITS: usize = 8;

/// The longest account number with all that stands between its groups, in bytes.
const LONGEST: usize = 128;

/// The one form of an account number: without what stands between its groups, in small letters.
/// `None` if the value is not one.
pub(crate) fn account(value: &str) -> Option<String> {
    // What a reader does not see makes it another value.
    if value.len() > LONGEST || value.contains(is_invisible) {
        return None;
    }
    let tokens: Vec<&str> = super::links::tokens(value).collect();
    let whole = match &*tokens {
        [one] => compact(one).filter(|_| is_account(one))?,
        all => {
            grouped_account(all)
                .filter(|(_, taken)| *taken == all.len())?
                .0
        }
    };
    Some(whole.to_ascii_lowercase())
}

/// A token without what may stand between the groups of an account number. `None` if anything
/// else stands in it.
fn compact(token: &str) -> Option<String> {
    let token = token.trim_start_matches(['+', '#']);
    let mut compact = String::with_capacity(token.len());
    for c in token.chars() {
        if c.is_ascii_alphanumeric() || c.is_numeric() {
            compact.push(c);
        } else if !between_groups(c) {
            return None;
        }
    }
    Some(compact)
}

fn between_groups(c: char) -> bool {
    matches!(
        c,
        '-' | '.' | '/' | '_' | '\\' | '·' | '•' | '\u{2010}'..='\u{2015}'
    ) || is_invisible(c)
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
    )
}

pub(super) fn is_account(token: &str) -> bool {
    compact(token).is_some_and(|compact| {
        is_iban(&compact) || is_long_number(token, &compact) || is_long_key(token)
    })
}

/// Two letters, two digits, and at least eight more of either.
fn is_iban(token: &str) -> bool {
    let bytes = token.as_bytes();
    bytes.len() >= 12
        && bytes[..2].iter().all(u8::is_ascii_alphabetic)
        && bytes[2..4].iter().all(u8::is_ascii_digit)
        && bytes[4..].iter().all(u8::is_ascii_alphanumeric)
        && bytes.iter().filter(|b| b.is_ascii_digit()).count() >= ACCOUNT_DIGITS
}

/// Digits; a date has eight of them, and something between.
fn is_long_number(token: &str, compact: &str) -> bool {
    let digits = compact.chars().count();
    let parted = token.trim_start_matches(['+', '#']).chars().count() > digits;
    compact.chars().all(char::is_numeric) && digits >= ACCOUNT_DIGITS + usize::from(parted)
}

/// A long run of letters and digits: an address of a wallet, a key.
fn is_long_key(token: &str) -> bool {
    token.len() >= 26
        && token.bytes().all(|b| b.is_ascii_alphanumeric())
        && token.bytes().any(|b| b.is_ascii_digit())
        && token.bytes().any(|b| b.is_ascii_alphabetic())
}

/// An account number in groups: `DE89 3704 0044 0532 0130 00`, `1234 5678 9012`, `300 000 012 121`;
/// and how many tokens it takes.
pub(super) fn grouped_account(tokens: &[&str]) -> Option<(String, usize)> {
    let first = tokens.first()?.as_bytes();
    let iban = first.len() == 4
        && first[..2].iter().all(u8::is_ascii_alphabetic)
        && first[2..].iter().all(u8::is_ascii_digit);
    let digits = |token: &str| token.bytes().all(|b| b.is_ascii_digit());
    if !iban && !digits(tokens[0]) {
        return None;
    }
    let group = |(at, token): &(usize, &&str)| {
        let has_digit = token.bytes().any(|b| b.is_ascii_digit());
        // A bank's own letters: `GB29 NWBK 6016 …`.
        let bank = token.len() == 4 && (*at == 0 || !token.bytes().any(|b| b.is_ascii_lowercase()));
        token.len() <= 30
            && if iban {
                token.bytes().all(|b| b.is_ascii_alphanumeric()) && (has_digit || bank)
            } else {
                digits(token)
            }
    };
    let more = tokens[1..].iter().enumerate().take_while(group);
    let all = 1 + more.count();
    // Groups of four end with the first that is shorter.
    let short = tokens[..all].iter().position(|token| token.len() != 4);
    let fours = short.map_or(all, |at| at + usize::from(tokens[at].len() < 4));
    let joined = |taken: usize| (taken >= 2).then(|| (tokens[..taken].concat(), taken));
    let is_long = |account: &str| match iban {
        true => is_iban(account),
        false => account.len() >= ACCOUNT_DIGITS,
    };
    joined(fours)
        .filter(|(account, _)| tokens[0].len() == 4 && is_long(account))
        // Other groups could be a list of numbers, or a day.
        .or_else(|| {
            joined(all).filter(|(account, taken)| {
                is_long(account) && (iban || (*taken >= 3 && account.len() > ACCOUNT_DIGITS))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_9_an_account_number_has_one_form() {
        for text in [
            "DE89370400440532013000",
            "de89 3704 0044 0532 0130 00",
            "DE89-3704-0044-0532-0130-00",
            "DE89.3704.0044.0532.0130.00",
            "DE89 370 400 440 532 013 000",
            "DE89 370400440532013000",
        ] {
            assert_eq!(
                account(text).as_deref(),
                Some("de89370400440532013000"),
                "{text}"
            );
        }
        assert_eq!(
            account("GB29 NWBK 6016 1331 9268 19").as_deref(),
            Some("gb29nwbk60161331926819")
        );
        for text in ["1234-5678-9012", "1234 5678 9012", "123 456 789 012"] {
            assert_eq!(account(text).as_deref(), Some("123456789012"), "{text}");
        }
    }

    #[test]
    fn s5_9_dates_and_words_are_no_account_numbers() {
        assert!(is_account("DE89\u{200b}3704\u{200b}00440532013000"));
        for text in [
            "DE89\u{200b}3704\u{200b}00440532013000",
            "Bob",
            "2024-05-15",
            "15.05.2024",
            "2024/05/15",
            "2024-05-15T18:00:00",
            "18:00:00.000",
            "1.234.567",
            "10 20 30",
            "DE89",
            "a12345678",
            "1.2.3-4",
        ] {
            assert_eq!(account(text), None, "{text}");
        }
    }
}
