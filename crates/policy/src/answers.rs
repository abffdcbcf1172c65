//! The words of verdicts on the wire.

use sayso_rules::Trust;
use sayso_rules::bundle::Action;
use sayso_wire::v1;

pub(crate) fn action(action: Action) -> v1::PolicyAction {
    match action {
        Action::Allow => v1::PolicyAction::Allow,
        Action::Ask => v1::PolicyAction::Ask,
        Action::Deny => v1::PolicyAction::Deny,
    }
}

pub(crate) fn trust(trust: Trust) -> v1::Trust {
    match trust {
        Trust::Untrusted => v1::Trust::Untrusted,
        Trust::Trusted => v1::Trust::Trusted,
        Trust::Operator => v1::Trust::Operator,
    }
}
