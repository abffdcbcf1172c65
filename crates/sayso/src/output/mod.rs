//! What a person or a program gets to see.
//!
//! On a terminal: tables, colours, times to the second. Into a pipe: one row a line, tabs between,
//! nothing else. With `--json`: the API's own messages. Whatever came from a model, a tool or another
//! person goes through [`visible`] on its way to a terminal.

pub(crate) mod card;
pub(crate) mod failure;
pub(crate) mod run;
pub(crate) mod step;
pub(crate) mod style;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod timeline;
pub(crate) mod visible;

use std::io::{self, IsTerminal, Write};

use prost::{Message, Name};
use sayso_wire::json::{to_json, to_json_pretty};

use style::Style;

/// Where answers go: standard output.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// Print JSON.
    pub(crate) json: bool,
    /// A person looks at it.
    pub(crate) terminal: bool,
    /// Colours, or none.
    pub(crate) style: Style,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        let terminal = io::stdout().is_terminal();
        Output {
            json,
            terminal,
            style: Style::of(terminal && !json),
        }
    }

    /// Prints a line.
    ///
    /// # Errors
    ///
    /// When nobody reads any more, or the disk is full.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_ref().as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()
    }

    /// Prints a message of the API as JSON: indented for people, on one line for programs.
    pub(crate) fn message<M: Message + Name>(&self, message: &M) -> io::Result<()> {
        self.line(if self.terminal {
            to_json_pretty(message)
        } else {
            to_json(message)
        })
    }

    /// Prints a message of the API as JSON on one line: one of many.
    pub(crate) fn message_line<M: Message + Name>(&self, message: &M) -> io::Result<()> {
        self.line(to_json(message))
    }

    /// Prints a part of a line.
    pub(crate) fn part(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Says something beside the answer, on standard error; nothing with `--json`.
    pub(crate) fn aside(&self, text: impl AsRef<str>) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(io::stderr().lock(), "{}", text.as_ref())
    }
}
