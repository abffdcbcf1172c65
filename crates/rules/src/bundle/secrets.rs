//! References to stored secrets: `${secret:NAME}` (S3.10).
//!
//! They stand in the values of a server's `env` and `headers` alone, and are expanded when the server
//! is started or reached; a webhook's and a notification's `secret` is a name by itself.

use thiserror::Error;

use super::{Bundle, Transport, Trigger, text};

const BEGIN: &str = "${secret:";

/// A secret that a text refers to is not there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the secret `{0}` is not set: `sayso secret set {0}` reads it from standard input")]
pub struct NoSuchSecret(pub String);

/// Whether a text refers to a secret.
#[must_use]
pub fn refers(text: &str) -> bool {
    text.contains(BEGIN)
}

/// The names that a text refers to, in order.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    let rests = text.split(BEGIN).skip(1);
    rests.filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

/// The text with each reference replaced by the secret's value.
///
/// # Errors
///
/// [`NoSuchSecret`] for the first that `value` does not know.
pub fn expand<'v>(
    text: &str,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Result<String, NoSuchSecret> {
    let mut parts = text.split(BEGIN);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part
            .split_once('}')
            .expect("a bundle's references are closed");
        out.push_str(value(name).ok_or_else(|| NoSuchSecret(name.to_owned()))?);
        out.push_str(rest);
    }
    Ok(out)
}

/// Whether every reference in a text names a secret; otherwise a code and a message.
pub(super) fn well_formed(text: &str) -> Result<(), (&'static str, &'static str)> {
    let closed = |rest: &str| {
        rest.split_once('}')
            .is_some_and(|(name, _)| text::is_secret_name(name))
    };
    if text.split(BEGIN).skip(1).all(closed) {
        return Ok(());
    }
    let message =
        "a reference to a secret is `${secret:NAME}` with 1 to 64 letters, digits and `_`";
    Err(("bundle.bad_secret", message))
}

/// A place in a bundle that needs a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretReference {
    /// The key, such as `servers.search.headers.authorization`.
    pub path: String,
    /// The secret.
    pub name: String,
}

/// Every place in a bundle that needs a secret.
#[must_use]
pub fn references(bundle: &Bundle) -> Vec<SecretReference> {
    let mut found = Vec::new();
    let mut add = |path: String, name: &str| {
        let name = name.to_owned();
        found.push(SecretReference { path, name });
    };
    for (server, described) in &bundle.servers {
        let (key, pairs) = match &described.transport {
            Transport::Stdio { env, .. } => ("env", env),
            Transport::Http { headers, .. } => ("headers", headers),
        };
        for (pair, value) in pairs {
            for name in names(value) {
                add(format!("servers.{server}.{key}.{pair}"), name);
            }
        }
    }
    let notify = bundle.permissions.as_ref().and_then(|p| p.notify.as_ref());
    if let Some(name) = notify.and_then(|notify| notify.secret.as_deref()) {
        add("permissions.notify.secret".to_owned(), name);
    }
    for (index, trigger) in bundle.triggers.iter().enumerate() {
        if let Trigger::Webhook(webhook) = trigger {
            add(format!("triggers[{index}].secret"), &webhook.secret);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3.10: references are replaced, several in one text too; a missing one is named.
    #[test]
    fn s3_10_references_are_replaced() {
        let value = |name: &str| match name {
            "A" => Some("1${secret:B}"),
            "B_2" => Some("two"),
            _ => None,
        };
        assert_eq!(
            expand("Bearer ${secret:A}:${secret:B_2}!", value),
            Ok("Bearer 1${secret:B}:two!".to_owned())
        );
        assert_eq!(expand("plain $ {}", value), Ok("plain $ {}".to_owned()));
        assert_eq!(expand("${secret:C}", value), Err(NoSuchSecret("C".into())));
        assert_eq!(
            names("a${secret:A}b${secret:B}").collect::<Vec<_>>(),
            ["A", "B"]
        );
    }

    #[test]
    fn references_have_a_form() {
        for good in [
            "",
            "x",
            "${secret:A}",
            "${secret:A}${secret:b_1}",
            "$secret",
        ] {
            assert_eq!(well_formed(good), Ok(()), "{good}");
        }
        for bad in [
            "${secret:}",
            "${secret:A",
            "${secret:a-b}",
            "${secret:A}${secret: B}",
        ] {
            assert!(well_formed(bad).is_err(), "{bad}");
        }
    }
}
