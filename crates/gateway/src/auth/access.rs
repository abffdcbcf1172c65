//! Which scope each method needs: the one table.
//!
//! | methods | whoever has | for one's own alone |
//! |---|---|---|
//! | start a run | `submit` | |
//! | read runs, steps, actions, approvals; watch them; verify | `read`, `approver`, `operator` | `submit` |
//! | cancel, reply to, retry a run | `operator` | `submit` |
//! | watch all events | `read`, `approver`, `operator` | |
//! | begin a conversation | `submit` | |
//! | read conversations and their messages | `read`, `approver`, `operator` | `submit` |
//! | say something in a conversation | `operator` | `submit` |
//! | decide, respond | `approver` | |
//! | rate a task | `approver`, `operator` | `submit` |
//! | list agents | `submit`, `read`, `approver`, `operator` | |
//! | read, validate, explain, test and replay bundles, roles, agents' logs, feedback, pauses, the budget | `read`, `approver`, `operator` | |
//! | deploy; make, change, remove, attach and detach roles; pause, resume; set and remove the budget; import runs | `operator` | |
//! | read and verify the audit log | `operator` | |
//! | set, list and remove secrets; add, list, try and remove targets | `operator` | |
//! | tokens; change groups; encrypt secrets anew | `admin` | |
//!
//! `admin` includes all. `approver` and `operator` include reading, because nobody can decide or
//! operate what they cannot see. One's own are the runs that one's principal asked for, their
//! approvals, and the conversations that it began; what is not one's own is then not there: listed nowhere, and `run.not_found`. Who may decide *which* approval (nobody their own, S6.10) is not a question of scopes
//! and is not answered here, but in the run core.

use sayso_service::error::{Coded, Kind};

use super::scope::{Scope, Scopes};

const SUBMIT: Scopes = Scopes::of(&[Scope::Submit]);
const READERS: Scopes = Scopes::of(&[Scope::Read, Scope::Approver, Scope::Operator]);
const ANYONE: Scopes = Scopes::of(&[Scope::Submit, Scope::Read, Scope::Approver, Scope::Operator]);
const APPROVER: Scopes = Scopes::of(&[Scope::Approver]);
const RATERS: Scopes = Scopes::of(&[Scope::Approver, Scope::Operator]);
const OPERATOR: Scopes = Scopes::of(&[Scope::Operator]);

/// What a method needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Its path, such as `/sayso.v1.RunService/StartRun`.
    pub path: &'static str,
    /// Any of these lets the caller act on everything of the namespace.
    pub whole: Scopes,
    /// Any of these lets the caller act on what its principal asked for.
    pub own: Scopes,
    /// A refusal for want of a scope is written to the audit log: it is a refused decision
    /// (S10.8). The handler knows what was to be decided, so it refuses; everywhere else the
    /// request is refused before its body is read.
    pub audited: bool,
}

/// On whose things a caller may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those that its principal asked for.
    Own,
    /// Everyone's in the namespace.
    Namespace,
}

const fn needs(path: &'static str, whole: Scopes, own: Scopes) -> Access {
    Access {
        path,
        whole,
        own,
        audited: false,
    }
}

const fn decides(path: &'static str) -> Access {
    Access {
        path,
        whole: APPROVER,
        own: Scopes::NONE,
        audited: true,
    }
}

/// The table.
pub const METHODS: &[Access] = &[
    needs("/sayso.v1.RunService/StartRun", SUBMIT, Scopes::NONE),
    needs("/sayso.v1.RunService/GetRun", READERS, SUBMIT),
    needs("/sayso.v1.RunService/ListRuns", READERS, SUBMIT),
    needs("/sayso.v1.RunService/WatchRun", READERS, SUBMIT),
    needs("/sayso.v1.RunService/ListRunSteps", READERS, SUBMIT),
    needs("/sayso.v1.RunService/ListRunActions", READERS, SUBMIT),
    needs("/sayso.v1.RunService/VerifyRun", READERS, SUBMIT),
    needs("/sayso.v1.RunService/CancelRun", OPERATOR, SUBMIT),
    needs("/sayso.v1.RunService/ReplyToRun", OPERATOR, SUBMIT),
    needs("/sayso.v1.RunService/RetryRun", OPERATOR, SUBMIT),
    needs("/sayso.v1.RunService/ImportRun", OPERATOR, Scopes::NONE),
    needs("/sayso.v1.ApprovalService/ListApprovals", READERS, SUBMIT),
    needs("/sayso.v1.ApprovalService/GetApproval", READERS, SUBMIT),
    needs("/sayso.v1.ApprovalService/WatchApprovals", READERS, SUBMIT),
    decides("/sayso.v1.ApprovalService/DecideApproval"),
    decides("/sayso.v1.ApprovalService/RespondToRun"),
    needs(
        "/sayso.v1.ConversationService/CreateConversation",
        SUBMIT,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.ConversationService/GetConversation",
        READERS,
        SUBMIT,
    ),
    needs(
        "/sayso.v1.ConversationService/ListConversations",
        READERS,
        SUBMIT,
    ),
    needs(
        "/sayso.v1.ConversationService/SendMessage",
        OPERATOR,
        SUBMIT,
    ),
    needs(
        "/sayso.v1.ConversationService/ListMessages",
        READERS,
        SUBMIT,
    ),
    needs("/sayso.v1.EventService/WatchEvents", READERS, Scopes::NONE),
    needs("/sayso.v1.AgentService/DeployAgent", OPERATOR, Scopes::NONE),
    needs(
        "/sayso.v1.AgentService/ValidateAgent",
        READERS,
        Scopes::NONE,
    ),
    needs("/sayso.v1.AgentService/GetAgent", READERS, Scopes::NONE),
    needs("/sayso.v1.AgentService/ListAgents", ANYONE, Scopes::NONE),
    needs(
        "/sayso.v1.AgentService/ListAgentLogs",
        READERS,
        Scopes::NONE,
    ),
    needs("/sayso.v1.RoleService/PutRole", OPERATOR, Scopes::NONE),
    needs("/sayso.v1.RoleService/GetRole", READERS, Scopes::NONE),
    needs("/sayso.v1.RoleService/ListRoles", READERS, Scopes::NONE),
    needs("/sayso.v1.RoleService/DeleteRole", OPERATOR, Scopes::NONE),
    needs("/sayso.v1.RoleService/AttachRole", OPERATOR, Scopes::NONE),
    needs("/sayso.v1.RoleService/DetachRole", OPERATOR, Scopes::NONE),
    needs(
        "/sayso.v1.GroupService/AddToGroup",
        Scopes::NONE,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.GroupService/RemoveFromGroup",
        Scopes::NONE,
        Scopes::NONE,
    ),
    needs("/sayso.v1.GroupService/ListGroups", READERS, Scopes::NONE),
    needs("/sayso.v1.SecretService/SetSecret", OPERATOR, Scopes::NONE),
    needs(
        "/sayso.v1.SecretService/ListSecrets",
        OPERATOR,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.SecretService/DeleteSecret",
        OPERATOR,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.SecretService/RotateSecretKey",
        Scopes::NONE,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.TargetService/CreateTarget",
        OPERATOR,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.TargetService/ListTargets",
        OPERATOR,
        Scopes::NONE,
    ),
    needs("/sayso.v1.TargetService/TestTarget", OPERATOR, Scopes::NONE),
    needs(
        "/sayso.v1.TargetService/DeleteTarget",
        OPERATOR,
        Scopes::NONE,
    ),
    needs("/sayso.v1.PolicyService/ExplainCall", READERS, Scopes::NONE),
    needs("/sayso.v1.PolicyService/TestPolicy", READERS, Scopes::NONE),
    needs("/sayso.v1.PolicyService/ReplayRuns", READERS, Scopes::NONE),
    needs("/sayso.v1.FeedbackService/RecordFeedback", RATERS, SUBMIT),
    needs(
        "/sayso.v1.FeedbackService/ListFeedback",
        READERS,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.TokenService/CreateToken",
        Scopes::NONE,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.TokenService/ListTokens",
        Scopes::NONE,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.TokenService/RevokeToken",
        Scopes::NONE,
        Scopes::NONE,
    ),
    needs(
        "/sayso.v1.AuditService/ListAuditEntries",
        OPERATOR,
        Scopes::NONE,
    ),
    needs("/sayso.v1.AuditService/VerifyAudit", OPERATOR, Scopes::NONE),
    needs("/sayso.v1.PauseService/Pause", OPERATOR, Scopes::NONE),
    needs("/sayso.v1.PauseService/Resume", OPERATOR, Scopes::NONE),
    needs("/sayso.v1.PauseService/ListPauses", READERS, Scopes::NONE),
    needs("/sayso.v1.BudgetService/SetBudget", OPERATOR, Scopes::NONE),
    needs("/sayso.v1.BudgetService/GetBudget", READERS, Scopes::NONE),
    needs(
        "/sayso.v1.BudgetService/RemoveBudget",
        OPERATOR,
        Scopes::NONE,
    ),
];

impl Access {
    /// What the method at this path needs; `None` if there is no such method.
    pub fn of(path: &str) -> Option<&'static Access> {
        METHODS.iter().find(|method| method.path == path)
    }

    /// How far a token with these scopes reaches.
    ///
    /// # Errors
    ///
    /// `token.scope_missing`, naming what is missing, if it may not call the method at all.
    pub fn reach(&self, scopes: Scopes) -> Result<Reach, Coded> {
        if scopes.permit(self.whole) {
            Ok(Reach::Namespace)
        } else if !self.own.is_empty() && scopes.permit(self.own) {
            Ok(Reach::Own)
        } else {
            Err(scope_missing(self.whole, self.own))
        }
    }
}

/// `token.scope_missing`: the sentence and the metadata `scope` name what would do.
fn scope_missing(whole: Scopes, own: Scopes) -> Coded {
    let mut wanted: Vec<&str> = whole.iter().map(Scope::as_str).collect();
    if wanted.is_empty() {
        wanted.push(Scope::Admin.as_str());
    }
    let words = wanted.join("`, `");
    let own = match own.iter().next() {
        Some(scope) => format!(", or `{}` for what one asked for oneself", scope.as_str()),
        None => String::new(),
    };
    let any = if wanted.len() > 1 { "one of " } else { "" };
    let message = format!(
        "This needs a token with the scope {any}`{words}`{own}; an admin makes one with `sayso token create --scope {}`.",
        wanted[0]
    );
    Coded::new(Kind::PermissionDenied, "token.scope_missing", message)
        .with("scope", wanted.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(path: &str, scopes: &[Scope]) -> Option<Reach> {
        let access = Access::of(path).unwrap();
        access.reach(Scopes::of(scopes)).ok()
    }

    /// S6.11: `submit` acts on its own runs, `operator` on anyone's.
    #[test]
    fn s6_11_reach_follows_the_scopes() {
        let cancel = "/sayso.v1.RunService/CancelRun";
        assert_eq!(reach(cancel, &[Scope::Submit]), Some(Reach::Own));
        assert_eq!(
            reach(cancel, &[Scope::Submit, Scope::Operator]),
            Some(Reach::Namespace)
        );
        assert_eq!(reach(cancel, &[Scope::Read, Scope::Approver]), None);
        assert_eq!(reach(cancel, &[Scope::Admin]), Some(Reach::Namespace));
        let decide = "/sayso.v1.ApprovalService/DecideApproval";
        assert_eq!(reach(decide, &[Scope::Operator, Scope::Submit]), None);
        assert_eq!(reach(decide, &[Scope::Approver]), Some(Reach::Namespace));
    }

    #[test]
    fn a_refusal_names_the_scope() {
        let access = Access::of("/sayso.v1.TokenService/ListTokens").unwrap();
        let refused = access.reach(Scopes::of(&[Scope::Operator])).unwrap_err();
        assert_eq!(refused.code, "token.scope_missing");
        assert_eq!(refused.metadata["scope"], "admin");
        assert!(refused.message.contains("`admin`"), "{refused}");
        let access = Access::of("/sayso.v1.RunService/RetryRun").unwrap();
        let refused = access.reach(Scopes::of(&[Scope::Read])).unwrap_err();
        assert!(refused.message.contains("`operator`, or `submit` for"));
    }

    /// Every public method stands in the table, and nothing else does.
    #[test]
    fn s6_11_every_public_method_stands_in_the_table() {
        use prost::Message as _;
        let set = prost_types::FileDescriptorSet::decode(sayso_wire::FILE_DESCRIPTOR_SET).unwrap();
        let mut methods = Vec::new();
        for file in set.file.iter().filter(|f| f.package() == "sayso.v1") {
            for service in &file.service {
                for method in &service.method {
                    methods.push(format!("/sayso.v1.{}/{}", service.name(), method.name()));
                }
            }
        }
        methods.sort();
        let mut listed: Vec<&str> = METHODS.iter().map(|method| method.path).collect();
        listed.sort_unstable();
        assert_eq!(listed, methods);
    }
}
