//! One word per value, on every surface: the words of the API's enums, and the way from the core's
//! enums to the generated ones and back.
//!
//! A value that a newer peer sends is `Unspecified` to us: the fields of messages are plain
//! numbers, and the generated accessors read an unknown one so.

use sayso_run::{ActionStatus, DenyCause, EndedBy, Source, Status, Trust, Verdict};
use thiserror::Error;

use crate::v1;

/// A value that has to be said and was not, or that this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the {0} is not said, or not known to this version")]
pub struct Unsaid(&'static str);

macro_rules! words {
    ($($proto:ident { $($variant:ident = $word:literal),* $(,)? })*) => {$(
        impl v1::$proto {
            /// Every value but the unspecified one.
            pub const ALL: &'static [v1::$proto] = &[$(v1::$proto::$variant),*];

            /// The word that people read and write; empty if unspecified.
            pub const fn word(self) -> &'static str {
                match self {
                    v1::$proto::Unspecified => "",
                    $(v1::$proto::$variant => $word,)*
                }
            }

            /// Reads the word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(v1::$proto::$variant),)*
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    EndedBy {
        Answer = "answer",
        MaxCycles = "max_cycles",
        SpendingCap = "spending_cap",
        ProviderBilling = "provider_billing",
        Error = "error",
        Cancelled = "cancelled",
    }
    Trust {
        Untrusted = "untrusted",
        Trusted = "trusted",
        Operator = "operator",
    }
    StartSource {
        Start = "start",
        Cron = "cron",
        Webhook = "webhook",
        Agent = "agent",
        Chat = "chat",
    }
    ActionStatus {
        PendingReview = "pending_review",
        AutoApproved = "auto_approved",
        Approved = "approved",
        Rejected = "rejected",
        Executed = "executed",
        Failed = "failed",
    }
    DenyCause {
        Person = "person",
        Rule = "rule",
        NotGranted = "not_granted",
        Timeout = "timeout",
        Cancelled = "cancelled",
        RunEnded = "run_ended",
        Superseded = "superseded",
    }
    ApprovalStatus {
        Pending = "pending",
        Approved = "approved",
        Denied = "denied",
        Expired = "expired",
        Closed = "closed",
    }
    Verdict {
        Approve = "approve",
        Deny = "deny",
    }
    Scope {
        Submit = "submit",
        Read = "read",
        Approver = "approver",
        Operator = "operator",
        Admin = "admin",
    }
    LogLevel {
        Info = "info",
        Warn = "warn",
        Error = "error",
    }
    AuditOutcome {
        Done = "done",
        Refused = "refused",
    }
    BundleArea {
        Instructions = "instructions",
        Grants = "grants",
        Review = "review",
        Marks = "marks",
        Rules = "rules",
        Agent = "agent",
    }
    PolicyAction {
        Allow = "allow",
        Ask = "ask",
        Deny = "deny",
    }
    OriginKind {
        Person = "person",
        Task = "task",
        OwnAddress = "own_address",
        Own = "own",
        Trusted = "trusted",
        Untrusted = "untrusted",
        Model = "model",
    }
    Speaker {
        Person = "person",
        Agent = "agent",
        Outside = "outside",
    }
    TargetKind {
        Webhook = "webhook",
        Email = "email",
        Slack = "slack",
    }
    TargetEvent {
        Approvals = "approvals",
        Failures = "failures",
    }
    FeedbackSource {
        Approval = "approval",
        Person = "person",
        Check = "check",
        Judge = "judge",
    }
}

impl v1::RunStatus {
    /// Every value but the unspecified one.
    pub const ALL: &'static [v1::RunStatus] = &[
        v1::RunStatus::Pending,
        v1::RunStatus::Running,
        v1::RunStatus::AwaitingInput,
        v1::RunStatus::AwaitingApproval,
        v1::RunStatus::Completed,
        v1::RunStatus::Failed,
        v1::RunStatus::Cancelled,
    ];

    /// The word that people read and write; empty if unspecified.
    pub fn word(self) -> &'static str {
        Status::try_from(self).map_or("", Status::as_str)
    }

    /// Reads the word; `waiting_approval` is taken for `awaiting_approval` (S1.2).
    pub fn from_word(word: &str) -> Option<Self> {
        Status::parse(word).map(v1::RunStatus::from)
    }
}

macro_rules! counterparts {
    ($($core:ident = $proto:ident as $what:literal { $($variant:ident),* $(,)? })*) => {$(
        impl From<$core> for v1::$proto {
            fn from(value: $core) -> Self {
                match value { $($core::$variant => v1::$proto::$variant),* }
            }
        }

        impl TryFrom<v1::$proto> for $core {
            type Error = Unsaid;
            fn try_from(value: v1::$proto) -> Result<Self, Unsaid> {
                match value {
                    v1::$proto::Unspecified => Err(Unsaid($what)),
                    $(v1::$proto::$variant => Ok($core::$variant),)*
                }
            }
        }
    )*};
}

counterparts! {
    Status = RunStatus as "status" {
        Pending, Running, AwaitingInput, AwaitingApproval, Completed, Failed, Cancelled,
    }
    EndedBy = EndedBy as "end" {
        Answer, MaxCycles, SpendingCap, ProviderBilling, Error, Cancelled,
    }
    Trust = Trust as "trust" { Untrusted, Trusted, Operator }
    Source = StartSource as "source" { Start, Cron, Webhook, Agent, Chat }
    ActionStatus = ActionStatus as "action status" {
        PendingReview, AutoApproved, Approved, Rejected, Executed, Failed,
    }
    DenyCause = DenyCause as "cause" {
        Person, Rule, NotGranted, Timeout, Cancelled, RunEnded, Superseded,
    }
    Verdict = Verdict as "verdict" { Approve, Deny }
}

impl From<sayso_run::Usage> for v1::TokenUsage {
    fn from(usage: sayso_run::Usage) -> Self {
        Self {
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            output_tokens: usage.output,
        }
    }
}

impl From<v1::TokenUsage> for sayso_run::Usage {
    fn from(usage: v1::TokenUsage) -> Self {
        Self {
            input: usage.input_tokens,
            cached: usage.cached_tokens,
            output: usage.output_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word on people's surfaces is the proto name without its prefix, in small letters, and
    /// every value has one.
    #[test]
    fn words_are_the_proto_names_and_read_back() {
        macro_rules! check {
            ($($proto:ident $prefix:literal),* $(,)?) => {$(
                for (at, value) in v1::$proto::ALL.iter().enumerate() {
                    assert_eq!(*value as usize, at + 1, "every value is listed, in order");
                    let name = value.as_str_name();
                    let word = name.strip_prefix($prefix).unwrap().to_lowercase();
                    assert_eq!(value.word(), word);
                    assert_eq!(v1::$proto::from_word(&word), Some(*value));
                }
                assert!(v1::$proto::try_from(v1::$proto::ALL.len() as i32 + 1).is_err());
                assert_eq!(v1::$proto::from_word(""), None);
                assert_eq!(v1::$proto::Unspecified.word(), "");
            )*};
        }
        check!(
            RunStatus "RUN_STATUS_",
            EndedBy "ENDED_BY_",
            Trust "TRUST_",
            StartSource "START_SOURCE_",
            ActionStatus "ACTION_STATUS_",
            DenyCause "DENY_CAUSE_",
            ApprovalStatus "APPROVAL_STATUS_",
            Verdict "VERDICT_",
            Scope "SCOPE_",
            LogLevel "LOG_LEVEL_",
            AuditOutcome "AUDIT_OUTCOME_",
            Speaker "SPEAKER_",
            TargetKind "TARGET_KIND_",
            TargetEvent "TARGET_EVENT_",
            FeedbackSource "FEEDBACK_SOURCE_",
            OriginKind "ORIGIN_KIND_",
            BundleArea "BUNDLE_AREA_",
            PolicyAction "POLICY_ACTION_",
        );
    }

    /// The core's words and the wire's are the same.
    #[test]
    fn the_core_and_the_wire_say_the_same_word() {
        for status in Status::ALL {
            assert_eq!(v1::RunStatus::from(status).word(), status.as_str());
            assert_eq!(v1::RunStatus::from(status).try_into(), Ok(status));
        }
        for status in ActionStatus::ALL {
            assert_eq!(v1::ActionStatus::from(status).word(), status.as_str());
            assert_eq!(v1::ActionStatus::from(status).try_into(), Ok(status));
        }
        for wire in v1::Trust::ALL {
            assert_eq!(Trust::try_from(*wire).unwrap().as_str(), wire.word());
        }
        for wire in v1::EndedBy::ALL {
            assert_eq!(EndedBy::try_from(*wire).unwrap().as_str(), wire.word());
        }
        for wire in v1::DenyCause::ALL {
            assert_eq!(DenyCause::try_from(*wire).unwrap().as_str(), wire.word());
        }
        assert_eq!(
            Trust::try_from(v1::Trust::Unspecified),
            Err(Unsaid("trust"))
        );
    }

    /// S1.2
    #[test]
    fn the_other_word_for_awaiting_approval_is_taken() {
        assert_eq!(
            v1::RunStatus::from_word("waiting_approval"),
            Some(v1::RunStatus::AwaitingApproval)
        );
    }
}
