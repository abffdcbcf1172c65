//! Decisions as they come in over the wire.

use sayso_run::{ApprovalId, BadName, CallId, Decision, DecisionItem, Target, Verdict};
use thiserror::Error;

use crate::v1;
use crate::v1::decision::Target as Named;

/// What is wrong with a decision; `field` is where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BadDecision {
    /// It does not say what it is about.
    #[error("it names no approval, call or tool")]
    NoTarget,
    /// It says neither approve nor deny.
    #[error("it says neither approve nor deny")]
    NoVerdict,
    /// The id is not one.
    #[error(transparent)]
    BadId(#[from] BadName),
}

impl BadDecision {
    /// The field at fault.
    pub const fn field(&self) -> &'static str {
        match self {
            BadDecision::NoTarget | BadDecision::BadId(_) => "target",
            BadDecision::NoVerdict => "verdict",
        }
    }
}

/// Reads one decision. An empty reason is none.
///
/// # Errors
///
/// When something is missing or an id is malformed.
pub fn item(decision: v1::Decision) -> Result<DecisionItem, BadDecision> {
    let verdict = verdict(decision.verdict())?;
    let target = target(decision.target.as_ref())?;
    let reason = given(decision.reason);
    Ok(DecisionItem {
        target,
        decision: Decision { verdict, reason },
    })
}

/// Whether [`item`] would take a decision.
///
/// # Errors
///
/// The same.
pub fn check(decision: &v1::Decision) -> Result<(), BadDecision> {
    verdict(decision.verdict())?;
    target(decision.target.as_ref()).map(drop)
}

fn target(named: Option<&Named>) -> Result<Target, BadDecision> {
    match named.ok_or(BadDecision::NoTarget)? {
        Named::ApprovalId(id) => Ok(Target::Approval(ApprovalId::new(id)?)),
        Named::CallId(id) => Ok(Target::Call(CallId::new(id)?)),
        Named::Tool(tool) if tool.is_empty() => Err(BadDecision::NoTarget),
        Named::Tool(tool) => Ok(Target::Tool(tool.clone())),
    }
}

/// Reads a verdict.
///
/// # Errors
///
/// When it says neither approve nor deny.
pub fn verdict(verdict: v1::Verdict) -> Result<Verdict, BadDecision> {
    Verdict::try_from(verdict).map_err(|_| BadDecision::NoVerdict)
}

/// A decision as it is sent.
pub fn sent(item: DecisionItem) -> v1::Decision {
    let target = match item.target {
        Target::Approval(id) => Named::ApprovalId(id.to_string()),
        Target::Call(id) => Named::CallId(id.to_string()),
        Target::Tool(tool) => Named::Tool(tool),
    };
    v1::Decision {
        target: Some(target),
        verdict: v1::Verdict::from(item.decision.verdict).into(),
        reason: item.decision.reason.unwrap_or_default(),
    }
}

/// A text field that is none when it is empty: reasons, messages, idempotency keys, filters.
pub fn given(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(target: Option<Named>, verdict: v1::Verdict) -> v1::Decision {
        v1::Decision {
            target,
            verdict: verdict.into(),
            reason: String::new(),
        }
    }

    /// S6.4: by approval, by call, by tool.
    #[test]
    fn decisions_come_back_as_they_went() {
        for target in [
            Target::Approval(ApprovalId::new("apr_1").unwrap()),
            Target::Call(CallId::of(2, 3)),
            Target::Tool("shop.refund_order".into()),
        ] {
            for (verdict, reason) in [(Verdict::Approve, None), (Verdict::Deny, Some("no".into()))]
            {
                let went = DecisionItem {
                    target: target.clone(),
                    decision: Decision { verdict, reason },
                };
                assert_eq!(check(&sent(went.clone())), Ok(()));
                assert_eq!(item(sent(went.clone())), Ok(went));
            }
        }
    }

    /// S10.5: an incomplete decision decides nothing and says which field is at fault.
    #[test]
    fn incomplete_decisions_are_refused() {
        let tool = || Some(Named::Tool("t".into()));
        let cases = [
            (decision(None, v1::Verdict::Deny), "target"),
            (
                decision(Some(Named::Tool(String::new())), v1::Verdict::Deny),
                "target",
            ),
            (
                decision(Some(Named::CallId("1".into())), v1::Verdict::Deny),
                "target",
            ),
            (
                decision(Some(Named::ApprovalId("run_1".into())), v1::Verdict::Deny),
                "target",
            ),
            (decision(tool(), v1::Verdict::Unspecified), "verdict"),
        ];
        for (bad, field) in cases {
            assert_eq!(check(&bad).unwrap_err().field(), field, "{bad:?}");
            assert_eq!(check(&bad), item(bad).map(drop));
        }
        let mut newer = decision(tool(), v1::Verdict::Approve);
        newer.verdict = 99;
        assert_eq!(item(newer), Err(BadDecision::NoVerdict));
    }
}
