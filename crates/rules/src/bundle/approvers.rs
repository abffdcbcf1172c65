//! Who may decide what a rule asks for (S6.12).

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::error::Report;
use super::fields::At;
use super::node::Node;
use super::{canonical, text};

/// The most approvals that a rule can ask for.
const MAX_COUNT: u32 = 16;

/// How often an approval can be escalated.
const MAX_ESCALATIONS: usize = 8;

const NAME: &str = "a name of 1 to 63 characters of a-z, 0-9 and `-`";

/// Who may approve, and how many it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Approvers {
    /// The group whose members decide; anybody who may decide if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How many have to approve. One denial denies.
    pub count: u32,
    /// Who is barred, beside the requester, who always is.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<Excluded>,
}

/// Who can be barred from deciding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Excluded {
    /// Whoever deployed the revision that the run keeps.
    Author,
    /// Everybody who has written into the run.
    Writers,
}

impl Excluded {
    /// All of them.
    pub const ALL: [Excluded; 2] = [Excluded::Author, Excluded::Writers];

    /// The word in a bundle.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Excluded::Author => "author",
            Excluded::Writers => "writers",
        }
    }
}

/// When nobody has decided for a while: who may decide as well, or which target is reminded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Escalation {
    /// After this time, counted from the request.
    #[serde(serialize_with = "canonical::known_duration")]
    pub after: Duration,
    /// Whom it goes to.
    pub to: EscalationTo,
}

/// Whom an escalation goes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EscalationTo {
    /// The group whose members may decide from then on, beside those who may already.
    Group(String),
    /// The target of the namespace that is reminded. Who may decide stays.
    Target(String),
}

pub(super) fn approvers(report: &mut Report, at: &At<'_>) -> Option<Approvers> {
    let mut fields = at.fields(report)?;
    let group = fields.take("group").and_then(|at| named(report, &at));
    let count = fields.take("count").and_then(|at| count(report, &at));
    let exclude = fields.take("exclude").and_then(|at| {
        let words = Excluded::ALL.map(|excluded| (excluded.as_str(), excluded));
        super::parse_permissions::words(report, &at, &words)
    });
    if !fields.any_taken() {
        let message = "it names nobody; known are group, count, exclude";
        report.add("bundle.missing_field", &at.path, message);
    }
    fields.finish(report);
    Some(Approvers {
        group,
        count: count.unwrap_or(1),
        exclude: exclude.unwrap_or_default(),
    })
}

fn named(report: &mut Report, at: &At<'_>) -> Option<String> {
    at.text_like(report, "bundle.bad_name", text::is_agent_name, NAME)
}

fn count(report: &mut Report, at: &At<'_>) -> Option<u32> {
    let Node::Number(digits) = at.node else {
        return at.wrong_type(report, "a number");
    };
    let count = digits
        .parse()
        .ok()
        .filter(|count| (1..=MAX_COUNT).contains(count));
    if count.is_none() {
        let message = format!("{digits}: it takes 1 to {MAX_COUNT} approvals");
        report.add("bundle.bad_number", &at.path, message);
    }
    count
}

/// Steps in the order of their times.
pub(super) fn escalations(report: &mut Report, at: &At<'_>) -> Option<Vec<Escalation>> {
    let items = at.list(report)?;
    if items.len() > MAX_ESCALATIONS {
        let message = format!("at most {MAX_ESCALATIONS} escalations");
        report.add("bundle.bad_number", &at.path, message);
    }
    let mut steps: Vec<Escalation> = items
        .iter()
        .filter_map(|item| escalation(report, item))
        .collect();
    steps.sort_by_key(|step| step.after);
    Some(steps)
}

fn escalation(report: &mut Report, at: &At<'_>) -> Option<Escalation> {
    let mut fields = at.fields(report)?;
    let after = fields
        .require(report, "after")
        .and_then(|at| at.parsed(report, "bundle.bad_duration", text::duration));
    let to = fields.require(report, "to").and_then(|at| {
        let mut fields = at.fields(report)?;
        let to = if fields.has("target") {
            let target = fields.take("target").and_then(|at| named(report, &at));
            target.map(EscalationTo::Target)
        } else {
            let group = fields
                .require(report, "group")
                .and_then(|at| named(report, &at));
            group.map(EscalationTo::Group)
        };
        fields.finish(report);
        to
    });
    fields.finish(report);
    Some(Escalation {
        after: after?,
        to: to?,
    })
}
