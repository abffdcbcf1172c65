//! Redacts a JSON text and leaves all else of it as it is.

use std::borrow::Cow;

use super::{MASK, Redaction};

/// What nests deeper than any arguments that can be sent is masked as a whole.
const DEEPEST: usize = 128;

/// The text with its secret members masked. It must be JSON.
pub(super) fn redact<'t>(redaction: &Redaction, text: &'t str) -> Cow<'t, str> {
    let mut walk = Walk {
        redaction,
        text,
        at: 0,
        kept: 0,
        depth: 0,
        out: String::new(),
    };
    walk.value(false);
    if walk.out.is_empty() {
        return Cow::Borrowed(text);
    }
    walk.out.push_str(&text[walk.kept..]);
    Cow::Owned(walk.out)
}

/// Goes over a text that has been parsed before.
struct Walk<'r, 't> {
    redaction: &'r Redaction,
    text: &'t str,
    at: usize,
    /// Up to where the text stands in `out`.
    kept: usize,
    depth: usize,
    /// Empty until something is masked.
    out: String,
}

impl<'t> Walk<'_, 't> {
    /// One value; `secret` if a name above it says so.
    fn value(&mut self, secret: bool) {
        self.blanks();
        self.depth += 1;
        match self.peek() {
            b'{' | b'[' if self.depth > DEEPEST => self.too_deep(),
            b'{' => self.members(secret),
            b'[' => self.items(secret),
            b'"' => self.string(secret),
            _ => self.scalar(secret),
        }
        self.depth -= 1;
    }

    fn too_deep(&mut self) {
        let (start, mut open) = (self.at, 0usize);
        loop {
            match self.peek() {
                b'"' => {
                    self.raw_string();
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                break;
            }
        }
        self.replace(start, &quoted(MASK));
    }

    fn members(&mut self, secret: bool) {
        self.at += 1;
        loop {
            self.blanks();
            match self.peek() {
                b'"' => {
                    let key = self.raw_string();
                    let key: Cow<'_, str> = decoded(key);
                    self.blanks();
                    self.at += 1; // the colon
                    let secret = secret || self.redaction.is_secret_name(&key);
                    self.value(secret);
                }
                b'}' => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1, // a comma
            }
        }
    }

    fn items(&mut self, secret: bool) {
        self.at += 1;
        loop {
            self.blanks();
            match self.peek() {
                b']' => {
                    self.at += 1;
                    return;
                }
                b',' => self.at += 1,
                _ => self.value(secret),
            }
        }
    }

    fn string(&mut self, secret: bool) {
        let start = self.at;
        let raw = self.raw_string();
        if raw == "\"\"" {
            return;
        }
        if secret {
            self.replace(start, &quoted(MASK));
            return;
        }
        let text = decoded(raw);
        if let Some(view) = self.redaction.differing(&text) {
            self.replace(start, &quoted(&view));
        }
    }

    /// A number under a secret name is masked; `true`, `false` and `null` say nothing.
    fn scalar(&mut self, secret: bool) {
        let start = self.at;
        while self.at < self.text.len()
            && !matches!(
                self.peek(),
                b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r'
            )
        {
            self.at += 1;
        }
        let is_number = matches!(self.text.as_bytes()[start], b'-' | b'0'..=b'9');
        if secret && is_number {
            self.replace(start, &quoted(MASK));
        }
    }

    /// Writes this in place of what stands from `start` to here.
    fn replace(&mut self, start: usize, with: &str) {
        self.out.push_str(&self.text[self.kept..start]);
        self.out.push_str(with);
        self.kept = self.at;
    }

    /// The string that begins here, quotes included.
    fn raw_string(&mut self) -> &'t str {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        &self.text[start..self.at]
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn peek(&self) -> u8 {
        let bytes = self.text.as_bytes();
        *bytes.get(self.at).expect("the text was parsed before")
    }
}

fn decoded(raw: &str) -> Cow<'_, str> {
    let inner = &raw[1..raw.len() - 1];
    if !inner.contains('\\') {
        return Cow::Borrowed(inner);
    }
    // Half of a surrogate pair is no text: it is looked at as it stands.
    serde_json::from_str::<String>(raw).map_or(Cow::Borrowed(inner), Cow::Owned)
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string has a JSON form")
}
