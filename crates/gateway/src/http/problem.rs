//! Refusals over HTTP: `application/problem+json` (RFC 9457), with the API's stable code (S10.5).
//!
//! | member | what |
//! |---|---|
//! | `type`, `title`, `status` | `about:blank`, the status in words and as a number |
//! | `detail` | the sentence, for people |
//! | `code` | the stable code, for programs |
//! | `fields` | each field at fault, and what is wrong with it |
//! | `metadata` | facts that belong to the code, such as `decided_by` |

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use sayso_service::error::{Coded, Kind};
use sayso_wire::code;
use serde::Serialize;
use tonic::Status;

/// The type of a problem's body.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// The longest part of somebody's input that a problem repeats, in bytes.
const ECHO: usize = 300;

/// A refusal or failure, as HTTP tells it.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    coded: Box<Coded>,
    /// What is answered at the path instead.
    allowed: Option<String>,
}

#[derive(Serialize)]
struct Body<'p> {
    r#type: &'static str,
    title: &'p str,
    status: u16,
    detail: &'p str,
    code: &'p str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<Field<'p>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'p BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Field<'p> {
    field: &'p str,
    problem: &'p str,
}

impl Problem {
    /// There is nothing at the path.
    pub(crate) fn not_found() -> Problem {
        let sentence = "There is nothing here; /openapi.json lists what there is.";
        Coded::new(Kind::NotFound, code::HTTP_NOT_FOUND, sentence).into()
    }

    /// What stands at the path answers other verbs.
    pub(crate) fn method_not_allowed(allowed: &str) -> Problem {
        let sentence = format!("This verb is not answered here; these are: {allowed}.");
        let coded = Coded::new(Kind::Unimplemented, code::HTTP_METHOD_NOT_ALLOWED, sentence);
        let mut problem = Problem::with(StatusCode::METHOD_NOT_ALLOWED, coded);
        problem.allowed = Some(allowed.to_owned());
        problem
    }

    /// The body is of another type than these.
    pub(super) fn unsupported_type(wanted: &str) -> Problem {
        let coded = Coded::new(
            Kind::Invalid,
            code::HTTP_UNSUPPORTED_MEDIA_TYPE,
            format!("Send the body with `content-type: {wanted}`."),
        );
        Problem::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, coded)
    }

    /// The body has more bytes than are taken.
    pub(super) fn too_large(limit: usize) -> Problem {
        let sentence = format!("The body is too large: at most {limit} bytes are taken.");
        Coded::new(Kind::TooLarge, code::REQUEST_TOO_LARGE, sentence).into()
    }

    /// The request is wrong as a whole.
    pub(super) fn invalid(sentence: impl Into<String>) -> Problem {
        Coded::new(Kind::Invalid, code::REQUEST_INVALID, sentence.into()).into()
    }

    /// A field of the request is wrong.
    pub(crate) fn field(field: &str, problem: impl Into<String>) -> Problem {
        let field = shortened(field.to_owned());
        let sentence =
            format!("The request is not valid; correct the fields that are named ({field}).");
        let coded = Coded::new(Kind::Invalid, code::REQUEST_INVALID, sentence);
        coded.field(field, shortened(problem.into())).into()
    }

    /// What it says, for a door that has another form.
    pub(crate) fn into_coded(self) -> Coded {
        *self.coded
    }

    fn with(status: StatusCode, coded: Coded) -> Problem {
        Problem {
            status,
            coded: Box::new(coded),
            allowed: None,
        }
    }

    /// Its body.
    pub(super) fn json(&self) -> String {
        let fields = self.coded.fields.iter();
        let body = Body {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.coded.message,
            code: &self.coded.code,
            fields: fields
                .map(|(field, problem)| Field { field, problem })
                .collect(),
            metadata: &self.coded.metadata,
        };
        serde_json::to_string(&body).expect("texts and numbers make JSON")
    }
}

impl From<Coded> for Problem {
    fn from(coded: Coded) -> Problem {
        Problem::with(coded.kind.http(), coded)
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Problem {
        Coded::from_status(&status).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let headers = [(CONTENT_TYPE, PROBLEM_JSON), (CACHE_CONTROL, "no-store")];
        let mut response = (self.status, headers, self.json()).into_response();
        let headers = response.headers_mut();
        if self.coded.kind == Kind::Unauthenticated {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.coded.kind.retryable() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(allowed) = self
            .allowed
            .and_then(|verbs| HeaderValue::try_from(verbs).ok())
        {
            headers.insert(ALLOW, allowed);
        }
        response
    }
}

/// A text that may repeat what was sent, cut to a length that can be shown.
pub(super) fn shortened(mut text: String) -> String {
    if text.len() > ECHO {
        text.truncate(text.floor_char_boundary(ECHO));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_5_a_problem_has_the_code_the_sentence_and_the_fields() {
        let coded = Coded::new(Kind::Precondition, "approval.already_decided", "Too late.")
            .field("verdict", "comes too late")
            .with("decided_by", "app");
        let problem = Problem::from(Status::from(coded));
        let told: serde_json::Value = serde_json::from_str(&problem.json()).unwrap();
        let expected = serde_json::json!({
            "type": "about:blank",
            "title": "Conflict",
            "status": 409,
            "detail": "Too late.",
            "code": "approval.already_decided",
            "fields": [{"field": "verdict", "problem": "comes too late"}],
            "metadata": {"decided_by": "app"},
        });
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_repeated_of_an_input_is_short() {
        let problem = Problem::field("input", "ä".repeat(1 << 20));
        assert!(problem.json().len() < 1000);
    }
}
