//! Reading the marks on tools.

use std::collections::BTreeMap;

use super::error::Report;
use super::fields::{At, Fields, quote};
use super::node::Node;
use super::{ArgRole, Builtin, Effect, Pointer, Review, RoleMark, ToolMarks, text};
use crate::glob::Glob;

const KIND: &str = "a kind of thing: 1 to 64 letters, digits, `_`, `-` and `.`";

pub(super) fn tools(report: &mut Report, at: &At<'_>) -> Option<Vec<(Glob, ToolMarks)>> {
    let mut tools = Vec::new();
    for (key, item) in at.entries(report)? {
        let glob = Glob::new(key)
            .map_err(|bad| {
                let message = format!("{}: {bad}", quote(key));
                report.add("bundle.bad_glob", &item.path, message);
            })
            .ok();
        let Some(marks) = marks(report, &item, glob.as_ref()) else {
            continue;
        };
        tools.extend(glob.map(|glob| (glob, marks)));
    }
    Some(tools)
}

fn marks(report: &mut Report, at: &At<'_>, glob: Option<&Glob>) -> Option<ToolMarks> {
    let mut fields = at.fields(report)?;
    let review = review(report, &mut fields, glob);
    let effect = fields
        .take("effect")
        .and_then(|at| at.word(report, &Effect::ALL.map(|effect| (effect.as_str(), effect))));
    let idempotent = fields.take("idempotent").and_then(|at| at.flag(report));
    let timeout = fields
        .take("timeout")
        .and_then(|at| at.parsed(report, "bundle.bad_duration", text::duration));
    let max_result_bytes = fields
        .take("maxResult")
        .and_then(|at| at.parsed(report, "bundle.bad_size", text::size));
    let untrusted_output = fields
        .take("untrustedOutput")
        .and_then(|at| at.flag(report));
    let sensitive_output = fields
        .take("sensitiveOutput")
        .and_then(|at| at.flag(report));
    let roles = fields
        .take("roles")
        .and_then(|at| places(report, &at, role_mark));
    let returns = fields
        .take("returns")
        .and_then(|at| places(report, &at, kind));
    fields.finish(report);
    Some(ToolMarks {
        review,
        effect,
        idempotent,
        timeout,
        max_result_bytes,
        untrusted_output,
        sensitive_output,
        roles: roles.unwrap_or_default(),
        returns: returns.unwrap_or_default(),
    })
}

/// The review mark; one that would clear a floor is refused, whether or not
/// the tool is granted, and also where a glob covers it among others (S5.5).
fn review(report: &mut Report, fields: &mut Fields<'_>, glob: Option<&Glob>) -> Option<Review> {
    let at = fields.take("review")?;
    let words = [Review::Required, Review::NotRequired].map(|review| (review.as_str(), review));
    let review = at.word(report, &words)?;
    if review == Review::NotRequired {
        let floors = Builtin::ALL
            .into_iter()
            .filter(|builtin| builtin.has_floor());
        for name in floors.map(Builtin::name) {
            if glob.is_some_and(|glob| glob.matches(name, name)) {
                let message = format!("`{name}` is always reviewed, and nothing clears that");
                report.add("bundle.floor_cleared", &at.path, message);
            }
        }
    }
    Some(review)
}

/// A mapping from places to what `read` reads. Two spellings of one place are refused: which of
/// them counts would be a guess.
pub(super) fn places<T>(
    report: &mut Report,
    at: &At<'_>,
    read: fn(&mut Report, &At<'_>) -> Option<T>,
) -> Option<BTreeMap<Pointer, T>> {
    let mut places = BTreeMap::new();
    for (key, item) in at.entries(report)? {
        let pointer = match Pointer::new(key) {
            Ok(pointer) => Some(pointer),
            Err(why) => {
                let message = format!("{}: {why}", quote(key));
                report.add("bundle.bad_pointer", &item.path, message);
                None
            }
        };
        let (Some(pointer), Some(value)) = (pointer, read(report, &item)) else {
            continue;
        };
        if places.keys().any(|known: &Pointer| known.same(&pointer)) {
            report.add(
                "bundle.duplicate_key",
                &item.path,
                "the place stands here twice, as a name and as a pointer",
            );
        } else {
            places.insert(pointer, value);
        }
    }
    Some(places)
}

fn role_mark(report: &mut Report, at: &At<'_>) -> Option<RoleMark> {
    let words = ArgRole::ALL.map(|role| (role.as_str(), role));
    if let Node::Text(_) = at.node {
        let role = at.word(report, &words)?;
        return Some(RoleMark { role, kind: None });
    }
    let mut fields = at.fields(report)?;
    let role = fields
        .require(report, "role")
        .and_then(|at| at.word(report, &words));
    let kind = fields.take("kind").and_then(|at| kind(report, &at));
    fields.finish(report);
    Some(RoleMark { role: role?, kind })
}

fn kind(report: &mut Report, at: &At<'_>) -> Option<String> {
    at.text_like(report, "bundle.bad_name", text::is_kind, KIND)
}
