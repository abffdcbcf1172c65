//! What a new revision changes against the one before, computed on the canonical bundles.
//!
//! Maps are compared key by key down to the field that differs; lists by what was added and removed,
//! since a rule that moved down the file because another was put before it has not changed; texts of
//! several lines line by line. A mark on a tool that is new is told field by field: whether it
//! switches a review is worth a line of its own (S5.5, S10.8).

use std::fmt;

use sayso_wire::v1;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How many changes are told; the rest are counted.
const MOST_TOLD: usize = 200;

/// Lists longer than this on both sides are told whole: comparing them takes time by their product.
const LONGEST_COMPARED: usize = 2000;

/// A mark that decides whether a person looks at each call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReviewSwitch {
    /// The tool, as the bundle names it: a name or a pattern.
    pub(crate) tool: String,
    /// What was said before; empty for nothing.
    pub(crate) before: String,
    /// What is said now; empty for nothing.
    pub(crate) after: String,
}

/// What differs between two revisions.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Changes {
    /// At most [`MOST_TOLD`], in the order of the file.
    pub(crate) told: Vec<v1::BundleChange>,
    /// How many more there are.
    pub(crate) omitted: usize,
    /// The reviews that were switched, all of them.
    pub(crate) reviews: Vec<ReviewSwitch>,
}

/// Compares the canonical JSON of two bundles.
pub(crate) fn changes(before: &str, after: &str) -> Changes {
    let mut found = Found::default();
    if before != after {
        found.values(&Place::root(), Some(before), Some(after));
    }
    found.0
}

/// A value by its kind, its parts as they are written.
enum Value<'j> {
    Map(Vec<(String, &'j RawValue)>),
    List(Vec<&'j RawValue>),
    Text(String),
    Other,
}

impl<'j> Value<'j> {
    fn read(json: &'j str) -> Self {
        let read = match json.as_bytes().first() {
            Some(b'{') => serde_json::from_str(json).map(|Entries(entries)| Self::Map(entries)),
            Some(b'[') => serde_json::from_str(json).map(Self::List),
            Some(b'"') => serde_json::from_str(json).map(Self::Text),
            _ => Ok(Self::Other),
        };
        read.expect("a canonical bundle is JSON")
    }
}

/// The entries of a map, in their order.
struct Entries<'j>(Vec<(String, &'j RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Where a value stands: the keys to it.
#[derive(Debug, Clone, Default)]
struct Place(Vec<String>);

impl Place {
    fn root() -> Self {
        Self::default()
    }

    fn under(&self, key: &str) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.to_owned());
        Self(keys)
    }

    fn is(&self, keys: &[&str]) -> bool {
        self.0.iter().map(String::as_str).eq(keys.iter().copied())
    }

    /// The tool whose mark of that name this is.
    fn mark(&self, name: &str) -> Option<&str> {
        match &self.0[..] {
            [tools, tool, mark] if tools == "tools" && mark == name => Some(tool),
            _ => None,
        }
    }

    fn area(&self) -> v1::BundleArea {
        let Some(first) = self.0.first() else {
            return v1::BundleArea::Agent;
        };
        match first.as_str() {
            "instructions" => v1::BundleArea::Instructions,
            "builtins" | "servers" | "interaction" | "endpoints" | "agents" | "docs" => {
                v1::BundleArea::Grants
            }
            "tools" if self.mark("review").is_some() => v1::BundleArea::Review,
            "tools" => v1::BundleArea::Marks,
            "permissions" => v1::BundleArea::Rules,
            _ => v1::BundleArea::Agent,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, key) in self.0.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            match (at, key.chars().all(plain)) {
                (0, _) => f.write_str(key)?,
                (_, true) => write!(f, ".{key}")?,
                (_, false) => write!(f, "[{key:?}]")?,
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Found(Changes);

impl Found {
    fn values(&mut self, place: &Place, before: Option<&str>, after: Option<&str>) {
        if before == after {
            return;
        }
        // The marks of one tool are told one by one, also where there were none.
        let marks = matches!(&place.0[..], [tools] | [tools, _] if tools == "tools");
        let empty = marks.then_some("{}");
        let pair = before.or(empty).zip(after.or(empty));
        let Some((old, new)) = pair else {
            self.tell(place, place.to_string(), before, after);
            return;
        };
        match (Value::read(old), Value::read(new)) {
            (Value::Map(old), Value::Map(new)) => self.maps(place, &old, &new),
            (Value::List(old), Value::List(new)) => {
                let text = |value: &&RawValue| value.get().to_owned();
                let old: Vec<String> = old.iter().map(text).collect();
                let new: Vec<String> = new.iter().map(text).collect();
                let numbered = place.is(&["permissions", "rules"]);
                self.lists(place, &old, &new, |at| match numbered {
                    true => format!("{place}[{at}]"),
                    false => place.to_string(),
                });
            }
            (Value::Text(old), Value::Text(new)) if old.contains('\n') || new.contains('\n') => {
                let line =
                    |line: &str| serde_json::to_string(line).expect("a text has a JSON form");
                let old: Vec<String> = old.lines().map(line).collect();
                let new: Vec<String> = new.lines().map(line).collect();
                self.lists(place, &old, &new, |at| format!("{place}:{}", at + 1));
            }
            _ => self.tell(place, place.to_string(), before, after),
        }
    }

    fn maps(&mut self, place: &Place, old: &[(String, &RawValue)], new: &[(String, &RawValue)]) {
        let find = |entries: &[(String, &RawValue)], key: &str| {
            let found = entries.iter().find(|(other, _)| other == key);
            found.map(|(_, value)| value.get().to_owned())
        };
        for (key, value) in new {
            let before = find(old, key);
            self.values(&place.under(key), before.as_deref(), Some(value.get()));
        }
        for (key, value) in old {
            if find(new, key).is_none() {
                self.values(&place.under(key), Some(value.get()), None);
            }
        }
        // Patterns over tools are looked up in file order: another order may mean something else.
        let keys = |entries: &[(String, &RawValue)], others: &[(String, &RawValue)]| {
            let kept = entries.iter().map(|(key, _)| key.clone());
            kept.filter(|key| find(others, key).is_some())
                .collect::<Vec<_>>()
        };
        let (was, is) = (keys(old, new), keys(new, old));
        if place.is(&["tools"]) && was != is {
            let list =
                |keys: &[String]| serde_json::to_string(keys).expect("texts have a JSON form");
            self.tell(
                place,
                format!("{place} (order)"),
                Some(&list(&was)),
                Some(&list(&is)),
            );
        }
    }

    /// What was removed from a list, and what was added to it.
    fn lists(
        &mut self,
        place: &Place,
        old: &[String],
        new: &[String],
        shown: impl Fn(usize) -> String,
    ) {
        for edit in edits(old, new) {
            match edit {
                Edit::Removed(at) => self.tell(place, shown(at), Some(&old[at]), None),
                Edit::Added(at) => self.tell(place, shown(at), None, Some(&new[at])),
            }
        }
    }

    fn tell(&mut self, place: &Place, path: String, before: Option<&str>, after: Option<&str>) {
        if let Some(tool) = place.mark("review") {
            let word = |json: Option<&str>| {
                let read = json.map(|json| serde_json::from_str(json).unwrap_or_default());
                read.unwrap_or_default()
            };
            self.0.reviews.push(ReviewSwitch {
                tool: tool.to_owned(),
                before: word(before),
                after: word(after),
            });
        }
        if self.0.told.len() == MOST_TOLD {
            self.0.omitted += 1;
            return;
        }
        self.0.told.push(v1::BundleChange {
            area: place.area().into(),
            path,
            before_json: before.unwrap_or_default().to_owned(),
            after_json: after.unwrap_or_default().to_owned(),
        });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    /// The entry at this place of the old list is gone.
    Removed(usize),
    /// The entry at this place of the new list was not there.
    Added(usize),
}

/// The fewest removals and additions that make one list the other, in order.
fn edits(old: &[String], new: &[String]) -> Vec<Edit> {
    let same = |(one, other): &(&String, &String)| one == other;
    let head = old.iter().zip(new).take_while(same).count();
    let tails = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = tails.take_while(same).count();
    let (a, b) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    if a.len() > LONGEST_COMPARED && b.len() > LONGEST_COMPARED {
        let removed = (0..a.len()).map(|at| Edit::Removed(head + at));
        let added = (0..b.len()).map(|at| Edit::Added(head + at));
        return removed.chain(added).collect();
    }
    // How many entries the rests of both lists have in common, in order.
    let wide = b.len() + 1;
    let mut common = vec![0u32; (a.len() + 1) * wide];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * wide + j] = if a[i] == b[j] {
                common[(i + 1) * wide + j + 1] + 1
            } else {
                common[(i + 1) * wide + j].max(common[i * wide + j + 1])
            };
        }
    }
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == b.len()
            || i < a.len() && common[(i + 1) * wide + j] >= common[i * wide + j + 1]
        {
            found.push(Edit::Removed(head + i));
            i += 1;
        } else {
            found.push(Edit::Added(head + j));
            j += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use sayso_rules::Bundle;

    use super::*;

    fn canonical(yaml: &str) -> String {
        Bundle::parse(yaml).unwrap().to_canonical_json()
    }

    fn told(before: &str, after: &str) -> Vec<String> {
        let changes = changes(&canonical(before), &canonical(after));
        let line = |change: &v1::BundleChange| {
            let (before, after) = (&change.before_json, &change.after_json);
            format!(
                "{} {}: {before} -> {after}",
                change.area().word(),
                change.path
            )
        };
        changes.told.iter().map(line).collect()
    }

    const BEFORE: &str = r#"
name: a
instructions: |
  One.
  Two.
builtins: [create_artifact]
servers: {git: {command: [x]}}
tools: {"git.push": {review: required}}
permissions:
  rules:
    - {tool: git.status, action: allow}
    - {tool: git.push, action: ask}
"#;

    #[test]
    fn nothing_differs_in_the_same_bundle() {
        assert_eq!(
            changes(&canonical(BEFORE), &canonical(BEFORE)),
            Changes::default()
        );
    }

    /// A rule put before others does not change these; a text is told by its lines; a key that is
    /// new is told whole.
    #[test]
    fn what_differs_is_told_and_nothing_else() {
        let after = BEFORE
            .replace("  Two.", "  Three.")
            .replace(
                "git: {command: [x]}",
                "git: {command: [x, y]}, web: {url: 'https://x'}",
            )
            .replace(
                "  rules:\n",
                "  rules:\n    - {tool: '*.reset', action: deny}\n",
            );
        assert_eq!(
            told(BEFORE, &after),
            [
                r#"instructions instructions:2: "Two." -> "#,
                r#"instructions instructions:2:  -> "Three.""#,
                r#"grants servers.git.command:  -> "y""#,
                r#"grants servers.web:  -> {"url":"https://x","headers":{},"trustAnnotations":false,"perRun":false}"#,
                r#"rules permissions.rules[0]:  -> {"tool":"*.reset","action":"deny"}"#,
            ]
        );
    }

    /// S5.5, S10.8: a review that is switched is named with its tool, however the mark came and went.
    #[test]
    fn s5_5_reviews_that_are_switched_are_named() {
        let after = BEFORE.replace(
            r#""git.push": {review: required}"#,
            r#""git.*": {review: required, timeout: 5s}"#,
        );
        let found = changes(&canonical(BEFORE), &canonical(&after));
        let switch = |tool: &str, before: &str, after: &str| ReviewSwitch {
            tool: tool.into(),
            before: before.into(),
            after: after.into(),
        };
        assert_eq!(
            found.reviews,
            [
                switch("git.*", "", "required"),
                switch("git.push", "required", "")
            ]
        );
        assert_eq!(
            told(BEFORE, &after),
            [
                r#"review tools["git.*"].review:  -> "required""#,
                r#"marks tools["git.*"].timeout:  -> "5s""#,
                r#"review tools["git.push"].review: "required" -> "#,
            ]
        );
    }

    #[test]
    fn the_order_of_patterns_is_told() {
        let bundle =
            |tools: &str| format!("name: a\nservers: {{x: {{command: [y]}}}}\ntools: {tools}");
        let (one, two) = (
            bundle("{'x.*': {timeout: 1s}, '*.y': {timeout: 2s}}"),
            bundle("{'*.y': {timeout: 2s}, 'x.*': {timeout: 1s}}"),
        );
        assert_eq!(
            told(&one, &two),
            [r#"marks tools (order): ["x.*","*.y"] -> ["*.y","x.*"]"#]
        );
    }

    #[test]
    fn edits_are_few_and_in_order() {
        let list = |text: &str| -> Vec<String> { text.chars().map(String::from).collect() };
        let shown = |old: &str, new: &str| -> String {
            let (old, new) = (list(old), list(new));
            let edits = edits(&old, &new).into_iter().map(|edit| match edit {
                Edit::Removed(at) => format!("-{}", old[at]),
                Edit::Added(at) => format!("+{}", new[at]),
            });
            edits.collect()
        };
        assert_eq!(shown("abc", "abc"), "");
        assert_eq!(shown("abc", "xabc"), "+x");
        assert_eq!(shown("abcd", "acxd"), "-b+x");
        assert_eq!(shown("", "ab"), "+a+b");
        assert_eq!(shown("ab", ""), "-a-b");
    }
}
