//! Whether an agent may be built: what only the services do is refused by its key, never accepted and
//! ignored.

use std::collections::{BTreeMap, BTreeSet};

use sayso_models::{ModelsConfig, Registry};
use sayso_rules::bundle::{Builtin, DEFAULT_TIER, EscalationTo, is_agent_name};
use sayso_rules::judge::{CONTROL_TOOLS, START_AGENT};
use sayso_rules::names::is_tool_name;
use sayso_rules::{Bundle, Glob};
use sayso_run::PrincipalId;
use sayso_store::UNRESTRICTED;

use super::approver::Callback;
use super::builder::AgentBuilder;
use super::desk::Seat;
use super::error::BuildError;
use super::{Approver, Model, Tool};

/// Checks bundles, tools and roles; connects to nothing.
pub(crate) fn check(builder: &AgentBuilder) -> Result<(), BuildError> {
    let mut names = BTreeSet::new();
    for given in std::iter::once(&builder.main).chain(&builder.helpers) {
        if !names.insert(given.bundle.name.as_str()) {
            return Err(BuildError::Twice(given.bundle.name.clone()));
        }
        bundle(&given.bundle)?;
        role(&given.bundle, &builder.roles)?;
        tools(&given.tools)?;
    }
    for (role, permits) in &builder.roles {
        if let Some(glob) = permits.iter().find(|glob| Glob::new(glob).is_err()) {
            return Err(BuildError::RoleInvalid {
                role: role.clone(),
                glob: glob.clone(),
            });
        }
    }
    Ok(())
}

fn bundle(bundle: &Bundle) -> Result<(), BuildError> {
    let unsupported = |path: &str, why| {
        Err(BuildError::Unsupported {
            path: path.to_owned(),
            why,
        })
    };
    if !bundle.triggers.is_empty() {
        return unsupported("triggers", "an embedded agent is started by its process");
    }
    let permissions = bundle.permissions.as_ref();
    if permissions.is_some_and(|permissions| permissions.notify.is_some()) {
        return unsupported("permissions.notify", "an embedded agent asks by a callback");
    }
    let rules = permissions.iter().flat_map(|of| &of.rules);
    for (at, rule) in rules.enumerate() {
        let mut steps = rule.escalate.iter().map(|step| &step.to);
        if steps.any(|to| matches!(to, EscalationTo::Target(_))) {
            let path = format!("permissions.rules[{at}].escalate");
            return unsupported(&path, "an embedded agent has no targets");
        }
    }
    Ok(())
}

fn role(bundle: &Bundle, roles: &BTreeMap<String, Vec<String>>) -> Result<(), BuildError> {
    match &bundle.role {
        None => Err(BuildError::NoRole(bundle.name.clone())),
        Some(role) if role == UNRESTRICTED || roles.contains_key(role) => Ok(()),
        Some(role) => Err(BuildError::RoleUnknown(role.clone())),
    }
}

fn tools(tools: &[Tool]) -> Result<(), BuildError> {
    let mut names = BTreeSet::new();
    for Tool(tool) in tools {
        let ours = Builtin::from_name(&tool.name).is_some()
            || tool.name == START_AGENT
            || CONTROL_TOOLS.contains(&tool.name.as_str());
        let schema: Result<serde_json::Map<_, _>, _> = serde_json::from_str(&tool.input_schema);
        let why = if !is_tool_name(&tool.name) {
            "its name is not 1 to 128 characters of A-Z, a-z, 0-9, `_`, `-` and `.`"
        } else if ours {
            "sayso has a tool of this name"
        } else if !names.insert(&tool.name) {
            "it was given twice"
        } else if schema.is_err() {
            "its schema is no JSON object"
        } else {
            continue;
        };
        return Err(BuildError::Tool {
            name: tool.name.clone(),
            why: why.to_owned(),
        });
    }
    Ok(())
}

/// Who decides.
pub(crate) fn seats(approvers: Vec<(Approver, Callback)>) -> Result<Vec<Seat>, BuildError> {
    let bad = |name: &str, why: String| BuildError::Approver {
        name: name.to_owned(),
        why,
    };
    let mut seats: Vec<Seat> = Vec::new();
    for (Approver { principal, groups }, ask) in approvers {
        let id =
            PrincipalId::new(&principal).map_err(|error| bad(&principal, error.to_string()))?;
        if seats.iter().any(|seat| seat.principal == id) {
            return Err(bad(&principal, "it was given twice".to_owned()));
        }
        if let Some(group) = groups.iter().find(|group| !is_agent_name(group)) {
            return Err(bad(group, "it is no name of a group".to_owned()));
        }
        seats.push(Seat {
            principal: id,
            groups,
            ask,
        });
    }
    Ok(seats)
}

/// Whether those who decide are enough for each rule of a bundle (S6.12). Without any, `ask` is `deny`.
pub(crate) fn quorum(bundle: &Bundle, seats: &[Seat]) -> Result<(), BuildError> {
    let rules = bundle.permissions.iter().flat_map(|of| &of.rules);
    for (at, rule) in rules.enumerate() {
        let Some(approvers) = rule.approvers.as_ref().filter(|_| !seats.is_empty()) else {
            continue;
        };
        let later = rule.escalate.iter().filter_map(|step| match &step.to {
            EscalationTo::Group(group) => Some(group),
            EscalationTo::Target(_) => None,
        });
        let groups: BTreeSet<&String> = approvers.group.iter().chain(later).collect();
        let may = |seat: &&Seat| {
            approvers.group.is_none() || groups.iter().any(|group| seat.groups.contains(*group))
        };
        let given = u32::try_from(seats.iter().filter(may).count()).unwrap_or(u32::MAX);
        let needed = approvers.count.max(1);
        if given < needed {
            return Err(BuildError::TooFewApprovers {
                path: format!("permissions.rules[{at}].approvers"),
                needed,
                given,
            });
        }
    }
    Ok(())
}

/// The models by tier. What summarises is the agent's own tier unless one is given.
pub(crate) fn models(
    own: &str,
    needed: &[&str],
    given: Vec<(Option<String>, Model)>,
) -> Result<Registry, BuildError> {
    let mut config = ModelsConfig::default();
    for (
        tier,
        Model {
            name,
            config: model,
        },
    ) in given
    {
        let tier = tier.unwrap_or_else(|| own.to_owned());
        config.tiers.entry(tier).or_default().push(name.clone());
        config.models.insert(name, model);
    }
    if let Some(chain) = config.tiers.get(own).cloned() {
        config.tiers.entry(DEFAULT_TIER.to_owned()).or_insert(chain);
    }
    if let Some(tier) = needed
        .iter()
        .find(|tier| !config.tiers.contains_key(**tier))
    {
        return Err(BuildError::NoModel((*tier).to_owned()));
    }
    Registry::new(config).map_err(BuildError::Models)
}
