//! Text of others as people may see it (S6.3, B46): what cannot be seen, or changes the direction of
//! what can, is written as its code point, and what is cut off is counted.

use std::fmt::Write;

/// How much of one text an approval shows, in bytes.
pub const SHOWN_BYTES: usize = 16 * 1024;

/// The text for people's eyes, of at most [`SHOWN_BYTES`].
pub fn shown(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN_BYTES);
    let mut out = String::with_capacity(end);
    for char in text[..end].chars() {
        if is_hidden(char) {
            write!(out, "⟨U+{:04X}⟩", u32::from(char)).expect("writing to memory does not fail");
        } else {
            out.push(char);
        }
    }
    let cut = text.len() - end;
    if cut > 0 {
        write!(out, "⟨{cut} bytes more⟩").expect("writing to memory does not fail");
    }
    out
}

/// Whether a reader does not see the character for what it is: a control other than line break and
/// tab, a blank other than the common one, a joiner, a mark of direction, a variation selector, a
/// tag, a code point for private use or for nothing.
pub fn is_hidden(char: char) -> bool {
    match u32::from(char) {
        0x0a | 0x09 => false,
        0x00..=0x1f | 0x7f..=0xa0 => true,
        // Soft hyphen, grapheme joiner, Arabic letter mark, fillers, Mongolian separators.
        0xad | 0x34f | 0x61c | 0x115f | 0x1160 | 0x17b4 | 0x17b5 | 0x180b..=0x180f => true,
        // Blanks, joiners, marks and overrides of direction, line and paragraph separators.
        0x1680 | 0x2000..=0x200f | 0x2028..=0x202f | 0x205f..=0x206f | 0x2800 | 0x3000 | 0x3164 => {
            true
        }
        // Private use, variation selectors, byte order mark, half-width filler, specials.
        0xe000..=0xf8ff | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb => true,
        // Notation formatting, tags, the planes beyond.
        0x1d159 | 0x1d173..=0x1d17a | 0xe0000.. => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6.3: invisible and direction-changing characters are made visible; what people write is
    /// left alone.
    #[test]
    fn s6_3_what_cannot_be_seen_is_made_visible() {
        let same = "{\"to\": \"ann@example\"}\n\t\u{1f600} e\u{301} ünïcode";
        assert_eq!(shown(same), same);
        assert_eq!(shown("a\u{202e}b\u{2028}c"), "a⟨U+202E⟩b⟨U+2028⟩c");
        assert_eq!(shown("\u{e0041}\u{7}\u{a0}"), "⟨U+E0041⟩⟨U+0007⟩⟨U+00A0⟩");
    }

    /// S6.3: what is cut is marked, and never within a character.
    #[test]
    fn s6_3_what_is_cut_is_marked() {
        let long = format!("x{}", "ü".repeat(SHOWN_BYTES));
        let cut = shown(&long);
        assert!(
            cut.ends_with(&format!("⟨{} bytes more⟩", SHOWN_BYTES + 2)),
            "{}",
            &cut[cut.len() - 40..]
        );
        assert_eq!(shown("short"), "short");
    }
}
