//! How a command ends: its exit code, and what is said when it did not do what was asked.

use std::io;
use std::process::ExitCode;

use thiserror::Error;

/// How a command ended that did what was asked; the numbers stand in the help.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Exit {
    /// All is well.
    Done,
    /// Some of it was refused, and that has been said.
    Refused,
    /// The run that was watched has failed or was cancelled.
    RunLost,
    /// A timeline does not verify.
    NotVerified,
    /// What a service or `up` ended with.
    Of(ExitCode),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Done => ExitCode::SUCCESS,
            Exit::Refused => ExitCode::from(REFUSED),
            Exit::RunLost => ExitCode::from(4),
            Exit::NotVerified => ExitCode::from(5),
            Exit::Of(code) => code,
        }
    }
}

const REFUSED: u8 = 1;
const USAGE: u8 = 2;
const UNREACHABLE: u8 = 3;

/// Why a command could not do what was asked.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The server refused, or was not reached.
    #[error(transparent)]
    Api(#[from] sayso_sdk::Error),
    /// The command lacks something.
    #[error("{message}")]
    Usage {
        /// What it lacks.
        message: String,
        /// What to type instead.
        hint: String,
    },
    /// What was given cannot be worked with; found here, without a server.
    #[error("{0}")]
    Given(sayso_sdk::Coded),
    /// The answer could not be printed.
    #[error("the answer cannot be printed")]
    Output(#[from] io::Error),
    /// Something here: a file, a configuration, the process's own services.
    #[error(transparent)]
    Here(#[from] anyhow::Error),
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::Usage {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// Whether nobody reads the answer any more, which is no failure: `sayso runs ls | head`.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Api(error) => match error {
                sayso_sdk::Error::Unreachable { .. } => UNREACHABLE,
                sayso_sdk::Error::BadServer(_) | sayso_sdk::Error::BadText(_) => USAGE,
                sayso_sdk::Error::Refused(_) | sayso_sdk::Error::Incomplete(_) => REFUSED,
            },
            Failure::Usage { .. } | Failure::Given(_) => USAGE,
            Failure::Output(_) | Failure::Here(_) => REFUSED,
        }
    }
}
