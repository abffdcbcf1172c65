//! Tool names: as registered, and as a model sees them.
//!
//! A tool is registered as `server.tool`; model providers take only
//! `[A-Za-z0-9_-]{1,64}` (S3.5). The plain form replaces every other byte by
//! an underscore, so two tools can end up with one name, and a name can be too
//! long. A call that reaches the wrong tool carries that tool's permissions
//! with it, so there is never a silent winner (B38):
//!
//! - a registered name that is already fit for a model keeps it, always; these
//!   are the built-in and control tools, whose names the prompts mention, and
//!   no server can take a name from them;
//! - of the others, those whose plain form is free and fits keep the plain
//!   form;
//! - all the rest, every member of a clash included, get the start of the plain
//!   form and ten hex digits of a hash of the registered name. Should such a
//!   name clash in turn, everyone who shares it takes a new hash and the
//!   comparison starts again.
//!
//! Nothing in this depends on the order in which tools are listed.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

/// The longest name that a model sees, in characters (S3.5).
pub const MAX_MODEL_NAME: usize = 64;

/// How many hex digits of a hash tell clashing names apart.
const HASH_DIGITS: usize = 10;

/// The names of one run's tools, both ways (S3.5, B38).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    to_model: BTreeMap<String, String>,
    to_registered: BTreeMap<String, String>,
}

impl ToolNames {
    /// Gives every registered name its own model name.
    ///
    /// The result depends on the set of names only: not on their order, and
    /// not on how often each is given.
    pub fn assign<N: Into<String>>(registered: impl IntoIterator<Item = N>) -> Self {
        let registered: BTreeSet<String> = registered.into_iter().map(Into::into).collect();
        let mut rounds: BTreeMap<&str, u32> = registered
            .iter()
            .map(|name| (name.as_str(), u32::from(!fits(&plain_form(name)))))
            .collect();
        loop {
            let mut claims: BTreeMap<String, Vec<&str>> = BTreeMap::new();
            for (&name, &round) in &rounds {
                claims.entry(candidate(name, round)).or_default().push(name);
            }
            let mut settled = true;
            for (wanted, claimants) in &claims {
                if claimants.len() < 2 {
                    continue;
                }
                for &name in claimants.iter().filter(|&&name| name != wanted) {
                    settled = false;
                    *rounds.get_mut(name).expect("claimants come from this map") += 1;
                }
            }
            if settled {
                return claims
                    .into_iter()
                    .map(|(model, claimants)| (claimants[0].to_owned(), model))
                    .collect();
            }
        }
    }

    /// The name of a tool in requests to the model.
    #[must_use]
    pub fn model_name(&self, registered: &str) -> Option<&str> {
        self.to_model.get(registered).map(String::as_str)
    }

    /// The tool that a name in a model's answer means.
    #[must_use]
    pub fn registered(&self, model_name: &str) -> Option<&str> {
        self.to_registered.get(model_name).map(String::as_str)
    }

    /// All tools as (registered name, model's name), by registered name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.to_model
            .iter()
            .map(|(registered, model)| (registered.as_str(), model.as_str()))
    }
}

impl FromIterator<(String, String)> for ToolNames {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let to_model: BTreeMap<String, String> = pairs.into_iter().collect();
        let to_registered = to_model
            .iter()
            .map(|(name, model)| (model.clone(), name.clone()));
        Self {
            to_registered: to_registered.collect(),
            to_model,
        }
    }
}

/// The plain model form of a registered name: every byte that a model's name
/// cannot have becomes an underscore. It may be too long, or shared.
#[must_use]
pub fn plain_form(registered: &str) -> String {
    registered
        .bytes()
        .map(|byte| char::from(plain_byte(byte)))
        .collect()
}

/// Whether a text can be the name of a tool: `[A-Za-z0-9_.-]{1,128}`.
#[must_use]
pub fn is_tool_name(text: &str) -> bool {
    let fits = |b: u8| b == b'.' || plain_byte(b) == b;
    (1..=128).contains(&text.len()) && text.bytes().all(fits)
}

pub(crate) fn plain_byte(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => byte,
        _ => b'_',
    }
}

/// Whether a model's name is the plain form of a registered one.
pub(crate) fn plain_matches(registered: &[u8], model_name: &[u8]) -> bool {
    registered.len() == model_name.len()
        && registered
            .iter()
            .zip(model_name)
            .all(|(&r, &m)| plain_byte(r) == m)
}

fn fits(plain: &str) -> bool {
    (1..=MAX_MODEL_NAME).contains(&plain.len())
}

fn candidate(registered: &str, round: u32) -> String {
    let mut plain = plain_form(registered);
    if round == 0 {
        return plain;
    }
    let digest = Sha256::new()
        .chain_update(round.to_be_bytes())
        .chain_update(registered)
        .finalize();
    plain.truncate(MAX_MODEL_NAME - 1 - HASH_DIGITS);
    plain.push('_');
    plain.push_str(&hex::encode(digest)[..HASH_DIGITS]);
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn s3_5_a_dot_becomes_an_underscore() {
        let names = ToolNames::assign(["git.git_status", "create_artifact"]);
        assert_eq!(names.model_name("git.git_status"), Some("git_git_status"));
        assert_eq!(names.model_name("create_artifact"), Some("create_artifact"));
        assert_eq!(names.registered("git_git_status"), Some("git.git_status"));
        assert_eq!(names.registered("git.git_status"), None);
    }

    #[test]
    fn b38_clashing_tools_get_distinct_names_in_both_orders() {
        let one = ToolNames::assign(["crm.update.contact", "crm.update_contact"]);
        let other = ToolNames::assign(["crm.update_contact", "crm.update.contact"]);
        assert_eq!(one, other);
        let (a, b) = (
            one.model_name("crm.update.contact").unwrap(),
            one.model_name("crm.update_contact").unwrap(),
        );
        assert_ne!(a, b);
        // Neither is the silent winner of the plain form.
        assert_eq!(one.registered("crm_update_contact"), None);
        assert_eq!(one.registered(a), Some("crm.update.contact"));
        assert_eq!(one.registered(b), Some("crm.update_contact"));
    }

    #[test]
    fn b38_a_server_cannot_take_the_name_of_a_builtin() {
        let names = ToolNames::assign(["search.api_tools", "search_api_tools"]);
        assert_eq!(
            names.model_name("search_api_tools"),
            Some("search_api_tools")
        );
        assert_ne!(
            names.model_name("search.api_tools"),
            Some("search_api_tools")
        );
    }

    #[test]
    fn b38_a_name_that_imitates_a_hashed_one_is_told_apart() {
        let first = ToolNames::assign(["s.a.b", "s.a_b"]);
        let hashed = first.model_name("s.a.b").unwrap().to_owned();
        let imitation = hashed.replacen('_', ".", 1);
        let names = ToolNames::assign(["s.a.b".to_owned(), "s.a_b".to_owned(), imitation.clone()]);
        assert_ne!(names.model_name("s.a.b"), names.model_name(&imitation));
        assert_eq!(names.iter().count(), 3);
        // Even where the imitation is fit for a model as it stands.
        let names = ToolNames::assign(["s.a.b", "s.a_b", hashed.as_str()]);
        assert_eq!(names.model_name(&hashed), Some(hashed.as_str()));
        assert_ne!(names.model_name("s.a.b"), Some(hashed.as_str()));
    }

    #[test]
    fn s3_5_long_and_odd_names_are_cut_to_fit() {
        let long = format!("server.{}", "x".repeat(121));
        let names = ToolNames::assign([long.as_str(), "", "s.ünïcode/tool"]);
        let model = names.model_name(&long).unwrap();
        assert_eq!(model.len(), MAX_MODEL_NAME);
        assert!(model.starts_with("server_xxx"));
        assert_eq!(names.registered(model), Some(long.as_str()));
        assert!(!names.model_name("").unwrap().is_empty());
    }

    #[test]
    fn tool_names_have_a_charset_and_a_length() {
        assert!(is_tool_name("crm.update_contact-2"));
        assert!(is_tool_name(&"a".repeat(128)));
        for bad in ["", "a b", "a/b", "a*", "é", &"a".repeat(129)] {
            assert!(!is_tool_name(bad), "{bad:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn b38_names_are_distinct_valid_and_order_independent(
            names in prop::collection::btree_set("[ab._é]{0,5}|s[._-]a{60,70}", 0..40),
            seed in any::<u64>(),
        ) {
            let assigned = ToolNames::assign(names.iter().cloned());
            let mut shuffled: Vec<_> = names.iter().cloned().collect();
            let len = shuffled.len().max(1);
            shuffled.rotate_left(usize::try_from(seed % 40).unwrap() % len);
            if seed & 1 == 1 { shuffled.reverse(); }
            prop_assert_eq!(&ToolNames::assign(shuffled), &assigned);

            prop_assert_eq!(assigned.iter().count(), names.len());
            let models: BTreeSet<&str> = assigned.iter().map(|(_, model)| model).collect();
            prop_assert_eq!(models.len(), names.len());
            for (registered, model) in assigned.iter() {
                prop_assert!((1..=MAX_MODEL_NAME).contains(&model.len()));
                prop_assert!(model.bytes().all(|b| plain_byte(b) == b));
                prop_assert_eq!(assigned.registered(model), Some(registered));
            }
        }
    }
}
