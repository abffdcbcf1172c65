//! Colours: on a terminal, unless `NO_COLOR` is set or the terminal is a dumb one.

use std::borrow::Cow;
use std::env;

/// What a text says about what it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It went well.
    Good,
    /// It did not.
    Bad,
    /// A person is needed.
    Waits,
    /// It is what one looks for.
    Strong,
    /// It may be passed over.
    Faint,
}

/// Colours or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    colours: bool,
}

impl Style {
    /// No colours.
    #[cfg(test)]
    pub(crate) const PLAIN: Style = Style { colours: false };

    pub(crate) fn of(terminal: bool) -> Style {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || env::var_os("TERM").is_some_and(|term| term == "dumb");
        Style {
            colours: terminal && !refused,
        }
    }

    pub(crate) fn has_colours(self) -> bool {
        self.colours
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> Cow<'_, str> {
        if !self.colours || text.is_empty() {
            return Cow::Borrowed(text);
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Waits => "33",
            Tone::Strong => "1",
            Tone::Faint => "2",
        };
        Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
    }
}
