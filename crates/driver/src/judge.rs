use sayso_rules::bundle::{self, Action, Effect, EscalationTo, Excluded};
use sayso_rules::judge::{CallView, RuleId, RunView, Tool};
use sayso_rules::leaves::leaves;
use sayso_rules::{Index, Origin, Redaction, Role};
use sayso_run::{
    ArgumentOrigin, Call, CallId, EscalatedTo, Escalation, Judgement, Marks, OriginKind, Quorum,
    Ruling, RunState,
};

use crate::evidence::{Evidence, call_view};
use crate::hold::delegating::{Current, DelegationLimits, child};
use crate::resolved::ResolvedTools;
use crate::world::{Revision, ToolDefinition, ToolKind, Tools};

/// Whom calls are judged for, and by what.
pub(crate) struct Judge<'j, T> {
    pub(crate) tools: &'j T,
    pub(crate) revision: &'j Revision,
    pub(crate) role: &'j Role,
    pub(crate) known: &'j ResolvedTools,
    pub(crate) redaction: &'j Redaction,
    pub(crate) current: &'j Current,
    pub(crate) delegation: DelegationLimits,
}

impl<T: Tools> Judge<'_, T> {
    /// Judges calls in order: grant and rules, the role's ceiling, then the schema; nothing is asked
    /// of a person that could not run (S3.7, S3.9, S5.1). A call that may run counts for those after
    /// it, as if it had (S5.10).
    pub(crate) fn judge(
        &self,
        evidence: &Evidence,
        state: &RunState,
        calls: &[CallId],
    ) -> Vec<Judgement> {
        let mut standing = evidence.standing();
        let mut live = u32::try_from(state.live_children().count()).unwrap_or(u32::MAX);
        let calls = calls.iter().filter_map(|id| state.call(id));
        calls
            .map(|call| {
                let ruling = self.rule(call, &evidence.view(&standing), state.depth(), live);
                if let Ruling::Delegate { .. } = ruling {
                    live += 1;
                }
                if let Ruling::Allow { .. } | Ruling::Ask { .. } | Ruling::Delegate { .. } = ruling
                    && let Some(view) = self.known.view(call)
                {
                    standing.starts(&view);
                }
                Judgement {
                    call: call.id.clone(),
                    ruling,
                    shown: self.redaction.differing(&call.args),
                }
            })
            .collect()
    }

    fn rule(&self, call: &Call, run: &RunView<'_>, depth: u32, live: u32) -> Ruling {
        let Some((tool, resolved)) = self.known.get(&call.tool) else {
            return Ruling::NotGranted;
        };
        let verdict = self.revision.rules.judge(&call_view(call, resolved), run);
        match verdict.action {
            Action::Deny if verdict.rule == RuleId::Grant => return Ruling::NotGranted,
            Action::Deny => {
                return Ruling::Deny {
                    rule: verdict.rule.to_string(),
                    reason: verdict.reason.into_owned(),
                };
            }
            Action::Ask if !self.revision.asks => {
                return Ruling::Deny {
                    rule: verdict.rule.to_string(),
                    reason: format!("{}; nobody is there to be asked", verdict.reason),
                };
            }
            Action::Allow | Action::Ask => {}
        }
        if let Err(message) = permits(self.role, tool) {
            return Ruling::PermissionDenied { message };
        }
        if let Err(problem) = self.tools.check(tool, &call.args) {
            return Ruling::InvalidArguments {
                message: format!(
                    "validation error: the arguments do not fit; nothing ran. {problem}"
                ),
            };
        }
        if tool.kind == ToolKind::Control {
            return Ruling::AskPerson {
                question: question(&call.args),
            };
        }
        let child = (tool.kind == ToolKind::Agent).then(|| {
            let within = self.delegation.check(depth, live);
            within.and_then(|()| child(&call.args, self.current))
        });
        match (verdict.action, child) {
            (_, Some(Err(message))) => Ruling::InvalidArguments { message },
            (Action::Ask, _) => Ruling::Ask {
                rule: verdict.rule.to_string(),
                reason: verdict.reason.into_owned(),
                quorum: quorum(self.revision, &call_view(call, resolved), run),
                origins: origins(&call.args, run.index),
            },
            (Action::Allow | Action::Deny, Some(Ok(child))) => Ruling::Delegate {
                rule: verdict.rule.to_string(),
                child,
            },
            (Action::Allow | Action::Deny, None) => Ruling::Allow {
                rule: verdict.rule.to_string(),
                marks: marks(self.revision, tool, resolved),
            },
        }
    }
}

/// What it takes to approve a call (S6.12).
pub(crate) fn quorum(revision: &Revision, call: &CallView<'_>, run: &RunView<'_>) -> Quorum {
    let Some(rule) = revision.rules.deciders(call, run) else {
        return Quorum::default();
    };
    let approvers = rule.approvers.as_ref();
    let bars = |who| approvers.is_some_and(|approvers| approvers.exclude.contains(&who));
    let author = revision.author.clone();
    Quorum {
        group: approvers.and_then(|approvers| approvers.group.clone()),
        count: approvers.map_or(0, |approvers| approvers.count),
        author: author.filter(|_| bars(Excluded::Author)),
        no_writers: bars(Excluded::Writers),
        escalate: rule.escalate.iter().map(escalation).collect(),
    }
}

/// Where each value of the arguments came from, by the index that the rules are judged with (S6.3).
pub(crate) fn origins(args: &str, index: &Index) -> Vec<ArgumentOrigin> {
    let values = leaves(args).into_iter().filter(|leaf| leaf.says);
    let told = values.map(|leaf| {
        let (from, at) = match index.origin(&leaf.value) {
            Origin::Person => (OriginKind::Person, None),
            Origin::Task => (OriginKind::Task, None),
            Origin::OwnAddress => (OriginKind::OwnAddress, None),
            Origin::Own { tool, call } => (OriginKind::Own, Some((tool, call))),
            Origin::Trusted { tool, call } => (OriginKind::Trusted, Some((tool, call))),
            Origin::Untrusted { tool, call } => (OriginKind::Untrusted, Some((tool, call))),
            Origin::Nowhere => (OriginKind::Model, None),
        };
        let (tool, call) = at.unzip();
        ArgumentOrigin {
            pointer: leaf.pointer,
            from,
            tool,
            call: call.and_then(|call| CallId::new(call).ok()),
        }
    });
    told.collect()
}

fn escalation(step: &bundle::Escalation) -> Escalation {
    Escalation {
        after_micros: i64::try_from(step.after.as_micros()).unwrap_or(i64::MAX),
        to: match &step.to {
            EscalationTo::Group(group) => EscalatedTo::Group(group.clone()),
            EscalationTo::Target(target) => EscalatedTo::Target(target.clone()),
        },
    }
}

/// What a role says of a tool (S3.9).
///
/// # Errors
///
/// What the model is told.
pub(crate) fn permits(role: &Role, tool: &ToolDefinition) -> Result<(), String> {
    if tool.kind == ToolKind::Control || role.permits(&tool.registered, &tool.model_name) {
        return Ok(());
    }
    Err(format!(
        "permission denied: the role `{}` does not permit `{}`; this call did not run",
        role.name, tool.registered
    ))
}

/// What a tool is marked with, for the run.
pub(crate) fn marks(revision: &Revision, tool: &ToolDefinition, resolved: &Tool) -> Marks {
    Marks {
        idempotent: may_repeat(revision, tool),
        untrusted_output: resolved.untrusted_output(),
        sensitive_output: resolved.sensitive_output(),
    }
}

/// Whether a call of this tool may be sent again when its outcome is unknown: only if the bundle
/// says so, or a server whose annotations it trusts (S4.5).
fn may_repeat(revision: &Revision, tool: &ToolDefinition) -> bool {
    let settings = revision.rules.tool(&tool.registered, &tool.model_name);
    if let Some(idempotent) = settings.idempotent {
        return idempotent;
    }
    if let Some(effect) = settings.effect {
        return effect == Effect::Read;
    }
    match tool.kind {
        // A child is never sent twice: it has begun with the step that says so, or not at all.
        ToolKind::Builtin | ToolKind::Control | ToolKind::Agent => true,
        // It says nothing of itself that could be trusted.
        ToolKind::Native => false,
        ToolKind::Mcp => {
            let server = tool.registered.split('.').next().unwrap_or_default();
            let trusted = revision
                .bundle
                .servers
                .get(server)
                .is_some_and(|server| server.trust_annotations);
            trusted && (tool.hints.idempotent == Some(true) || tool.hints.read_only == Some(true))
        }
    }
}

fn question(args: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Asked {
        question: String,
    }
    serde_json::from_str::<Asked>(args).map_or_else(|_| args.to_owned(), |asked| asked.question)
}
