//! The `a2a` block: how an agent is offered to A2A clients (S6.13).

use serde::Serialize;

use super::error::Report;
use super::fields::At;
use super::node::Node;
use super::text;

/// The most skills of one bundle.
pub const MAX_SKILLS: usize = 64;

const SKILL_ID: &str = "an id of 1 to 63 letters, digits, `_` and `-`";

/// How an agent is offered to A2A clients. Its card is public: whoever reaches the gateway can read
/// it, and nobody can call it without a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct A2a {
    /// What of a message the agent is told.
    pub input: A2aInput,
    /// Whether a message whose id came before is that message again, and does nothing more.
    pub deduplicate: bool,
    /// What the card says that the agent can do; with none, one skill made of its name and
    /// description.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<Skill>,
}

/// What of an A2A message the agent is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum A2aInput {
    /// Its texts, and its data as JSON.
    Text,
    /// All of it as JSON: id, parts, metadata.
    Message,
}

/// A skill, as the card tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Skill {
    /// Its id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// What one may ask.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// `true` offers the agent as it is, `false` not at all; a mapping says more.
pub(super) fn a2a(report: &mut Report, at: &At<'_>) -> Option<A2a> {
    if let Node::Bool(offered) = at.node {
        return offered.then_some(A2a {
            input: A2aInput::Text,
            deduplicate: true,
            skills: Vec::new(),
        });
    }
    if !matches!(at.node, Node::Map(_)) {
        return at.wrong_type(report, "true, false or a mapping");
    }
    let mut fields = at.fields(report)?;
    let words = [("text", A2aInput::Text), ("message", A2aInput::Message)];
    let input = fields.take("input").and_then(|at| at.word(report, &words));
    let deduplicate = fields.take("deduplicate").and_then(|at| at.flag(report));
    let skills = fields.take("skills").and_then(|at| skills(report, &at));
    fields.finish(report);
    Some(A2a {
        input: input.unwrap_or(A2aInput::Text),
        deduplicate: deduplicate.unwrap_or(true),
        skills: skills.unwrap_or_default(),
    })
}

fn skills(report: &mut Report, at: &At<'_>) -> Option<Vec<Skill>> {
    let items = at.list(report)?;
    if items.len() > MAX_SKILLS {
        let message = format!("a bundle has at most {MAX_SKILLS} skills");
        report.add("bundle.too_large", &at.path, message);
        return None;
    }
    let mut skills: Vec<Skill> = Vec::new();
    for item in items {
        let Some(skill) = skill(report, &item) else {
            continue;
        };
        if skills.iter().any(|other| other.id == skill.id) {
            let message = "two skills have this id";
            report.add("bundle.duplicate_key", &item.path, message);
        }
        skills.push(skill);
    }
    Some(skills)
}

fn skill(report: &mut Report, at: &At<'_>) -> Option<Skill> {
    let mut fields = at.fields(report)?;
    let id = fields
        .require(report, "id")
        .and_then(|at| at.text_like(report, "bundle.bad_name", text::is_part_name, SKILL_ID));
    let mut said = |key, report: &mut Report| {
        let at = fields.require(report, key)?;
        at.text(report).map(str::to_owned)
    };
    let name = said("name", report);
    let description = said("description", report);
    let tags = fields.take("tags").and_then(|at| texts(report, &at));
    let examples = fields.take("examples").and_then(|at| texts(report, &at));
    fields.finish(report);
    Some(Skill {
        id: id?,
        name: name?,
        description: description?,
        tags: tags.unwrap_or_default(),
        examples: examples.unwrap_or_default(),
    })
}

fn texts(report: &mut Report, at: &At<'_>) -> Option<Vec<String>> {
    let items = at.list(report)?;
    let read = items.iter().filter_map(|item| item.text(report));
    Some(read.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::super::Bundle;
    use super::*;

    fn of(lines: &str) -> Result<Option<A2a>, Vec<String>> {
        let parsed = Bundle::parse(&format!("name: desk\n{lines}"));
        let bundle = parsed.map_err(|errors| {
            let told = errors.errors().iter();
            told.map(|e| format!("{} {}", e.code, e.path))
                .collect::<Vec<_>>()
        })?;
        let again = Bundle::parse(&bundle.to_canonical_json()).unwrap();
        assert_eq!(again, bundle, "the canonical form is a bundle");
        Ok(bundle.a2a)
    }

    /// S6.13: an agent is offered only if its bundle says so.
    #[test]
    fn s6_13_a_bundle_says_whether_it_is_offered() {
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("a2a: false"), Ok(None));
        let plain = of("a2a: true").unwrap().unwrap();
        assert_eq!(of("a2a: {}"), Ok(Some(plain.clone())));
        assert_eq!((plain.input, plain.deduplicate), (A2aInput::Text, true));
        let told = of(
            "a2a: {input: message, deduplicate: false, skills: [{id: a, name: A, description: x, \
             tags: [t], examples: [e]}]}",
        );
        let told = told.unwrap().unwrap();
        assert_eq!((told.input, told.deduplicate), (A2aInput::Message, false));
        assert_eq!(told.skills[0].tags, ["t"]);
    }

    #[test]
    fn what_is_wrong_with_it_is_told_by_key() {
        let skill = "{id: a, name: A, description: x}";
        for (lines, told) in [
            ("a2a: 1".to_owned(), "bundle.wrong_type a2a"),
            (
                "a2a: {input: all}".to_owned(),
                "bundle.unknown_value a2a.input",
            ),
            ("a2a: {x: 1}".to_owned(), "bundle.unknown_field a2a.x"),
            (
                format!("a2a: {{skills: [{skill}, {skill}]}}"),
                "bundle.duplicate_key a2a.skills[1]",
            ),
            (
                "a2a: {skills: [{id: a, name: A}]}".to_owned(),
                "bundle.missing_field a2a.skills[0]",
            ),
        ] {
            assert_eq!(of(&lines), Err(vec![told.to_owned()]), "{lines}");
        }
    }
}
