//! Redacts plain text: what is assigned to a secret name, and what looks like a credential.

use std::borrow::Cow;
use std::ops::Range;

use super::{MASK, Redaction};

/// Beginnings of credentials that are known by them, with the fewest characters that follow.
const PREFIXES: [(&str, usize); 13] = [
    ("sk-", 16),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("AKIA", 16),
    ("sayso_", 20),
];

/// The beginning of a JSON web token: `{"` in base64.
const JWT: &str = "eyJ";

const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Words before a credential in an `Authorization` header.
const SCHEMES: [&str; 4] = ["bearer", "basic", "token", "digest"];

/// The shortest token that is taken for one after `Bearer`, in characters.
const SHORTEST_BEARER: usize = 6;

/// The text with its credentials masked.
pub(super) fn redact<'t>(redaction: &Redaction, text: &'t str) -> Cow<'t, str> {
    let mut found: Vec<Range<usize>> = Vec::new();
    private_keys(text, &mut found);
    let mut at = 0;
    while let Some(word) = next_word(text, at) {
        at = word.end;
        if let Some(secret) = after(redaction, text, &word) {
            at = at.max(secret.end);
            found.push(secret);
        }
    }
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_unstable_by_key(|range| (range.start, range.end));
    let (mut out, mut kept) = (String::with_capacity(text.len()), 0);
    for range in found {
        if range.start >= kept {
            out.push_str(&text[kept..range.start]);
            out.push_str(MASK);
        }
        kept = kept.max(range.end);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// What is to be masked because of this word: itself, or what follows it.
fn after(redaction: &Redaction, text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let name = &text[word.clone()];
    if is_known(name) {
        return Some(word.clone());
    }
    if let Some(password) = url_password(text, word) {
        return Some(password);
    }
    if SCHEMES[..2]
        .iter()
        .any(|scheme| name.eq_ignore_ascii_case(scheme))
    {
        let blanks = blanks(text, word.end);
        let value = run(text, blanks, is_token);
        if blanks > word.end && is_bearer(name, &text[value.clone()]) {
            return Some(value);
        }
    }
    // Most words assign nothing: whether they could is looked at first.
    let value = assigned(text, word.end)?;
    redaction.is_secret_name(name).then_some(value)
}

/// The value after `=`, `:` or `":`, if there is one and it is not masked already.
fn assigned(text: &str, end: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = end;
    if matches!(bytes.get(at), Some(b'"' | b'\'')) {
        at += 1;
    }
    at = blanks(text, at);
    if !matches!(bytes.get(at), Some(b'=' | b':')) || text[at..].starts_with("://") {
        return None;
    }
    at = blanks(text, at + 1);
    let quote = bytes.get(at).copied().filter(|b| matches!(b, b'"' | b'\''));
    if let Some(quote) = quote {
        let value = run(text, at + 1, |c| c != char::from(quote) && c != '\n');
        return (!value.is_empty() && !text[value.start..].starts_with(MASK)).then_some(value);
    }
    let mut value = run(text, at, is_value);
    let scheme = &text[value.clone()];
    if SCHEMES
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
    {
        let next = run(text, blanks(text, value.end), is_value);
        if text[next.start..].starts_with(MASK) {
            return None;
        }
        if !next.is_empty() {
            value = value.start..next.end;
        }
    }
    // `token: .` and the like are punctuation; a mask begins with a bracket.
    let says = text[value.clone()].chars().any(char::is_alphanumeric);
    (says && !text[value.start..].starts_with(MASK)).then_some(value)
}

/// `user:password@` in a URL.
fn url_password(text: &str, word: &Range<usize>) -> Option<Range<usize>> {
    let rest = text[word.end..].strip_prefix("://")?;
    let start = text.len() - rest.len();
    let authority = run(text, start, |c| {
        !c.is_whitespace() && !matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>')
    });
    let at = text[authority.clone()].rfind('@')?;
    let colon = text[start..start + at].find(':')?;
    let password = start + colon + 1..start + at;
    (!password.is_empty() && !text[password.start..].starts_with(MASK)).then_some(password)
}

fn private_keys(text: &str, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(begin) = text[at..].find(PRIVATE_KEY) {
        let start = at + begin + PRIVATE_KEY.len();
        let end = text[start..]
            .find("-----END")
            .map_or(text.len(), |end| start + end);
        // The mark at the end names the kind of key, too.
        let close = text[end..]
            .find(PRIVATE_KEY)
            .map_or(text.len(), |close| end + close + PRIVATE_KEY.len());
        if start < end {
            found.push(start..end);
        }
        at = close;
    }
}

/// Whether the word itself is a credential.
fn is_known(word: &str) -> bool {
    let long = |(prefix, fewest): &(&str, usize)| {
        word.strip_prefix(prefix)
            .is_some_and(|rest| rest.len() >= *fewest)
    };
    PREFIXES.iter().any(long)
        || word.starts_with(JWT) && word.len() > 40 && word.matches('.').count() == 2
}

fn is_bearer(scheme: &str, token: &str) -> bool {
    let token = token.trim_end_matches(['.', ',', ':']);
    token.chars().count() >= SHORTEST_BEARER
        && (scheme.starts_with('B') || token.chars().any(|c| !c.is_alphabetic()))
}

/// The next run of characters that a name or a token is made of.
fn next_word(text: &str, from: usize) -> Option<Range<usize>> {
    let begin = text[from..].find(is_word)?;
    Some(run(text, from + begin, is_word))
}

fn run(text: &str, from: usize, belongs: impl Fn(char) -> bool) -> Range<usize> {
    let end = text[from..]
        .find(|c| !belongs(c))
        .map_or(text.len(), |end| from + end);
    from..end
}

fn blanks(text: &str, from: usize) -> usize {
    run(text, from, |c| c == ' ' || c == '\t').end
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '+' | '/' | '=')
}

fn is_value(c: char) -> bool {
    !c.is_whitespace()
        && !matches!(
            c,
            '"' | '\'' | ',' | ';' | '&' | '<' | '>' | ')' | '}' | ']'
        )
}
