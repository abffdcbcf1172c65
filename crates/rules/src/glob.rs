//! Patterns over tool names.
//!
//! One language for rules, tool marks and roles (S5.2): `*` matches anything,
//! nothing and dots included; every other character stands for itself, and
//! case counts.
//!
//! A tool has two names: the one it is registered under
//! (`crm.update.contact`) and the one a model sees (`crm_update_contact`). A
//! pattern may be written against either, or half and half, so a pattern
//! matches a tool if it matches
//!
//! 1. the registered name, character by character; or
//! 2. the model's name, where a dot in the pattern also stands for an
//!    underscore *that a dot became*. Any other underscore is not meant by a
//!    dot: `fetch.*` is a rule for the server `fetch` and says nothing of the
//!    built-in `fetch_url`; or
//! 3. where the model's name had to be changed to keep two tools apart, the
//!    name it would have had otherwise, character by character. So a deny rule
//!    written as `crm_update_contact` cannot be escaped by a server that adds a
//!    second tool whose name clashes.
//!
//! Matching walks both strings once and goes back to the last `*` at most, so
//! its time is bounded by the product of the lengths, whatever the pattern.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::names::{plain_byte, plain_matches};

/// The longest pattern, in characters: as long as the longest tool name.
pub const MAX_PATTERN: usize = 128;

/// A pattern over tool names, checked when it was made (S5.2).
///
/// Patterns compare and sort by their text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob {
    text: Box<str>,
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGlob {
    /// The pattern has no characters and could match nothing.
    #[error("a pattern cannot be empty; `*` matches every tool")]
    Empty,
    /// The pattern is longer than any tool name.
    #[error("a pattern has at most {MAX_PATTERN} characters, this one has {0}")]
    TooLong(usize),
    /// The pattern holds a character that no tool name can have.
    #[error(
        "{0:?} cannot occur in a tool name: a pattern is made of letters, digits, `_`, `-`, `.` and `*`"
    )]
    BadCharacter(char),
}

impl Glob {
    /// Checks a pattern: 1 to 128 characters of `[A-Za-z0-9_.*-]`.
    ///
    /// Characters that other pattern languages treat specially (`?`, `[`, `{`,
    /// `!`) are refused, not taken literally: they could never match, and
    /// whoever wrote them meant something else.
    ///
    /// # Errors
    ///
    /// [`BadGlob`] says what is wrong.
    pub fn new(text: &str) -> Result<Self, BadGlob> {
        if text.is_empty() {
            return Err(BadGlob::Empty);
        }
        if let Some(bad) = text.chars().find(|&c| !is_pattern_char(c)) {
            return Err(BadGlob::BadCharacter(bad));
        }
        if text.len() > MAX_PATTERN {
            return Err(BadGlob::TooLong(text.len()));
        }
        Ok(Self { text: text.into() })
    }

    /// The pattern that matches every tool.
    #[must_use]
    pub fn any() -> Self {
        Self { text: "*".into() }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the pattern is one exact name, without a `*`.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.text.contains('*')
    }

    /// The characters before the first `*`; the whole pattern if it has none.
    #[must_use]
    pub fn literal_prefix(&self) -> &str {
        self.text.split('*').next().unwrap_or_default()
    }

    /// Whether the pattern matches a tool under any of its names (B36, B37).
    ///
    /// `model_name` is the tool's name in requests to the model. Where it is
    /// not known pass the registered name again: then only spellings that are
    /// half one form and half the other are missed.
    #[must_use]
    pub fn matches(&self, registered: &str, model_name: &str) -> bool {
        self.matches_names(&Names::new(registered, model_name))
    }

    pub(crate) fn matches_names(&self, names: &Names<'_>) -> bool {
        let pattern = self.text.as_bytes();
        let Names {
            registered,
            model_name,
            plain,
        } = *names;
        let in_model_name = |c: u8, i: usize| {
            c == model_name[i] || (c == b'.' && model_name[i] == b'_' && dot_at(registered, i))
        };
        if walk(pattern, model_name.len(), in_model_name) {
            return true;
        }
        // A plain form differs from the registered name only where a pattern's
        // character could not match there: what it misses, both miss.
        !plain
            && (walk(pattern, registered.len(), |c, i| c == registered[i])
                || walk(pattern, registered.len(), |c, i| {
                    c == plain_byte(registered[i])
                }))
    }

    /// Whether every tool that `other` matches is matched by this pattern too.
    ///
    /// The star of `other` is read as a character that only a star matches.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let other = other.text.as_bytes();
        walk(self.text.as_bytes(), other.len(), |c, i| c == other[i])
    }

    /// Whether some name that begins with `prefix` and goes on for at least
    /// one character matches.
    #[must_use]
    pub fn may_match_under(&self, prefix: &str) -> bool {
        let mut rest = self.text.bytes();
        for expected in prefix.bytes() {
            match rest.next() {
                Some(b'*') => return true,
                Some(c) if c == expected => {}
                Some(_) | None => return false,
            }
        }
        rest.next().is_some()
    }
}

/// A tool's two names, looked at once for many patterns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'n> {
    registered: &'n [u8],
    model_name: &'n [u8],
    /// Whether the model's name is the plain form of the registered one.
    plain: bool,
}

impl<'n> Names<'n> {
    pub(crate) fn new(registered: &'n str, model_name: &'n str) -> Self {
        let (registered, model_name) = (registered.as_bytes(), model_name.as_bytes());
        Self {
            registered,
            model_name,
            plain: plain_matches(registered, model_name),
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }
}

fn dot_at(registered: &[u8], i: usize) -> bool {
    registered.get(i) == Some(&b'.')
}

fn is_pattern_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*')
}

/// Matches a pattern against a text of `len` bytes; `same(c, i)` says whether
/// the pattern's byte `c` stands for the text's byte `i`.
pub(crate) fn walk(pattern: &[u8], len: usize, same: impl Fn(u8, usize) -> bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if the characters after the last star do not fit: behind
    // that star, with the star taking one byte more.
    let mut retry: Option<(usize, usize)> = None;
    while t < len {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if same(c, t) => {
                p += 1;
                t += 1;
            }
            Some(_) | None => match retry.as_mut() {
                Some((after_star, taken)) => {
                    *taken += 1;
                    p = *after_star;
                    t = *taken;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Glob({:?})", &*self.text)
    }
}

impl FromStr for Glob {
    type Err = BadGlob;

    fn from_str(text: &str) -> Result<Self, BadGlob> {
        Self::new(text)
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn glob(text: &str) -> Glob {
        Glob::new(text).unwrap()
    }

    /// Matches a tool whose model's name is the plain rewriting of its
    /// registered name, as almost all are.
    fn matches(pattern: &str, registered: &str) -> bool {
        glob(pattern).matches(registered, &crate::names::plain_form(registered))
    }

    #[test]
    fn b36_a_star_crosses_every_separator() {
        assert!(matches("fetch.*", "fetch.v2.get.page"));
        assert!(matches("*.delete_*", "a.b.c.delete_x"));
        for name in ["a", "a.b", "a.b.c", "A-b_c.9", "create_artifact"] {
            assert!(matches("*", name), "{name}");
        }
    }

    #[test]
    fn b36_a_dot_is_a_dot_or_the_underscore_a_dot_became() {
        assert!(matches("crm.update_*", "crm.update_y"));
        assert!(matches("crm_update_*", "crm.update_y"));
        assert!(!matches("crm.update_*", "crmx.update_y"));
        assert!(!matches("crm.update_*", "crm-update_y"));
        // Half and half: the model's form of one dot, the dot of the other.
        assert!(matches("crm.update_contact", "crm.update.contact"));
        assert!(matches("crm_update.contact", "crm.update.contact"));
        // An underscore that never was a dot is not meant by a dot.
        assert!(!matches("fetch.*", "fetch_url"));
        assert!(!matches("crm.update.y", "crm.update_y"));
    }

    #[test]
    fn s5_2_case_counts() {
        assert!(!matches("CRM.*", "crm.update"));
        assert!(!matches("crm.Update", "crm.update"));
    }

    #[test]
    fn b37_doubled_underscores_match_in_all_four_forms() {
        for pattern in [
            "github-read.list__issues",
            "github-read_list__issues",
            "github-read.*",
            "github-read_*",
        ] {
            assert!(matches(pattern, "github-read.list__issues"), "{pattern}");
        }
        assert!(!matches(
            "github-read.list_issues",
            "github-read.list__issues"
        ));
    }

    #[test]
    fn b38_a_changed_model_name_still_matches_its_plain_form() {
        let names = crate::ToolNames::assign(["crm.update_contact", "crm.update.contact"]);
        let hit = |pattern: &str, registered: &str| {
            glob(pattern).matches(registered, names.model_name(registered).unwrap())
        };
        // The ambiguous spelling means both, the exact ones mean one.
        assert!(hit("crm_update_contact", "crm.update_contact"));
        assert!(hit("crm_update_contact", "crm.update.contact"));
        assert!(hit("crm.update_contact", "crm.update_contact"));
        assert!(!hit("crm.update_contact", "crm.update.contact"));
        assert!(!hit("crm.update.contact", "crm.update_contact"));
        // And each matches the name that the model really sees.
        for name in ["crm.update_contact", "crm.update.contact"] {
            assert!(hit(names.model_name(name).unwrap(), name));
        }
    }

    #[test]
    fn s5_11_bad_globs_are_refused() {
        assert_eq!(Glob::new(""), Err(BadGlob::Empty));
        for bad in ["a?", "[ab]", "{a,b}", "!a", "a b", "a/b", "é*", "a\0"] {
            assert!(
                matches!(Glob::new(bad), Err(BadGlob::BadCharacter(_))),
                "{bad:?}"
            );
        }
        assert_eq!(Glob::new(&"a".repeat(129)), Err(BadGlob::TooLong(129)));
        assert!(Glob::new(&"*".repeat(128)).is_ok());
    }

    #[test]
    fn many_stars_do_not_blow_up() {
        let pattern = glob(&"a*".repeat(63));
        let name = "a".repeat(4096) + "b";
        assert!(pattern.matches(&name, &name));
        let pattern = glob(&format!("{}b", "a*".repeat(60)));
        let name = "a".repeat(4096);
        assert!(!pattern.matches(&name, &name));
    }

    #[test]
    fn covers_compares_patterns() {
        for (wide, narrow) in [("*", "a"), ("*", "*"), ("a.*", "a.b*"), ("*_x", "a*_x")] {
            assert!(glob(wide).covers(&glob(narrow)), "{wide} covers {narrow}");
        }
        for (one, other) in [("a", "*"), ("a.b*", "a.*"), ("crm.*", "*.delete_*")] {
            assert!(
                !glob(one).covers(&glob(other)),
                "{one} does not cover {other}"
            );
        }
    }

    #[test]
    fn may_match_under_a_server() {
        assert!(glob("git.status").may_match_under("git."));
        assert!(glob("gi*s").may_match_under("git."));
        assert!(glob("*").may_match_under("git."));
        assert!(!glob("git.").may_match_under("git."));
        assert!(!glob("gitx.*").may_match_under("git."));
    }

    /// The definition of a match, written as directly as it can be.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|skip| naive(rest, &text[skip..])),
            Some((c, rest)) => text
                .split_first()
                .is_some_and(|(t, text)| t == c && naive(rest, text)),
        }
    }

    /// The same for a model's name: `origin` is the registered name.
    fn naive_model(pattern: &[u8], model: &[u8], origin: &[u8]) -> bool {
        match pattern.split_first() {
            None => model.is_empty(),
            Some((b'*', rest)) => {
                (0..=model.len()).any(|skip| naive_model(rest, &model[skip..], &origin[skip..]))
            }
            Some((&c, rest)) => {
                !model.is_empty()
                    && (model[0] == c || (c == b'.' && origin[0] == b'.'))
                    && naive_model(rest, &model[1..], &origin[1..])
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn b36_agrees_with_the_naive_matcher(
            pattern in "[ab_.*]{1,10}",
            name in "[ab_.]{1,12}",
        ) {
            let model = crate::names::plain_form(&name);
            let (p, n, m) = (pattern.as_bytes(), name.as_bytes(), model.as_bytes());
            let expected = naive(p, n) || naive_model(p, m, n);
            prop_assert_eq!(glob(&pattern).matches(&name, &model), expected);
        }

        #[test]
        fn b36_every_name_is_matched_by_itself_and_by_a_star(name in "[A-Za-z0-9_.-]{1,128}") {
            let model = crate::names::plain_form(&name);
            prop_assert!(glob(&name).matches(&name, &model));
            prop_assert!(glob("*").matches(&name, &model));
            if model.len() <= MAX_PATTERN {
                prop_assert!(glob(&model).matches(&name, &model));
            }
        }

        #[test]
        fn covers_implies_matches(
            wide in "[ab.*]{1,6}",
            narrow in "[ab.*]{1,6}",
            fill in "[ab.]{0,3}",
        ) {
            let (wide, narrow) = (glob(&wide), glob(&narrow));
            let name = narrow.as_str().replace('*', &fill);
            if wide.covers(&narrow) && !name.is_empty() {
                prop_assert!(wide.matches(&name, &name));
            }
        }
    }
}
