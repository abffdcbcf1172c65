//! Text that somebody else wrote, as a terminal may show it (S6.3).
//!
//! A call must look like what it is. What a terminal would obey, hide, or lay out in another order
//! is written as its code point, `⟨U+202E⟩`; a long row of blanks, which would push what follows out
//! of sight, as its count; and what is cut off is counted. Letters of right-to-left scripts are text
//! like any other. The mark's own brackets are escaped too, so that no text can pretend to be one.

use std::fmt::Write;

use sayso_wire::shown::is_hidden;

/// A row of blanks of this length is written as its count.
const MANY_BLANKS: usize = 16;

/// Text over several lines: line breaks stay, a tab becomes blanks.
pub(crate) fn block(text: &str) -> String {
    shown(text, true, usize::MAX)
}

/// Text of which at most `bytes` are shown, over several lines.
pub(crate) fn cut_block(text: &str, bytes: usize) -> String {
    shown(text, true, bytes)
}

/// Text on one line: line breaks are made visible too.
pub(crate) fn line(text: &str) -> String {
    shown(text, false, usize::MAX)
}

/// Text of which at most `bytes` are shown, on one line.
pub(crate) fn cut_line(text: &str, bytes: usize) -> String {
    shown(text, false, bytes)
}

fn shown(text: &str, lines: bool, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes);
    let mut out = String::with_capacity(end);
    let mut blanks = 0;
    for char in text[..end].chars() {
        if char == ' ' {
            blanks += 1;
            continue;
        }
        push_blanks(&mut out, std::mem::take(&mut blanks));
        match char {
            '\n' if lines => out.push('\n'),
            '\n' => out.push_str("⟨line⟩"),
            '\t' if lines => out.push_str("    "),
            char if hides(char) => push_code(&mut out, char),
            char => out.push(char),
        }
    }
    push_blanks(&mut out, blanks);
    let cut = text.len() - end;
    if cut > 0 {
        write!(out, "⟨{cut} bytes more⟩").expect("writing to memory does not fail");
    }
    out
}

fn push_blanks(out: &mut String, count: usize) {
    if count >= MANY_BLANKS {
        write!(out, "⟨{count} blanks⟩").expect("writing to memory does not fail");
    } else {
        out.extend(std::iter::repeat_n(' ', count));
    }
}

fn push_code(out: &mut String, char: char) {
    write!(out, "⟨U+{:04X}⟩", u32::from(char)).expect("writing to memory does not fail");
}

/// Whether a terminal does not show the character for what it is, the brackets of our own marks among
/// them.
fn hides(char: char) -> bool {
    matches!(char, '⟨' | '⟩' | '\t') || is_hidden(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B46: what a terminal would obey or hide is shown as its code point.
    #[test]
    fn b46_hostile_characters_are_visible() {
        for (text, shown) in [
            ("a\u{202e}b\u{200b}c", "a⟨U+202E⟩b⟨U+200B⟩c"),
            ("x\u{e0100}", "x⟨U+E0100⟩"),
            (
                "\u{1b}[2J\u{1b}]0;owned\u{7}",
                "⟨U+001B⟩[2J⟨U+001B⟩]0;owned⟨U+0007⟩",
            ),
            ("over\rwritten", "over⟨U+000D⟩written"),
            ("\u{9b}31m", "⟨U+009B⟩31m"),
            (
                "```\n<script>alert(1)</script>",
                "```⟨line⟩<script>alert(1)</script>",
            ),
            ("⟨U+0041⟩", "⟨U+27E8⟩U+0041⟨U+27E9⟩"),
        ] {
            assert_eq!(line(text), shown);
        }
    }

    /// B46: padding does not push a second command out of sight.
    #[test]
    fn b46_padding_is_counted() {
        let padded = format!("ls{}rm -rf /", " ".repeat(400));
        assert_eq!(line(&padded), "ls⟨400 blanks⟩rm -rf /");
        assert_eq!(
            block("fn main() {\n        body\n}"),
            "fn main() {\n        body\n}"
        );
    }

    /// S6.3: what is cut is marked, and never in the middle of a character.
    #[test]
    fn s6_3_what_is_cut_is_counted() {
        assert_eq!(cut_line("üüü", 3), "ü⟨4 bytes more⟩");
        assert_eq!(cut_block("short", 5), "short");
    }

    /// B46: ordinary text of any script stays readable.
    #[test]
    fn b46_ordinary_text_stays_as_it_is() {
        for text in [
            "{\"to\": \"ann@example\"}",
            "שלום עולם",
            "日本語 ünïcode e\u{301} \u{1f600}",
        ] {
            assert_eq!(line(text), text);
        }
        assert_eq!(block("one\n\ttwo"), "one\n    two");
    }
}
