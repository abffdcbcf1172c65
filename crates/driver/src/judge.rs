use sayso_rules::bundle::{Action, Effect};
use sayso_rules::{CallView, Role, RuleId};
use sayso_run::{Call, CallId, Judgement, Marks, Ruling, RunState};

use crate::world::{Revision, ToolDefinition, ToolKind, ToolSet, Tools};

/// Judges calls in order: grant and rules, the role's ceiling, then the schema; nothing is asked of
/// a person that could not run (S3.7, S3.9, S5.1).
pub(crate) fn judge<T: Tools>(
    tools: &T,
    revision: &Revision,
    role: &Role,
    set: &ToolSet,
    state: &RunState,
    calls: &[CallId],
) -> Vec<Judgement> {
    calls
        .iter()
        .filter_map(|id| state.call(id))
        .map(|call| Judgement {
            call: call.id.clone(),
            ruling: rule(tools, revision, role, set, call),
        })
        .collect()
}

fn rule<T: Tools>(
    tools: &T,
    revision: &Revision,
    role: &Role,
    set: &ToolSet,
    call: &Call,
) -> Ruling {
    let Some(tool) = set.tools.iter().find(|tool| tool.registered == call.tool) else {
        return Ruling::NotGranted;
    };
    let verdict = revision.rules.judge(&view(tool));
    match verdict.action {
        Action::Deny if verdict.rule == RuleId::Grant => return Ruling::NotGranted,
        Action::Deny => {
            return Ruling::Deny {
                rule: verdict.rule.to_string(),
                reason: verdict.reason.to_string(),
            };
        }
        Action::Allow | Action::Ask => {}
    }
    if tool.kind != ToolKind::Control && !role.permits(&tool.registered, &tool.model_name) {
        let message = format!(
            "permission denied: the role `{}` does not permit `{}`; this call did not run",
            role.name, tool.registered
        );
        return Ruling::PermissionDenied { message };
    }
    if let Err(problem) = tools.check(tool, &call.args) {
        return Ruling::InvalidArguments {
            message: format!("validation error: the arguments do not fit; nothing ran. {problem}"),
        };
    }
    if tool.kind == ToolKind::Control {
        return Ruling::AskPerson {
            question: question(&call.args),
        };
    }
    match verdict.action {
        Action::Ask => Ruling::Ask {
            rule: verdict.rule.to_string(),
            reason: verdict.reason.to_string(),
        },
        Action::Allow | Action::Deny => Ruling::Allow {
            rule: verdict.rule.to_string(),
            marks: marks(revision, tool),
        },
    }
}

/// What a tool is marked with, for the run.
pub(crate) fn marks(revision: &Revision, tool: &ToolDefinition) -> Marks {
    Marks {
        idempotent: may_repeat(revision, tool),
        ..Marks::default()
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
        ToolKind::Builtin | ToolKind::Control => true,
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

/// The tools that a model is offered: all but those that a rule denies outright (S5.6).
pub(crate) fn offered(revision: &Revision, set: &ToolSet) -> Vec<ToolDefinition> {
    set.tools
        .iter()
        .filter(|tool| !revision.rules.hidden(&view(tool)))
        .cloned()
        .collect()
}

fn view(tool: &ToolDefinition) -> CallView<'_> {
    CallView {
        registered: &tool.registered,
        model_name: &tool.model_name,
        kind: match tool.kind {
            ToolKind::Builtin => sayso_rules::ToolKind::Builtin,
            ToolKind::Control => sayso_rules::ToolKind::Control,
            ToolKind::Mcp => sayso_rules::ToolKind::Mcp,
        },
        granted: true,
    }
}

fn question(args: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Asked {
        question: String,
    }
    serde_json::from_str::<Asked>(args).map_or_else(|_| args.to_owned(), |asked| asked.question)
}
