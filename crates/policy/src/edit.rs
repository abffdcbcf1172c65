//! Judging a held call as a person has edited it (S6.7).

use std::sync::Arc;

use sayso_driver::{EditRefused, Journal, JudgedEdit, Revision, judge_edit};
use sayso_rules::Role;
use sayso_run::{CallId, Namespace, RunId};
use sayso_service::error::{Coded, Kind};
use sayso_wire::code;
use sayso_wire::internal::JudgeEditRequest;

use crate::refuse::{name, no_run, unreadable};
use crate::{Policy, read, stored};

/// Answers `JudgeEdit`.
pub(crate) async fn judge(
    policy: &Policy,
    namespace: &Namespace,
    asked: &JudgeEditRequest,
) -> Result<JudgedEdit, Coded> {
    let store = &policy.store;
    let run = name("run_id", RunId::new(&asked.run_id))?;
    let call = name("call_id", CallId::new(&asked.call_id))?;
    let loaded = store.load(&run).await.map_err(|error| unreadable(&error))?;
    let state = loaded.ok_or_else(no_run)?.state;
    let trigger = state.trigger();
    if trigger.namespace != *namespace {
        return Err(no_run());
    }
    let row = read::revision(store, namespace, &trigger.agent, Some(&trigger.revision)).await?;
    let judges = Revision::new(row.id.clone(), stored::bundle(&row)?).by(row.deployed_by);
    let set = stored::tools(store, &state).await?;
    let set = set.ok_or_else(|| refused(&EditRefused::NoCall))?;
    let tools = judges.resolve(&Arc::new(set));
    let role = read::role(store, namespace, &trigger.agent).await?.json;
    let role: Role = match role {
        Some(json) => serde_json::from_str(&json)
            .map_err(|error| Coded::internal("reading the role", &error))?,
        None => {
            let no_role = "the agent has no role now, so nothing may run";
            return Err(refused(&EditRefused::NotPermitted(no_role.to_owned())));
        }
    };
    let edit = (&call, asked.args_json.as_str(), asked.pointers.as_slice());
    let check = |tool: &_, args: &str| policy.arguments.check(tool, args);
    judge_edit(&state, (&judges, &role), &tools, edit, check).map_err(|error| refused(&error))
}

fn refused(error: &EditRefused) -> Coded {
    let (kind, code) = match error {
        EditRefused::NoCall => (Kind::NotFound, code::APPROVAL_NOT_FOUND),
        EditRefused::Denied { .. } | EditRefused::NotPermitted(_) => {
            (Kind::Precondition, code::EDIT_REFUSED)
        }
        EditRefused::Invalid(_) => (Kind::Invalid, code::EDIT_INVALID),
    };
    let sentence = format!("The call cannot be edited so, and nothing has changed: {error}");
    let coded = Coded::new(kind, code, sentence);
    match error {
        EditRefused::Denied { rule, .. } => coded.with("rule", rule.clone()),
        EditRefused::Invalid(why) => coded.field("edits", why.clone()),
        EditRefused::NoCall | EditRefused::NotPermitted(_) => coded,
    }
}
