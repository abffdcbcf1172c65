//! Starting other agents (S3.6). A call of `start_agent` becomes a run in the append of its
//! `child_started`, or not at all; the end of that run waits in the journal until its parent takes
//! it. A parent that has nothing else to do is given back while it waits.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use sayso_run::{
    AgentName, CallId, ChildEnd, Input, Namespace, NewChild, Phase, RevisionId, ToolOutcome,
};
use serde::Deserialize;

use super::Hold;
use crate::journal::{Journal, LoadError};
use crate::session::{Stuck, backoff};
use crate::world::{Herald, Models, Policy, PolicyUnavailable, ToolKind, Tools};

/// How deep and how wide agents may start agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelegationLimits {
    /// How far below the root a run may stand.
    pub depth: u32,
    /// How many children of one run may be live at once.
    pub live_children: u32,
}

impl Default for DelegationLimits {
    fn default() -> Self {
        Self {
            depth: sayso_run::limits::DELEGATION_DEPTH,
            live_children: sayso_run::limits::LIVE_CHILDREN,
        }
    }
}

/// The revisions with which agents that calls name would start now; none where there is no such
/// agent.
pub(crate) type Current = BTreeMap<AgentName, Option<RevisionId>>;

/// The arguments of `start_agent`, once they fit its schema.
#[derive(Debug, Deserialize)]
struct StartAgent {
    agent: String,
    input: String,
}

impl StartAgent {
    fn read(args: &str) -> Option<(AgentName, String)> {
        let read: StartAgent = serde_json::from_str(args).ok()?;
        Some((AgentName::new(read.agent).ok()?, read.input))
    }
}

/// Asks for the revisions of the agents that these arguments name.
pub(crate) async fn current<P: Policy>(
    policy: &P,
    namespace: &Namespace,
    args: &[String],
) -> Result<Current, PolicyUnavailable> {
    let mut current = Current::new();
    for (agent, _) in args.iter().filter_map(|args| StartAgent::read(args)) {
        if let Entry::Vacant(new) = current.entry(agent) {
            let revision = policy.current(namespace, new.key()).await?;
            new.insert(revision);
        }
    }
    Ok(current)
}

/// The run that a call would become.
///
/// # Errors
///
/// What the model is told.
pub(crate) fn child(args: &str, current: &Current) -> Result<NewChild, String> {
    let Some((agent, input)) = StartAgent::read(args) else {
        return Err("no run was started: the arguments name no agent and input".to_owned());
    };
    if input.len() > sayso_run::limits::MAX_TEXT_BYTES || input.contains('\0') {
        return Err("no run was started: the input is too long, or no text".to_owned());
    }
    let Some(Some(revision)) = current.get(&agent) else {
        return Err(format!(
            "no run was started: there is no agent `{agent}` now"
        ));
    };
    Ok(NewChild {
        agent,
        revision: revision.clone(),
        input,
    })
}

impl DelegationLimits {
    /// Whether a run at this depth with so many live children may start one more.
    ///
    /// # Errors
    ///
    /// What the model is told.
    pub(crate) fn check(self, depth: u32, live: u32) -> Result<(), String> {
        if depth >= self.depth {
            return Err(format!(
                "no run was started: agents may start agents {} deep, and this one stands there; do \
                 the work yourself",
                self.depth
            ));
        }
        if live >= self.live_children {
            return Err(format!(
                "no run was started: {} runs that this one started are not done yet; wait for one of \
                 them",
                self.live_children
            ));
        }
        Ok(())
    }
}

impl<J: Journal, M: Models, T: Tools, P: Policy, H: Herald> Hold<J, M, T, P, H> {
    /// The arguments of those of these calls that would start an agent.
    pub(super) fn starting(&self, calls: &[CallId]) -> Vec<String> {
        let state = self.session.state();
        let calls = calls.iter().filter_map(|id| state.call(id));
        let starting = calls.filter(|call| {
            let known = self.known.as_ref().and_then(|known| known.get(&call.tool));
            known.is_some_and(|(tool, _)| tool.kind == ToolKind::Agent)
        });
        starting.map(|call| call.args.clone()).collect()
    }

    /// An approved call of `start_agent` becomes a run, or is answered with why it cannot.
    pub(super) fn delegate(&mut self, id: CallId, current: &Current) -> Result<bool, Stuck> {
        let state = self.session.state();
        let Some(call) = state.call(&id).filter(|call| call.phase == Phase::Cleared) else {
            return Ok(false);
        };
        let live = u32::try_from(state.live_children().count()).unwrap_or(u32::MAX);
        let limits = self.driver.delegation;
        let child = limits
            .check(state.depth(), live)
            .and_then(|()| child(&call.args, current));
        self.session.take(match child {
            Ok(child) => Input::Delegate { call: id, child },
            // As it is where a rule would have let it through.
            Err(message) => Input::Withhold {
                call: id,
                outcome: ToolOutcome::InvalidArguments,
                message,
            },
        })
    }

    /// Takes the ends of children that the run still waits for; true if there was one.
    pub(super) async fn take_ended_children(&mut self) -> Result<bool, Stuck> {
        if !self.session.state().has_live_children() {
            return Ok(false);
        }
        let mut taken = false;
        for end in self.ended_children().await? {
            taken |= self.session.take(Input::ChildEnded(end))?;
        }
        Ok(taken)
    }

    async fn ended_children(&mut self) -> Result<Vec<ChildEnd>, Stuck> {
        let journal = Arc::clone(&self.driver.journal);
        let run = self.session.state().run().clone();
        let mut attempt = 0;
        loop {
            let reading = journal.ended_children(&run);
            match self.underway.beside(reading).await {
                Ok(ends) => return Ok(ends),
                Err(LoadError::Unavailable(why)) => {
                    attempt += 1;
                    tracing::warn!(
                        why,
                        attempt,
                        "ended children cannot be read; it is tried again"
                    );
                    self.underway.beside(journal.pause(backoff(attempt))).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
