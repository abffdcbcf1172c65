//! Other people's text on our pages (B46).
//!
//! Whatever an agent, a model, a tool or a requester wrote is escaped and shown as text. What a
//! reader would not see is made visible in a marked span, which text cannot imitate: controls, marks
//! of direction, joiners, tags, long runs of blanks that would push the rest out of sight, and how
//! much was cut. Letters of scripts that are written from right to left are left as they are.

use std::fmt::Write;

use maud::{Escaper, Markup, Render, html};
use prost_types::Timestamp as Sent;
use sayso_run::Timestamp;
use sayso_wire::shown::is_hidden;
use sayso_wire::time::from_timestamp;

/// How much of a long text a page shows unless all of it is asked for, in bytes.
pub(super) const LONG: usize = 16 * 1024;
/// The same within a list.
pub(super) const SHORT: usize = 2 * 1024;

/// From this number on, blanks in a row are counted and not shown.
const BLANKS: usize = 32;

/// Text that is shown up to a limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    text: &'a str,
    limit: usize,
}

/// All of a text.
pub(super) fn shown(text: &str) -> Shown<'_> {
    cut(text, usize::MAX)
}

/// A text up to so many bytes; what is cut off is counted.
pub(super) fn cut(text: &str, limit: usize) -> Shown<'_> {
    Shown { text, limit }
}

impl Shown<'_> {
    /// Whether something is cut off.
    pub(super) fn is_cut(&self) -> bool {
        self.text.len() > self.limit
    }
}

impl Render for Shown<'_> {
    fn render_to(&self, html: &mut String) {
        let end = self.text.floor_char_boundary(self.limit);
        let mut rest = &self.text[..end];
        while let Some(first) = rest.chars().next() {
            let blanks = length(rest, is_blank);
            let plain = length(rest, |char| !is_blank(char) && !is_hidden(char));
            let taken = match () {
                () if blanks >= BLANKS => {
                    mark(html, format_args!("{blanks} blanks"));
                    blanks
                }
                () if blanks > 0 => escape(html, &rest[..blanks]),
                () if plain > 0 => escape(html, &rest[..plain]),
                () => {
                    mark(html, format_args!("U+{:04X}", u32::from(first)));
                    first.len_utf8()
                }
            };
            rest = &rest[taken..];
        }
        let more = self.text.len() - end;
        if more > 0 {
            mark(html, format_args!("{more} bytes more"));
        }
    }
}

fn is_blank(char: char) -> bool {
    matches!(char, ' ' | '\n' | '\t')
}

/// The bytes of the first characters that are all like this.
fn length(text: &str, like: impl Fn(char) -> bool) -> usize {
    text.find(|char| !like(char)).unwrap_or(text.len())
}

fn escape(html: &mut String, text: &str) -> usize {
    Escaper::new(html)
        .write_str(text)
        .expect("writing to memory does not fail");
    text.len()
}

/// A mark says only what we say, so there is nothing in it to escape.
fn mark(html: &mut String, what: std::fmt::Arguments<'_>) {
    write!(html, "<span class=\"mark\">⟨{what}⟩</span>").expect("writing to memory does not fail");
}

/// A time as a distance from now; the script keeps it true.
pub(super) fn distance(at: Option<&Sent>, now: Timestamp) -> Markup {
    let at = at.and_then(|at| from_timestamp(at).ok());
    html! {
        @if let Some(at) = at {
            time datetime=(at) title=(clock(at)) data-distance {
                (apart(at.micros_since(now) / 1_000_000))
            }
        } @else { "–" }
    }
}

/// A time of day; the script shows it in the browser's zone.
pub(super) fn time_of_day(at: Option<&Sent>) -> Markup {
    let at = at.and_then(|at| from_timestamp(at).ok());
    html! {
        @if let Some(at) = at {
            time datetime=(at) title=(clock(at)) data-clock { (&clock(at)[11..19]) }
        }
    }
}

/// `2026-03-01 09:30:00 UTC`.
fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} {} UTC", &text[..10], &text[11..19])
}

fn apart(seconds: i64) -> String {
    let length = spell(seconds.unsigned_abs());
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {length}"),
        _ => format!("{length} ago"),
    }
}

/// A length of time in its two largest units.
pub(super) fn spell(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) if seconds < 600 && !seconds.is_multiple_of(60) => {
            format!("{minutes} min {} s", seconds % 60)
        }
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) if minutes.is_multiple_of(60) => format!("{hours} h"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        (1, _, _) => "1 day".to_owned(),
        _ => format!("{days} days"),
    }
}

/// A word of the API for people's eyes.
pub(super) fn spoken(word: &str) -> String {
    word.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, html: &str) {
        assert_eq!(shown(text).render().into_string(), html);
    }

    /// B46: what would hide something is visible, and markup is text.
    #[test]
    fn b46_hostile_text_is_visible_and_is_text() {
        check(
            "<script>alert(\"1\")</script>&",
            "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;",
        );
        check(
            "a\u{202e}b\u{200b}\u{e0100}\u{1b}[0m",
            "a<span class=\"mark\">⟨U+202E⟩</span>b<span class=\"mark\">⟨U+200B⟩</span>\
             <span class=\"mark\">⟨U+E0100⟩</span><span class=\"mark\">⟨U+001B⟩</span>[0m",
        );
        check("```\n⟨U+202E⟩", "```\n⟨U+202E⟩");
        let hidden = format!("ls{}rm -r /", " ".repeat(400));
        check(&hidden, "ls<span class=\"mark\">⟨400 blanks⟩</span>rm -r /");
        check("a  b\n\tc", "a  b\n\tc");
    }

    /// B46: ordinary right-to-left text stays readable.
    #[test]
    fn b46_right_to_left_text_stays_readable() {
        check("שלום, مرحبا بالعالم", "שלום, مرحبا بالعالم");
    }

    /// B46: what is cut is counted, between characters.
    #[test]
    fn b46_what_is_cut_is_counted() {
        let cut = cut("üüü", 3);
        assert!(cut.is_cut());
        assert_eq!(
            cut.render().into_string(),
            "ü<span class=\"mark\">⟨4 bytes more⟩</span>"
        );
        assert!(!shown("ü").is_cut());
    }

    #[test]
    fn times_are_told_as_people_tell_them() {
        let told: Vec<String> = [0, 5, -65, 600, -3600, 5400, 86_400, -200_000]
            .into_iter()
            .map(apart)
            .collect();
        assert_eq!(
            told,
            [
                "now",
                "in 5 s",
                "1 min 5 s ago",
                "in 10 min",
                "1 h ago",
                "in 1 h 30 min",
                "in 1 day",
                "2 days ago"
            ]
        );
        assert_eq!(
            clock(Timestamp::from_micros(951_782_400_000_000)),
            "2000-02-29 00:00:00 UTC"
        );
    }
}
