//! Lists: a table on a terminal, rows with tabs in a pipe.

use std::io;

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, presets};

use super::style::Tone;
use super::{Output, visible};

/// How much of one cell is shown.
const CELL_BYTES: usize = 400;

/// One cell; its text is made visible when it is printed.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    text: String,
    tone: Option<Tone>,
}

impl Entry {
    pub(crate) fn new(text: impl Into<String>) -> Entry {
        Entry {
            text: text.into(),
            tone: None,
        }
    }

    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Entry {
        Entry {
            text: text.into(),
            tone: Some(tone),
        }
    }
}

impl From<&str> for Entry {
    fn from(text: &str) -> Entry {
        Entry::new(text)
    }
}

impl From<String> for Entry {
    fn from(text: String) -> Entry {
        Entry::new(text)
    }
}

/// Rows under a heading.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    heading: [&'static str; N],
    rows: Vec<[Entry; N]>,
    /// Columns whose values are for copying: never broken over lines.
    whole: Vec<usize>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(heading: [&'static str; N]) -> Table<N> {
        Table {
            heading,
            rows: Vec::new(),
            whole: vec![0],
        }
    }

    /// Keeps the values of one more column whole, as those of the first one are.
    pub(crate) fn whole(mut self, column: usize) -> Table<N> {
        self.whole.push(column);
        self
    }

    pub(crate) fn row(&mut self, row: [Entry; N]) {
        self.rows.push(row);
    }

    /// Prints it, or what it means that there is nothing.
    pub(crate) fn print(self, output: &Output, nothing: &str) -> io::Result<()> {
        if !output.terminal {
            return self.lines().try_for_each(|line| output.line(line));
        }
        if self.rows.is_empty() {
            return output.line(nothing);
        }
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic);
        let colours = output.style.has_colours();
        let heading = self.heading.map(|name| Entry::toned(name, Tone::Strong));
        table.set_header(heading.iter().map(|entry| cell(entry, colours)));
        for row in &self.rows {
            table.add_row(row.iter().map(|entry| cell(entry, colours)));
        }
        for column in self.whole {
            if let Some(column) = table.column_mut(column) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        output.line(table.trim_fmt())
    }

    fn lines(&self) -> impl Iterator<Item = String> {
        let heading = self.heading.join("\t");
        let rows = self.rows.iter().map(|row| {
            let texts = row.each_ref().map(|entry| visible::line(&entry.text));
            texts.join("\t")
        });
        std::iter::once(heading).chain(rows)
    }
}

fn cell(entry: &Entry, colours: bool) -> Cell {
    let cell = Cell::new(visible::cut_line(&entry.text, CELL_BYTES));
    match entry.tone.filter(|_| colours) {
        Some(Tone::Good) => cell.fg(Color::DarkGreen),
        Some(Tone::Bad) => cell.fg(Color::DarkRed),
        Some(Tone::Waits) => cell.fg(Color::DarkYellow),
        Some(Tone::Strong) => cell.add_attribute(Attribute::Bold),
        Some(Tone::Faint) => cell.add_attribute(Attribute::Dim),
        None => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tab or a line break in a value cannot make a row of its own.
    #[test]
    fn a_row_stays_one_line() {
        let mut table = Table::new(["ID", "INPUT"]);
        table.row(["run_1".into(), "a\tb\nrun_2\tforged".into()]);
        let lines: Vec<String> = table.lines().collect();
        assert_eq!(
            lines,
            ["ID\tINPUT", "run_1\ta⟨U+0009⟩b⟨line⟩run_2⟨U+0009⟩forged"]
        );
    }
}
