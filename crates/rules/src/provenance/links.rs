//! URLs, mail addresses and account numbers inside texts (S5.9).
//!
//! What a reader's program would make clickable or a bank would take is a link, and rather one too
//! many: a link that nobody vouches for costs a question, one that is missed costs the data. So a
//! name with a dot is a domain unless it ends like a file (`bill.txt`), and a long number is an
//! account unless it is a date.

use std::borrow::Cow;

/// Endings that are those of files and of no domain.
const FILE_ENDINGS: [&str; 22] = [
    "bmp", "csv", "doc", "docx", "gif", "htm", "html", "ics", "jpeg", "jpg", "json", "log", "odt",
    "pdf", "png", "ppt", "pptx", "txt", "xls", "xlsx", "xml", "yaml",
];

/// The fewest digits of an account number.
pub(crate) const ACCOUNT_DIGITS: usize = 8;

/// Every URL, mail address and account number in a text, as it stands there; account numbers that
/// are written in groups without their blanks.
pub(crate) fn links(text: &str) -> Vec<Cow<'_, str>> {
    let tokens: Vec<&str> = tokens(text).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some((account, taken)) = grouped_account(&tokens[at..]) {
            found.push(Cow::Owned(account));
            at += taken;
            continue;
        }
        if is_link(tokens[at]) {
            found.push(Cow::Borrowed(tokens[at]));
        }
        at += 1;
    }
    found
}

/// Whether a whole value is a URL, a mail address or an account number and nothing else.
pub(crate) fn is_address(value: &str) -> bool {
    let mut tokens = tokens(value).peekable();
    let Some(first) = tokens.next() else {
        return false;
    };
    if tokens.peek().is_none() {
        return is_link(first) && first.len() == value.trim().len();
    }
    let all: Vec<&str> = std::iter::once(first).chain(tokens).collect();
    grouped_account(&all).is_some_and(|(_, taken)| taken == all.len())
}

/// The one form of an account number: without blanks and dashes, in small letters. `None` if the
/// value is not one.
pub(crate) fn account(value: &str) -> Option<String> {
    let tokens: Vec<&str> = tokens(value).collect();
    let whole = match &*tokens {
        [one] if is_account(one) => (*one).to_owned(),
        all => {
            grouped_account(all)
                .filter(|(_, taken)| *taken == all.len())?
                .0
        }
    };
    Some(
        whole
            .chars()
            .filter(|c| *c != '-')
            .map(|c| c.to_ascii_lowercase())
            .collect(),
    )
}

/// The pieces of a text between what cannot stand in a link.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let gap = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '<'
                    | '>'
                    | '('
                    | ')'
                    | '['
                    | ']'
                    | '{'
                    | '}'
                    | '|'
                    | '`'
                    | '\''
                    | ','
                    | ';'
                    | '“'
                    | '”'
                    | '„'
                    | '‘'
                    | '’'
                    | '«'
                    | '»'
                    | '，'
                    | '、'
                    | '（'
                    | '）'
                    | '；'
            )
    };
    text.split(gap)
        .map(|token| token.trim_end_matches(['.', '!', '?', ':', '…']))
        .filter(|token| !token.is_empty())
}

fn is_link(token: &str) -> bool {
    token.contains("://")
        || is_mail(token)
        || starts_like_a_url(token)
        || is_domain(token)
        || is_account(token)
}

/// Something on both sides of an `@`.
fn is_mail(token: &str) -> bool {
    token
        .split_once('@')
        .is_some_and(|(who, host)| word_inside(who) && word_inside(host))
}

fn word_inside(text: &str) -> bool {
    text.contains(|c: char| c.is_alphanumeric() || !c.is_ascii())
}

fn starts_like_a_url(token: &str) -> bool {
    let starts = |prefix: &str| {
        token
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    [
        "www.",
        "mailto:",
        "tel:",
        "data:",
        "javascript:",
        "file:",
        "//",
    ]
    .into_iter()
    .any(|prefix| token.len() > prefix.len() && starts(prefix))
}

/// A name with a dot, up to a path or a port: `evil.example/x`, or four numbers with dots.
fn is_domain(token: &str) -> bool {
    let host = token
        .split(['/', '?', '#', ':', '\\'])
        .next()
        .unwrap_or_default();
    let labels: Vec<&str> = host.split(is_dot).collect();
    if labels.len() < 2 || labels.iter().any(|label| label.is_empty()) {
        return false;
    }
    let last = labels[labels.len() - 1];
    if labels.len() == 4 && labels.iter().all(|label| label.parse::<u8>().is_ok()) {
        return true;
    }
    let path_follows = host.len() < token.len();
    let letters = last.chars().all(|c| c.is_alphabetic() || !c.is_ascii())
        || last
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("xn--"));
    letters
        && last.chars().count() >= 2
        && word_inside(labels[labels.len() - 2])
        && (path_follows || !FILE_ENDINGS.contains(&last.to_ascii_lowercase().as_str()))
}

/// What resolvers take for a dot.
fn is_dot(c: char) -> bool {
    matches!(c, '.' | '。' | '．' | '｡')
}

fn is_account(token: &str) -> bool {
    is_iban(token) || is_long_number(token) || is_long_key(token)
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

/// Digits, with dashes between them if at all; a date has dashes and eight digits.
fn is_long_number(token: &str) -> bool {
    let token = token.trim_start_matches(['+', '#']);
    let digits = token.chars().filter(|c| c.is_numeric()).count();
    let dashes = token.chars().filter(|c| *c == '-').count();
    digits + dashes == token.chars().count()
        && digits
            >= if dashes == 0 {
                ACCOUNT_DIGITS
            } else {
                ACCOUNT_DIGITS + 1
            }
}

/// A long run of letters and digits: an address of a wallet, a key.
fn is_long_key(token: &str) -> bool {
    token.len() >= 26
        && token.bytes().all(|b| b.is_ascii_alphanumeric())
        && token.bytes().any(|b| b.is_ascii_digit())
        && token.bytes().any(|b| b.is_ascii_alphabetic())
}

/// An account number in groups of four: `DE89 3704 0044 0532 0130 00`, `1234 5678 9012`.
fn grouped_account(tokens: &[&str]) -> Option<(String, usize)> {
    let first = tokens.first()?.as_bytes();
    let iban = first.len() == 4
        && first[..2].iter().all(u8::is_ascii_alphabetic)
        && first[2..].iter().all(u8::is_ascii_digit);
    let four = |token: &str| token.len() == 4 && token.bytes().all(|b| b.is_ascii_digit());
    if !iban && !four(tokens[0]) {
        return None;
    }
    let group = |token: &str| {
        if iban {
            (1..=4).contains(&token.len())
                && token.bytes().all(|b| b.is_ascii_alphanumeric())
                && token.bytes().any(|b| b.is_ascii_digit())
        } else {
            (1..=4).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_digit())
        }
    };
    let mut taken = 1;
    let mut last = tokens[0].len();
    while last == 4 && tokens.get(taken).is_some_and(|token| group(token)) {
        last = tokens[taken].len();
        taken += 1;
    }
    let account = tokens[..taken].concat();
    (taken >= 2 && account.len() >= ACCOUNT_DIGITS).then_some((account, taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_9_links_are_found_in_texts() {
        for (text, expected) in [
            ("see https://bit.ly/sUf7tOJ.", "https://bit.ly/sUf7tOJ"),
            ("(www.restaurant-zurich.com).", "www.restaurant-zurich.com"),
            ("mail <a.b+c@x.co.uk>!", "a.b+c@x.co.uk"),
            ("go to evil.example/x?y=z", "evil.example/x?y=z"),
            ("[here](http://x.y/z)", "http://x.y/z"),
            ("HTTP://X.Y", "HTTP://X.Y"),
            ("mailto:a@b", "mailto:a@b"),
            ("user@host", "user@host"),
            ("at 10.0.0.1:80", "10.0.0.1:80"),
            ("evil。com", "evil。com"),
            ("p\u{430}ypal.com", "p\u{430}ypal.com"),
            ("bill.pdf/x.zip evil.zip", "bill.pdf/x.zip evil.zip"),
            ("IBAN 0123456789", "0123456789"),
            ("US133000000121212121212", "US133000000121212121212"),
            (
                "to DE89 3704 0044 0532 0130 00 now",
                "DE89370400440532013000",
            ),
            ("card 1234 5678 9012 3456", "1234567890123456"),
            ("1234-5678-9012-3456", "1234-5678-9012-3456"),
            (
                "bc1qar0srrr7xfkvy5l643lydnw9re59gtzz",
                "bc1qar0srrr7xfkvy5l643lydnw9re59gtzz",
            ),
        ] {
            assert_eq!(links(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn s5_9_ordinary_words_are_no_links() {
        for text in [
            "e.g. on 2024-05-15 at 10:00, i.e. 2 p.m.",
            "see bill.txt and minutes.DOCX",
            "@bob, 50% of 1,000.50 in 2024...",
            "Hi. How are you?",
            "1. One 2. Two",
            "the year 2024 2",
        ] {
            assert_eq!(links(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn s5_9_an_address_is_a_link_and_nothing_else() {
        for address in [
            "a@x.com",
            " https://x.y ",
            "DE89 3704 0044 0532 0130 00",
            "0123456789",
        ] {
            assert!(is_address(address), "{address}");
        }
        for other in [
            "write to a@x.com",
            "Bob",
            "",
            "a@x.com, b@x.com",
            "a@x.com.",
        ] {
            assert!(!is_address(other), "{other}");
        }
        assert_eq!(
            account("DE89 3704 0044 0532 0130 00").as_deref(),
            Some("de89370400440532013000")
        );
        assert_eq!(account("1234-5678-9012"), Some("123456789012".to_owned()));
        assert_eq!(account("Bob"), None);
    }
}
