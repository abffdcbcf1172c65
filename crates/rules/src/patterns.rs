//! An ordered list of patterns, and which of them match a tool.
//!
//! Exact names are looked up in a map, so their number costs next to nothing;
//! only patterns with a star are tried one by one. All exact names that can
//! mean a tool share the plain form of its registered name, or are spellings of
//! its model's name: that is the key of the map.

use std::collections::BTreeMap;

use crate::glob::{Glob, Names};
use crate::names::plain_form;

#[derive(Debug, Clone, Default)]
pub(crate) struct Patterns {
    exact: BTreeMap<String, Vec<(usize, Glob)>>,
    globs: Vec<(usize, Glob)>,
}

impl Patterns {
    /// The positions of all patterns that match, in order.
    pub(crate) fn all(&self, registered: &str, model_name: &str) -> Vec<usize> {
        let names = Names::new(registered, model_name);
        let hit =
            |(position, glob): &(usize, Glob)| glob.matches_names(&names).then_some(*position);
        let under = |key: &str| self.exact.get(key).into_iter().flatten().filter_map(hit);
        let mut found: Vec<usize> = self.globs.iter().filter_map(hit).collect();
        found.extend(under(model_name));
        if !names.is_plain() {
            found.extend(under(&plain_form(registered)));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl<'g> FromIterator<&'g Glob> for Patterns {
    fn from_iter<I: IntoIterator<Item = &'g Glob>>(globs: I) -> Self {
        let mut patterns = Self::default();
        for (position, glob) in globs.into_iter().enumerate() {
            if glob.is_exact() {
                let same = patterns.exact.entry(plain_form(glob.as_str())).or_default();
                same.push((position, glob.clone()));
            } else {
                patterns.globs.push((position, glob.clone()));
            }
        }
        patterns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn b36_the_map_finds_what_trying_one_by_one_finds(
            patterns in prop::collection::vec("[ab_.*]{1,4}|[ab][_.][ab][_.][ab]", 0..12),
            tools in prop::collection::btree_set("[ab][_.][ab][_.][ab]", 1..6),
        ) {
            let globs: Vec<Glob> = patterns.iter().map(|text| Glob::new(text).unwrap()).collect();
            let index: Patterns = globs.iter().collect();
            let names = crate::ToolNames::assign(tools.iter().cloned());
            for (registered, model) in names.iter() {
                for model in [model, registered] {
                    let expected: Vec<usize> = globs
                        .iter()
                        .enumerate()
                        .filter(|(_, glob)| glob.matches(registered, model))
                        .map(|(position, _)| position)
                        .collect();
                    prop_assert_eq!(index.all(registered, model), expected);
                }
            }
        }
    }
}
