//! Listing tools, and judging calls.

use std::sync::Arc;

use sayso_rules::Role;
use sayso_run::{AgentName, CallId, FailureCode, Input, Namespace, Phase};

use super::Hold;
use super::asking::spendable;
use super::delegating::{Current, current};
use super::underway::{Done, RoleAndAgents};
use crate::journal::Journal;
use crate::judge::Judge;
use crate::session::Stuck;
use crate::world::{Herald, ListError, Models, Policy, ToolSet, Tools};

impl<J: Journal, M: Models, T: Tools, P: Policy, H: Herald> Hold<J, M, T, P, H> {
    pub(super) fn begin_listing(&mut self) {
        if self.underway.listing {
            return;
        }
        self.underway.listing = true;
        let (driver, revision) = (Arc::clone(&self.driver), Arc::clone(&self.revision));
        let trigger = self.session.state().trigger().clone();
        let run = self.session.state().run().clone();
        self.underway.futures.push(Box::pin(async move {
            let spendable = spendable(&*driver.journal, &trigger.namespace).await;
            if let Err(met) = spendable {
                return Done::Capped(met);
            }
            match driver.policy.role(&trigger.namespace, &trigger.agent).await {
                Ok(Some(_)) => {
                    Done::Listed(driver.tools.list(&trigger.namespace, &revision, &run).await)
                }
                other => Done::NoRole(other),
            }
        }));
    }

    /// A worker that goes on with a run reads the tools that the run's first worker listed.
    pub(super) fn begin_reading_tools(&mut self) {
        let Some(set) = self.session.state().tools().cloned() else {
            return;
        };
        if self.underway.listing {
            return;
        }
        self.underway.listing = true;
        let driver = Arc::clone(&self.driver);
        self.underway.futures.push(Box::pin(async move {
            Done::Listed(driver.tools.stored(&set).await)
        }));
    }

    pub(super) async fn listed(
        &mut self,
        listed: Result<Arc<ToolSet>, ListError>,
    ) -> Result<(), Stuck> {
        self.underway.listing = false;
        match listed {
            Ok(set) => {
                if self.session.state().tools().is_none() {
                    let count = u32::try_from(set.tools.len()).unwrap_or(u32::MAX);
                    self.session.take(Input::ToolsListed {
                        set: set.id.clone(),
                        count,
                    })?;
                }
                self.known = Some(self.revision.resolve(&set));
            }
            Err(error) if error.passes => self.rest(&error).await?,
            Err(error) => {
                let code = FailureCode::new(FailureCode::TOOLS_UNAVAILABLE);
                self.session.take(Input::Fail {
                    code,
                    message: error.to_string(),
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn begin_judging(&mut self, calls: Vec<CallId>) {
        if self.known.is_none() {
            self.begin_reading_tools();
            return;
        }
        if self.underway.judging {
            return;
        }
        self.underway.judging = true;
        let driver = Arc::clone(&self.driver);
        let starting = self.starting(&calls);
        let trigger = self.session.state().trigger();
        let (namespace, agent) = (trigger.namespace.clone(), trigger.agent.clone());
        self.underway.futures.push(Box::pin(async move {
            let answer = role_and_agents(&*driver.policy, &namespace, &agent, &starting).await;
            Done::Role(calls, answer)
        }));
    }

    pub(super) fn judged(
        &mut self,
        calls: &[CallId],
        role: &Role,
        current: &Current,
    ) -> Result<(), Stuck> {
        let redaction = Arc::clone(self.session.redaction());
        let known = self
            .known
            .clone()
            .expect("calls are judged only once the tools are known");
        let (state, evidence) = self.session.evidence(&known);
        let open: Vec<CallId> = calls
            .iter()
            .filter(|id| {
                state
                    .call(id)
                    .is_some_and(|call| call.phase == Phase::Proposed)
            })
            .cloned()
            .collect();
        let judge = Judge {
            tools: &*self.driver.tools,
            revision: &self.revision,
            role,
            known: &known,
            redaction: &redaction,
            current,
            delegation: self.driver.delegation,
        };
        let judgements = judge.judge(evidence, state, &open);
        self.session.take(Input::Judged {
            judgements,
            worker: self.driver.worker.clone(),
            approval_timeout: self.revision.bundle.approval_timeout(),
        })?;
        Ok(())
    }

    pub(super) fn fail_without_role(&mut self) -> Result<(), Stuck> {
        let agent = &self.session.state().trigger().agent;
        let message = format!("the agent {agent} has no role, so nothing may run");
        self.session.take(Input::Fail {
            code: FailureCode::new(FailureCode::NO_ROLE),
            message,
        })?;
        Ok(())
    }
}

/// The agent's role now, and the revisions of the agents that calls with these arguments would start.
pub(super) async fn role_and_agents<P: Policy>(
    policy: &P,
    namespace: &Namespace,
    agent: &AgentName,
    starting: &[String],
) -> RoleAndAgents {
    let role = policy.role(namespace, agent).await?;
    Ok((role, current(policy, namespace, starting).await?))
}
