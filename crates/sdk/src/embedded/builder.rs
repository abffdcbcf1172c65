use std::collections::BTreeMap;

use sayso_rules::Bundle;
use sayso_run::Money;

use super::approver::{Answer, Approver, Callback, callback};
use super::error::BuildError;
use super::{Agent, Journal, Model, Tool, open};
use crate::v1;

/// Another agent, which the agent may start with `start_agent` if its bundle lets it (S3.6).
#[derive(Debug)]
pub struct Helper {
    pub(crate) bundle: Bundle,
    pub(crate) tools: Vec<Tool>,
}

impl Helper {
    /// An agent by its bundle, YAML or JSON.
    ///
    /// # Errors
    ///
    /// [`BuildError::Bundle`] with every mistake in it.
    pub fn from_bundle(text: &str) -> Result<Self, BuildError> {
        Ok(Self {
            bundle: Bundle::parse(text).map_err(BuildError::Bundle)?,
            tools: Vec::new(),
        })
    }

    /// Gives it a tool of this process.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }
}

/// An agent that is being put together; begun with [`Agent::from_bundle`].
pub struct AgentBuilder {
    pub(crate) main: Helper,
    pub(crate) helpers: Vec<Helper>,
    /// Models by the tier that they were given for; none is the agent's own.
    pub(crate) models: Vec<(Option<String>, Model)>,
    pub(crate) approvers: Vec<(Approver, Callback)>,
    pub(crate) roles: BTreeMap<String, Vec<String>>,
    pub(crate) secrets: Vec<(String, String)>,
    pub(crate) cap: Option<Money>,
    pub(crate) journal: Journal,
}

impl std::fmt::Debug for AgentBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentBuilder")
            .field("agent", &self.main.bundle.name)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

impl AgentBuilder {
    pub(crate) fn new(main: Helper) -> Self {
        Self {
            main,
            helpers: Vec::new(),
            models: Vec::new(),
            approvers: Vec::new(),
            roles: BTreeMap::new(),
            secrets: Vec::new(),
            cap: None,
            journal: Journal::memory(),
        }
    }

    /// A model of the tier that the bundle names. Of several the first is asked, and the next where
    /// that one is unavailable (S4.7).
    #[must_use]
    pub fn model(mut self, model: Model) -> Self {
        self.models.push((None, model));
        self
    }

    /// A model of another tier: a helper's, or `balanced`, which summarises (S4.4) and is the agent's
    /// own unless this says otherwise.
    #[must_use]
    pub fn tier(mut self, tier: impl Into<String>, model: Model) -> Self {
        self.models.push((Some(tier.into()), model));
        self
    }

    /// Gives the agent a tool that is code of this process, beside the built-ins and MCP servers of its
    /// bundle.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.main.tools.push(tool);
        self
    }

    /// Another agent that this one may start.
    #[must_use]
    pub fn helper(mut self, helper: Helper) -> Self {
        self.helpers.push(helper);
        self
    }

    /// Who decides what policy asks for, and how (S6.14). The callback is given the approval with all
    /// that a reviewer needs (S6.3), secrets redacted. Given more than once, each principal is asked,
    /// where a rule wants several; nobody is asked about a request of their own.
    ///
    /// A callback that panics or fails decides nothing: the approval stays pending until its time is
    /// up, and [`Agent::log`] says so. After a crash it is asked again of whatever is still pending.
    #[must_use]
    pub fn on_approval<F, Fut, A>(mut self, approver: impl Into<Approver>, ask: F) -> Self
    where
        F: Fn(v1::Approval) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = A> + Send + 'static,
        A: Answer + 'static,
    {
        self.approvers.push((approver.into(), callback(ask)));
        self
    }

    /// A role that bundles may name: patterns of the tools that it permits (S3.9).
    #[must_use]
    pub fn role<G: Into<String>>(
        mut self,
        name: impl Into<String>,
        permits: impl IntoIterator<Item = G>,
    ) -> Self {
        let permits = permits.into_iter().map(Into::into).collect();
        self.roles.insert(name.into(), permits);
        self
    }

    /// A secret that bundles refer to as `${secret:NAME}`, and that no prompt, step, approval or log
    /// shows (S3.10). It is stored nowhere.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.secrets.push((name.into(), value.into()));
        self
    }

    /// The most that models may cost in a calendar month (S4.6). Each model needs a price then.
    #[must_use]
    pub fn monthly_cap(mut self, cap: Money) -> Self {
        self.cap = Some(cap);
        self
    }

    /// Where runs live: [`Journal::memory`] unless this says otherwise.
    #[must_use]
    pub fn journal(mut self, journal: Journal) -> Self {
        self.journal = journal;
        self
    }

    /// Opens the journal and begins to work: also on what an earlier process has left
    /// ([`Agent::resume`]).
    ///
    /// # Errors
    ///
    /// [`BuildError`]; then nothing runs.
    pub async fn build(self) -> Result<Agent, BuildError> {
        open::open(self).await
    }
}
