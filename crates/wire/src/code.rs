//! The stable error codes of the API, each documented once (S10.5).
//!
//! A code travels as the reason of `google.rpc.ErrorInfo`. Programs may compare it; the sentence
//! beside it is for people. Codes are never given another meaning. Those of failed runs are
//! [`sayso_run::FailureCode`]s, those of mistakes within a bundle belong to the bundle's parser, and
//! those that start with `rpc.` come from the transport.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $code;)*

        /// Every code.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

codes! {
    /// The call has no token.
    TOKEN_MISSING = "token.missing";
    /// The token is malformed or unknown.
    TOKEN_INVALID = "token.invalid";
    /// The token has expired.
    TOKEN_EXPIRED = "token.expired";
    /// The token was revoked.
    TOKEN_REVOKED = "token.revoked";
    /// Whether the token still holds cannot be told now; try again.
    TOKEN_UNVERIFIABLE = "token.unverifiable";
    /// The token opens another namespace than the caller names.
    TOKEN_OTHER_NAMESPACE = "token.other_namespace";
    /// The token's scopes do not include what this needs.
    TOKEN_SCOPE_MISSING = "token.scope_missing";
    /// The database is away; try again.
    DATABASE_UNAVAILABLE = "database.unavailable";
    /// Another service that this needs is away; try again.
    SERVICE_UNAVAILABLE = "service.unavailable";
    /// A field is missing or malformed; the field violations say which.
    REQUEST_INVALID = "request.invalid";
    /// Nothing was asked for: neither a decision nor a message.
    REQUEST_EMPTY = "request.empty";
    /// A text is longer than is taken.
    REQUEST_TOO_LARGE = "request.too_large";
    /// A text holds a character that cannot be stored.
    REQUEST_INVALID_TEXT = "request.invalid_text";
    /// The idempotency key was used before with other content.
    REQUEST_KEY_REUSED = "request.key_reused";
    /// There is nothing at this path over HTTP.
    HTTP_NOT_FOUND = "http.not_found";
    /// What stands at this path does not answer this verb.
    HTTP_METHOD_NOT_ALLOWED = "http.method_not_allowed";
    /// The body is of a type that is not taken here.
    HTTP_UNSUPPORTED_MEDIA_TYPE = "http.unsupported_media_type";
    /// The page token is not one that this method gave out for these filters.
    PAGE_MALFORMED = "page.malformed";
    /// Too many write to the run at once; try again.
    RUN_BUSY = "run.busy";
    /// The namespace has no such run, or it is out of the caller's reach.
    RUN_NOT_FOUND = "run.not_found";
    /// The run has ended; nothing changes it any more.
    RUN_ENDED = "run.ended";
    /// The run is a read-only copy.
    RUN_READ_ONLY = "run.read_only";
    /// What is to be imported is not a whole export of a run.
    IMPORT_INVALID = "import.invalid";
    /// Only a failed run can be retried.
    RUN_NOT_FAILED = "run.not_failed";
    /// The run was retried as often as is allowed.
    RUN_RETRIES_USED_UP = "run.retries_used_up";
    /// Another run started it: that one is retried.
    RUN_IS_CHILD = "run.is_child";
    /// The namespace has no such approval, or the run no such call.
    APPROVAL_NOT_FOUND = "approval.not_found";
    /// The approval was decided or closed before; the record stands.
    APPROVAL_ALREADY_DECIDED = "approval.already_decided";
    /// Nobody decided in time.
    APPROVAL_EXPIRED = "approval.expired";
    /// Nobody decides their own request.
    APPROVAL_OWN_REQUEST = "approval.own_request";
    /// The rule that asked bars this person.
    APPROVAL_EXCLUDED = "approval.excluded";
    /// The rule that asked leaves it to a group.
    APPROVAL_NOT_IN_GROUP = "approval.not_in_group";
    /// One vote a principal, and it is final.
    APPROVAL_VOTED_BEFORE = "approval.voted_before";
    /// What was said with an earlier vote is not what was sealed.
    APPROVAL_BROKEN_VOTE = "approval.broken_vote";
    /// Somebody has edited the call, and the decision does not name what it is now.
    APPROVAL_CHANGED = "approval.changed";
    /// The arguments have no value where an edit names one.
    EDIT_POINTER_UNKNOWN = "edit.pointer_unknown";
    /// An edit names what is redacted, or its value holds a mask.
    EDIT_MASKED = "edit.masked";
    /// An edit's value is not JSON, or the arguments as edited do not fit the tool's schema.
    EDIT_INVALID = "edit.invalid";
    /// A rule denies the call as edited, or the role does not permit it.
    EDIT_REFUSED = "edit.refused";
    /// The namespace has no such principal.
    GROUP_NO_PRINCIPAL = "group.no_principal";
    /// The principal is not in the group.
    GROUP_NOT_MEMBER = "group.not_member";
    /// A decision by tool does not say what the person saw.
    APPROVAL_SEEN_MISSING = "approval.seen_missing";
    /// The namespace has no such agent.
    AGENT_NOT_FOUND = "agent.not_found";
    /// The agent has no such revision.
    AGENT_REVISION_NOT_FOUND = "agent.revision_not_found";
    /// The amount of a budget is not one.
    BUDGET_MALFORMED = "budget.malformed";
    /// The namespace has no spending cap.
    BUDGET_NOT_FOUND = "budget.not_found";
    /// It is not paused.
    PAUSE_NOT_FOUND = "pause.not_found";
    /// The namespace has no such role.
    ROLE_NOT_FOUND = "role.not_found";
    /// There is no such task.
    TASK_NOT_FOUND = "task.not_found";
    /// The value cannot be a secret.
    SECRET_MALFORMED = "secret.malformed";
    /// The installation has no key to encrypt secrets with.
    SECRET_NO_KEY = "secret.no_key";
    /// There is no such secret.
    SECRET_NOT_FOUND = "secret.not_found";
    /// A secret was encrypted with another key, or was changed in the database.
    SECRET_UNREADABLE = "secret.unreadable";
    /// An agent has the role; give it another one first.
    ROLE_IN_USE = "role.in_use";
    /// The role `unrestricted` can be neither changed nor removed.
    ROLE_UNRESTRICTED = "role.unrestricted";
    /// The bundle has mistakes; the field violations list them.
    BUNDLE_INVALID = "bundle.invalid";
    /// The arguments of a call to explain are not JSON.
    POLICY_BAD_ARGUMENTS = "policy.bad_arguments";
    /// The cases beside a bundle have mistakes; the field violations list them.
    POLICY_BAD_CASES = "policy.bad_cases";
    /// The run has no such call, or it was of a tool that the run did not have.
    POLICY_NO_CALL = "policy.no_call";
    /// The namespace has no such token.
    TOKEN_NOT_FOUND = "token.not_found";
    /// A live token of the namespace has that name.
    TOKEN_EXISTS = "token.exists";
    /// A token needs at least one scope.
    TOKEN_NO_SCOPE = "token.no_scope";
    /// A token's lifetime is outside what is allowed.
    TOKEN_LIFETIME = "token.lifetime";
    /// Only an admin gives the trust `operator`.
    TOKEN_OPERATOR_TRUST = "token.operator_trust";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ALL;
    use crate::json::pool;

    /// S10.5: the codes that the API's comments name are the codes that there are.
    #[test]
    fn every_code_is_documented_at_the_methods_that_answer_it() {
        let mut named = BTreeSet::new();
        for file in pool().file_descriptor_protos() {
            let Some(info) = &file.source_code_info else {
                continue;
            };
            for location in &info.location {
                for word in location.leading_comments().split('`').skip(1).step_by(2) {
                    named.insert(word.to_owned());
                }
            }
        }
        for code in ALL {
            assert!(
                named.contains(*code),
                "{code} is not in any comment of proto/"
            );
        }
        let ours = [
            "request.",
            "approval.",
            "agent.",
            "role.",
            "secret.",
            "group.",
            "task.",
            "policy.",
            "token.",
            "page.",
            "database.",
            "pause.",
            "import.",
            "budget.",
            "service.",
            "http.",
        ];
        for word in named {
            let is_code = ours.iter().any(|area| word.starts_with(area));
            // Actions of the audit log look alike.
            let is_action =
                ["token.create", "approval.decide", "budget.near"].contains(&word.as_str());
            assert!(
                !is_code || is_action || ALL.contains(&word.as_str()),
                "{word}"
            );
        }
    }

    /// The core's refusals are among them, under the same words.
    #[test]
    fn refusals_of_the_core_are_codes() {
        use sayso_run::{Refusal, Status};
        let refusals = [
            Refusal::Terminal(Status::Failed),
            Refusal::NotFailed(Status::Failed),
            Refusal::RetriesUsedUp,
            Refusal::IsChild(sayso_run::RunId::new("run_1").unwrap()),
            Refusal::UnknownTarget("x".into()),
            Refusal::OwnRequest,
            Refusal::KeyReused("k".into()),
            Refusal::SeenMissing,
            Refusal::Empty,
            Refusal::TooLong { bytes: 1 },
            Refusal::HoldsNul,
        ];
        for refusal in refusals {
            assert!(ALL.contains(&refusal.code()), "{}", refusal.code());
        }
    }
}
