//! The protocol's own errors, and how each binding tells of them.
//!
//! | error | JSON-RPC | gRPC | HTTP |
//! |---|---|---|---|
//! | `TASK_NOT_FOUND` | -32001 | `NOT_FOUND` | 404 |
//! | `TASK_NOT_CANCELABLE` | -32002 | `FAILED_PRECONDITION` | 400 |
//! | `PUSH_NOTIFICATION_NOT_SUPPORTED` | -32003 | `FAILED_PRECONDITION` | 400 |
//! | `UNSUPPORTED_OPERATION` | -32004 | `FAILED_PRECONDITION` | 400 |
//! | `CONTENT_TYPE_NOT_SUPPORTED` | -32005 | `INVALID_ARGUMENT` | 400 |
//! | `VERSION_NOT_SUPPORTED` | -32009 | `FAILED_PRECONDITION` | 400 |
//! | a wrong request | -32602 | `INVALID_ARGUMENT` | 400 |
//! | a token that is none, or does not permit it | -32000 | `UNAUTHENTICATED`, `PERMISSION_DENIED` | 401, 403 |
//! | anything else | -32603 | as on every route | as on every route |
//!
//! A service answers with a status whose `google.rpc.ErrorInfo` has the protocol's domain and one of
//! these reasons, or sayso's domain and a stable code; the JSON bindings read that status.

use std::collections::HashMap;

use http::StatusCode;
use sayso_service::error::{Coded, Kind};
use sayso_wire::code;
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::http::problem::Problem;

/// The domain of the protocol's own errors.
const DOMAIN: &str = "a2a-protocol.org";

/// An error of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// There is no such task, or the caller may not see it: nobody can tell which.
    TaskNotFound,
    /// The task has ended.
    TaskNotCancelable,
    /// No key is there to keep what a push needs.
    PushNotificationNotSupported,
    /// The task, or this server, does not do this.
    UnsupportedOperation,
    /// A part of the message is of a type that is not read.
    ContentTypeNotSupported,
    /// The client speaks another version.
    VersionNotSupported,
}

impl Fault {
    const ALL: [Fault; 6] = [
        Fault::TaskNotFound,
        Fault::TaskNotCancelable,
        Fault::PushNotificationNotSupported,
        Fault::UnsupportedOperation,
        Fault::ContentTypeNotSupported,
        Fault::VersionNotSupported,
    ];

    const fn reason(self) -> &'static str {
        match self {
            Fault::TaskNotFound => "TASK_NOT_FOUND",
            Fault::TaskNotCancelable => "TASK_NOT_CANCELABLE",
            Fault::PushNotificationNotSupported => "PUSH_NOTIFICATION_NOT_SUPPORTED",
            Fault::UnsupportedOperation => "UNSUPPORTED_OPERATION",
            Fault::ContentTypeNotSupported => "CONTENT_TYPE_NOT_SUPPORTED",
            Fault::VersionNotSupported => "VERSION_NOT_SUPPORTED",
        }
    }

    const fn rpc(self) -> i32 {
        match self {
            Fault::TaskNotFound => -32001,
            Fault::TaskNotCancelable => -32002,
            Fault::PushNotificationNotSupported => -32003,
            Fault::UnsupportedOperation => -32004,
            Fault::ContentTypeNotSupported => -32005,
            Fault::VersionNotSupported => -32009,
        }
    }

    const fn grpc(self) -> Code {
        match self {
            Fault::TaskNotFound => Code::NotFound,
            Fault::TaskNotCancelable
            | Fault::PushNotificationNotSupported
            | Fault::UnsupportedOperation
            | Fault::VersionNotSupported => Code::FailedPrecondition,
            Fault::ContentTypeNotSupported => Code::InvalidArgument,
        }
    }

    const fn http(self) -> StatusCode {
        match self {
            Fault::TaskNotFound => StatusCode::NOT_FOUND,
            Fault::TaskNotCancelable
            | Fault::PushNotificationNotSupported
            | Fault::UnsupportedOperation
            | Fault::ContentTypeNotSupported
            | Fault::VersionNotSupported => StatusCode::BAD_REQUEST,
        }
    }

    /// The status that tells of it.
    pub(super) fn status(self, message: impl Into<String>, facts: &[(&str, &str)]) -> Status {
        let facts = facts.iter();
        let facts = facts.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let details =
            ErrorDetails::with_error_info(self.reason(), DOMAIN, facts.collect::<HashMap<_, _>>());
        Status::with_error_details(self.grpc(), message.into(), details)
    }
}

/// `TASK_NOT_FOUND` of this id.
pub(super) fn no_task(id: &str) -> Status {
    Fault::TaskNotFound.status(
        "There is no such task here.",
        &[("taskId", &id.chars().take(128).collect::<String>())],
    )
}

/// What came over HTTP is refused before a service sees it. A body of another media type is one that is
/// not supported, and HTTP has a status of its own for it.
pub(super) fn unread(problem: Problem) -> Told {
    let coded = problem.into_coded();
    if coded.code != code::HTTP_UNSUPPORTED_MEDIA_TYPE {
        return coded.into();
    }
    let status = Fault::ContentTypeNotSupported.status(coded.message, &[]);
    Told::from(&status).with_http(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

/// A status as the JSON bindings tell of it.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// The code of JSON-RPC.
    pub(super) rpc: i32,
    /// The status of HTTP.
    pub(super) http: StatusCode,
    grpc: Code,
    message: String,
    details: Vec<Value>,
}

impl From<&Status> for Told {
    fn from(status: &Status) -> Told {
        let details = status.get_error_details();
        let info = details.error_info();
        let own = info.filter(|info| info.domain == DOMAIN);
        let fault = own.and_then(|info| {
            let mut all = Fault::ALL.into_iter();
            all.find(|fault| fault.reason() == info.reason)
        });
        let coded = Coded::from_status(status);
        let (rpc, http) = match fault {
            Some(fault) => (fault.rpc(), fault.http()),
            None => (rpc_of(coded.kind), coded.kind.http()),
        };
        let mut told = Vec::new();
        if let Some(info) = info {
            told.push(json!({
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": info.reason,
                "domain": info.domain,
                "metadata": info.metadata,
            }));
        }
        if !coded.fields.is_empty() {
            let fields = coded.fields.iter();
            let fields = fields.map(|(field, why)| json!({"field": field, "description": why}));
            told.push(json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": fields.collect::<Vec<_>>(),
            }));
        }
        Told {
            rpc,
            http,
            grpc: status.code(),
            message: status.message().to_owned(),
            details: told,
        }
    }
}

impl From<Coded> for Told {
    fn from(coded: Coded) -> Told {
        Told::from(&Status::from(coded))
    }
}

impl Told {
    /// The same with another code of JSON-RPC.
    pub(super) fn with_rpc(self, rpc: i32) -> Told {
        Told { rpc, ..self }
    }

    /// The same with another status of HTTP.
    pub(super) fn with_http(self, http: StatusCode) -> Told {
        Told { http, ..self }
    }

    /// The error object of JSON-RPC.
    pub(super) fn rpc_error(&self) -> Value {
        json!({"code": self.rpc, "message": self.message, "data": self.details})
    }

    /// The body over HTTP: the JSON form of `google.rpc.Status`.
    pub(super) fn http_error(&self) -> Value {
        json!({"error": {
            "code": self.http.as_u16(),
            "status": word_of(self.grpc),
            "message": self.message,
            "details": self.details,
        }})
    }
}

const fn rpc_of(kind: Kind) -> i32 {
    match kind {
        Kind::Invalid | Kind::TooLarge | Kind::NotFound => -32602,
        Kind::Unimplemented => -32601,
        Kind::Unauthenticated | Kind::PermissionDenied => -32000,
        Kind::Exists
        | Kind::Conflict
        | Kind::Unavailable
        | Kind::Exhausted
        | Kind::Precondition
        | Kind::DeadlineExceeded
        | Kind::Cancelled
        | Kind::Internal => -32603,
    }
}

/// The word of a gRPC code, as the JSON form of a status has it.
const fn word_of(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6.13: the table of the protocol, 5.4.
    #[test]
    fn s6_13_each_error_has_its_codes_in_each_binding() {
        for (fault, rpc, grpc, http) in [
            (Fault::TaskNotFound, -32001, Code::NotFound, 404),
            (
                Fault::TaskNotCancelable,
                -32002,
                Code::FailedPrecondition,
                400,
            ),
            (
                Fault::PushNotificationNotSupported,
                -32003,
                Code::FailedPrecondition,
                400,
            ),
            (
                Fault::UnsupportedOperation,
                -32004,
                Code::FailedPrecondition,
                400,
            ),
            (
                Fault::ContentTypeNotSupported,
                -32005,
                Code::InvalidArgument,
                400,
            ),
            (
                Fault::VersionNotSupported,
                -32009,
                Code::FailedPrecondition,
                400,
            ),
        ] {
            let status = fault.status("x", &[("a", "b")]);
            assert_eq!(status.code(), grpc, "{fault:?}");
            let told = Told::from(&status);
            assert_eq!((told.rpc, told.http.as_u16()), (rpc, http), "{fault:?}");
            let info = &told.http_error()["error"]["details"][0];
            assert_eq!(info["domain"], "a2a-protocol.org");
            assert_eq!(info["reason"], fault.reason());
            assert_eq!(told.rpc_error()["data"][0], *info);
        }
    }

    #[test]
    fn what_is_not_the_protocols_keeps_its_own_code() {
        let coded = Coded::new(Kind::Invalid, "request.invalid", "No.").field("parts", "missing");
        let told = Told::from(coded);
        assert_eq!((told.rpc, told.http.as_u16()), (-32602, 400));
        let error = told.rpc_error();
        assert_eq!(error["data"][0]["reason"], "request.invalid");
        assert_eq!(error["data"][1]["fieldViolations"][0]["field"], "parts");
        assert_eq!(told.http_error()["error"]["status"], "INVALID_ARGUMENT");
    }
}
