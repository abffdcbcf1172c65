//! What readers are not shown: values of stored secrets, and what stands under a name that says so
//! (S3.10).
//!
//! A text is redacted **by value** wherever a stored secret's value occurs in it, and **by name**
//! where it assigns something to a name such as `password` or `api_key`: as a member of a JSON
//! object at any depth, also of JSON inside a JSON string, or as `name=value` and `name: value` in
//! plain text. What looks like a credential whatever its name (`Bearer …`, a private key, a token
//! with a known beginning, a password in a URL) goes too. [`MASK`] stands in its place.
//!
//! Only the redacted view is made here. The exact bytes stay in the timeline, where they are hashed
//! and from where an approved call is sent; readers get the view. All else of a JSON text stays as it
//! is, byte for byte: numbers are not rounded and keys keep their order.
//!
//! [`Redaction::NAMES`] lists the names; an installation adds its own (`secrets.redact`).

mod json;
mod names;
mod plain;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

/// What stands in the place of what is redacted.
pub const MASK: &str = "[redacted]";

/// Values shorter than this, in bytes, are ordinary words too often to be taken out of texts: they
/// cannot be secrets.
pub const SHORTEST_SECRET: usize = 6;

/// What is to be redacted: names, and the values that are known.
#[derive(Clone, Default)]
pub struct Redaction {
    /// More names than [`Redaction::NAMES`], as their letters and digits in lower case.
    names: BTreeSet<String>,
    /// Longest first, so that a value within another leaves no rest.
    values: Vec<String>,
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, values) = (&self.names, self.values.len());
        write!(f, "Redaction {{ names: {names:?}, values: {values} }}")
    }
}

impl Redaction {
    /// The names under which values are redacted, in whatever case and with whatever between their
    /// words: `apiKey`, `api_key` and `X-API-Key` are all `api key`. A name is one of these if its
    /// last words are, or if one of its words is `password` or the like.
    pub const NAMES: &'static [&'static str] = names::NAMES;

    /// By name alone, with these names beside those that every installation has.
    #[must_use]
    pub fn by_name<S: AsRef<str>>(more: impl IntoIterator<Item = S>) -> Redaction {
        let plain = more.into_iter().map(|name| names::plain(name.as_ref()));
        Redaction {
            names: plain.filter(|name| !name.is_empty()).collect(),
            values: Vec::new(),
        }
    }

    /// The same, and by the values of stored secrets.
    #[must_use]
    pub fn with_values<S: AsRef<str>>(mut self, values: impl IntoIterator<Item = S>) -> Redaction {
        for value in values {
            let value = value.as_ref();
            if value.len() < SHORTEST_SECRET || MASK.contains(value) {
                continue;
            }
            self.values.push(value.to_owned());
            // As it stands in a JSON text that is part of another text.
            let quoted = serde_json::to_string(value).expect("a string has a JSON form");
            let inner = quoted[1..quoted.len() - 1].to_owned();
            if inner != value {
                self.values.push(inner);
            }
        }
        self.values
            .sort_unstable_by(|a, b| (b.len(), a).cmp(&(a.len(), b)));
        self.values.dedup();
        self
    }

    /// Whether a name says that its value is nobody's business.
    #[must_use]
    pub fn is_secret_name(&self, name: &str) -> bool {
        names::is_secret(name) || self.names.contains(&names::plain(name))
    }

    /// A text without the values that are known: what may be stored of a tool's result.
    #[must_use]
    pub fn without_values<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = Cow::Owned(text.replace(value.as_str(), MASK));
            }
        }
        text
    }

    /// A text as readers may see it. If it is a JSON object or array it stays one.
    #[must_use]
    pub fn view<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.trim_start().starts_with(['{', '['])
            && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
        {
            return json::redact(self, text);
        }
        match self.without_values(text) {
            Cow::Borrowed(text) => plain::redact(self, text),
            Cow::Owned(text) => Cow::Owned(plain::redact(self, &text).into_owned()),
        }
    }

    /// The view, where it differs from the text.
    #[must_use]
    pub fn differing(&self, text: &str) -> Option<String> {
        match self.view(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(view) => (view != text).then_some(view),
        }
    }
}

#[cfg(test)]
mod tests;
