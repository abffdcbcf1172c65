//! Asking the model, and taking its answer.

use std::sync::Arc;
use std::time::Duration;

use sayso_run::{Answer, Currency, Input, ModelFailure, Namespace, Proposed, RunId};
use tokio_util::sync::CancellationToken;

use super::Hold;
use super::compacting::Size;
use super::underway::Done;
use crate::journal::{Budget, Journal};
use crate::session::Stuck;
use crate::world::{Deltas, Herald, ModelReply, ModelRequest, Models, Policy, Tools};

impl<J: Journal, M: Models, T: Tools, P: Policy, H: Herald> Hold<J, M, T, P, H> {
    /// Asks the model, or makes the conversation smaller first; true if that changed the state.
    pub(super) fn begin_asking(&mut self, cycle: u32) -> Result<bool, Stuck> {
        if self.underway.asking.is_some() || self.underway.briefing {
            return Ok(false);
        }
        let Some(known) = self.known.clone() else {
            self.begin_reading_tools();
            return Ok(false);
        };
        let state = self.session.state();
        let request = ModelRequest {
            run: state.run().clone(),
            cycle,
            tier: self.revision.bundle.tier.clone(),
            system: self.revision.bundle.instructions.clone(),
            messages: state.messages(),
            tools: known.offered.clone(),
            capped_in: None,
            redaction: Arc::clone(self.session.redaction()),
        };
        match self.size(&request) {
            Size::Fits => {}
            Size::Prune { upto, tokens } => {
                return self.session.take(Input::Prune { upto, tokens });
            }
            Size::Brief { upto, tokens } => {
                self.begin_briefing(cycle, upto, tokens);
                return Ok(false);
            }
            Size::TooLarge { tokens, window } => return self.fail_too_large(tokens, window),
        }
        self.ask(cycle, request);
        Ok(false)
    }

    fn ask(&mut self, cycle: u32, request: ModelRequest) {
        let state = self.session.state();
        let namespace = state.trigger().namespace.clone();
        let (seen, run) = (state.seq(), state.run().clone());
        let stop = CancellationToken::new();
        self.underway.asking = Some((seen, stop.clone()));
        let driver = Arc::clone(&self.driver);
        self.underway.futures.push(Box::pin(async move {
            let deltas = RunDeltas {
                herald: &*driver.herald,
                run: &run,
                cycle,
            };
            let asked = async {
                let capped_in = spendable(&*driver.journal, &namespace).await?;
                let request = ModelRequest {
                    capped_in,
                    ..request
                };
                Ok(driver.models.ask(request, &deltas).await)
            };
            let reply = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    deltas.withdrawn();
                    std::future::pending().await
                }
                reply = asked => reply,
            };
            match reply {
                Ok(reply) => Done::Answered { cycle, seen, reply },
                Err(met) => Done::Capped(met),
            }
        }));
    }

    pub(super) fn answered(
        &mut self,
        cycle: u32,
        seen: u64,
        reply: ModelReply,
    ) -> Result<(), Stuck> {
        let input = match reply {
            ModelReply::Answer {
                text,
                thinking,
                calls,
                model,
                usage,
                failovers,
            } => {
                let calls = calls.into_iter().map(|call| self.proposed(call)).collect();
                let price = self.driver.models.price(&model);
                let cost = price.map(|price| price.cost(usage));
                Input::Answer(Answer {
                    cycle,
                    seen,
                    failovers,
                    thinking,
                    text: clean(text),
                    calls,
                    model,
                    usage,
                    cost,
                })
            }
            ModelReply::Failed {
                code,
                message,
                billing,
                failovers,
            } => Input::ModelFailed(ModelFailure {
                cycle,
                failovers,
                code,
                message: clean(message),
                billing,
            }),
        };
        self.session.take(input)?;
        Ok(())
    }

    fn proposed(&self, call: crate::world::ModelCall) -> Proposed {
        let tool = self
            .known
            .as_ref()
            .and_then(|known| known.set.find(&call.name));
        Proposed {
            tool: tool.map_or_else(|| clean(call.name.clone()), |tool| tool.registered.clone()),
            model_name: tool.map_or_else(|| clean(call.name), |tool| tool.model_name.clone()),
            args: clean(call.args),
            definition: tool.map(crate::world::ToolDefinition::digest),
        }
    }

    /// A request that shows steps which a conflict has moved is void and asked again.
    pub(super) fn drop_void_request(&mut self) {
        let Some(moved_from) = self.session.take_moved_from() else {
            return;
        };
        if self
            .underway
            .asking
            .as_ref()
            .is_some_and(|(seen, _)| *seen > moved_from)
        {
            self.stop_asking();
        }
        let is_void =
            |done: &Done| matches!(done, Done::Answered { seen, .. } if *seen > moved_from);
        self.underway.came.retain(|done| !is_void(done));
    }

    pub(super) fn abandon_request_of_ended_run(&mut self) {
        if self.session.state().status().is_terminal() {
            self.stop_asking();
        }
    }

    pub(super) fn stop_asking(&mut self) {
        if let Some((_, stop)) = self.underway.asking.take() {
            stop.cancel();
        }
    }
}

/// The currency of the namespace's cap, if it has one; an error if the cap is met. A journal that is
/// away is asked again: without an answer nothing is spent.
pub(crate) async fn spendable<J: Journal>(
    journal: &J,
    namespace: &Namespace,
) -> Result<Option<Currency>, Budget> {
    let mut attempt: u32 = 0;
    loop {
        match journal.budget(namespace).await {
            Ok(Some(budget)) if budget.is_met() => return Err(budget),
            Ok(budget) => return Ok(budget.map(|budget| budget.cap.currency())),
            Err(error) => {
                attempt += 1;
                tracing::warn!(%namespace, %error, attempt, "the budget cannot be read; it is tried again");
                journal
                    .pause(Duration::from_millis(50u64 << attempt.min(5)))
                    .await;
            }
        }
    }
}

/// Nobody reads along.
pub(crate) struct Silent;

impl Deltas for Silent {
    fn text(&self, _text: &str) {}
    fn withdrawn(&self) {}
}

struct RunDeltas<'a, H> {
    herald: &'a H,
    run: &'a RunId,
    cycle: u32,
}

impl<H: Herald> Deltas for RunDeltas<'_, H> {
    fn text(&self, text: &str) {
        self.herald.delta(self.run, self.cycle, Some(text));
    }

    fn withdrawn(&self) {
        self.herald.delta(self.run, self.cycle, None);
    }
}

/// No database column takes a NUL.
fn clean(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    }
}
