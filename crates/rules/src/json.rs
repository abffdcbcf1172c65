//! Arguments and results as they were written.
//!
//! A reader of our own has two reasons: a number keeps its digits, and a key that stands twice is
//! seen twice. Whoever executes a call may take the first or the last of two equal keys, so a
//! judge that saw only one could be shown the harmless one.

use std::borrow::Cow;
use std::ops::Range;

/// The deepest that values stand within values.
const MAX_DEPTH: usize = 128;

/// One JSON value, borrowed from its text where it can be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'t> {
    Null,
    Bool(bool),
    /// The number's own digits.
    Number(&'t str),
    Text(Cow<'t, str>),
    List(Vec<Json<'t>>),
    /// In the order of the text; a key may stand twice.
    Map(Vec<(Cow<'t, str>, Json<'t>)>),
}

impl<'t> Json<'t> {
    /// Reads a text that is one JSON value and nothing else; `None` if it is not.
    pub(crate) fn read(text: &'t str) -> Option<Self> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.blanks();
        (reader.at == text.len()).then_some(value)
    }

    /// Where the value at a JSON pointer stands in a text that is one JSON value; `None` if there is
    /// none. Of a key that stands twice it is the first.
    pub(crate) fn place(text: &'t str, pointer: &str) -> Option<Range<usize>> {
        Self::read(text)?;
        let mut reader = Reader { text, at: 0 };
        if !pointer.is_empty() {
            for token in pointer.strip_prefix('/')?.split('/') {
                reader.blanks();
                match reader.peek()? {
                    b'{' => reader.enter_member(&token.replace("~1", "/").replace("~0", "~"))?,
                    b'[' => reader.enter_item(token)?,
                    _ => return None,
                }
            }
        }
        reader.blanks();
        let start = reader.at;
        reader.value(0)?;
        Some(start..reader.at)
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn word(&mut self, word: &str, value: Json<'t>) -> Option<Json<'t>> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            value
        })
    }

    fn value(&mut self, depth: usize) -> Option<Json<'t>> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.blanks();
        match self.peek()? {
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => self.text().map(Json::Text),
            b'[' => self.list(depth),
            b'{' => self.map(depth),
            _ => self.number(),
        }
    }

    /// Goes on to the value of a member of the mapping that begins here.
    fn enter_member(&mut self, wanted: &str) -> Option<()> {
        self.eat(b'{')?;
        loop {
            self.blanks();
            let key = self.text()?;
            self.blanks();
            self.eat(b':')?;
            if key == wanted {
                return Some(());
            }
            self.value(0)?;
            self.blanks();
            self.eat(b',')?;
        }
    }

    /// Goes on to an item of the list that begins here.
    fn enter_item(&mut self, wanted: &str) -> Option<()> {
        let index: usize = wanted.parse().ok()?;
        // `+1` and `01` are no indices.
        if index.to_string() != wanted {
            return None;
        }
        self.eat(b'[')?;
        for _ in 0..index {
            self.value(0)?;
            self.blanks();
            self.eat(b',')?;
        }
        self.blanks();
        (self.peek()? != b']').then_some(())
    }

    fn list(&mut self, depth: usize) -> Option<Json<'t>> {
        self.eat(b'[')?;
        let mut items = Vec::new();
        self.blanks();
        if self.eat(b']').is_some() {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            if self.eat(b']').is_some() {
                return Some(Json::List(items));
            }
            self.eat(b',')?;
        }
    }

    fn map(&mut self, depth: usize) -> Option<Json<'t>> {
        self.eat(b'{')?;
        let mut entries = Vec::new();
        self.blanks();
        if self.eat(b'}').is_some() {
            return Some(Json::Map(entries));
        }
        loop {
            self.blanks();
            let key = self.text()?;
            self.blanks();
            self.eat(b':')?;
            entries.push((key, self.value(depth + 1)?));
            self.blanks();
            if self.eat(b'}').is_some() {
                return Some(Json::Map(entries));
            }
            self.eat(b',')?;
        }
    }

    fn text(&mut self) -> Option<Cow<'t, str>> {
        self.eat(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.at += 2;
                }
                0..=0x1F => return None,
                _ => self.at += 1,
            }
        }
        let raw = self.text.get(start..self.at)?;
        self.at += 1;
        if !escaped {
            return Some(Cow::Borrowed(raw));
        }
        serde_json::from_str(&self.text[start - 1..self.at])
            .ok()
            .map(Cow::Owned)
    }

    fn number(&mut self) -> Option<Json<'t>> {
        let start = self.at;
        while matches!(
            self.peek(),
            Some(b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
        ) {
            self.at += 1;
        }
        let literal = &self.text[start..self.at];
        is_number(literal.as_bytes()).then_some(Json::Number(literal))
    }
}

fn is_number(literal: &[u8]) -> bool {
    fn digits(text: &[u8]) -> (usize, &[u8]) {
        let count = text.iter().take_while(|b| b.is_ascii_digit()).count();
        (count, &text[count..])
    }
    let unsigned = literal.strip_prefix(b"-").unwrap_or(literal);
    let (whole, mut rest) = digits(unsigned);
    if whole == 0 || (whole > 1 && unsigned[0] == b'0') {
        return false;
    }
    if let Some(after) = rest.strip_prefix(b".") {
        let (part, after) = digits(after);
        if part == 0 {
            return false;
        }
        rest = after;
    }
    if let Some(after) = rest.strip_prefix(b"e").or(rest.strip_prefix(b"E")) {
        let after = after
            .strip_prefix(b"+")
            .or(after.strip_prefix(b"-"))
            .unwrap_or(after);
        let (power, after) = digits(after);
        if power == 0 {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_keep_their_digits_and_their_doubled_keys() {
        let read = Json::read(r#" {"a":1.10,"a":[null,true,"x\u00e9\"" ,-0e+1]} "#).unwrap();
        assert_eq!(
            read,
            Json::Map(vec![
                ("a".into(), Json::Number("1.10")),
                (
                    "a".into(),
                    Json::List(vec![
                        Json::Null,
                        Json::Bool(true),
                        Json::Text("xé\"".into()),
                        Json::Number("-0e+1"),
                    ])
                ),
            ])
        );
        let deep = "[".repeat(100_000);
        assert_eq!(Json::read(&deep), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        /// What is taken is JSON, and JSON is taken.
        #[test]
        fn it_agrees_with_the_reader_of_everyone_else(
            text in r#"([\[\]{},:" ]|"a"|"\\[nu"x]"|-?0?[0-9]{1,2}(\.[0-9]?)?([eE][+-]?[0-9]?)?|null|true|false|é|\n|\\|\t){0,12}"#,
        ) {
            prop_assert_eq!(
                Json::read(&text).is_some(),
                serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                "{:?}", text
            );
        }
    }
}
