//! A run's tools, as listed and as its revision's rules see them.

use std::sync::Arc;

use sayso_rules::judge::{CallView, Hints, Tool, ToolKind as Kind, ToolView};
use sayso_rules::{Bundle, Rules};
use sayso_run::Call;

use crate::evidence::call_view;
use crate::world::{ToolDefinition, ToolKind, ToolSet};

/// The tools of a set with all that a revision says of them: marks, and the rules that speak of them.
/// Made once for a set and a revision; see [`Revision::resolve`](crate::Revision::resolve).
#[derive(Debug)]
pub struct ResolvedTools {
    /// As they were listed.
    pub set: Arc<ToolSet>,
    /// In the order of the set.
    tools: Vec<Tool>,
    /// Those that a model is offered: all but what a rule denies outright (S5.6).
    pub(crate) offered: Vec<ToolDefinition>,
}

impl ResolvedTools {
    pub(crate) fn new(bundle: &Bundle, rules: &Rules, set: Arc<ToolSet>) -> Self {
        let tools: Vec<Tool> = set
            .tools
            .iter()
            .map(|tool| rules.resolve(&view(bundle, tool)))
            .collect();
        let offered = set
            .tools
            .iter()
            .zip(&tools)
            .filter(|(_, resolved)| !rules.hidden(resolved))
            .map(|(tool, _)| tool.clone())
            .collect();
        Self {
            set,
            tools,
            offered,
        }
    }

    /// A tool as the rules see it, by its registered name.
    pub fn tool(&self, registered: &str) -> Option<&Tool> {
        self.get(registered).map(|(_, tool)| tool)
    }

    /// A tool by its registered name.
    pub(crate) fn get(&self, registered: &str) -> Option<(&ToolDefinition, &Tool)> {
        let by_name = |tool: &ToolDefinition| tool.registered.as_str().cmp(registered);
        let at = self.set.tools.binary_search_by(by_name).ok()?;
        Some((&self.set.tools[at], &self.tools[at]))
    }

    /// A call as the judge sees it; none of a tool that there is not.
    pub(crate) fn view<'c>(&'c self, call: &'c Call) -> Option<CallView<'c>> {
        let (_, tool) = self.get(&call.tool)?;
        Some(call_view(call, tool))
    }
}

/// Whether a bundle grants a tool. What a run was offered its own bundle grants; another one, under
/// which the run is judged again, may not.
fn grants(bundle: &Bundle, tool: &ToolDefinition) -> bool {
    match tool.kind {
        ToolKind::Builtin => {
            let mut granted = bundle.builtins.iter();
            granted.any(|builtin| builtin.name() == tool.registered)
        }
        ToolKind::Control => bundle.interaction,
        ToolKind::Agent => !bundle.agents.is_empty(),
        // Whoever made the agent gave it the tool.
        ToolKind::Native => true,
        ToolKind::Mcp => {
            let server = tool.registered.split('.').next().unwrap_or_default();
            bundle.servers.contains_key(server)
        }
    }
}

fn view<'t>(bundle: &Bundle, tool: &'t ToolDefinition) -> ToolView<'t> {
    ToolView {
        registered: &tool.registered,
        model_name: &tool.model_name,
        kind: match tool.kind {
            ToolKind::Builtin => Kind::Builtin,
            ToolKind::Control => Kind::Control,
            ToolKind::Agent => Kind::Agent,
            ToolKind::Mcp | ToolKind::Native => Kind::Mcp,
        },
        granted: grants(bundle, tool),
        hints: Hints {
            read_only: tool.hints.read_only,
            destructive: tool.hints.destructive,
            open_world: tool.hints.open_world,
        },
    }
}
