//! Where the API's methods stand over HTTP and JSON: their `google.api.http` options (S6.13).

use prost_reflect::{DynamicMessage, MethodDescriptor, Value};

use crate::json::pool;

/// The option's name.
const OPTION: &str = "google.api.http";

/// The verbs that a rule can have, as its fields are called.
const VERBS: [(&str, &str); 5] = [
    ("get", "GET"),
    ("put", "PUT"),
    ("post", "POST"),
    ("delete", "DELETE"),
    ("patch", "PATCH"),
];

/// One place where a method stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The verb, such as `GET`.
    pub verb: &'static str,
    /// The path, such as `/v1/runs/{run_id}:cancel`.
    pub path: String,
    /// What the request's body is.
    pub body: RuleBody,
}

/// What a request's body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleBody {
    /// There is none: what is not in the path is in the query.
    None,
    /// Every field that is not in the path, as one JSON object.
    Whole,
    /// The field of this name.
    Field(String),
}

/// Where a method stands; nowhere if it has no rule.
pub fn rules(method: &MethodDescriptor) -> Vec<Rule> {
    let Some(option) = pool().get_extension_by_name(OPTION) else {
        return Vec::new();
    };
    let options = method.options();
    if !options.has_extension(&option) {
        return Vec::new();
    }
    let value = options.get_extension(&option).into_owned();
    let Value::Message(first) = value else {
        return Vec::new();
    };
    let more = match first.get_field_by_name("additional_bindings").as_deref() {
        Some(Value::List(more)) => more.clone(),
        _ => Vec::new(),
    };
    let more = more.iter().filter_map(Value::as_message).filter_map(rule);
    rule(&first).into_iter().chain(more).collect()
}

fn rule(option: &DynamicMessage) -> Option<Rule> {
    let text = |field: &str| {
        let value = option.get_field_by_name(field)?;
        value.as_str().map(str::to_owned)
    };
    let (field, verb) = VERBS
        .into_iter()
        .find(|(field, _)| option.has_field_by_name(field))?;
    Some(Rule {
        verb,
        path: text(field)?,
        body: match text("body")?.as_str() {
            "" => RuleBody::None,
            "*" => RuleBody::Whole,
            field => RuleBody::Field(field.to_owned()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(service: &str, method: &str) -> Vec<Rule> {
        let service = pool().get_service_by_name(service).unwrap();
        let found = service.methods().find(|found| found.name() == method);
        rules(&found.unwrap())
    }

    #[test]
    fn rules_are_read_from_the_options() {
        let cancel = Rule {
            verb: "POST",
            path: "/v1/runs/{run_id}:cancel".into(),
            body: RuleBody::Whole,
        };
        assert_eq!(of("sayso.v1.RunService", "CancelRun"), [cancel]);
        let get = Rule {
            verb: "GET",
            path: "/v1/runs/{run_id}".into(),
            body: RuleBody::None,
        };
        assert_eq!(of("sayso.v1.RunService", "GetRun"), [get]);
        let import = &of("sayso.v1.RunService", "ImportRun")[0];
        assert_eq!(import.body, RuleBody::Field("part".into()));
        assert_eq!(of("sayso.internal.v1.SchedulerService", "StartRun"), []);
    }

    /// S6.13: every method of the public API stands somewhere over HTTP, and no two in one place. A
    /// new method needs a `google.api.http` option beside it.
    #[test]
    fn s6_13_every_public_method_has_a_place_of_its_own() {
        let mut places = std::collections::BTreeMap::new();
        let public = |name: &str| name.starts_with("sayso.v1.");
        for service in pool().services().filter(|s| public(s.full_name())) {
            for method in service.methods() {
                let rules = rules(&method);
                assert!(
                    !rules.is_empty(),
                    "{} has no google.api.http option",
                    method.full_name()
                );
                for rule in rules {
                    // Names of fields do not tell paths apart.
                    let mut path = rule.path.clone();
                    while let (Some(open), Some(close)) = (path.find('{'), path.find('}')) {
                        path.replace_range(open..=close, "*");
                    }
                    let taken = places.insert((rule.verb, path), method.full_name().to_owned());
                    assert_eq!(taken, None, "{} {}", rule.verb, rule.path);
                }
            }
        }
    }

    /// S6.13: what is read by GET changes nothing.
    #[test]
    fn s6_13_get_only_reads() {
        for service in pool().services() {
            for method in service.methods() {
                let reads = ["Get", "List", "Watch", "Verify", "Subscribe"];
                let reads = reads.iter().any(|word| method.name().starts_with(word));
                for rule in rules(&method) {
                    assert_eq!(rule.verb == "GET", reads, "{}", method.full_name());
                }
            }
        }
    }
}
