//! The role: the ceiling over everything that an agent may do (S3.9).

use serde::{Deserialize, Serialize};

use crate::glob::Glob;

/// The name of the role that permits everything; it exists in every namespace.
pub const UNRESTRICTED: &str = "unrestricted";

/// What an agent's job allows at most, whatever its bundle grants (S3.9).
///
/// A role is judged beside the rules, not by them: it belongs to the agent and
/// not to the revision, and is read at every call. Control tools (`ask_person`,
/// `search_api_tools`) act on nothing and are not operations that a role lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// The role's name within its namespace.
    pub name: String,
    /// The operations that it permits; none permits nothing.
    pub permits: Vec<Glob>,
}

impl Role {
    /// The role that permits every operation.
    #[must_use]
    pub fn unrestricted() -> Self {
        Self {
            name: UNRESTRICTED.to_owned(),
            permits: vec![Glob::any()],
        }
    }

    /// Whether the role permits a tool, under either of its names.
    #[must_use]
    pub fn permits(&self, registered: &str, model_name: &str) -> bool {
        self.permits
            .iter()
            .any(|glob| glob.matches(registered, model_name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s3_9_a_role_permits_what_it_lists_and_nothing_else() {
        let role: Role = serde_json::from_str(
            r#"{"name":"support","permits":["shop.get_*","create_artifact"]}"#,
        )
        .unwrap();
        assert!(role.permits("shop.get_order", "shop_get_order"));
        assert!(role.permits("create_artifact", "create_artifact"));
        assert!(!role.permits("shop.refund_order", "shop_refund_order"));
        let empty = Role {
            name: "none".into(),
            permits: vec![],
        };
        assert!(!empty.permits("create_artifact", "create_artifact"));
    }

    #[test]
    fn s3_9_unrestricted_permits_everything() {
        let role = Role::unrestricted();
        assert!(role.permits("any.thing", "any_thing"));
        let json = serde_json::to_string(&role).unwrap();
        assert_eq!(json, r#"{"name":"unrestricted","permits":["*"]}"#);
        assert_eq!(serde_json::from_str::<Role>(&json).unwrap(), role);
    }

    #[test]
    fn s5_11_a_role_with_a_bad_glob_or_an_unknown_field_is_refused() {
        assert!(serde_json::from_str::<Role>(r#"{"name":"x","permits":["a?"]}"#).is_err());
        assert!(serde_json::from_str::<Role>(r#"{"name":"x","permits":[],"y":1}"#).is_err());
    }
}
