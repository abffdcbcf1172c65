//! Coded errors: what a client sees when something is refused or fails.
//!
//! Every error that leaves a service carries a stable code such as
//! `run.not_found`, a sentence that says what to do, and gRPC rich details:
//! `google.rpc.ErrorInfo` whose reason is the code, and
//! `google.rpc.BadRequest` for the fields at fault (`S10.5`). [`Coded`] is that
//! error; it turns into a [`Status`] on the way out and back on the way in.
//!
//! Details travel in a header, and an HTTP/2 peer refuses header blocks over
//! its limit (often 16 KiB): the whole answer would be lost and the client
//! would see a broken stream instead of the reason. So message, fields and
//! metadata are cut to fit [`DETAIL_BUDGET`], and the cut says how much it left
//! out.
//!
//! What went wrong *inside* is nobody's business outside: [`Coded::internal`]
//! logs the error with all its causes under an id and hands out the id alone.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The `domain` of every `google.rpc.ErrorInfo` that sayso sends.
pub const DOMAIN: &str = "sayso";

/// Bytes that message, field problems and metadata of one error may take
/// together before they are cut.
pub const DETAIL_BUDGET: usize = 4 * 1024;

/// What sort of refusal or failure it is: decides the gRPC code, the HTTP
/// status, and whether the same call may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What was asked for is not there, or not visible to the caller.
    NotFound,
    /// The request is wrong in itself; sent again it is refused again.
    Invalid,
    /// What was to be created exists already.
    Exists,
    /// Someone else changed it in between: read again, then decide again.
    Conflict,
    /// The caller is known and may not do this.
    PermissionDenied,
    /// The caller is not known.
    Unauthenticated,
    /// Something that this needs is away; the same call may work later.
    Unavailable,
    /// The request, or something in it, is larger than the limit.
    TooLarge,
    /// A quota or a rate is used up; the same call may work later.
    Exhausted,
    /// It is not in a state in which this may be done.
    Precondition,
    /// The deadline passed; whether it was done is unknown.
    DeadlineExceeded,
    /// The caller gave up.
    Cancelled,
    /// This build does not offer it.
    Unimplemented,
    /// A fault of ours; the log has the cause under the `error_id`.
    Internal,
}

impl Kind {
    /// The gRPC code it travels as.
    pub fn grpc(self) -> Code {
        match self {
            Kind::NotFound => Code::NotFound,
            Kind::Invalid => Code::InvalidArgument,
            Kind::Exists => Code::AlreadyExists,
            Kind::Conflict => Code::Aborted,
            Kind::PermissionDenied => Code::PermissionDenied,
            Kind::Unauthenticated => Code::Unauthenticated,
            Kind::Unavailable => Code::Unavailable,
            Kind::TooLarge => Code::OutOfRange,
            Kind::Exhausted => Code::ResourceExhausted,
            Kind::Precondition => Code::FailedPrecondition,
            Kind::DeadlineExceeded => Code::DeadlineExceeded,
            Kind::Cancelled => Code::Cancelled,
            Kind::Unimplemented => Code::Unimplemented,
            Kind::Internal => Code::Internal,
        }
    }

    /// The HTTP status it is answered with over plain HTTP.
    pub fn http(self) -> http::StatusCode {
        match self {
            Kind::NotFound => http::StatusCode::NOT_FOUND,
            Kind::Invalid => http::StatusCode::BAD_REQUEST,
            // What is asked does not fit the state of what it is asked of.
            Kind::Exists | Kind::Conflict | Kind::Precondition => http::StatusCode::CONFLICT,
            Kind::PermissionDenied => http::StatusCode::FORBIDDEN,
            Kind::Unauthenticated => http::StatusCode::UNAUTHORIZED,
            Kind::Unavailable => http::StatusCode::SERVICE_UNAVAILABLE,
            Kind::TooLarge => http::StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Exhausted => http::StatusCode::TOO_MANY_REQUESTS,
            Kind::DeadlineExceeded => http::StatusCode::GATEWAY_TIMEOUT,
            // 499 is what proxies write down for a client that went away.
            Kind::Cancelled => http::StatusCode::from_u16(499).expect("499 is a valid status"),
            Kind::Unimplemented => http::StatusCode::NOT_IMPLEMENTED,
            Kind::Internal => http::StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether the very same call may succeed if it is sent again later.
    pub fn retryable(self) -> bool {
        matches!(
            self,
            Kind::Unavailable | Kind::Exhausted | Kind::DeadlineExceeded
        )
    }

    /// The kind that a gRPC code stands for.
    pub fn from_grpc(code: Code) -> Kind {
        match code {
            Code::NotFound => Kind::NotFound,
            Code::InvalidArgument => Kind::Invalid,
            Code::AlreadyExists => Kind::Exists,
            Code::Aborted => Kind::Conflict,
            Code::PermissionDenied => Kind::PermissionDenied,
            Code::Unauthenticated => Kind::Unauthenticated,
            Code::Unavailable => Kind::Unavailable,
            Code::OutOfRange => Kind::TooLarge,
            Code::ResourceExhausted => Kind::Exhausted,
            Code::FailedPrecondition => Kind::Precondition,
            Code::DeadlineExceeded => Kind::DeadlineExceeded,
            Code::Cancelled => Kind::Cancelled,
            Code::Unimplemented => Kind::Unimplemented,
            Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => Kind::Internal,
        }
    }

    /// The code of an error that came without one of ours: from a proxy, from
    /// the transport, or from another gRPC server.
    fn transport_code(self) -> &'static str {
        match self {
            Kind::NotFound => "rpc.not_found",
            Kind::Invalid => "rpc.invalid",
            Kind::Exists => "rpc.exists",
            Kind::Conflict => "rpc.conflict",
            Kind::PermissionDenied => "rpc.permission_denied",
            Kind::Unauthenticated => "rpc.unauthenticated",
            Kind::Unavailable => "rpc.unavailable",
            Kind::TooLarge => "rpc.too_large",
            Kind::Exhausted => "rpc.exhausted",
            Kind::Precondition => "rpc.precondition",
            Kind::DeadlineExceeded => "rpc.deadline_exceeded",
            Kind::Cancelled => "rpc.cancelled",
            Kind::Unimplemented => "rpc.unimplemented",
            Kind::Internal => "rpc.internal",
        }
    }
}

/// An error as a client sees it (`S10.5`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    /// The stable code, such as `run.not_found`.
    pub code: Cow<'static, str>,
    /// One sentence that says what is wrong and what to do.
    pub message: String,
    /// What sort of error it is.
    pub kind: Kind,
    /// Fields at fault, each with its problem: `("rules[2].tool", "…")`.
    pub fields: Vec<(String, String)>,
    /// Facts for programs, such as `run_id`.
    pub metadata: BTreeMap<String, String>,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Coded {}

impl Coded {
    /// An error of the given kind, code and sentence.
    pub fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> Coded {
        Coded {
            code: Cow::Borrowed(code),
            message: message.into(),
            kind,
            fields: Vec::new(),
            metadata: BTreeMap::new(),
        }
    }

    /// A fault of ours. `error` and its causes go to the log under a fresh id,
    /// with `doing` ("reading the run"); the client gets the id alone, also as
    /// the metadata `error_id`.
    pub fn internal(doing: &str, error: &(dyn std::error::Error + 'static)) -> Coded {
        Coded::logged(
            Kind::Internal,
            "internal",
            "Something failed on our side",
            doing,
            error,
        )
    }

    /// Like [`Coded::internal`], where the cause is that something needed is
    /// away (database, broker, a sibling): the client may try again.
    pub fn unavailable(
        code: &'static str,
        doing: &str,
        error: &(dyn std::error::Error + 'static),
    ) -> Coded {
        Coded::logged(
            Kind::Unavailable,
            code,
            "A part that this needs is away; try again in a moment",
            doing,
            error,
        )
    }

    fn logged(
        kind: Kind,
        code: &'static str,
        sentence: &str,
        doing: &str,
        error: &(dyn std::error::Error + 'static),
    ) -> Coded {
        let id = error_id();
        tracing::error!(error_id = %id, code, error = %Causes(error), "failed while {doing}");
        Coded::new(
            kind,
            code,
            format!("{sentence}. If it stays, ask the operator for the log of {id}."),
        )
        .with("error_id", id)
    }

    /// Adds a field at fault.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, problem: impl Into<String>) -> Coded {
        self.fields.push((field.into(), problem.into()));
        self
    }

    /// Adds a fact for programs.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Coded {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// The error behind a status, as a client received it. A status without our
    /// details gets a code of the form `rpc.unavailable` from its gRPC code.
    pub fn from_status(status: &Status) -> Coded {
        let kind = Kind::from_grpc(status.code());
        let details = status.get_error_details();
        let info = details
            .error_info()
            .filter(|info| info.domain == DOMAIN && !info.reason.is_empty());
        let fields = details.bad_request().map(|bad| {
            bad.field_violations
                .iter()
                .map(|v| (v.field.clone(), v.description.clone()))
                .collect()
        });
        Coded {
            code: match info {
                Some(info) => Cow::Owned(info.reason.clone()),
                None => Cow::Borrowed(kind.transport_code()),
            },
            message: status.message().to_owned(),
            kind,
            fields: fields.unwrap_or_default(),
            metadata: info
                .map(|info| info.metadata.clone().into_iter().collect())
                .unwrap_or_default(),
        }
    }
}

impl From<Coded> for Status {
    fn from(coded: Coded) -> Status {
        let mut budget = DETAIL_BUDGET;
        let message = fit(coded.message, &mut budget);
        let mut metadata = HashMap::new();
        for (key, value) in coded.metadata {
            if budget < key.len() {
                break;
            }
            budget -= key.len();
            metadata.insert(key, fit(value, &mut budget));
        }
        let mut details = ErrorDetails::with_error_info(coded.code, DOMAIN, metadata);
        let total = coded.fields.len();
        for (index, (field, problem)) in coded.fields.into_iter().enumerate() {
            if field.len() + problem.len() > budget {
                let rest = format!("{} more problems are not shown", total - index);
                details.add_bad_request_violation("", rest);
                break;
            }
            budget -= field.len() + problem.len();
            details.add_bad_request_violation(field, problem);
        }
        Status::with_error_details(coded.kind.grpc(), message, details)
    }
}

impl From<&Status> for Coded {
    fn from(status: &Status) -> Coded {
        Coded::from_status(status)
    }
}

/// The text if it fits the budget, else its beginning and an ellipsis.
fn fit(mut text: String, budget: &mut usize) -> String {
    if text.len() > *budget {
        text.truncate(text.floor_char_boundary(*budget));
        text.push('…');
        *budget = 0;
    } else {
        *budget -= text.len();
    }
    text
}

/// An error and what caused it, in one line for the log.
struct Causes<'a>(&'a (dyn std::error::Error + 'static));

impl fmt::Display for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

/// An id under which an error is found in the log: `err_` and 16 hex digits.
pub(crate) fn error_id() -> String {
    let random = getrandom::u64().expect("the operating system gives random bytes");
    format!("err_{random:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("connecting to db.internal:5432 as root")]
    struct Leaky(#[source] std::io::Error);

    #[test]
    fn s10_5_a_coded_error_survives_the_way_to_the_client() {
        let coded = Coded::new(Kind::Invalid, "bundle.invalid", "Fix the fields named.")
            .field("rules[2].tool", "no such tool")
            .field("tier", "no such tier")
            .with("agent", "clerk");
        let status = Status::from(coded.clone());
        assert_eq!(status.code(), Code::InvalidArgument);
        let info = status.get_details_error_info().expect("has ErrorInfo");
        assert_eq!(
            (info.reason.as_str(), info.domain.as_str()),
            ("bundle.invalid", "sayso")
        );
        assert_eq!(Coded::from_status(&status), coded);
    }

    #[test]
    fn s10_5_every_kind_but_none_maps_there_and_back() {
        for kind in [
            Kind::NotFound,
            Kind::Invalid,
            Kind::Exists,
            Kind::Conflict,
            Kind::PermissionDenied,
            Kind::Unauthenticated,
            Kind::Unavailable,
            Kind::TooLarge,
            Kind::Exhausted,
            Kind::Precondition,
            Kind::DeadlineExceeded,
            Kind::Cancelled,
            Kind::Unimplemented,
            Kind::Internal,
        ] {
            assert_eq!(Kind::from_grpc(kind.grpc()), kind);
            assert!(kind.http().as_u16() >= 400);
        }
    }

    #[test]
    fn s10_5_internal_errors_never_leak_their_source() {
        let error = Leaky(std::io::Error::other("password rejected"));
        let coded = Coded::internal("reading the run", &error);
        let status = Status::from(coded.clone());
        for secret in ["db.internal", "root", "password"] {
            assert!(!format!("{status:?}").contains(secret), "{status:?}");
        }
        let id = &coded.metadata["error_id"];
        assert!(id.starts_with("err_") && coded.message.contains(id.as_str()));
        assert_eq!(
            Causes(&error).to_string(),
            "connecting to db.internal:5432 as root: password rejected"
        );
    }

    #[test]
    fn s10_5_a_status_of_others_gets_a_transport_code() {
        let coded = Coded::from_status(&Status::unavailable("connection refused"));
        assert_eq!(coded.code, "rpc.unavailable");
        assert!(coded.kind.retryable());
    }

    #[test]
    fn s10_5_details_are_cut_to_what_a_header_carries() {
        let mut coded = Coded::new(Kind::Invalid, "bundle.invalid", "ä".repeat(1500));
        for n in 0..1000 {
            coded = coded.field(format!("rules[{n}]"), "bad");
        }
        let status = Status::from(coded);
        let bytes = status.details().len() + status.message().len();
        assert!(bytes < 12 * 1024, "{bytes} bytes");
        let back = Coded::from_status(&status);
        let (_, rest) = back.fields.last().expect("has fields");
        assert!(rest.ends_with("more problems are not shown"), "{rest}");

        let long = Status::from(Coded::new(Kind::Internal, "internal", "ü".repeat(9000)));
        assert!(long.message().ends_with('…') && long.message().len() <= DETAIL_BUDGET + 3);
    }
}
