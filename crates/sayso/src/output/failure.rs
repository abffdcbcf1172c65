//! An error as a person reads it: `error: what is wrong [code]`, the fields at fault, and what to do
//! next. With `--json`, one object on standard error.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use sayso_models::ConfigProblems;
use sayso_sdk::Coded;
use sayso_service::config::ConfigErrors;
use serde_json::json;

use super::Output;
use super::visible;
use crate::outcome::Failure;

/// Says why a command failed.
pub(crate) fn say(output: &Output, failure: &Failure) -> io::Result<()> {
    let text = if output.json {
        as_json(failure)
    } else {
        as_text(failure)
    };
    writeln!(io::stderr().lock(), "{text}")
}

fn as_json(failure: &Failure) -> String {
    let coded = coded(failure);
    let fields = coded.map(|coded| {
        let fields = coded.fields.iter();
        fields
            .map(|(field, problem)| json!({ "field": field, "problem": problem }))
            .collect::<Vec<_>>()
    });
    json!({
        "error": {
            "code": code(failure),
            "message": sentence(failure),
            "fields": fields.unwrap_or_default(),
            "metadata": coded.map(|coded| &coded.metadata),
            "hint": hint(failure),
        }
    })
    .to_string()
}

fn as_text(failure: &Failure) -> String {
    let mut text = format!("error: {}", visible::block(&sentence(failure)));
    let code = code(failure);
    if !code.is_empty() {
        write!(text, " [{}]", visible::line(code)).expect(WRITES);
    }
    for (field, problem) in coded(failure)
        .map(|coded| &coded.fields[..])
        .unwrap_or_default()
    {
        let (field, problem) = (visible::line(field), visible::line(problem));
        let separator = if field.is_empty() { "" } else { ": " };
        write!(text, "\n  {field}{separator}{problem}").expect(WRITES);
    }
    if let Some(hint) = hint(failure) {
        write!(text, "\nhint: {hint}").expect(WRITES);
    }
    text
}

const WRITES: &str = "writing to memory does not fail";

/// What is wrong, in a sentence without its end.
fn sentence(failure: &Failure) -> String {
    let text = match failure {
        Failure::Api(_) | Failure::Usage { .. } => failure.to_string(),
        Failure::Given(coded) => coded.message.clone(),
        Failure::Output(error) => format!("{failure}: {error}"),
        Failure::Here(error) => causes(error),
    };
    text.trim_end_matches('.').to_owned()
}

/// An error with its causes, each said once.
fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let said = cause.to_string();
        if !text.contains(&said) {
            let separator = if text.is_empty() { "" } else { ": " };
            write!(text, "{separator}{said}").expect(WRITES);
        }
    }
    text
}

fn coded(failure: &Failure) -> Option<&Coded> {
    match failure {
        Failure::Api(error) => error.coded(),
        Failure::Given(coded) => Some(coded),
        Failure::Usage { .. } | Failure::Output(_) | Failure::Here(_) => None,
    }
}

fn code(failure: &Failure) -> &str {
    match failure {
        Failure::Api(error) => error.code(),
        Failure::Given(coded) => &coded.code,
        Failure::Here(error) if error.is::<ConfigErrors>() || error.is::<ConfigProblems>() => {
            "config.invalid"
        }
        Failure::Usage { .. } | Failure::Output(_) | Failure::Here(_) => "",
    }
}

/// What to do next, where the sentence does not say it.
pub(crate) fn hint(failure: &Failure) -> Option<String> {
    match failure {
        Failure::Usage { hint, .. } => Some(hint.clone()),
        Failure::Given(_) | Failure::Output(_) | Failure::Here(_) => None,
        Failure::Api(error) if error.is_unreachable() => Some(
            "is it running? `sayso up` starts it on this machine; --server or SAYSO_SERVER names another address"
                .to_owned(),
        ),
        Failure::Api(error) => {
            let fact = |key: &str| error.coded().and_then(|coded| coded.metadata.get(key));
            for_code(error.code(), &|key| fact(key).map(|fact| visible::line(fact)))
        }
    }
}

fn for_code(code: &str, fact: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    Some(match code {
        "approval.own_request" => "nobody decides their own request, with any token. An admin makes a token for another person:
  sayso token create --name NAME --scope approver
and that person decides with it:
  SAYSO_TOKEN=<its secret> sayso approve APPROVAL"
            .to_owned(),
        "approval.already_decided" => {
            let decision = fact("recorded_decision")?;
            let by = fact("decided_by").map(|by| format!(" by {by}")).unwrap_or_default();
            let at = fact("decided_at").map(|at| format!(" at {at}")).unwrap_or_default();
            format!("on record: {decision}{by}{at}; `sayso approvals show APPROVAL` shows it")
        }
        "approval.expired" => "an expired approval counts as denied; the run went on without the call".to_owned(),
        "token.missing" | "token.invalid" | "token.expired" | "token.revoked" => {
            "give another with --token or SAYSO_TOKEN; an admin makes one with `sayso token create --name NAME --scope SCOPE`"
                .to_owned()
        }
        "token.other_namespace" => {
            "leave --namespace (or SAYSO_NAMESPACE) out, or use a token of that namespace".to_owned()
        }
        "request.key_reused" => "use another --key for another request".to_owned(),
        "run.ended" => "start another run, or `sayso runs retry RUN` if it failed".to_owned(),
        "run.not_failed" => "`sayso runs show RUN` shows where it stands".to_owned(),
        "run.busy" | "token.unverifiable" | "database.unavailable" | "service.unavailable" => {
            "try again in a moment; `sayso doctor` looks for what is wrong".to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use sayso_sdk::{Error, Kind};

    use super::*;

    fn refused(coded: Coded) -> Failure {
        Failure::Api(Error::Refused(coded))
    }

    /// B42: the refusal says how to make an approver's token.
    #[test]
    fn b42_ones_own_request_says_how_to_make_an_approvers_token() {
        let text = as_text(&refused(Coded::new(
            Kind::PermissionDenied,
            "approval.own_request",
            "Nobody decides their own request.",
        )));
        assert!(
            text.starts_with(
                "error: Nobody decides their own request [approval.own_request]\nhint: "
            )
        );
        assert!(
            text.contains("sayso token create --name NAME --scope approver"),
            "{text}"
        );
    }

    /// S10.5: every field at fault is named; nothing of it can forge a line.
    #[test]
    fn s10_5_fields_are_listed() {
        let coded = Coded::new(Kind::Invalid, "bundle.invalid", "The bundle has mistakes.")
            .field("permissions.rules[2].tool", "is no pattern")
            .field("", "and\n3 more");
        assert_eq!(
            as_text(&refused(coded)),
            "error: The bundle has mistakes [bundle.invalid]\n  permissions.rules[2].tool: is no pattern\n  and⟨line⟩3 more"
        );
    }

    #[test]
    fn s6_4_a_second_decision_names_the_recorded_one() {
        let coded = Coded::new(
            Kind::Precondition,
            "approval.already_decided",
            "It was decided.",
        )
        .with("recorded_decision", "approve")
        .with("decided_by", "bob")
        .with("decided_at", "2026-03-01T09:30:00Z");
        let text = as_text(&refused(coded));
        assert!(
            text.contains("on record: approve by bob at 2026-03-01T09:30:00Z"),
            "{text}"
        );
    }

    #[test]
    fn exit_codes_are_those_of_the_help() {
        let away = Error::Unreachable {
            server: "http://x".into(),
            why: "refused".into(),
            sent: false,
        };
        assert_eq!(Failure::Api(away).code(), 3);
        assert_eq!(Failure::Api(Error::BadServer("x".into())).code(), 2);
        assert_eq!(Failure::usage("a", "b").code(), 2);
        assert_eq!(
            refused(Coded::new(Kind::NotFound, "run.not_found", "No.")).code(),
            1
        );
    }

    #[test]
    fn json_errors_are_one_object() {
        let coded = Coded::new(
            Kind::NotFound,
            "run.not_found",
            "There is no such run here.",
        );
        let value: serde_json::Value = serde_json::from_str(&as_json(&refused(coded))).unwrap();
        assert_eq!(value["error"]["code"], "run.not_found");
        assert_eq!(value["error"]["message"], "There is no such run here");
    }
}
