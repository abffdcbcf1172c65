//! What supports a text: amounts and names that a model wrote and nobody else did are flagged (S6.2).

use std::collections::BTreeSet;

use serde_json::Value;

/// How many flags a text gets at most.
const MOST_FLAGS: usize = 16;

/// What the words of a text may be found in.
#[derive(Debug, Default)]
pub(crate) struct Support {
    texts: Vec<String>,
    words: BTreeSet<String>,
    amounts: BTreeSet<String>,
}

impl Support {
    /// Takes in a text; of JSON with escapes also what its strings stand for.
    pub(crate) fn add(&mut self, text: &str) {
        self.add_plain(text);
        if text.contains('\\')
            && let Ok(value) = serde_json::from_str::<Value>(text)
        {
            self.add_strings(&value);
        }
    }

    fn add_strings(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_plain(text),
            Value::Array(items) => items.iter().for_each(|item| self.add_strings(item)),
            Value::Object(fields) => fields.iter().for_each(|(name, field)| {
                self.add_plain(name);
                self.add_strings(field);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_plain(&mut self, text: &str) {
        let text = text.to_lowercase();
        let words = text.split(|c: char| !c.is_alphanumeric());
        let words = words.filter(|word| !word.is_empty());
        self.words.extend(words.map(str::to_owned));
        for run in text.split(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',' | '\'')) {
            let run = run.trim_matches(['.', ',', '\'']);
            self.amounts.extend(amounts(run));
            self.amounts.extend(run.split(',').flat_map(amounts));
        }
        self.texts.push(text);
    }

    /// The amounts and names of `text` that are not in what was taken in, each once, in their order.
    ///
    /// An amount is a number, compared by value; a name is an address, an identifier, or a word with
    /// a capital letter that does not begin its sentence, or does and another follows it. Names in
    /// scripts without capital letters are not told from other words.
    pub(crate) fn missing(&self, text: &str) -> Vec<String> {
        let mut flags = Vec::new();
        let mut begins = true;
        let mut tokens = tokens(text).peekable();
        while let Some(token) = tokens.next() {
            let follows = tokens.peek().is_some_and(|next| is_capital(next));
            let is_name = is_capital(token) && (!begins || follows);
            let amounts = amounts(token);
            let supported = if !amounts.is_empty() {
                amounts.iter().any(|amount| self.amounts.contains(amount))
            } else if is_identifier(token) {
                self.holds(token)
            } else {
                !is_name || self.has_word(token)
            };
            if !supported && !flags.iter().any(|flag| flag == token) && flags.len() < MOST_FLAGS {
                flags.push(token.to_owned());
            }
            begins = ends_sentence(text, token);
        }
        flags
    }

    fn holds(&self, token: &str) -> bool {
        let token = token.to_lowercase();
        self.texts.iter().any(|text| text.contains(&token))
    }

    fn has_word(&self, token: &str) -> bool {
        let token = token.to_lowercase();
        let mut parts = token.split(|c: char| !c.is_alphanumeric());
        let all = parts.all(|part| part.is_empty() || part == "s" || self.words.contains(part));
        all || self.holds(&token)
    }
}

/// A text's words, addresses and numbers, without the punctuation around them.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let split = text.split(|c: char| c.is_whitespace() || "()[]{}<>\"“”„«»‘’`;|=".contains(c));
    let bare = split.map(|token| token.trim_matches(|c: char| !c.is_alphanumeric()));
    bare.filter(|token| !token.is_empty())
}

/// Whether a sentence ends behind a token, which is a part of the text.
fn ends_sentence(text: &str, token: &str) -> bool {
    let behind = token.as_ptr() as usize + token.len() - text.as_ptr() as usize;
    let mut rest = text[behind..].chars();
    matches!(rest.next(), Some('.' | '!' | '?' | ':'))
        && rest.next().is_none_or(char::is_whitespace)
}

fn is_capital(token: &str) -> bool {
    token.starts_with(char::is_uppercase)
}

/// An address, or a word with digits or signs in it.
fn is_identifier(token: &str) -> bool {
    token.contains(['@', '/', '_', '\\', '.']) || token.chars().any(|c| c.is_ascii_digit())
}

/// What a number may stand for, written in one way: its separators read either way, without zeros that
/// mean nothing.
fn amounts(token: &str) -> Vec<String> {
    if !token.starts_with(|c: char| c.is_ascii_digit())
        || !token
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '\''))
    {
        return Vec::new();
    }
    let read = |decimal: char| {
        let (whole, part) = token.rsplit_once(decimal).unwrap_or((token, ""));
        let digits = |text: &str| -> String { text.chars().filter(char::is_ascii_digit).collect() };
        let (whole, part) = (digits(whole), digits(part));
        let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
        let whole = if whole.is_empty() { "0" } else { whole };
        if part.is_empty() {
            whole.to_owned()
        } else {
            format!("{whole}.{part}")
        }
    };
    let mut read = vec![read('.'), read(',')];
    read.dedup();
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(text: &str, known: &[&str]) -> Vec<String> {
        let mut support = Support::default();
        known.iter().for_each(|text| support.add(text));
        support.missing(text)
    }

    /// S6.2: amounts are compared by value, however they are written.
    #[test]
    fn amounts_are_compared_by_value() {
        let known = [r#"{"order_id":"A-17","amount":1250.50,"fee":3}"#];
        for text in [
            "Refund $1,250.50 for A-17",
            "Refund 1250.5 for A-17.",
            "Refund €1.250,50 and 3.00 for a-17",
            "Refund 1'250.50.",
        ] {
            assert_eq!(missing(text, &known), Vec::<String>::new(), "{text}");
        }
        assert_eq!(missing("Refund 1260.50 for A-17", &known), ["1260.50"]);
        assert_eq!(missing("Refund 1250.50 for A-18", &known), ["A-18"]);
        assert_eq!(missing("Refund 12505 for A-17", &known), ["12505"]);
    }

    /// S6.2, B47: an invented recipient, name or currency is flagged, and what the run knows is not.
    #[test]
    fn names_that_nobody_wrote_are_flagged() {
        let known = [
            r#"{"to":"ann@shop.example","body":"Caf\u00e9 Zo\u00eb"}"#,
            "Tell Ann Miller about it. 20 EUR",
            "mail.send",
        ];
        for text in [
            "Send a mail to Ann Miller (ann@shop.example).",
            "Write to Ann's address. It is about Café Zoë, for 20 EUR",
            "ANN gets a mail",
        ] {
            assert_eq!(missing(text, &known), Vec::<String>::new(), "{text}");
        }
        assert_eq!(missing("Send a mail to Bob", &known), ["Bob"]);
        assert_eq!(
            missing("Send it to ann@evil.example, Ann", &known),
            ["ann@evil.example"]
        );
        assert_eq!(missing("Pay 20 USD to Ann", &known), ["USD"]);
        assert_eq!(missing("Eve Adams gets a mail", &known), ["Eve", "Adams"]);
        assert_eq!(missing("Write to Bob. Bob waits", &known), ["Bob"]);
    }

    /// A hostile text costs a bounded number of flags.
    #[test]
    fn flags_are_few() {
        let text: String = (0..1000).map(|n| format!("x Name{n} ")).collect();
        assert_eq!(missing(&text, &[]).len(), MOST_FLAGS);
    }
}
