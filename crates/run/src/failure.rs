use serde::{Deserialize, Serialize};

/// Why a run failed, as a stable word (S2.6). Open: other codes may follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FailureCode(String);

impl FailureCode {
    /// The agent has no role.
    pub const NO_ROLE: &'static str = "run.no_role";
    /// The worker was lost while a call was in flight, or too often.
    pub const INTERRUPTED: &'static str = "run.interrupted";
    /// Every model of the tier was unavailable.
    pub const PROVIDER_UNAVAILABLE: &'static str = "provider.unavailable";
    /// The role does not permit a call; the run goes on.
    pub const PERMISSION_DENIED: &'static str = "tool.permission_denied";
    /// The provider refuses this request and would refuse it again.
    pub const PROVIDER_REFUSED: &'static str = "provider.refused";
    /// The conversation does not fit the model.
    pub const CONTEXT_LENGTH: &'static str = "provider.context_length";
    /// The tools of the agent could not be listed.
    pub const TOOLS_UNAVAILABLE: &'static str = "tools.unavailable";
    /// The namespace has a spending cap, and no model of the tier has a price in its currency.
    pub const NO_PRICE: &'static str = "model.no_price";
    /// The bundle names a tier that the configuration lacks.
    pub const UNKNOWN_TIER: &'static str = "model.unknown_tier";

    /// A code; the known ones are the constants of this type.
    pub fn new(code: impl Into<String>) -> Self {
        Self(code.into())
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What to do about a failure: one sentence, the same on page, command line and API (S2.6).
pub fn advice(code: &str) -> &'static str {
    match code {
        FailureCode::NO_ROLE => "Attach a role: name one in the bundle and deploy it, then retry.",
        FailureCode::INTERRUPTED => {
            "Find out whether the named call took effect, then retry; the model is told that its outcome is unknown."
        }
        FailureCode::PERMISSION_DENIED => {
            "Widen the role deliberately, or narrow the agent's job so that it does not need this operation."
        }
        FailureCode::PROVIDER_UNAVAILABLE => {
            "Retry by hand once the models of the tier are available again."
        }
        FailureCode::PROVIDER_REFUSED => {
            "Correct what the provider names (key, model, request), then retry."
        }
        FailureCode::CONTEXT_LENGTH => {
            "Give the agent a smaller task, shorter instructions or fewer tools; a retry would be refused again."
        }
        FailureCode::TOOLS_UNAVAILABLE => {
            "Check that the named server starts and answers, then retry."
        }
        FailureCode::NO_PRICE => {
            "Give the model a price in the configuration, in the currency of the cap, or remove the cap, then retry."
        }
        FailureCode::UNKNOWN_TIER => {
            "Add the tier to the configuration or name another one in the bundle, then retry."
        }
        _ => "Read the last step of the timeline; retry once the cause is gone.",
    }
}
