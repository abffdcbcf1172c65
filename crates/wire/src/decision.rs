//! Decisions as they come in over the wire.

use sayso_run::{
    ApprovalId, BadName, CallDigest, CallId, Decision, DecisionItem, Digest, NotADigest, Target,
    Verdict,
};
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
    /// The digest is not one.
    #[error(transparent)]
    BadDigest(#[from] NotADigest),
    /// Changes go with the approval of one call.
    #[error("arguments are changed with the approval of one call, named by itself or its approval")]
    BadEdit,
    /// There are more than one decision may have.
    #[error("at most {MAX_EDITS} values are changed at once")]
    TooManyEdits,
}

/// How many values one decision may change.
pub const MAX_EDITS: usize = 100;

impl BadDecision {
    /// The field at fault.
    pub const fn field(&self) -> &'static str {
        match self {
            BadDecision::NoTarget | BadDecision::BadId(_) => "target",
            BadDecision::NoVerdict => "verdict",
            BadDecision::BadDigest(_) => "digest",
            BadDecision::BadEdit | BadDecision::TooManyEdits => "edits",
        }
    }
}

/// Reads one decision; its edits are still to be judged. An empty reason is none.
///
/// # Errors
///
/// When something is missing or an id is malformed.
pub fn item(decision: v1::Decision) -> Result<DecisionItem, BadDecision> {
    check(&decision)?;
    let decided = Decision {
        saw: saw(&decision.digest)?,
        ..Decision::new(verdict(decision.verdict())?, given(decision.reason))
    };
    Ok(DecisionItem {
        target: target(decision.target.as_ref())?,
        decision: decided,
    })
}

/// Whether [`item`] would take a decision.
///
/// # Errors
///
/// The same.
pub fn check(decision: &v1::Decision) -> Result<(), BadDecision> {
    let verdict = verdict(decision.verdict())?;
    let target = target(decision.target.as_ref())?;
    saw(&decision.digest)?;
    let edits = decision.edits.len();
    if edits > MAX_EDITS {
        return Err(BadDecision::TooManyEdits);
    }
    if edits > 0 && (verdict == Verdict::Deny || matches!(target, Target::Tool(_))) {
        return Err(BadDecision::BadEdit);
    }
    Ok(())
}

/// The digest that a person saw; none if it is empty.
fn saw(digest: &str) -> Result<Option<CallDigest>, NotADigest> {
    if digest.is_empty() {
        return Ok(None);
    }
    digest.parse::<Digest>().map(CallDigest::from).map(Some)
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

/// A decision as it is sent. An edit travels as what is changed, not as what was judged: it is left
/// out.
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
        digest: item
            .decision
            .saw
            .map(|saw| saw.to_string())
            .unwrap_or_default(),
        edits: Vec::new(),
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
            ..v1::Decision::default()
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
                    decision: Decision::new(verdict, reason),
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
        let edit = v1::ArgumentEdit {
            pointer: "/a".into(),
            value_json: "1".into(),
        };
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
        for bad in [
            v1::Decision {
                digest: "abc".into(),
                ..decision(tool(), v1::Verdict::Approve)
            },
            v1::Decision {
                edits: vec![edit.clone()],
                ..decision(tool(), v1::Verdict::Approve)
            },
            v1::Decision {
                edits: vec![edit.clone()],
                ..decision(Some(Named::CallId("call_1_1".into())), v1::Verdict::Deny)
            },
            v1::Decision {
                edits: vec![edit; MAX_EDITS + 1],
                ..decision(Some(Named::CallId("call_1_1".into())), v1::Verdict::Approve)
            },
        ] {
            assert!(
                matches!(check(&bad).unwrap_err().field(), "digest" | "edits"),
                "{bad:?}"
            );
        }
        let mut newer = decision(tool(), v1::Verdict::Approve);
        newer.verdict = 99;
        assert_eq!(item(newer), Err(BadDecision::NoVerdict));
    }
}
