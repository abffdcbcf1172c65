//! The presets: rule files that ship by name (S5.9).
//!
//! What is embedded is the example file itself, so that what a reader finds under
//! `examples/policies` is what runs.

use std::sync::LazyLock;

use crate::bundle::{Bundle, Preset, Rule};

impl Preset {
    /// The preset as a bundle, in its own words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Light => include_str!("../../../examples/policies/light.yaml"),
            Self::Balanced => include_str!("../../../examples/policies/balanced.yaml"),
            Self::Careful => include_str!("../../../examples/policies/careful.yaml"),
            Self::Strict => include_str!("../../../examples/policies/strict.yaml"),
        }
    }
}

static RULES: LazyLock<[Vec<Rule>; 4]> = LazyLock::new(|| {
    Preset::ALL.map(|preset| {
        let bundle = Bundle::parse(preset.text()).expect("a preset that ships is a bundle");
        bundle.permissions.map_or(Vec::new(), |p| p.rules)
    })
});

/// The rules of a preset, in file order.
pub(crate) fn rules(preset: Preset) -> &'static [Rule] {
    let at = Preset::ALL.iter().position(|known| *known == preset);
    &RULES[at.expect("all presets are listed")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::{Action, ArgRole};
    use crate::glob::Glob;

    #[test]
    fn s5_9_presets_are_bundles_that_speak_of_effects_and_roles_only() {
        for preset in Preset::ALL {
            let bundle = Bundle::parse(preset.text()).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(bundle.name, preset.as_str());
            assert!(bundle.tools.is_empty(), "{preset}");
            let permissions = bundle.permissions.unwrap();
            assert_eq!(permissions.default, Action::Allow);
            assert!(!permissions.rules.is_empty(), "{preset}");
            for rule in &permissions.rules {
                assert_eq!(rule.tool, Glob::any());
                assert_eq!(rule.action, Action::Ask);
                assert!(rule.when.args.is_empty());
                assert!(
                    rule.unless
                        .iter()
                        .all(|alternative| alternative.args.is_empty())
                );
            }
            assert_eq!(rules(preset), permissions.rules);
        }
    }

    #[test]
    fn s5_9_balanced_looks_at_every_role() {
        let alternative = &rules(Preset::Balanced)[0].unless[0];
        let looked_at: Vec<ArgRole> = alternative.roles.keys().copied().collect();
        assert_eq!(looked_at, &ArgRole::ALL[..6]);
    }
}
