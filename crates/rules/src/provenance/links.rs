//! URLs, mail addresses and account numbers inside texts (S5.9).
//!
//! What a reader's program would make clickable or a bank would take is a link, and rather one too
//! many: a link that nobody vouches for costs a question, one that is missed costs the data. So a
//! name with a dot is a domain unless it ends like a file (`bill.txt`), and a long number is an
//! account unless it is a date.
//!
//! A text is also read as a page would show it: with `%2E`, `&#46;`, `&period;` and `\.` resolved.

use std::borrow::Cow;

use super::accounts::{grouped_account, is_account};
use super::text::is_apostrophe;

/// Endings that are those of files and of no domain.
const FILE_ENDINGS: [&str; 59] = [
    "bak", "bmp", "cfg", "conf", "cpp", "css", "csv", "dll", "doc", "docx", "eml", "env", "epub",
    "exe", "gif", "gz", "hpp", "htm", "html", "ics", "ini", "ipynb", "jar", "jpeg", "jpg", "js",
    "json", "jsx", "lock", "log", "lua", "msg", "odt", "parquet", "patch", "pdf", "php", "png",
    "ppt", "pptx", "proto", "rar", "rb", "rtf", "scss", "sql", "svg", "tar", "tgz", "toml", "ts",
    "tsx", "txt", "wav", "webp", "xls", "xlsx", "xml", "yaml",
];

/// What begins an address wherever it stands, with or without `//` after it.
const SCHEMES: [&str; 28] = [
    "bitcoin",
    "blob",
    "callto",
    "data",
    "ethereum",
    "facetime",
    "file",
    "ftp",
    "ftps",
    "http",
    "https",
    "intent",
    "javascript",
    "ldap",
    "magnet",
    "mailto",
    "market",
    "sftp",
    "sip",
    "sips",
    "skype",
    "smb",
    "sms",
    "ssh",
    "tel",
    "vbscript",
    "ws",
    "wss",
];

/// Entities that a page resolves to what addresses are made of.
const ENTITIES: [(&str, char); 9] = [
    ("amp", '&'),
    ("bsol", '\\'),
    ("colon", ':'),
    ("commat", '@'),
    ("lowbar", '_'),
    ("num", '#'),
    ("period", '.'),
    ("quest", '?'),
    ("sol", '/'),
];

/// Every URL, mail address and account number in a text, as it stands there; account numbers that
/// are written in groups without their blanks.
pub(crate) fn links(text: &str) -> Vec<Cow<'_, str>> {
    let mut found = as_written(text);
    let mut shown = Cow::Borrowed(text);
    for _ in 0..RESOLVED {
        let Some(next) = as_shown(&shown) else {
            break;
        };
        for link in as_written(&next) {
            if !found.contains(&link) {
                found.push(Cow::Owned(link.into_owned()));
            }
        }
        shown = next.into();
    }
    found
}

/// How often what a page resolves is resolved again: `%252E`.
const RESOLVED: usize = 3;

fn as_written(text: &str) -> Vec<Cow<'_, str>> {
    let (starts, tokens): (Vec<usize>, Vec<&str>) = placed_tokens(text).unzip();
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some((account, taken)) = grouped_account(&tokens[at..]) {
            found.push(Cow::Owned(account));
            at += taken;
            continue;
        }
        let (start, token) = (starts[at], tokens[at]);
        at += 1;
        if is_url(token) {
            let end = end_of_url(text, start + token.len());
            found.push(Cow::Borrowed(&text[start..end]));
            while starts.get(at).is_some_and(|start| *start < end) {
                at += 1;
            }
        } else if is_link(token) {
            found.push(Cow::Borrowed(token));
        }
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

/// The pieces of a text between what seldom stands in a link.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    placed_tokens(text).map(|(_, token)| token)
}

/// The same with the place of each. An apostrophe between two letters is part of a name.
fn placed_tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    let mut before = ' ';
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        loop {
            let (at, c) = match rest.next() {
                Some(next) => next,
                None if from > text.len() => return None,
                None => (text.len(), ' '),
            };
            let after = rest.peek().map_or(' ', |(_, c)| *c);
            let joins = is_apostrophe(c) && before.is_alphanumeric() && after.is_alphanumeric();
            before = c;
            if !is_gap(c) || joins {
                continue;
            }
            let (start, token) = unwrapped(from, &text[from..at]);
            from = at + c.len_utf8();
            if !token.is_empty() {
                return Some((start, token));
            }
        }
    })
}

fn is_gap(c: char) -> bool {
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
}

/// A token without the end of its sentence, and without the marks that make it bold or slanted.
fn unwrapped(mut start: usize, token: &str) -> (usize, &str) {
    let ended = |token: &str| token.trim_end_matches(['.', '!', '?', ':', '…']).len();
    let mut token = &token[..ended(token)];
    while let Some(inner) = ['*', '_', '~']
        .iter()
        .find_map(|mark| token.strip_prefix(*mark)?.strip_suffix(*mark))
    {
        token = &inner[..ended(inner)];
        start += 1;
    }
    (start, token)
}

/// The end of a URL that could go on behind a character which separates tokens:
/// `https://a.example,.b.example` is one address.
fn end_of_url(text: &str, token_end: usize) -> usize {
    let mut end = token_end;
    let mut open = 0_usize;
    for (at, c) in text[token_end..].char_indices() {
        match c {
            // What follows a comma is the next URL.
            ':' if text[token_end + at..].starts_with("://") => return token_end,
            '(' => open += 1,
            ')' if open == 0 => break,
            ')' => open -= 1,
            '"' | '<' | '>' | '`' | '[' | ']' => break,
            c if c.is_whitespace() => break,
            c if c.is_alphanumeric() => end = token_end + at + c.len_utf8(),
            _ => {}
        }
    }
    end
}

/// The text as a page would show it; `None` if that is the text itself.
fn as_shown(text: &str) -> Option<String> {
    if !text.contains(['%', '&', '\\']) {
        return None;
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let resolved = match c {
            '%' => percent(rest),
            '&' => entity(rest),
            '\\' => escape(rest),
            _ => None,
        };
        let (taken, put) = resolved.unwrap_or((c.len_utf8(), c));
        shown.push(put);
        rest = &rest[taken..];
    }
    (shown != text).then_some(shown)
}

fn percent(text: &str) -> Option<(usize, char)> {
    let byte = u8::from_str_radix(text.get(1..3)?, 16).ok()?;
    byte.is_ascii_graphic().then(|| (3, char::from(byte)))
}

fn entity(text: &str) -> Option<(usize, char)> {
    let end = text.bytes().take(12).position(|b| b == b';')?;
    let name = &text[1..end];
    let c = match name.strip_prefix('#') {
        Some(digits) => {
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)?
        }
        None => ENTITIES.iter().find(|(known, _)| *known == name)?.1,
    };
    Some((end + 1, c))
}

fn escape(text: &str) -> Option<(usize, char)> {
    let escaped = text.chars().nth(1)?;
    escaped.is_ascii_punctuation().then_some((2, escaped))
}

fn is_link(token: &str) -> bool {
    is_url(token)
        || is_mail(token)
        || is_domain(token)
        || is_ipv6(token)
        || is_account(token)
        // What stands behind a colon or an equals sign: `see:evil.example`.
        || token
            .split([':', '='])
            .skip(1)
            .any(|piece| is_domain(piece) || is_account(piece))
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

fn is_url(token: &str) -> bool {
    token.contains("://") || starts_like_a_url(token) || has_scheme(token)
}

fn starts_like_a_url(token: &str) -> bool {
    let starts = |prefix: &str| {
        token
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    ["www.", "//", r"\\"]
        .into_iter()
        .any(|prefix| token.len() > prefix.len() && starts(prefix))
}

/// A known scheme with something behind it: `https:evil.example` leads there too.
fn has_scheme(token: &str) -> bool {
    token.match_indices(':').any(|(at, _)| {
        let scheme = token[..at]
            .rsplit(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default();
        at + 1 < token.len()
            && SCHEMES
                .iter()
                .any(|known| known.eq_ignore_ascii_case(scheme))
    })
}

/// A name with a dot, up to a path or a port: `evil.example/x`, or four numbers with dots.
fn is_domain(token: &str) -> bool {
    let token = token.trim_start_matches(|c: char| {
        c.is_ascii_punctuation() && !matches!(c, '/' | '?' | '\\' | ':')
    });
    let host = token
        .split(['/', '?', '#', ':', '\\'])
        .next()
        .unwrap_or_default();
    let labels: Vec<&str> = host.split(is_dot).collect();
    let [.., before, last] = &*labels else {
        return false;
    };
    if labels.len() == 4 && labels.iter().all(|label| label.parse::<u8>().is_ok()) {
        return true;
    }
    // Up to what cannot stand in it: `evil.example*`.
    let end = last.find(|c: char| c.is_ascii_punctuation() && c != '-');
    let last = &last[..end.unwrap_or(last.len())];
    let path_follows = host.len() < token.len();
    let letters = last.chars().all(|c| c.is_alphabetic() || !c.is_ascii())
        || last
            .get(..4)
            .is_some_and(|start| start.eq_ignore_ascii_case("xn--"));
    letters
        && last.chars().count() >= 2
        && word_inside(before)
        && (path_follows || !FILE_ENDINGS.contains(&last.to_ascii_lowercase().as_str()))
}

/// Groups of hex digits with colons, two of which stand together, or four of them; a time has two.
fn is_ipv6(token: &str) -> bool {
    let token = token.trim_matches(['/', '.']);
    let colons = token.matches(':').count();
    (token.contains("::") || colons >= 4)
        && token.len() > colons
        && token
            .split([':', '.'])
            .all(|group| group.len() <= 4 && group.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// What resolvers take for a dot.
fn is_dot(c: char) -> bool {
    matches!(c, '.' | '。' | '．' | '｡' | '․' | '﹒')
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
            ("DE89-3704-0044-0532-0130-00", "DE89-3704-0044-0532-0130-00"),
            ("US13 300 000 012 121 212 1212", "US133000000121212121212"),
            ("**evil.com** _evil.com_.", "evil.com evil.com"),
            ("evil.com* .evil.com", "evil.com* .evil.com"),
            ("see:evil.com url=evil.com", "see:evil.com url=evil.com"),
            ("[x](https:evil.com)", "https:evil.com"),
            (
                r"https:\\evil.com \\evil\x",
                r"https:\\evil.com \\evil\x https:\evil.com",
            ),
            ("evil%2Ecom %252E evil%252Eorg", "evil.com evil.org"),
            (
                "evil&#46;com evil&#x2e;net evil&period;org",
                "evil.com evil.net evil.org",
            ),
            (r"evil\.com", "evil.com"),
            ("o'brien@x.com", "o'brien@x.com"),
            ("'a@x.com'", "a@x.com"),
            (
                "https://good.example,.evil.com",
                "https://good.example,.evil.com",
            ),
            (
                "https://good.example'.evil.com",
                "https://good.example'.evil.com",
            ),
            ("(https://a.example), then", "https://a.example"),
            (
                "https://a.example,https://b.example",
                "https://a.example https://b.example",
            ),
            ("http://[2001:db8::1]/", "http:// 2001:db8::1"),
            ("evil\u{2024}com", "evil\u{2024}com"),
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
            "see src/main.rs, ./main.rs, Cargo.toml, app.tsx and **bold**",
            "it's Bob's at 18:00:00, std::vec, note:this, a=b",
            r"100% & more \\ here",
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
    }
}
