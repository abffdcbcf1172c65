//! How a run stands: its trust, and what its calls have done to it (S5.7–S5.9).

use std::collections::BTreeMap;

use super::{CallView, Tool};
use crate::bundle::{ArgRole, Step};
use crate::decimal::Decimal;
use crate::json::Json;
use crate::provenance::numbers::number;
use crate::provenance::records::leaves;
use crate::trust::Trust;

/// How a run stands, kept with its folded state: small, and cheap to copy for the calls of one
/// turn, which are judged one after the other before any of them has an answer (S5.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    trust: Trust,
    secret_read: bool,
    /// The run's total of arguments with the role `amount`; none if it cannot be kept.
    amounts: Option<Decimal>,
    /// The totals of numbers in other arguments, by tool and place.
    numbers: BTreeMap<Box<str>, BTreeMap<String, Option<Decimal>>>,
}

impl Standing {
    /// A run that begins with this trust.
    #[must_use]
    pub fn new(trust: Trust) -> Self {
        Self {
            trust,
            secret_read: false,
            amounts: Some(Decimal::default()),
            numbers: BTreeMap::new(),
        }
    }

    /// The run's trust now.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// Whether the run has called a tool marked `sensitiveOutput`.
    #[must_use]
    pub fn secret_read(&self) -> bool {
        self.secret_read
    }

    /// The run has read a secret.
    pub fn read_secret(&mut self) {
        self.secret_read = true;
    }

    /// A call was let through and starts. True if that lowered the run's trust: then a
    /// `trust_lowered` step names the call (S5.8).
    pub fn starts(&mut self, call: &CallView<'_>) -> bool {
        self.secret_read |= call.tool.sensitive_output();
        self.count(call);
        call.tool.untrusted_output() && self.lower(Trust::Untrusted)
    }

    /// Somebody who is trusted so far has written into the run: it is trusted no further (S5.7).
    pub fn heard(&mut self, trust: Trust) {
        self.lower(trust);
    }

    /// A child of this run ended with that trust. True if that lowered the run's own (S5.8).
    pub fn child_ended(&mut self, trust: Trust) -> bool {
        trust == Trust::Untrusted && self.lower(trust)
    }

    fn lower(&mut self, to: Trust) -> bool {
        let before = self.trust;
        self.trust = before.lowered_to(to);
        self.trust < before
    }

    fn count(&mut self, call: &CallView<'_>) {
        let Some(args) = Json::read(call.args) else {
            return;
        };
        for (path, value) in leaves(&args) {
            let amount = is_amount(call.tool, &path);
            let value = match numeric(value) {
                Some(value) if value <= Decimal::default() => continue,
                // How much that was nobody knows, nor what comes to be the total.
                None if !amount && !matches!(value, Json::Number(_)) => continue,
                value => value,
            };
            let plus = |total: Option<Decimal>| total?.plus(value?);
            if amount {
                self.amounts = plus(self.amounts);
            } else {
                let places = self
                    .numbers
                    .entry(call.tool.registered.clone())
                    .or_default();
                let total = places
                    .entry(place(&path))
                    .or_insert_with(|| Some(Decimal::default()));
                *total = plus(*total);
            }
        }
    }

    /// The run's total so far of what a number at that place adds to; `None` if it is not known.
    pub(super) fn total(&self, tool: &Tool, path: &[Step<'_>]) -> Option<Decimal> {
        if is_amount(tool, path) {
            return self.amounts;
        }
        self.numbers
            .get(&tool.registered)
            .and_then(|places| places.get(&place(path)))
            .map_or(Some(Decimal::default()), |total| *total)
    }
}

pub(super) fn is_amount(tool: &Tool, path: &[Step<'_>]) -> bool {
    tool.mark(path)
        .is_some_and(|(_, mark)| mark.role == ArgRole::Amount)
}

/// A number, or a text that is nothing but one.
pub(super) fn numeric(value: &Json<'_>) -> Option<Decimal> {
    match value {
        Json::Number(digits) => digits.parse().ok(),
        Json::Text(text) => number(text),
        Json::Null | Json::Bool(_) | Json::List(_) | Json::Map(_) => None,
    }
}

/// A place without the positions in lists.
fn place(path: &[Step<'_>]) -> String {
    path.iter().fold(String::new(), |place, step| match step {
        Step::Key(key) => format!("{place}/{}", key.replace('~', "~0").replace('/', "~1")),
        Step::Index(_) => place,
    })
}
