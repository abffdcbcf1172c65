use std::error::Error as _;
use std::fmt::Write;

use sayso_service::error::{Coded, Kind};
use thiserror::Error;
use tonic::{Code, Status};

/// Why a call has no answer.
#[derive(Debug, Error)]
pub enum Error {
    /// The address is not one.
    #[error("`{0}` is not a server's address such as http://127.0.0.1:7400")]
    BadServer(String),
    /// The token or the namespace holds a character that cannot be sent.
    #[error("the {0} holds a character that cannot be sent")]
    BadText(&'static str),
    /// No answer came: the server is away, or the connection broke. What was asked may have been
    /// done if `sent` is true.
    #[error("cannot reach sayso at {server}: {why}")]
    Unreachable {
        /// Its address.
        server: String,
        /// What went wrong, with its causes.
        why: String,
        /// Whether the request may have arrived.
        sent: bool,
    },
    /// The server, or an agent of this process, answered that it does not, or cannot, do it.
    #[error("{}", .0.message)]
    Refused(Coded),
    /// The server left out what its answer must hold.
    #[error("the server's answer lacks `{0}`: it may be of another version")]
    Incomplete(&'static str),
}

impl Error {
    /// The stable code: the server's own, or one of `client.unreachable`, `client.bad_server`,
    /// `client.bad_text`, `client.incomplete`.
    pub fn code(&self) -> &str {
        match self {
            Error::BadServer(_) => "client.bad_server",
            Error::BadText(_) => "client.bad_text",
            Error::Unreachable { .. } => "client.unreachable",
            Error::Refused(coded) => &coded.code,
            Error::Incomplete(_) => "client.incomplete",
        }
    }

    /// What the server answered, if it did.
    pub fn coded(&self) -> Option<&Coded> {
        match self {
            Error::Refused(coded) => Some(coded),
            Error::BadServer(_)
            | Error::BadText(_)
            | Error::Unreachable { .. }
            | Error::Incomplete(_) => None,
        }
    }

    /// Whether no answer came.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Error::Unreachable { .. })
    }

    /// Whether the very same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Refused(coded) => coded.kind.retryable(),
            Error::BadServer(_) | Error::BadText(_) | Error::Incomplete(_) => false,
        }
    }

    /// The error of a connection that could not be made.
    pub(crate) fn connecting(server: &str, error: &tonic::transport::Error) -> Error {
        Error::Unreachable {
            server: server.to_owned(),
            why: causes(error),
            sent: false,
        }
    }

    /// The error behind a status. One of ours names its code; one that the transport made, or a
    /// proxy, has no such detail and means that there was no answer.
    pub(crate) fn of(server: &str, status: &Status) -> Error {
        let coded = Coded::from_status(status);
        let transport = status.source().is_some() || status.code() == Code::Unavailable;
        if !(coded.code.starts_with("rpc.") && transport) {
            return Error::Refused(coded);
        }
        let why = match status.source() {
            Some(source) => causes(source),
            None => status.message().to_owned(),
        };
        Error::Unreachable {
            server: server.to_owned(),
            why,
            sent: true,
        }
    }

    /// Whether a stream that broke with it is worth opening again.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Refused(coded) => matches!(
                coded.kind,
                Kind::Unavailable | Kind::Exhausted | Kind::Cancelled
            ),
            Error::BadServer(_) | Error::BadText(_) | Error::Incomplete(_) => false,
        }
    }
}

/// An error with what caused it, each said once.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            write!(text, ": {said}").expect("writing to memory does not fail");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S10.5: the server's own code and facts reach the caller.
    #[test]
    fn s10_5_a_refusal_keeps_its_code() {
        let coded = Coded::new(
            Kind::NotFound,
            "run.not_found",
            "There is no such run here.",
        )
        .with("run_id", "run_1");
        let error = Error::of("http://x", &Status::from(coded.clone()));
        assert_eq!(error.coded(), Some(&coded));
        assert_eq!(error.code(), "run.not_found");
        assert!(!error.is_unreachable() && !error.is_retryable());
    }

    /// A service that says that it is away has answered; a proxy that says so has not.
    #[test]
    fn who_answered_is_told_apart() {
        let ours = Coded::new(
            Kind::Unavailable,
            "service.unavailable",
            "The scheduler is away.",
        );
        let ours = Error::of("http://x", &Status::from(ours));
        assert!(!ours.is_unreachable() && ours.is_retryable() && ours.may_pass());
        let proxy = Error::of("http://x", &Status::unavailable("no upstream"));
        assert!(proxy.is_unreachable());
        assert_eq!(
            proxy.to_string(),
            "cannot reach sayso at http://x: no upstream"
        );
        let other = Error::of("http://x", &Status::unimplemented("no such method"));
        assert_eq!(other.code(), "rpc.unimplemented");
    }
}
