//! Reading the `permissions` block.

use std::collections::{BTreeMap, BTreeSet};

use super::approvers::{approvers, escalations};
use super::error::Report;
use super::fields::At;
use super::node::Node;
use super::parse::{link, without_secret};
use super::parse_tools::places;
use super::{
    Action, Alternative, ArgRole, DEFAULT_APPROVAL_TIMEOUT, Effect, Notify, Permissions, Preset,
    Provenance, Rule, Scalar, ValueCondition, ValueSource, When, text,
};
use crate::decimal::Decimal;
use crate::glob::Glob;
use crate::trust::Trust;

const ACTIONS: [(&str, Action); 3] = [
    ("allow", Action::Allow),
    ("ask", Action::Ask),
    ("deny", Action::Deny),
];

pub(super) fn permissions(report: &mut Report, at: &At<'_>) -> Option<Permissions> {
    let mut fields = at.fields(report)?;
    let preset = fields
        .take("preset")
        .and_then(|at| at.word(report, &Preset::ALL.map(|preset| (preset.as_str(), preset))));
    let default = fields
        .take("default")
        .and_then(|at| at.word(report, &ACTIONS));
    let rules = fields.take("rules").and_then(|at| rules(report, &at));
    let approval_timeout = fields
        .take("approvalTimeout")
        .and_then(|at| at.parsed(report, "bundle.bad_duration", text::duration));
    let notify = fields.take("notify").and_then(|at| notify(report, &at));
    fields.finish(report);
    let waits = approval_timeout.unwrap_or(DEFAULT_APPROVAL_TIMEOUT);
    for (index, rule) in rules.iter().flatten().enumerate() {
        if rule.escalate.iter().any(|step| step.after > waits) {
            let path = format!("{}.rules[{index}].escalate", at.path);
            let message = "an escalation after the approval's timeout never comes";
            report.add("bundle.bad_duration", &path, message);
        }
    }
    let unset = match preset {
        Some(_) => Action::Allow,
        None => Action::Ask,
    };
    Some(Permissions {
        preset,
        default: default.unwrap_or(unset),
        rules: rules.unwrap_or_default(),
        approval_timeout: approval_timeout.unwrap_or(DEFAULT_APPROVAL_TIMEOUT),
        notify,
    })
}

fn rules(report: &mut Report, at: &At<'_>) -> Option<Vec<Rule>> {
    let items = at.list(report)?;
    Some(items.iter().filter_map(|item| rule(report, item)).collect())
}

fn rule(report: &mut Report, at: &At<'_>) -> Option<Rule> {
    let mut fields = at.fields(report)?;
    let tool = fields
        .require(report, "tool")
        .and_then(|at| at.parsed(report, "bundle.bad_glob", Glob::new));
    let action = fields
        .require(report, "action")
        .and_then(|at| at.word(report, &ACTIONS));
    let when = fields.take("when").and_then(|at| when(report, &at));
    let unless = fields.take("unless").and_then(|at| unless(report, &at));
    let who = fields.take("approvers");
    let then = fields.take("escalate");
    if action.is_some_and(|action| action != Action::Ask) {
        for at in who.iter().chain(&then) {
            let message = "only a rule that asks says who decides";
            report.add("bundle.unknown_field", &at.path, message);
        }
    }
    let approvers = who.and_then(|at| approvers(report, &at));
    let escalate = then.and_then(|at| escalations(report, &at));
    fields.finish(report);
    Some(Rule {
        approvers,
        escalate: escalate.unwrap_or_default(),
        tool: tool?,
        action: action?,
        when: when.unwrap_or_default(),
        unless: unless.unwrap_or_default(),
    })
}

fn when(report: &mut Report, at: &At<'_>) -> Option<When> {
    let levels = Trust::ALL.map(|trust| (trust.as_str(), trust));
    let mut fields = at.fields(report)?;
    let trust = fields.take("trust").and_then(|at| at.word(report, &levels));
    let trust_below = fields
        .take("trustBelow")
        .and_then(|at| at.word(report, &levels));
    let effect = fields
        .take("effect")
        .and_then(|at| words(report, &at, &Effect::ALL.map(|e| (e.as_str(), e))));
    let args = fields
        .take("args")
        .and_then(|at| places(report, &at, value_condition));
    let secret_read = fields.take("secretRead").and_then(|at| at.flag(report));
    fields.finish(report);
    Some(When {
        trust,
        trust_below,
        effect,
        args: args.unwrap_or_default(),
        secret_read,
    })
}

/// A list of words, each once.
pub(super) fn words<T: Copy + Ord>(
    report: &mut Report,
    at: &At<'_>,
    known: &[(&str, T)],
) -> Option<BTreeSet<T>> {
    let mut set = BTreeSet::new();
    for item in at.list(report)? {
        let Some(word) = item.word(report, known) else {
            continue;
        };
        if !set.insert(word) {
            report.add(
                "bundle.duplicate_key",
                &item.path,
                "the word stands here twice",
            );
        }
    }
    Some(set)
}

fn value_condition(report: &mut Report, at: &At<'_>) -> Option<ValueCondition> {
    let mut fields = at.fields(report)?;
    let equals = fields.take("equals").and_then(|at| scalar(report, &at));
    let one_of = fields.take("oneOf").and_then(|at| {
        let items = at.list(report)?;
        Some(items.iter().filter_map(|at| scalar(report, at)).collect())
    });
    let glob = fields
        .take("glob")
        .and_then(|at| at.text(report).map(str::to_owned));
    let min = fields.take("min").and_then(|at| number(report, &at));
    let max = fields.take("max").and_then(|at| number(report, &at));
    let max_length = fields.take("maxLength").and_then(|at| length(report, &at));
    let named = fields.any_taken();
    fields.finish(report);
    if !named {
        says_nothing(report, at, "equals, oneOf, glob, min, max, maxLength");
    }
    Some(ValueCondition {
        equals,
        one_of,
        glob,
        min,
        max,
        max_length,
    })
}

/// A condition that names nothing would hold always, which nobody means.
fn says_nothing(report: &mut Report, at: &At<'_>, known: &str) {
    let message = format!("a condition that names nothing; known are {known}");
    report.add("bundle.missing_field", &at.path, message);
}

fn scalar(report: &mut Report, at: &At<'_>) -> Option<Scalar> {
    match at.node {
        Node::Bool(value) => Some(Scalar::Flag(*value)),
        Node::Number(_) => number(report, at).map(Scalar::Number),
        Node::Text(_) => at.text(report).map(|text| Scalar::Text(text.to_owned())),
        Node::Null | Node::List(_) | Node::Map(_) => {
            at.wrong_type(report, "a text, a number, true or false")
        }
    }
}

fn number(report: &mut Report, at: &At<'_>) -> Option<Decimal> {
    let Node::Number(digits) = at.node else {
        return at.wrong_type(report, "a number");
    };
    match digits.parse() {
        Ok(number) => Some(number),
        Err(why) => {
            report.add("bundle.bad_number", &at.path, format!("{digits}: {why}"));
            None
        }
    }
}

fn length(report: &mut Report, at: &At<'_>) -> Option<u64> {
    let Node::Number(digits) = at.node else {
        return at.wrong_type(report, "a number");
    };
    let length = digits.parse();
    if length.is_err() {
        let message = format!("{digits}: a length is a whole number that is not below zero");
        report.add("bundle.bad_number", &at.path, message);
    }
    length.ok()
}

fn unless(report: &mut Report, at: &At<'_>) -> Option<Vec<Alternative>> {
    if let Node::Map(_) = at.node {
        return alternative(report, at).map(|one| vec![one]);
    }
    let items = at.list(report)?;
    Some(
        items
            .iter()
            .filter_map(|item| alternative(report, item))
            .collect(),
    )
}

fn alternative(report: &mut Report, at: &At<'_>) -> Option<Alternative> {
    let mut fields = at.fields(report)?;
    let args = fields
        .take("args")
        .and_then(|at| {
            not_empty(report, &at);
            places(report, &at, provenance)
        })
        .unwrap_or_default();
    let roles = fields
        .take("roles")
        .and_then(|at| {
            not_empty(report, &at);
            roles(report, &at)
        })
        .unwrap_or_default();
    let named = fields.any_taken();
    fields.finish(report);
    if !named {
        says_nothing(report, at, "args, roles");
    }
    Some(Alternative { args, roles })
}

/// Conditions that are none would lift a rule always, which nobody means.
fn not_empty(report: &mut Report, at: &At<'_>) {
    if matches!(at.node, Node::Map(entries) if entries.is_empty()) {
        let message = "at least one condition is expected here";
        report.add("bundle.missing_field", &at.path, message);
    }
}

fn roles(report: &mut Report, at: &At<'_>) -> Option<BTreeMap<ArgRole, Provenance>> {
    let mut roles = BTreeMap::new();
    let known: Vec<&str> = ArgRole::ALL
        .iter()
        .filter(|role| **role != ArgRole::Free)
        .map(|role| role.as_str())
        .collect();
    for (key, item) in at.entries(report)? {
        let condition = provenance(report, &item);
        let role = ArgRole::ALL
            .into_iter()
            .find(|role| role.as_str() == key && *role != ArgRole::Free);
        match (role, condition) {
            (Some(role), Some(condition)) => {
                roles.insert(role, condition);
            }
            (Some(_), None) => {}
            (None, _) => {
                let message = format!(
                    "there is no condition on such a role; known are {}",
                    known.join(", ")
                );
                report.add("bundle.unknown_value", &item.path, message);
            }
        }
    }
    Some(roles)
}

fn provenance(report: &mut Report, at: &At<'_>) -> Option<Provenance> {
    let sources = ValueSource::ALL.map(|source| (source.as_str(), source));
    let mut fields = at.fields(report)?;
    let from = fields
        .take("from")
        .and_then(|at| words(report, &at, &sources));
    let links_from = fields
        .take("linksFrom")
        .and_then(|at| words(report, &at, &sources));
    let max = fields.take("max").and_then(|at| number(report, &at));
    let named = fields.any_taken();
    fields.finish(report);
    if !named {
        says_nothing(report, at, "from, linksFrom, max");
    }
    Some(Provenance {
        from,
        links_from,
        max,
    })
}

fn notify(report: &mut Report, at: &At<'_>) -> Option<Notify> {
    let mut fields = at.fields(report)?;
    let url = fields
        .require(report, "url")
        .and_then(|at| without_secret(report, &at).and_then(|()| link(report, &at)));
    let secret = fields.take("secret").and_then(|at| {
        let form = "the name of a secret: 1 to 64 letters, digits and `_`";
        at.text_like(report, "bundle.bad_name", text::is_secret_name, form)
    });
    fields.finish(report);
    Some(Notify { url: url?, secret })
}
