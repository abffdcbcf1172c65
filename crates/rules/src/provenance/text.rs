//! Whole tokens.

/// A value is looked for by one of its words; the rest is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Text {
    normal: String,
    /// Hash and place of each word, sorted: so a value is found in a text of any length by a
    /// binary search, and taking a text in costs one sort.
    words: Vec<(u32, u32)>,
}

/// What a character is to the words beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Belongs to a word.
    Word,
    /// Belongs to a token if it joins two words, and may else stand before or after one.
    Joint,
    /// Separates tokens.
    Gap,
}

pub(super) fn class(c: char) -> Class {
    if c.is_ascii() {
        return match c {
            '0'..='9' | 'A'..='Z' | 'a'..='z' | '_' => Class::Word,
            '.' | '-' | '@' | '/' | '\\' | ':' | '+' | '&' | '=' | '%' | '#' | '~' | '?' | '!'
            | '$' | '*' | '^' => Class::Joint,
            ' ' | '\t' | '\n' | '\r' | '\x0B' | '\x0C' => Class::Gap,
            ',' | ';' | '"' | '\'' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '|' | '`' => {
                Class::Gap
            }
            // Control characters stand within a word, which is then another one.
            _ => Class::Word,
        };
    }
    match c {
        '“' | '”' | '„' | '‘' | '’' | '‚' | '«' | '»' | '‹' | '›' | '…' | '–' | '—' | '、'
        | '，' | '；' | '（' | '）' | '「' | '」' | '·' | '•' => Class::Gap,
        c if c.is_whitespace() => Class::Gap,
        _ => Class::Word,
    }
}

/// What may stand right before a token without belonging to it: `#general`, `@bob`, `$50`. Most of
/// these can begin the name in a mail address, which is then another one.
fn may_lead(c: char, mail: bool) -> bool {
    matches!(c, '@' | ':') || (!mail && matches!(c, '#' | '$' | '-' | '+' | '=' | '?' | '!'))
}

/// What may stand right after a token without belonging to it: the end of a sentence, or of a URL.
fn may_trail(c: char, _mail: bool) -> bool {
    matches!(c, '.' | '?' | '!' | ':' | '/')
}

pub(super) fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’')
}

/// What separates tokens, but not between two words: `O'Brien` is one; `a|b@x.com` a mail address.
fn binds(c: char, mail: bool) -> bool {
    is_apostrophe(c) || (mail && matches!(c, '{' | '}' | '|' | '`' | '–' | '—' | '·' | '•' | '‘'))
}

/// The text with its case and blanks normalised. A letter that only looks like an ASCII one stays
/// what it is.
pub(crate) fn normal(text: &str) -> String {
    let mut normal = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            match c {
                ' ' | '\t' | '\n' | '\r' | '\x0B' | '\x0C' => blank(&mut normal),
                c => normal.push(c.to_ascii_lowercase()),
            }
        } else if c.is_whitespace() {
            blank(&mut normal);
        } else {
            let start = normal.len();
            normal.extend(c.to_lowercase());
            if normal[start..].is_ascii() {
                normal.truncate(start);
                normal.push(c);
            }
        }
    }
    if normal.ends_with(' ') {
        normal.pop();
    }
    normal
}

fn blank(normal: &mut String) {
    if !normal.is_empty() && !normal.ends_with(' ') {
        normal.push(' ');
    }
}

/// Whether a value, normalised, can be vouched for by a text at all.
fn counts(value: &str) -> bool {
    let mut letters = 0;
    let mut digits = 0;
    for c in value.chars().filter(|c| class(*c) == Class::Word) {
        if c.is_numeric() {
            digits += 1;
        } else if c != '_' {
            letters += 1;
        }
    }
    digits >= 5 || (letters >= 1 && letters + digits >= 2)
}

/// The words of a text with their places.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = rest.find(|(_, c)| class(*c) == Class::Word)?;
        let mut end = text.len();
        while let Some(&(at, c)) = rest.peek() {
            if class(c) != Class::Word {
                end = at;
                break;
            }
            rest.next();
        }
        Some((start, &text[start..end]))
    })
}

/// FNV-1a: two words that share a hash are told apart when they are compared.
fn hash(word: &str) -> u32 {
    word.bytes().fold(0x811C_9DC5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

impl Text {
    /// Takes a text in.
    pub(crate) fn new(text: &str) -> Self {
        Self::of(&[text], true)
    }

    /// Takes several texts in, none of which goes on in the next. Without an index over their
    /// words, which takes a while to make, values are only found by reading everything.
    pub(crate) fn of(texts: &[&str], indexed: bool) -> Self {
        let mut joined = String::new();
        for text in texts {
            joined.push_str(&normal(text));
            // No value holds a line's end once it is normalised.
            joined.push('\n');
        }
        let mut words: Vec<(u32, u32)> = Vec::new();
        if indexed {
            let found = self::words(&joined);
            words.extend(found.map_while(|(at, word)| Some((hash(word), u32::try_from(at).ok()?))));
            words.sort_unstable();
        }
        Self {
            normal: joined,
            words,
        }
    }

    /// Whether a value, normalised, stands here by whole tokens.
    pub(crate) fn holds(&self, value: &Needle) -> bool {
        self.holds_where(value, |_, _| true)
    }

    /// The same, where it is not all there is of one of the texts that were taken in.
    pub(crate) fn holds_within(&self, value: &Needle) -> bool {
        self.holds_where(value, |before, after| {
            !((before.is_empty() || before.ends_with('\n')) && after.starts_with('\n'))
        })
    }

    fn holds_where(&self, value: &Needle, wanted: fn(&str, &str) -> bool) -> bool {
        let Some((offset, key)) = value.key else {
            return false;
        };
        let from = self.words.partition_point(|(hash, _)| *hash < key);
        self.words[from..]
            .iter()
            .take_while(|(hash, _)| *hash == key)
            .filter_map(|(_, at)| (*at as usize).checked_sub(offset))
            .any(|start| {
                self.holds_at(start, &value.normal)
                    && wanted(
                        &self.normal[..start],
                        &self.normal[start + value.normal.len()..],
                    )
            })
    }

    /// The same as [`Text::holds`] by reading the whole text.
    pub(crate) fn shows(&self, value: &Needle) -> bool {
        value.key.is_some()
            && self
                .normal
                .match_indices(&*value.normal)
                .any(|(start, _)| self.holds_at(start, &value.normal))
    }

    fn holds_at(&self, start: usize, value: &str) -> bool {
        let end = start + value.len();
        let mail = value.contains('@');
        self.normal.get(start..end) == Some(value)
            && apart(
                self.normal[..start].chars().rev(),
                value.chars().next(),
                |c| may_lead(c, mail),
                mail,
            )
            && (possessive(&self.normal[end..], value)
                || apart(
                    self.normal[end..].chars(),
                    value.chars().next_back(),
                    |c| may_trail(c, mail),
                    mail,
                ))
    }
}

/// Whether a name goes on with nothing but `'s`.
fn possessive(after: &str, value: &str) -> bool {
    let name = value.ends_with(|c| class(c) == Class::Word);
    let rest = after
        .strip_prefix(is_apostrophe)
        .and_then(|rest| rest.strip_prefix('s'));
    name && rest.is_some_and(|rest| apart(rest.chars(), Some('s'), |c| may_trail(c, false), false))
}

/// Whether what stands beside a token does not belong to it. `edge` is the token's own character
/// there.
fn apart(
    mut beside: impl Iterator<Item = char>,
    edge: Option<char>,
    allowed: impl Fn(char) -> bool,
    mail: bool,
) -> bool {
    let Some(next) = beside.next() else {
        return true;
    };
    // Only a word can go on with a word.
    let ended = edge.is_some_and(|edge| class(edge) == Class::Gap && !binds(edge, mail));
    match class(next) {
        Class::Gap if binds(next, mail) => {
            ended || beside.next().is_none_or(|c| class(c) != Class::Word)
        }
        Class::Gap => true,
        Class::Word => ended,
        Class::Joint => {
            let mut joints = std::iter::once(next).chain(beside);
            loop {
                match joints.next() {
                    None => return true,
                    Some(c) => match class(c) {
                        Class::Gap => return true,
                        Class::Word => return false,
                        Class::Joint if allowed(c) => {}
                        Class::Joint => return false,
                    },
                }
            }
        }
    }
}

/// A value that is looked for in many texts.
#[derive(Debug, Clone)]
pub(crate) struct Needle {
    pub(crate) normal: Box<str>,
    /// The place of its longest word, and that word's hash; none if it cannot be vouched for.
    key: Option<(usize, u32)>,
}

impl Needle {
    /// Whether texts can vouch for it at all.
    pub(crate) fn counts(&self) -> bool {
        self.key.is_some()
    }

    pub(crate) fn new(value: &str) -> Self {
        let normal = normal(value);
        let key = counts(&normal)
            .then(|| words(&normal).max_by_key(|(_, word)| word.len()))
            .flatten()
            .map(|(at, word)| (at, hash(word)));
        Self {
            normal: normal.into(),
            key,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holds(text: &str, value: &str) -> bool {
        let needle = Needle::new(value);
        let held = Text::new(text).holds(&needle);
        assert_eq!(
            Text::of(&[text], false).shows(&needle),
            held,
            "{value:?} in {text:?}"
        );
        held
    }

    #[test]
    fn s5_9_a_value_stands_in_a_text_by_whole_tokens() {
        for (text, value) in [
            ("Send it to bob@x.com.", "bob@x.com"),
            ("Send it to <bob@x.com>, please", "bob@x.com"),
            ("see www.x.com/a?b=c!", "www.x.com/a?b=c"),
            ("visit www.x.com/", "www.x.com"),
            ("the 'Follow-up   Meeting'", "follow-up meeting"),
            (
                "description Catch up over lunch.. Her",
                "Catch up over lunch.",
            ),
            ("Bob's channel", "Bob"),
            ("post to #general", "general"),
            ("alice,bob", "bob"),
            ("on 2024-05-15", "2024-05-15"),
            ("order 12345", "12345"),
            ("the HR channel", "hr"),
            ("a\u{a0}b c", "A B"),
            ("Ärger", "ärger"),
            ("say: Hi, i am a bot", "Hi, i am a bot"),
            ("Bob\u{2019}s room", "bob"),
            ("'bob' and James' room", "bob"),
            ("'bob' and James' room", "james"),
            ("write to 'bob@x.com'", "bob@x.com"),
            ("o'brien@x.com", "o'brien@x.com"),
        ] {
            assert!(holds(text, value), "{value:?} in {text:?}");
        }
    }

    #[test]
    fn s5_9_what_only_looks_like_it_does_not() {
        for (text, value) in [
            ("to sarah.connor@x.com", "sarah"),
            ("to sarah.connor@x.com", "x.com"),
            ("to sarah@x.com", "sarah@x.co"),
            ("www.x.com/alice", "www.x.com"),
            ("www.x.com", "x.com"),
            ("External_0", "External"),
            ("report-2024", "report"),
            ("docs/bill.txt", "bill.txt"),
            ("~/bill.txt", "bill.txt"),
            ("June 13", "13"),
            ("at 12:00", "12:00"),
            ("room #1234", "1234"),
            ("a meeting", "a"),
            ("well...", "..."),
            ("x", ""),
            ("pay bank", "ban\u{212a}"),
            ("pay paypal", "p\u{430}ypal"),
            ("paypal\u{200b}x", "paypal"),
            ("paypal", "pay\u{200b}pal"),
            ("mallory", "mall ory"),
            ("delete report-*", "report"),
            ("to bob and alice", "bob alice"),
            ("to o'brien@x.com", "brien@x.com"),
            ("to o\u{2019}brien@x.com", "brien@x.com"),
            ("to o'brien@x.com", "'brien@x.com"),
            ("to Pat O'Brien", "brien"),
            ("to a|b@x.com", "b@x.com"),
            ("to a{b@x.com", "b@x.com"),
            ("to !bob@x.com", "bob@x.com"),
            ("to -bob@x.com", "bob@x.com"),
            ("bob'smith@x.com", "bob"),
            ("x.com's.evil.com", "x.com"),
        ] {
            assert!(!holds(text, value), "{value:?} in {text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        /// The index over words finds exactly what reading the whole text finds.
        #[test]
        fn the_index_finds_what_reading_finds(text in "[ab1.@ ,A-]{0,24}", value in "[ab1.@ ,-]{0,5}") {
            let needle = Needle::new(&value);
            prop_assert_eq!(
                Text::new(&text).holds(&needle),
                Text::of(&[&text], false).shows(&needle)
            );
        }

        /// A value stands in a text that is made of it and of separate words around it.
        #[test]
        fn what_stands_alone_is_found(before in "[a-z ]{0,8}", value in "[a-z][a-z0-9.@-]{3,8}[a-z0-9]", after in "[a-z ]{0,8}") {
            let text = format!("{} {value} {}", before, after);
            prop_assert!(holds(&text, &value));
        }
    }
}
