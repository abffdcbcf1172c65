//! Texts and arguments with `{{result.<tool>.<path>}}` in them.

use std::borrow::Cow;

use sayso_driver::ModelRequest;
use sayso_run::Message;
use serde_json::value::RawValue;
use thiserror::Error;
use yaml_serde::Value;

use super::mistakes::Report;

/// A text, cut where results go in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// What stands after `result.`: a tool's name, and a path.
    Result(String),
}

/// A template that cannot be read.
#[derive(Debug, Error)]
pub(super) enum BadTemplate {
    #[error("`{{{{` is not closed with `}}}}`")]
    Open,
    #[error("`{{{{{0}}}}}` is not of the form `{{{{result.<tool>.<path>}}}}`")]
    Unknown(String),
}

/// A template for which the conversation holds nothing.
#[derive(Debug, Error)]
pub(super) enum Unresolved {
    #[error("`{{{{result.{0}}}}}` names no tool that has a result yet")]
    NoResult(String),
    #[error("`{{{{result.{template}}}}}`: the result of {tool} has no `{path}`")]
    NoValue {
        template: String,
        tool: String,
        path: String,
    },
}

impl Text {
    pub(super) fn parse(text: &str) -> Result<Self, BadTemplate> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (inner, behind) = after.split_once("}}").ok_or(BadTemplate::Open)?;
            if !before.is_empty() {
                parts.push(Part::Literal(before.to_owned()));
            }
            let inner = inner.trim();
            let wanted = inner
                .strip_prefix("result.")
                .filter(|wanted| !wanted.is_empty())
                .ok_or_else(|| BadTemplate::Unknown(inner.to_owned()))?;
            parts.push(Part::Result(wanted.to_owned()));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text with the results in it.
    pub(super) fn fill(&self, results: &Results<'_>) -> Result<String, Unresolved> {
        let mut filled = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => filled.push_str(text),
                Part::Result(wanted) => filled.push_str(&results.find(wanted)?.text()),
            }
        }
        Ok(filled)
    }
}

/// Arguments that are built from the script's own values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Built {
    /// A scalar, already JSON.
    Scalar(String),
    Text(Text),
    List(Vec<Built>),
    Object(Vec<(String, Built)>),
}

impl Built {
    pub(super) fn read(value: Value, path: &str, report: &mut Report) -> Self {
        match value {
            Value::Null => Built::Scalar("null".into()),
            Value::Bool(bool) => Built::Scalar(bool.to_string()),
            Value::Number(number) => {
                if !number.is_finite() {
                    report.note(path, "JSON has no such number");
                }
                Built::Scalar(number.to_string())
            }
            Value::String(text) => Built::Text(Text::parse(&text).unwrap_or_else(|bad| {
                report.note(path, bad.to_string());
                Text::default()
            })),
            Value::Sequence(items) => Built::List(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(at, item)| Built::read(item, &format!("{path}[{at}]"), report))
                    .collect(),
            ),
            Value::Mapping(members) => {
                let mut object = Vec::with_capacity(members.len());
                for (key, value) in members {
                    if let Value::String(key) = key {
                        let value = Built::read(value, &format!("{path}.{key}"), report);
                        object.push((key, value));
                    } else {
                        report.note(path, "a key of a JSON object is a string: put it in quotes");
                    }
                }
                Built::Object(object)
            }
            Value::Tagged(_) => {
                report.note(path, "JSON has no tags");
                Built::Scalar("null".into())
            }
        }
    }

    /// Compact JSON with the results in it, members in the order of the script.
    pub(super) fn json(&self, results: &Results<'_>) -> Result<String, Unresolved> {
        let joined = |parts: Result<Vec<String>, Unresolved>| parts.map(|parts| parts.join(","));
        Ok(match self {
            Built::Scalar(json) => json.clone(),
            Built::Text(Text(parts)) if matches!(parts[..], [Part::Result(_)]) => {
                let [Part::Result(wanted)] = &parts[..] else {
                    unreachable!("the guard has seen it")
                };
                results.find(wanted)?.json()
            }
            Built::Text(text) => quoted(&text.fill(results)?),
            Built::List(items) => {
                let items = items.iter().map(|item| item.json(results)).collect();
                format!("[{}]", joined(items)?)
            }
            Built::Object(members) => {
                let members = members
                    .iter()
                    .map(|(key, value)| Ok(format!("{}:{}", quoted(key), value.json(results)?)))
                    .collect();
                format!("{{{}}}", joined(members)?)
            }
        })
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is JSON")
}

/// The results of a conversation, the latest first, under both names of their tools.
pub(super) struct Results<'a>(Vec<Known<'a>>);

struct Known<'a> {
    model_name: &'a str,
    registered: Option<&'a str>,
    text: &'a str,
}

/// What a template stands for.
enum Found<'a> {
    /// A result that was taken whole and is no JSON.
    Plain(&'a str),
    Json(&'a str),
}

impl Found<'_> {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Found::Plain(text) => Cow::Borrowed(text),
            Found::Json(json) => {
                serde_json::from_str::<String>(json).map_or(Cow::Borrowed(*json), Cow::Owned)
            }
        }
    }

    fn json(&self) -> String {
        match self {
            Found::Plain(text) => quoted(text),
            Found::Json(json) => (*json).to_owned(),
        }
    }
}

impl<'a> Results<'a> {
    pub(super) fn of(request: &'a ModelRequest) -> Self {
        let registered = |model_name: &str| {
            request
                .tools
                .iter()
                .find(|tool| tool.model_name == model_name)
                .map(|tool| tool.registered.as_str())
        };
        let mut known: Vec<Known<'a>> = request
            .messages
            .iter()
            .filter_map(|message| match message {
                Message::Results(results) => Some(results),
                Message::User(_) | Message::Assistant { .. } => None,
            })
            .flatten()
            .map(|result| Known {
                model_name: &result.model_name,
                registered: registered(&result.model_name),
                text: &result.text,
            })
            .collect();
        known.reverse();
        Self(known)
    }

    /// The value that `<tool>.<path>` names. Tools' names may hold dots: the longest that fits is
    /// meant.
    fn find(&self, wanted: &str) -> Result<Found<'a>, Unresolved> {
        let mut best: Option<(&str, &str, &'a str)> = None;
        for known in &self.0 {
            for name in [Some(known.model_name), known.registered]
                .into_iter()
                .flatten()
            {
                let path = match wanted.strip_prefix(name) {
                    Some("") => Some(""),
                    Some(rest) => rest.strip_prefix('.'),
                    None => None,
                };
                if let Some(path) = path
                    && best.is_none_or(|(longest, ..)| name.len() > longest.len())
                {
                    best = Some((name, path, known.text));
                }
            }
        }
        let (tool, path, text) = best.ok_or_else(|| Unresolved::NoResult(wanted.to_owned()))?;
        value_at(text, path).ok_or_else(|| Unresolved::NoValue {
            template: wanted.to_owned(),
            tool: tool.to_owned(),
            path: path.to_owned(),
        })
    }
}

fn value_at<'a>(text: &'a str, path: &str) -> Option<Found<'a>> {
    let Ok(whole) = serde_json::from_str::<&RawValue>(text) else {
        return path.is_empty().then_some(Found::Plain(text));
    };
    let mut json = whole.get();
    for step in path.split('.').filter(|_| !path.is_empty()) {
        let value: &RawValue = if json.starts_with('[') {
            let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
            items.get(step.parse::<usize>().ok()?).copied()?
        } else {
            let members: std::collections::BTreeMap<String, &RawValue> =
                serde_json::from_str(json).ok()?;
            members.get(step).copied()?
        };
        json = value.get();
    }
    Some(Found::Json(json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{request, result, tool};

    fn with_results(results: Vec<sayso_run::ResultMessage>) -> ModelRequest {
        let mut request = request(2, vec![Message::Results(results)]);
        request.tools = vec![
            tool("shop.get", "shop_get"),
            tool("shop.get.more", "shop_get_more"),
        ];
        request
    }

    fn fill(request: &ModelRequest, text: &str) -> Result<String, String> {
        Text::parse(text)
            .unwrap()
            .fill(&Results::of(request))
            .map_err(|unresolved| unresolved.to_string())
    }

    fn named(name: &str, text: &str) -> sayso_run::ResultMessage {
        let mut result = result(1, 1, text, false);
        result.model_name = name.into();
        result
    }

    #[test]
    fn a_template_stands_for_the_latest_result_or_a_value_in_it() {
        let request = with_results(vec![
            named("shop_get", r#"{"id":1}"#),
            named(
                "shop_get",
                r#"{"customer":"An\u006e","n":1.10,"l":[{"a":null},2],"id":12345678901234567890123}"#,
            ),
            named("shop_get_more", r#"{"x":"y"}"#),
            named("raw", "plain text"),
        ]);
        for (template, expected) in [
            ("{{result.shop.get.customer}}", "Ann"),
            (
                "a {{ result.shop_get.n }} b{{result.shop.get.l.1}}",
                "a 1.10 b2",
            ),
            ("{{result.shop.get.l.0.a}}", "null"),
            ("{{result.shop.get.id}}", "12345678901234567890123"),
            ("{{result.shop.get.more.x}}", "y"),
            ("{{result.raw}}!", "plain text!"),
            ("no template {here}", "no template {here}"),
            ("", ""),
        ] {
            assert_eq!(
                fill(&request, template).as_deref(),
                Ok(expected),
                "{template}"
            );
        }
    }

    #[test]
    fn a_template_for_which_there_is_nothing_says_so() {
        let request = with_results(vec![named("shop_get", r#"{"id":1}"#), named("raw", "text")]);
        for (template, expected) in [
            (
                "{{result.mail.send.id}}",
                "`{{result.mail.send.id}}` names no tool that has a result yet",
            ),
            (
                "{{result.shop.get.name}}",
                "`{{result.shop.get.name}}`: the result of shop.get has no `name`",
            ),
            (
                "{{result.raw.id}}",
                "`{{result.raw.id}}`: the result of raw has no `id`",
            ),
        ] {
            assert_eq!(fill(&request, template), Err(expected.to_owned()));
        }
    }

    #[test]
    fn arguments_keep_the_order_of_the_script_and_the_digits_of_results() {
        let request = with_results(vec![named(
            "shop_get",
            r#"{"n":1.10,"s":"a\"b","o":{"k":[1]}}"#,
        )]);
        let yaml = r#"{z: 1, a: [true, null, "x\n", 2.5], n: "{{result.shop.get.n}}", s: "{{result.shop.get.s}}", o: "{{result.shop.get.o}}", t: "n={{result.shop.get.n}}"}"#;
        let mut report = Report::default();
        let built = Built::read(yaml_serde::from_str(yaml).unwrap(), "args", &mut report);
        report.settle(()).unwrap();
        assert_eq!(
            built.json(&Results::of(&request)).unwrap(),
            r#"{"z":1,"a":[true,null,"x\n",2.5],"n":1.10,"s":"a\"b","o":{"k":[1]},"t":"n=1.10"}"#
        );
    }
}
