//! Sending calls: an approved one only after the agent's role was asked once more, since a person
//! may have taken long (S3.9), and any one only after its `tool_started` is durable.

use std::sync::Arc;

use futures::future::BoxFuture;
#[cfg(feature = "hooks")]
use sayso_run::hooks::{Fault, planted};
use sayso_run::{CallId, Input, Marks, Phase, ToolOutcome, ToolOutput};
use tracing::Instrument;

use super::Hold;
use super::judging::role_and_agents;
use super::underway::{Done, RoleAndAgents};
use crate::journal::Journal;
use crate::judge::{marks, permits};
use crate::resolved::ResolvedTools;
use crate::session::Stuck;
#[cfg(feature = "hooks")]
use crate::world::Fence;
use crate::world::{Herald, Models, Policy, ToolKind, ToolReply, ToolRequest, Tools};

impl<J: Journal, M: Models, T: Tools, P: Policy, H: Herald> Hold<J, M, T, P, H> {
    /// Begins what lets a call go: the role's word, if a person approved it; nothing more for an
    /// idempotent one that is sent again.
    pub(super) fn begin_execute(&mut self, id: CallId) -> Result<bool, Stuck> {
        if self.known.is_none() {
            self.begin_reading_tools();
            return Ok(false);
        }
        let call = self.session.state().call(&id);
        if !call.is_some_and(|call| call.phase == Phase::Cleared) {
            return self.execute(id);
        }
        if self.underway.clearing.insert(id.clone()) {
            let driver = Arc::clone(&self.driver);
            let starting = self.starting(std::slice::from_ref(&id));
            let trigger = self.session.state().trigger();
            let (namespace, agent) = (trigger.namespace.clone(), trigger.agent.clone());
            self.underway.futures.push(Box::pin(async move {
                let answer = role_and_agents(&*driver.policy, &namespace, &agent, &starting).await;
                Done::Ceiling(id, answer)
            }));
        }
        Ok(false)
    }

    /// What the role says now on an approved call. While nobody can say, nothing is sent (S5.13).
    pub(super) async fn ceiling_told(
        &mut self,
        id: CallId,
        answer: RoleAndAgents,
    ) -> Result<(), Stuck> {
        let (role, current) = match answer {
            Ok(answer) => answer,
            // It counts as being cleared until the run has rested.
            Err(error) => return self.rest(&error).await,
        };
        self.underway.clearing.remove(&id);
        let Some(call) = self.session.state().call(&id) else {
            return Ok(());
        };
        let known = self.known.as_ref().and_then(|known| known.get(&call.tool));
        let permitted = match (role, known) {
            (Some(role), Some((tool, _))) => permits(&role, tool),
            (Some(_), None) => Ok(()),
            (None, _) => Err(
                "permission denied: the agent has no role now; this call did not run".to_owned(),
            ),
        };
        let starts_agent = known.is_some_and(|(tool, _)| tool.kind == ToolKind::Agent);
        match permitted {
            Ok(()) if starts_agent => self.delegate(id, &current)?,
            Ok(()) => self.execute(id)?,
            Err(message) => self.session.take(Input::Withhold {
                call: id,
                outcome: ToolOutcome::PermissionDenied,
                message,
            })?,
        };
        Ok(())
    }

    fn execute(&mut self, id: CallId) -> Result<bool, Stuck> {
        let Some(call) = self.session.state().call(&id) else {
            return Ok(false);
        };
        let known = self.known.as_ref().and_then(|known| known.get(&call.tool));
        let marks = known.map_or_else(Marks::default, |(tool, resolved)| {
            marks(&self.revision, tool, resolved)
        });
        self.session.take(Input::Execute {
            call: id,
            worker: self.driver.worker.clone(),
            marks,
        })
    }

    /// Sends the calls whose `tool_started` by this worker is durable.
    pub(super) fn begin_started(&mut self) {
        for id in self.session.take_started() {
            let known = self
                .known
                .clone()
                .expect("a call is started only once the tools are known");
            self.underway.executing.push(id.clone());
            let future = self.send(&known, id);
            self.underway.futures.push(future);
        }
    }

    fn send(&self, known: &ResolvedTools, id: CallId) -> BoxFuture<'static, Done> {
        let driver = Arc::clone(&self.driver);
        let revision = Arc::clone(&self.revision);
        let state = self.session.state();
        let call = state
            .call(&id)
            .expect("a started call is part of the state")
            .clone();
        let tool = known.get(&call.tool).map(|(tool, _)| tool.clone());
        let trigger = state.trigger();
        let settings = revision.rules.tool(&call.tool, &call.model_name);
        let request = tool
            .filter(|tool| Some(tool.digest()) == call.definition)
            .map(|tool| ToolRequest {
                namespace: trigger.namespace.clone(),
                agent: trigger.agent.clone(),
                run: state.run().clone(),
                call: id.clone(),
                tool,
                args: call.args.clone(),
                idempotency_key: state.idempotency_key(&id),
                timeout: settings.timeout,
                max_result_bytes: usize::try_from(settings.max_result_bytes).unwrap_or(usize::MAX),
            });
        let span = tracing::info_span!(
            "execute_tool",
            otel.name = %format_args!("execute_tool {}", call.tool),
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = call.tool,
            gen_ai.tool.call.id = %id,
            gen_ai.tool.call.arguments = tracing::field::Empty,
            sayso.trust.lowered = tracing::field::Empty,
            gen_ai.tool.call.result = tracing::field::Empty,
            error.type = tracing::field::Empty,
        );
        let lowered = state.trust_lowered_by();
        if lowered.is_some_and(|lowered| lowered.call.as_ref() == Some(&id)) {
            span.record("sayso.trust.lowered", state.trust().as_str());
        }
        if self.driver.tells_content {
            let shown = self.session.redaction().view(&call.args);
            span.record("gen_ai.tool.call.arguments", shown.as_ref());
        }
        let redaction = Arc::clone(self.session.redaction());
        let fence = driver.fence.clone();
        #[cfg(feature = "hooks")]
        let fence = if planted(Fault::SendWithoutFence) {
            Fence::new(|| true)
        } else {
            fence
        };
        Box::pin(async move {
            let started = driver.journal.now();
            #[cfg(feature = "hooks")]
            crate::hooks::window("driver.before_send").await;
            let reply = match request {
                Some(request) => {
                    let called = driver.tools.call(&revision, request, fence);
                    called.instrument(span.clone()).await
                }
                None => mismatch(),
            };
            if driver.tells_content {
                let shown = redaction.view(&reply.content);
                span.record("gen_ai.tool.call.result", shown.as_ref());
            }
            if reply.outcome != ToolOutcome::Ok {
                span.record("error.type", tracing::field::debug(reply.outcome));
            }
            drop(span);
            #[cfg(feature = "hooks")]
            crate::hooks::window("driver.after_send").await;
            let took = driver.journal.now().micros_since(started);
            Done::Returned(ToolOutput {
                call: id,
                worker: driver.worker.clone(),
                outcome: reply.outcome,
                content: reply.content,
                cut_bytes: reply.cut_bytes,
                took_micros: u64::try_from(took).unwrap_or(0),
                artifact: reply.artifact,
            })
        })
    }
}

fn mismatch() -> ToolReply {
    ToolReply {
        outcome: ToolOutcome::Mismatch,
        content:
            "the tool is not defined any more as it was when this call was let through; nothing ran"
                .into(),
        cut_bytes: 0,
        artifact: None,
    }
}
