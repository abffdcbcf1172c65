//! A value whose source is asked for.

use std::borrow::Cow;

use super::accounts;
use super::numbers::{Sum, sum};
use super::text::Needle;
use crate::bundle::ArgRole;

/// A value whose source is asked for.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(super) exact: &'a str,
    pub(super) needle: Needle,
    pub(super) account: Option<String>,
    /// Only for amounts: `Some(None)` is one that cannot be read, and nothing vouches for it.
    pub(super) amount: Option<Option<Sum>>,
    pub(super) argument: Argument<'a>,
}

/// The argument that a value stands in.
#[derive(Debug, Clone)]
pub(crate) struct Argument<'a> {
    /// The kind of thing that it names.
    pub(crate) kind: AskedKind<'a>,
    /// What it is for, where the bundle says.
    pub(crate) role: Option<ArgRole>,
    /// Whether the call is destructive.
    pub(crate) destructive: bool,
}

/// The kind of thing that an argument names.
#[derive(Debug, Clone)]
pub(crate) enum AskedKind<'a> {
    /// The bundle or the argument's name says so.
    Known(Cow<'a, str>),
    /// The argument's name suggests it: `channel`.
    Likely(String),
}

impl<'a> Asked<'a> {
    pub(crate) fn new(exact: &'a str, argument: Argument<'a>) -> Self {
        let amount = argument.role == Some(ArgRole::Amount);
        let known = matches!(argument.kind, AskedKind::Known(_));
        Self {
            exact,
            needle: Needle::new(exact),
            account: accounts::account(exact).filter(|_| !known),
            amount: amount.then(|| sum(exact)),
            argument,
        }
    }

    /// Whether an id of another kind could be meant by a text that reads the same: it names a thing
    /// of a known kind, and has no letter.
    pub(super) fn is_bare_id(&self) -> bool {
        matches!(self.argument.kind, AskedKind::Known(_))
            && !self.exact.chars().any(char::is_alphabetic)
    }

    /// Whether an id vouches for it whose kind is another, or not known. What is acted on is always
    /// asked for by its kind.
    pub(super) fn takes_any_kind(&self) -> bool {
        self.needle.counts()
            && matches!(
                self.argument.role,
                Some(
                    ArgRole::Destination | ArgRole::Content | ArgRole::Credential | ArgRole::Label
                )
            )
    }
}

impl Argument<'_> {
    /// An argument of which nothing is known.
    pub(super) fn unknown() -> Self {
        Self {
            kind: AskedKind::Likely(String::new()),
            role: None,
            destructive: false,
        }
    }
}
