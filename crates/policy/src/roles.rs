//! Changing roles, and which agent has which (S3.9).
//!
//! A role is a row that workers read again each second, so what is written here acts on runs that
//! live. `unrestricted` is what it is in every namespace: whoever reads that an agent has it must be
//! able to rely on the word.

use std::collections::BTreeSet;

use sayso_rules::Glob;
use sayso_rules::bundle::is_agent_name;
use sayso_run::{AgentName, Namespace};
use sayso_service::error::{Coded, Kind};
use sayso_store::{Attached, Removed, RoleRow, Store, UNRESTRICTED};
use sayso_wire::code;

use crate::refuse::{database, no_agent, no_role};

/// How many patterns one role may list.
const MOST_PATTERNS: usize = 1000;

/// What a change of a role did.
#[derive(Debug)]
pub(crate) struct Changed {
    /// The role as it is now.
    pub(crate) role: RoleRow,
    /// Whether it is new.
    pub(crate) created: bool,
    /// What it permits now and did not before.
    pub(crate) added: Vec<String>,
    /// What it permitted before and does not now.
    pub(crate) removed: Vec<String>,
}

/// Makes a role, or changes what it permits.
pub(crate) async fn put(
    store: &Store,
    namespace: &Namespace,
    role: &str,
    permits: Vec<String>,
) -> Result<Changed, Coded> {
    check(role, &permits)?;
    let doing = "writing the role";
    let roles = store.roles();
    let before = roles.put(namespace, role, &permits).await;
    let before = before.map_err(|error| database(doing, &error))?;
    let created = before.is_none();
    let before = before.unwrap_or_default();
    let row = roles.get(namespace, role).await;
    let row = row.map_err(|error| database("reading the role", &error))?;
    Ok(Changed {
        // Somebody may have removed it since: that was after this.
        role: row.ok_or_else(|| no_role(role))?,
        created,
        added: without(&permits, &before),
        removed: without(&before, &permits),
    })
}

/// Removes a role that no agent has.
pub(crate) async fn delete(store: &Store, namespace: &Namespace, role: &str) -> Result<(), Coded> {
    if role == UNRESTRICTED {
        return Err(unrestricted());
    }
    let removed = store.roles().delete(namespace, role).await;
    match removed.map_err(|error| database("removing the role", &error))? {
        Removed::Done => Ok(()),
        Removed::NoRole => Err(no_role(role)),
        Removed::InUse(agents) => Err(in_use(role, &agents)),
    }
}

/// Gives an agent a role, or takes it away: the role that it had.
pub(crate) async fn set(
    store: &Store,
    namespace: &Namespace,
    agent: &AgentName,
    role: Option<&str>,
) -> Result<Option<String>, Coded> {
    let attached = store.roles().attach(namespace, agent, role).await;
    match attached.map_err(|error| database("attaching the role", &error))? {
        Attached::Done(before) => Ok(before),
        Attached::NoAgent => Err(no_agent()),
        Attached::NoRole => Err(no_role(role.unwrap_or_default())),
    }
}

fn check(role: &str, permits: &[String]) -> Result<(), Coded> {
    if role == UNRESTRICTED {
        return Err(unrestricted());
    }
    let mut wrong: Vec<(String, String)> = Vec::new();
    if !is_agent_name(role) {
        let rule = "must be 1 to 63 of a-z, 0-9 and -";
        wrong.push(("name".to_owned(), rule.to_owned()));
    }
    if permits.len() > MOST_PATTERNS {
        let problem = format!(
            "lists {} patterns; at most {MOST_PATTERNS} are taken",
            permits.len()
        );
        wrong.push(("permits".to_owned(), problem));
    } else {
        let bad = permits.iter().enumerate().filter_map(|(at, pattern)| {
            let bad = Glob::new(pattern).err()?;
            Some((format!("permits[{at}]"), bad.to_string()))
        });
        wrong.extend(bad);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let named: Vec<&str> = wrong.iter().map(|(field, _)| field.as_str()).collect();
    let sentence = format!(
        "The role is not valid ({}); nothing was changed.",
        named.join(", ")
    );
    let refused = Coded::new(Kind::Invalid, code::REQUEST_INVALID, sentence);
    Err(wrong
        .into_iter()
        .fold(refused, |refused, (field, problem)| {
            refused.field(field, problem)
        }))
}

fn unrestricted() -> Coded {
    Coded::new(
        Kind::Precondition,
        code::ROLE_UNRESTRICTED,
        "The role `unrestricted` permits everything in every namespace and stays as it is; make another one.",
    )
}

fn in_use(role: &str, agents: &[AgentName]) -> Coded {
    let names: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
    let sentence = format!(
        "The role `{role}` is that of {}; give {} another one first with `sayso role attach`.",
        names.join(", "),
        if agents.len() == 1 { "it" } else { "them" }
    );
    Coded::new(Kind::Precondition, code::ROLE_IN_USE, sentence).with("agents", names.join(","))
}

/// What one list has and the other has not.
fn without(these: &[String], those: &[String]) -> Vec<String> {
    let those: BTreeSet<&String> = those.iter().collect();
    let left = these.iter().filter(|pattern| !those.contains(pattern));
    left.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S10.5: every bad pattern of a role is named at once, with the name.
    #[test]
    fn s10_5_every_mistake_of_a_role_is_named() {
        let permits = ["shop.*", "a?", ""].map(str::to_owned);
        let refused = check("Support", &permits).unwrap_err();
        assert_eq!(refused.code, "request.invalid");
        let fields: Vec<&str> = refused
            .fields
            .iter()
            .map(|(field, _)| field.as_str())
            .collect();
        assert_eq!(fields, ["name", "permits[1]", "permits[2]"]);
        assert!(check("support", &[]).is_ok());
        let refused = check(UNRESTRICTED, &permits).unwrap_err();
        assert_eq!(refused.code, "role.unrestricted");
    }

    #[test]
    fn what_a_change_adds_and_removes_is_told() {
        let list = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let (before, after) = (list("a b"), list("b c"));
        assert_eq!(without(&after, &before), ["c"]);
        assert_eq!(without(&before, &after), ["a"]);
    }
}
