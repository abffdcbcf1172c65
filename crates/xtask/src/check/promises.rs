//! Every promise that the documents list as held is named by a test.
//!
//! `docs/promises.md` and `docs/cases.md` hold tables whose first column is a number (`S4.3`,
//! `B22`), the second its words, the third `held` or `later`. A test names a promise in its name
//! (`s4_3`, `b22`) or in a comment (`S4.3`, `B22`). Only tests count: files in a `tests` folder or
//! named `tests.rs` or `…_tests.rs`, and in other files what follows `#[cfg(test)]`. A mention in
//! the code that keeps a promise proves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::Outcome;

const DOCUMENTS: &[&str] = &["docs/promises.md", "docs/cases.md"];

/// Checks both documents against all tests of the checkout at `root`.
pub(super) fn cited(root: &Path) -> Result<Outcome> {
    let mut faults = Vec::new();
    let mut held = BTreeSet::new();
    for document in DOCUMENTS {
        let path = root.join(document);
        match fs::read_to_string(&path) {
            Ok(text) => match listed(&text) {
                Ok(numbers) => held.extend(numbers),
                Err(wrong) => {
                    faults.extend(
                        wrong
                            .into_iter()
                            .map(|fault| format!("{document}: {fault}")),
                    );
                }
            },
            Err(error) => faults.push(format!("{document} cannot be read: {error}")),
        }
    }
    let mut cited = BTreeSet::new();
    for file in rust_files(root)? {
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let relative = file.strip_prefix(root).unwrap_or(&file);
        cited.extend(citations(tests_of(relative, &text)));
    }
    for number in held.difference(&cited) {
        faults.push(format!("{number} is listed as held, and no test names it"));
    }
    Ok(Outcome::from_faults(&faults))
}

/// The numbers that a document lists as held, or what is wrong with its tables.
fn listed(document: &str) -> Result<BTreeSet<String>, Vec<String>> {
    let mut states: BTreeMap<String, bool> = BTreeMap::new();
    let mut faults = Vec::new();
    for line in document.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = cells(line);
        let Some(number) = cells.first().and_then(|cell| number(cell)) else {
            continue;
        };
        let held = match cells.get(2).copied() {
            Some("held") => true,
            Some("later") => false,
            other => {
                faults.push(format!(
                    "{number}: the third column is `{}`, not `held` or `later`",
                    other.unwrap_or_default()
                ));
                continue;
            }
        };
        if states.insert(number.clone(), held).is_some() {
            faults.push(format!("{number} is listed twice"));
        }
    }
    if states.is_empty() {
        faults.push("lists no number".to_owned());
    }
    if faults.is_empty() {
        let held = states.into_iter().filter(|(_, held)| *held);
        Ok(held.map(|(number, _)| number).collect())
    } else {
        Err(faults)
    }
}

/// The cells of a table's row. A `|` in the words is written `\|`.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim().trim_start_matches('|');
    let mut cells = Vec::new();
    let mut start = 0;
    for (at, _) in row.match_indices('|') {
        if !row[..at].ends_with('\\') {
            cells.push(row[start..at].trim());
            start = at + 1;
        }
    }
    cells.push(row[start..].trim());
    cells
}

/// The number that a cell consists of, if it is one.
fn number(cell: &str) -> Option<String> {
    let cell = cell.trim_matches(['*', '`', ' ']);
    let mut found = citations(cell).into_iter();
    found.next().filter(|number| number == cell)
}

/// The part of a file that is tests.
fn tests_of<'t>(path: &Path, text: &'t str) -> &'t str {
    let in_folder = path.components().any(|part| part.as_os_str() == "tests");
    let by_name = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"));
    if in_folder || by_name {
        return text;
    }
    match text.find("#[cfg(test)]") {
        Some(start) => &text[start..],
        None => "",
    }
}

/// Every number that a text names, as `S4.3`, `s4_3`, `B22` or `b22`.
fn citations(text: &str) -> BTreeSet<String> {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let length = bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        &text[from..from + length]
    };
    let mut found = BTreeSet::new();
    for (at, byte) in bytes.iter().enumerate() {
        let letter = byte.to_ascii_uppercase();
        if !matches!(letter, b'S' | b'B') || (at > 0 && bytes[at - 1].is_ascii_alphanumeric()) {
            continue;
        }
        let first = digits(at + 1);
        let mut end = at + 1 + first.len();
        if first.is_empty() {
            continue;
        }
        let name = if letter == b'B' {
            format!("B{first}")
        } else {
            if !matches!(bytes.get(end), Some(b'.' | b'_')) {
                continue;
            }
            let second = digits(end + 1);
            if second.is_empty() {
                continue;
            }
            end += 1 + second.len();
            format!("S{first}.{second}")
        };
        if !bytes.get(end).is_some_and(u8::is_ascii_alphanumeric) {
            found.insert(name);
        }
    }
    found
}

/// The Rust files of the workspace's packages. This one's own package is left out: the numbers in
/// it are examples.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                if path.file_name().is_none_or(|name| name != "xtask") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = citations(text).into_iter().collect();
        assert_eq!(found, expected, "in {text:?}");
    }

    #[test]
    fn numbers_are_found_in_names_and_in_comments() {
        check("/// Holds S4.3 and S10.8.", &["S10.8", "S4.3"]);
        check("fn s4_3_a_call_runs_once() {}", &["S4.3"]);
        check("fn a_stale_decision_is_refused_b01() {}", &["B01"]);
        check("(B22)", &["B22"]);
    }

    #[test]
    fn what_only_looks_like_a_number_is_none() {
        check("utf8s4_3", &[]);
        check("S4, s4_, b22nd, S4.3rd, sub22, 0xb2", &[]);
    }

    #[test]
    fn a_table_says_what_is_held() {
        let document = "# Promises\n\n| # | what | state |\n|---|---|---|\n\
                        | S1.1 | starts \\| goes on | held |\n| S1.2 | statuses | later |\n";
        assert_eq!(listed(document), Ok(BTreeSet::from(["S1.1".to_owned()])));
    }

    #[test]
    fn a_table_that_cannot_be_judged_is_a_fault() {
        assert_eq!(
            listed("| S1.1 | x | maybe |\n| S1.2 | x | held |\n| S1.2 | x | held |\n"),
            Err(vec![
                "S1.1: the third column is `maybe`, not `held` or `later`".to_owned(),
                "S1.2 is listed twice".to_owned(),
            ])
        );
        assert_eq!(listed("nothing"), Err(vec!["lists no number".to_owned()]));
    }

    #[test]
    fn only_tests_cite() {
        let text = "/// S1.1\nfn x() {}\n#[cfg(test)]\nmod tests { /* S1.2 */ }\n";
        let cited = |path: &str| citations(tests_of(Path::new(path), text));
        assert_eq!(
            cited("crates/run/src/apply.rs"),
            BTreeSet::from(["S1.2".to_owned()])
        );
        let both = BTreeSet::from(["S1.1".to_owned(), "S1.2".to_owned()]);
        assert_eq!(cited("crates/run/tests/fold.rs"), both);
        assert_eq!(cited("crates/run/src/decide/tests.rs"), both);
    }
}
