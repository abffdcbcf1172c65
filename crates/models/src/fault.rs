//! Why a model gave no answer, and what follows from it.
//!
//! Three questions hang on it: whether the next model of the chain is asked (S4.7), whether the run
//! may be retried by itself (S1.6), and whether it ends as completed because money ran out (S4.6).
//! Providers answer all of them with the same few status codes, so status **and** body decide:
//! OpenAI says `insufficient_quota` with 429, Anthropic "credit balance is too low" with 400, and
//! both say 400 when the conversation does not fit. Errors in the middle of a stream have no status
//! at all; their type stands for one.

use std::fmt::Write as _;

use serde_json::Value;

/// No answer. The text completes the sentence "`model` …" and holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Down, overloaded, unreachable, too slow, or its answer broke: another model may answer, and
    /// later so may this one.
    Unavailable(String),
    /// This model's key, name or address is wrong: another model may answer.
    Misconfigured(String),
    /// The namespace has a cap, and this model no price in its currency: another one may (S4.6).
    Unpriced(String),
    /// The request is refused, and would be again.
    Refused(String),
    /// The conversation does not fit the model.
    ContextLength(String),
    /// The account has no money left.
    Billing(String),
    /// The script of a scripted model is at fault, under this code.
    Script(&'static str, String),
}

impl Fault {
    /// The stream ended before the answer did.
    pub(crate) fn broke_off() -> Self {
        Fault::Unavailable("broke off in the middle of its answer".into())
    }

    /// What completes "`model` …".
    pub(crate) fn why(&self) -> &str {
        match self {
            Fault::Unavailable(why)
            | Fault::Misconfigured(why)
            | Fault::Unpriced(why)
            | Fault::Refused(why)
            | Fault::ContextLength(why)
            | Fault::Billing(why)
            | Fault::Script(_, why) => why,
        }
    }
}

/// What a provider says is wrong.
#[derive(Debug, Default)]
struct Complaint {
    kind: Option<String>,
    code: Option<String>,
    message: String,
}

/// The fault behind an HTTP answer that is not a success.
pub(crate) fn of_status(status: u16, body: &str, veil: &Veil) -> Fault {
    let complaint = Complaint::read(body);
    let why = complaint.sentence(&format!("answered {status}"), veil);
    complaint.classify(Some(status), why)
}

/// The fault behind an error that came inside a stream, as the JSON of its event.
pub(crate) fn of_event(event: &str, veil: &Veil) -> Fault {
    let complaint = Complaint::read(event);
    let why = complaint.sentence("broke off its answer with an error", veil);
    complaint.classify(complaint.implied_status(), why)
}

impl Complaint {
    /// Reads the shapes that are about: `{"error": {…}}` (both providers), `[{"error": …}]`,
    /// `{"error": "…"}`, `{"message": "…"}`, `{"detail": …}`, or plain text.
    fn read(body: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(body) else {
            return Self {
                message: plain_text(body),
                ..Self::default()
            };
        };
        let whole = value.get(0).unwrap_or(&value);
        let error = whole.get("error").unwrap_or(whole);
        let word = |key: &str| match error.get(key) {
            Some(Value::String(word)) => Some(word.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let message = [
            error.get("message"),
            Some(error),
            whole.get("message"),
            whole.get("detail"),
        ]
        .into_iter()
        .flatten()
        .find_map(Value::as_str)
        .map(str::to_owned)
        .or_else(|| whole.get("detail").map(Value::to_string));
        Self {
            kind: word("type"),
            code: word("code"),
            message: message.unwrap_or_default(),
        }
    }

    fn sentence(&self, happened: &str, veil: &Veil) -> String {
        let mut sentence = happened.to_owned();
        if let Some(word) = self.code.as_ref().or(self.kind.as_ref()) {
            let _infallible = write!(sentence, " ({})", veil.over(word));
        }
        if !self.message.is_empty() {
            let _infallible = write!(sentence, ": {}", veil.over(&self.message));
        }
        sentence
    }

    fn is(&self, words: &[&str]) -> bool {
        [&self.kind, &self.code]
            .into_iter()
            .flatten()
            .any(|word| words.contains(&word.as_str()))
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    /// The status that the provider would have answered, had the stream not begun.
    fn implied_status(&self) -> Option<u16> {
        if let Some(code) = self.code.as_ref().and_then(|code| code.parse().ok()) {
            return Some(code);
        }
        let kind = self.kind.as_deref().or(self.code.as_deref())?;
        Some(match kind {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "billing_error" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" | "rate_limit_exceeded" => 429,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => 500,
        })
    }

    fn classify(&self, status: Option<u16>, why: String) -> Fault {
        let status = status.unwrap_or(500);
        let refused_as_such = matches!(status, 400 | 403 | 413 | 422 | 429);
        if status == 402
            || self.is(BILLING_WORDS)
            || refused_as_such && self.says(&["credit balance", "insufficient balance"])
        {
            return Fault::Billing(why);
        }
        if status == 413
            || self.is(CONTEXT_WORDS)
            || matches!(status, 400 | 422) && self.says(CONTEXT_PHRASES)
        {
            return Fault::ContextLength(why);
        }
        if self.is(&["model_not_found", "invalid_api_key"]) {
            return Fault::Misconfigured(why);
        }
        match status {
            300..=399 | 401 | 403 | 404 | 405 => Fault::Misconfigured(why),
            408 | 409 | 425 | 429 => Fault::Unavailable(why),
            400..=499 => Fault::Refused(why),
            _ => Fault::Unavailable(why),
        }
    }
}

const BILLING_WORDS: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_not_active",
    "billing_hard_limit_reached",
    "insufficient_credits",
];

const CONTEXT_WORDS: &[&str] = &["context_length_exceeded", "exceed_context_size_error"];

const CONTEXT_PHRASES: &[&str] = &[
    "prompt is too long",
    "maximum context length",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the available context size",
];

/// The text of a body that is no JSON; a page is named, not quoted.
fn plain_text(body: &str) -> String {
    let start = body.trim_start().get(..64).unwrap_or(body.trim_start());
    let start = start.to_ascii_lowercase();
    if start.starts_with("<!doctype") || start.starts_with("<html") {
        "an HTML page".into()
    } else {
        body.trim().to_owned()
    }
}

/// Hides what must not show in errors: keys, and what an address carries beside its path (B45).
#[derive(Clone, Default)]
pub(crate) struct Veil(Vec<String>);

impl std::fmt::Debug for Veil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Veil(…)")
    }
}

/// The longest quotation of a provider, in characters.
const LONGEST_QUOTE: usize = 500;

/// Texts shorter than this are dummies such as `key`, and would tear holes into every message.
const SHORTEST_SECRET: usize = 4;

impl Veil {
    /// Hides these texts, the longest first, so that no rest of one stays behind another.
    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .filter(|secret| secret.len() >= SHORTEST_SECRET)
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// The text on one line, without the secrets, cut at 500 characters.
    pub(crate) fn over(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            text = text.replace(secret, "***");
        }
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
            .collect();
        let line = words.join(" ");
        match line.char_indices().nth(LONGEST_QUOTE) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> &'static str {
        match of_status(status, body, &Veil::default()) {
            Fault::Unavailable(_) => "unavailable",
            Fault::Misconfigured(_) => "misconfigured",
            Fault::Unpriced(_) => "unpriced",
            Fault::Refused(_) => "refused",
            Fault::ContextLength(_) => "context",
            Fault::Billing(_) => "billing",
            Fault::Script(..) => "script",
        }
    }

    /// S4.6, S4.7: the same status means different things; status and body decide together.
    #[test]
    fn s4_7_status_and_body_decide_together() {
        let cases = [
            (
                429,
                r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
                "unavailable",
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                "billing",
            ),
            // A free tier's rate limit speaks of quota and plan, too.
            (
                429,
                r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan","status":"RESOURCE_EXHAUSTED"}}]"#,
                "unavailable",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
                "billing",
            ),
            (
                402,
                r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#,
                "billing",
            ),
            (402, "", "billing"),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
                "context",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213123 tokens > 200000 maximum"}}"#,
                "context",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
                "context",
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                "context",
            ),
            (
                400,
                r#"{"error":{"message":"Invalid schema for function 'x'","type":"invalid_request_error"}}"#,
                "refused",
            ),
            (
                422,
                r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
                "refused",
            ),
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
                "misconfigured",
            ),
            (
                403,
                r#"{"type":"error","error":{"type":"permission_error","message":"no"}}"#,
                "misconfigured",
            ),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
                "misconfigured",
            ),
            (302, "", "misconfigured"),
            (408, "", "unavailable"),
            (409, "", "unavailable"),
            (
                500,
                r#"{"error":{"message":"maximum context length is a phrase here"}}"#,
                "unavailable",
            ),
            (503, "<html><body>busy</body></html>", "unavailable"),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "unavailable",
            ),
        ];
        for (status, body, expected) in cases {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn the_sentence_quotes_the_provider() {
        let why = |status, body| of_status(status, body, &Veil::default()).why().to_owned();
        assert_eq!(
            why(
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#
            ),
            "answered 529 (overloaded_error): Overloaded"
        );
        assert_eq!(
            why(500, r#"{"error":"model requires more memory"}"#),
            "answered 500: model requires more memory"
        );
        assert_eq!(
            why(502, "<!DOCTYPE html><p>no"),
            "answered 502: an HTML page"
        );
        assert_eq!(why(503, ""), "answered 503");
        assert_eq!(why(503, "busy\r\n\tnow"), "answered 503: busy now");
        assert_eq!(
            why(422, r#"{"detail":[{"msg":"m"}]}"#),
            r#"answered 422: [{"msg":"m"}]"#
        );
    }

    #[test]
    fn an_error_inside_a_stream_has_the_status_of_its_type() {
        let of = |event| of_event(event, &Veil::default());
        assert!(matches!(
            of(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
            Fault::Unavailable(_)
        ));
        assert!(matches!(
            of(
                r#"{"error":{"message":"quota","type":"insufficient_quota","code":"insufficient_quota"}}"#
            ),
            Fault::Billing(_)
        ));
        assert!(matches!(
            of(r#"{"error":{"code":502,"message":"upstream"}}"#),
            Fault::Unavailable(_)
        ));
        assert!(matches!(
            of(r#"{"error":{"type":"invalid_request_error","message":"prompt is too long"}}"#),
            Fault::ContextLength(_)
        ));
        assert!(matches!(
            of(r#"{"error":{"message":"The server had an error","type":"server_error"}}"#),
            Fault::Unavailable(_)
        ));
    }

    /// B45: a provider that echoes the key does not make us repeat it.
    #[test]
    fn b45_secrets_are_veiled_and_quotes_are_short() {
        let veil = Veil::new([
            "sk-abc".to_owned(),
            "sk-abcdef".to_owned(),
            "key".to_owned(),
        ]);
        assert_eq!(
            veil.over("bad sk-abcdef and\nsk-abc, a key"),
            "bad *** and ***, a key"
        );
        assert_eq!(veil.over(&"é".repeat(600)).chars().count(), 501);
        assert_eq!(format!("{veil:?}"), "Veil(…)");
    }
}
