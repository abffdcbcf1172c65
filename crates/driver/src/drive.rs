//! The loop: perform what is owed, take in what comes of it, append, until the run waits or ends.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
#[cfg(feature = "hooks")]
use sayso_run::hooks::{Fault, planted};
use sayso_run::{
    Answer, CallId, ChainKey, Clearance, Currency, Effect, FailureCode, Input, Marks, ModelFailure,
    Namespace, Next, Proposed, RunId, SpendingCap, ToolOutcome, ToolOutput, WorkerId,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::journal::{Budget, Journal, LoadError, Loaded};
use crate::judge::{Judge, marks, permits};
use crate::resolved::ResolvedTools;
use crate::session::{Flushed, Lease, Session, Stuck};
use crate::world::{
    Deltas, Fence, Herald, ListError, ModelReply, ModelRequest, Models, Policy, PolicyUnavailable,
    Revision, ToolRequest, ToolSet, Tools,
};

/// How long after a pause was seen a hold that cannot be given back yet looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long a run rests when policy, or what keeps lists of tools, cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);

/// Everything that driving needs. Cheap to share.
#[derive(Debug)]
pub struct Driver<J, M, T, P, H> {
    /// Where timelines live.
    pub journal: Arc<J>,
    /// The models.
    pub models: Arc<M>,
    /// The tools.
    pub tools: Arc<T>,
    /// Revisions and roles.
    pub policy: Arc<P>,
    /// Who tells the world.
    pub herald: Arc<H>,
    /// Seals timelines.
    pub key: ChainKey,
    /// This worker.
    pub worker: WorkerId,
    /// Whether this worker may still act.
    pub fence: Fence,
    /// Whether traces carry arguments and results (S10.3).
    pub tells_content: bool,
}

/// How a drive ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driven {
    /// The run waits for somebody, or has ended; the lease was given back.
    Parked,
    /// There was nothing to do.
    NothingOwed,
    /// The agent or its namespace is paused: the run is left as it is (S10.6).
    Paused,
    /// There is no such run.
    NotFound,
    /// A live worker holds the run.
    HeldElsewhere,
    /// Another worker took the run over meanwhile.
    Lost,
    /// The run is left to a newer version, or its timeline cannot be worked on.
    LeftAlone(String),
    /// The journal cannot be reached.
    Unavailable(String),
}

/// What an operation brought.
enum Done {
    Listed(Result<Arc<ToolSet>, ListError>),
    Role(
        Vec<CallId>,
        Result<Option<Arc<sayso_rules::Role>>, PolicyUnavailable>,
    ),
    NoRole(Result<Option<Arc<sayso_rules::Role>>, PolicyUnavailable>),
    /// What was away may be asked again.
    Rested,
    /// Whether the agent is still paused may be looked at again.
    Looked,
    Answered {
        cycle: u32,
        seen: u64,
        reply: ModelReply,
    },
    /// Nothing more may be spent (S4.6).
    Capped(Budget),
    Returned(ToolOutput),
}

/// Operations under way.
struct Underway {
    futures: FuturesUnordered<BoxFuture<'static, Done>>,
    listing: bool,
    judging: bool,
    /// Whether a hold of a paused run is about to look again.
    looking: bool,
    /// The request under way: the last step that it shows, and how to stop it.
    asking: Option<(u64, CancellationToken)>,
    executing: Vec<CallId>,
}

impl<J: Journal, M: Models, T: Tools, P: Policy, H: Herald> Driver<J, M, T, P, H> {
    /// Drives a run until it waits, ends, or is lost. A message on `nudges` says that somebody wrote
    /// to it; `claimed` is called once the claim is durable, or it is clear that there is nothing to
    /// claim; `drain` asks to hand the run back as soon as no call is in flight.
    pub async fn drive(
        self: &Arc<Self>,
        run: &RunId,
        nudges: &mut mpsc::Receiver<()>,
        claimed: impl FnOnce() + Send,
        drain: CancellationToken,
    ) -> Driven {
        let loaded = match self.journal.load(run).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Driven::NotFound,
            Err(LoadError::Unavailable(why)) => return Driven::Unavailable(why),
            Err(error) => return Driven::LeftAlone(error.to_string()),
        };
        let elsewhere = loaded
            .lease
            .worker
            .as_ref()
            .is_some_and(|worker| *worker != self.worker && loaded.lease.worker_alive);
        #[cfg(feature = "hooks")]
        let elsewhere = elsewhere && !planted(Fault::TakeoverOfLiveWorker);
        if elsewhere {
            return Driven::HeldElsewhere;
        }
        let owed = matches!(loaded.state.next(), Next::Owed(_));
        if !owed && loaded.lease.worker.is_none() && loaded.lease.ready_at.is_none() {
            return Driven::NothingOwed;
        }
        let untouched = loaded.lease.paused && !loaded.state.status().is_terminal();
        if untouched && (owed || loaded.lease.worker.is_some()) {
            return Driven::Paused;
        }
        let span = self.span(&loaded);
        let driven = async {
            let mut hold = self.hold(loaded).await?;
            let parked = hold.run_until_parked(nudges, claimed, drain).await;
            parked.map_err(|stuck| match stuck {
                Stuck::Load(error) => Driven::LeftAlone(error.to_string()),
                Stuck::Refused(why) => Driven::LeftAlone(why),
            })
        };
        match driven.instrument(span).await {
            Ok(driven) | Err(driven) => driven,
        }
    }

    /// What the agent's role says now on a call that a person approved: it may have been narrowed, or
    /// taken away, since the call was judged (S3.9). While nobody can say, nothing is sent (S5.13).
    ///
    /// # Errors
    ///
    /// What the model is told.
    async fn ceiling(&self, request: &ToolRequest) -> Result<(), String> {
        loop {
            match self.policy.role(&request.namespace, &request.agent).await {
                Ok(Some(role)) => return permits(&role, &request.tool),
                Ok(None) => {
                    return Err(
                        "permission denied: the agent has no role now; this call did not run"
                            .to_owned(),
                    );
                }
                // Whoever lost the lease is refused at the fence.
                Err(_) if !self.fence.holds() => return Ok(()),
                Err(error) => {
                    tracing::warn!(run = %request.run, %error, "an approved call rests until policy can be asked");
                    self.journal.pause(PAUSE).await;
                }
            }
        }
    }

    /// The span of one hold, in the trace in which the run was started (S10.3).
    fn span(&self, loaded: &Loaded) -> tracing::Span {
        let trigger = loaded.state.trigger();
        let span = tracing::info_span!(
            "drive",
            otel.name = %format_args!("invoke_agent {}", trigger.agent),
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = %trigger.agent,
            sayso.run.id = %loaded.state.run(),
        );
        if let Some(traceparent) = &trigger.traceparent {
            self.herald.trace(&span, traceparent);
        }
        span
    }

    async fn hold(self: &Arc<Self>, loaded: Loaded) -> Result<Hold<J, M, T, P, H>, Driven> {
        let trigger = loaded.state.trigger();
        let revision = match self
            .policy
            .revision(&trigger.namespace, &trigger.agent, &trigger.revision)
            .await
        {
            Ok(revision) => revision,
            // Nothing runs without policy; the sweep wakes the run again (S5.13).
            Err(error) => return Err(Driven::Unavailable(error.to_string())),
        };
        let taken_over = loaded.lease.worker.is_some();
        let session = Session::new(
            Arc::clone(&self.journal),
            Arc::clone(&self.herald),
            self.key.clone(),
            self.worker.clone(),
            loaded,
        );
        Ok(Hold {
            driver: Arc::clone(self),
            revision,
            known: None,
            session,
            taken_over,
            underway: Underway {
                futures: FuturesUnordered::new(),
                listing: false,
                judging: false,
                looking: false,
                asking: None,
                executing: Vec::new(),
            },
        })
    }
}

impl Underway {
    /// Whether an effect would begin something that acts, or asks for something to act on.
    fn is_new(&self, effect: &Effect) -> bool {
        match effect {
            Effect::ListTools => !self.listing,
            Effect::AskModel { .. } => self.asking.is_none() && !self.listing,
            Effect::Judge { .. } => !self.judging && !self.listing,
            Effect::Execute { .. } => true,
            Effect::Interrupt { .. } | Effect::Complete => false,
        }
    }

    /// Whether something is under way whose end the hold has to wait for.
    fn is_busy(&self) -> bool {
        self.listing || self.judging || self.asking.is_some() || !self.executing.is_empty()
    }
}

struct Hold<J, M, T, P, H> {
    driver: Arc<Driver<J, M, T, P, H>>,
    revision: Arc<Revision>,
    known: Option<Arc<ResolvedTools>>,
    session: Session<J, H>,
    taken_over: bool,
    underway: Underway,
}

/// Whether the loop goes on.
enum Turn {
    /// What is owed is under way.
    Again,
    /// Others wrote to the run or took it over: look at it again before waiting for anything.
    Moved,
    Ended(Driven),
}

impl<J: Journal, M: Models, T: Tools, P: Policy, H: Herald> Hold<J, M, T, P, H> {
    async fn run_until_parked(
        &mut self,
        nudges: &mut mpsc::Receiver<()>,
        claimed: impl FnOnce() + Send,
        drain: CancellationToken,
    ) -> Result<Driven, Stuck> {
        let mut claimed = Some(claimed);
        if self.taken_over && !self.session.state().status().is_terminal() {
            let epoch = self.session.epoch();
            self.session.take(Input::TakenOver {
                worker: self.driver.worker.clone(),
                epoch,
            })?;
        }
        loop {
            if self.session.lease() == Lease::Gone {
                return self.wind_up().await;
            }
            self.begin_started();
            let draining = drain.is_cancelled();
            match self.begin_owed(draining).await? {
                Turn::Ended(driven) => return Ok(driven),
                Turn::Moved => continue,
                Turn::Again => {}
            }
            if !matches!(self.session.lease(), Lease::Free { .. })
                && let Some(claimed) = claimed.take()
            {
                claimed();
            }
            self.progress(nudges, &drain, draining).await?;
        }
    }

    /// Begins what is owed and not under way yet; gives the run back if there is nothing.
    async fn begin_owed(&mut self, draining: bool) -> Result<Turn, Stuck> {
        self.drop_void_request();
        self.abandon_request_of_ended_run();
        loop {
            let next = self.session.state().next();
            let held_back = match &next {
                Next::Owed(effects) if !draining => self.held_back(effects).await?,
                Next::Owed(_) | Next::Wait(_) | Next::Done => false,
            };
            let effects = match next {
                Next::Owed(effects) if !draining && !held_back => effects,
                Next::Owed(_) | Next::Wait(_) | Next::Done => {
                    if self.session.must_flush() {
                        return self.flush_started().await;
                    }
                    let busy = held_back && self.underway.is_busy();
                    if self.underway.executing.is_empty() && !busy {
                        return self.park().await;
                    }
                    return Ok(Turn::Again);
                }
            };
            let mut changed = false;
            for effect in effects {
                changed |= self.begin(effect)?;
            }
            if self.session.must_flush() {
                return self.flush_started().await;
            }
            if !changed {
                return Ok(Turn::Again);
            }
        }
    }

    /// Whether something would begin now that must not: the agent is paused (S10.6), or nobody can
    /// tell whether it is (S5.13). What is under way goes on to its end.
    async fn held_back(&mut self, effects: &[Effect]) -> Result<bool, Stuck> {
        if !effects.iter().any(|effect| self.underway.is_new(effect)) {
            return Ok(false);
        }
        let trigger = self.session.state().trigger();
        let (namespace, agent) = (&trigger.namespace, &trigger.agent);
        match self.driver.policy.paused(namespace, agent).await {
            Ok(false) => Ok(false),
            Ok(true) => {
                if !std::mem::replace(&mut self.underway.looking, true) {
                    let driver = Arc::clone(&self.driver);
                    self.underway.futures.push(Box::pin(async move {
                        driver.journal.pause(LOOK_AGAIN).await;
                        Done::Looked
                    }));
                }
                Ok(true)
            }
            Err(error) => {
                if !self.underway.judging {
                    self.rest(&error).await?;
                }
                Ok(true)
            }
        }
    }

    /// Makes starts durable and sends those calls.
    async fn flush_started(&mut self) -> Result<Turn, Stuck> {
        let flushed = self.flush(false, None).await?;
        self.begin_started();
        Ok(match flushed {
            Flushed::Durable if !self.session.has_moved() => Turn::Again,
            Flushed::Durable | Flushed::Moved | Flushed::Lost => Turn::Moved,
        })
    }

    /// Begins one effect; true if it changed the state at once.
    fn begin(&mut self, effect: Effect) -> Result<bool, Stuck> {
        match effect {
            Effect::Interrupt { .. } => self.session.take(Input::Interrupt),
            Effect::Complete => self.session.take(Input::Complete),
            Effect::Execute { call } => self.begin_execute(call),
            Effect::ListTools => {
                self.begin_listing();
                Ok(false)
            }
            Effect::Judge { calls } => {
                self.begin_judging(calls);
                Ok(false)
            }
            Effect::AskModel { cycle } => {
                self.begin_asking(cycle);
                Ok(false)
            }
        }
    }

    fn begin_listing(&mut self) {
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

    fn begin_judging(&mut self, calls: Vec<CallId>) {
        if self.known.is_none() {
            self.begin_reading_tools();
            return;
        }
        if self.underway.judging {
            return;
        }
        self.underway.judging = true;
        let driver = Arc::clone(&self.driver);
        let trigger = self.session.state().trigger().clone();
        self.underway.futures.push(Box::pin(async move {
            let role = driver.policy.role(&trigger.namespace, &trigger.agent).await;
            Done::Role(calls, role)
        }));
    }

    fn begin_asking(&mut self, cycle: u32) {
        if self.underway.asking.is_some() {
            return;
        }
        let Some(known) = self.known.clone() else {
            self.begin_reading_tools();
            return;
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
        };
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

    /// A worker that goes on with a run reads the tools that the run's first worker listed.
    fn begin_reading_tools(&mut self) {
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

    fn begin_execute(&mut self, id: CallId) -> Result<bool, Stuck> {
        let Some(known) = self.known.clone() else {
            self.begin_reading_tools();
            return Ok(false);
        };
        let Some(call) = self.session.state().call(&id) else {
            return Ok(false);
        };
        let known = known.get(&call.tool);
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
    fn begin_started(&mut self) {
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
        if lowered.is_some_and(|lowered| lowered.call == id) {
            span.record("sayso.trust.lowered", state.trust().as_str());
        }
        if self.driver.tells_content {
            span.record("gen_ai.tool.call.arguments", &call.args);
        }
        // A person may have taken long: the role that was asked when the call was judged is asked again.
        let by_person = matches!(call.clearance, Some(Clearance::Person(_)));
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
            let ceiling = match &request {
                Some(request) if by_person => driver.ceiling(request).await,
                Some(_) | None => Ok(()),
            };
            let reply = match (request, ceiling) {
                (Some(request), Ok(())) => {
                    let called = driver.tools.call(&revision, request, fence);
                    called.instrument(span.clone()).await
                }
                (Some(_), Err(message)) => refused(message),
                (None, _) => mismatch(),
            };
            if driver.tells_content {
                span.record("gen_ai.tool.call.result", &reply.content);
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

    /// Waits until something comes of what is under way, or somebody wrote to the run. What was
    /// taken in is appended meanwhile, unless the next thing comes at once.
    async fn progress(
        &mut self,
        nudges: &mut mpsc::Receiver<()>,
        drain: &CancellationToken,
        draining: bool,
    ) -> Result<(), Stuck> {
        let at_once = futures::poll!(self.underway.futures.next());
        if let std::task::Poll::Ready(Some(done)) = at_once {
            return self.take_in(done).await;
        }
        if self.session.has_unsent() || matches!(self.session.lease(), Lease::Free { .. }) {
            return self.flush_meanwhile().await;
        }
        tokio::select! {
            biased;
            Some(done) = self.underway.futures.next() => self.take_in(done).await,
            Some(()) = nudges.recv() => {
                self.session.reload().await?;
                self.abandon_request_of_ended_run();
                Ok(())
            }
            () = drain.cancelled(), if !draining => Ok(()),
        }
    }

    /// Appends while what is under way goes on.
    async fn flush_meanwhile(&mut self) -> Result<(), Stuck> {
        let mut came = Vec::new();
        {
            let flush = self.session.flush(&self.revision, false, None);
            tokio::pin!(flush);
            loop {
                tokio::select! {
                    biased;
                    flushed = &mut flush => {
                        flushed?;
                        break;
                    }
                    Some(done) = self.underway.futures.next() => came.push(done),
                }
            }
        }
        let moved_from = self.drop_void_request();
        self.abandon_request_of_ended_run();
        for done in came {
            match (&done, moved_from) {
                (Done::Answered { seen, .. }, Some(moved)) if *seen > moved => {}
                _ => self.take_in(done).await?,
            }
        }
        Ok(())
    }

    async fn take_in(&mut self, done: Done) -> Result<(), Stuck> {
        match done {
            Done::Listed(listed) => self.listed(listed).await?,
            Done::NoRole(Ok(_)) => {
                self.underway.listing = false;
                self.fail_without_role()?;
            }
            Done::NoRole(Err(error)) => {
                self.underway.listing = false;
                self.rest(&error).await?;
            }
            Done::Role(calls, role) => {
                self.underway.judging = false;
                match role {
                    Ok(Some(role)) => self.judged(&calls, &role)?,
                    Ok(None) => self.fail_without_role()?,
                    Err(error) => self.rest(&error).await?,
                }
            }
            Done::Answered { cycle, seen, reply } => {
                self.underway.asking = None;
                self.answered(cycle, seen, reply)?;
            }
            Done::Rested => {
                self.underway.judging = false;
                self.underway.listing = false;
            }
            Done::Capped(met) => {
                self.underway.listing = false;
                self.underway.asking = None;
                self.session.take(Input::SpendingCap(SpendingCap {
                    cap: met.cap,
                    spent: met.spent,
                    resets_at: met.resets_at,
                }))?;
            }
            Done::Looked => self.underway.looking = false,
            Done::Returned(output) => {
                self.underway.executing.retain(|call| *call != output.call);
                if self.session.lease() == Lease::Gone {
                    self.session.record_late(output).await;
                } else {
                    self.session.take(Input::Output(output))?;
                }
            }
        }
        Ok(())
    }

    async fn listed(&mut self, listed: Result<Arc<ToolSet>, ListError>) -> Result<(), Stuck> {
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

    fn fail_without_role(&mut self) -> Result<(), Stuck> {
        let agent = &self.session.state().trigger().agent;
        let message = format!("the agent {agent} has no role, so nothing may run");
        self.session.take(Input::Fail {
            code: FailureCode::new(FailureCode::NO_ROLE),
            message,
        })?;
        Ok(())
    }

    fn judged(&mut self, calls: &[CallId], role: &sayso_rules::Role) -> Result<(), Stuck> {
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
                    .is_some_and(|call| call.phase == sayso_run::Phase::Proposed)
            })
            .cloned()
            .collect();
        let judge = Judge {
            tools: &*self.driver.tools,
            revision: &self.revision,
            role,
            known: &known,
        };
        let judgements = judge.judge(evidence, state, &open);
        self.session.take(Input::Judged {
            judgements,
            worker: self.driver.worker.clone(),
            approval_timeout: self.revision.bundle.approval_timeout(),
        })?;
        Ok(())
    }

    fn answered(&mut self, cycle: u32, seen: u64, reply: ModelReply) -> Result<(), Stuck> {
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
    fn drop_void_request(&mut self) -> Option<u64> {
        let moved_from = self.session.take_moved_from()?;
        if self
            .underway
            .asking
            .as_ref()
            .is_some_and(|(seen, _)| *seen > moved_from)
        {
            self.stop_asking();
        }
        Some(moved_from)
    }

    fn abandon_request_of_ended_run(&mut self) {
        if self.session.state().status().is_terminal() {
            self.stop_asking();
        }
    }

    fn stop_asking(&mut self) {
        if let Some((_, stop)) = self.underway.asking.take() {
            stop.cancel();
        }
    }

    /// Something cannot be asked now: what was taken in is kept, the run is given back and taken up again
    /// later; the model's answer is never paid for twice (S5.13).
    async fn rest(&mut self, error: &(impl Display + Sync)) -> Result<(), Stuck> {
        tracing::warn!(run = %self.session.state().run(), %error, "the run rests");
        // A start that is not durable yet is that of a call which this hold still has to send.
        if self.underway.executing.is_empty() && !self.session.must_flush() {
            self.flush(true, Some(PAUSE)).await?;
        } else {
            self.underway.judging = true;
            self.underway.listing = true;
            let journal = Arc::clone(&self.driver.journal);
            self.underway.futures.push(Box::pin(async move {
                journal.pause(PAUSE).await;
                Done::Rested
            }));
        }
        Ok(())
    }

    async fn flush(&mut self, release: bool, ready_in: Option<Duration>) -> Result<Flushed, Stuck> {
        #[cfg(feature = "hooks")]
        crate::hooks::window(if release {
            "driver.before_park"
        } else {
            "driver.before_flush"
        })
        .await;
        let flushed = self
            .session
            .flush(&self.revision, release, ready_in)
            .await?;
        self.abandon_request_of_ended_run();
        Ok(flushed)
    }

    /// Nothing is owed or under way: gives the run back, unless somebody wrote to it meanwhile.
    async fn park(&mut self) -> Result<Turn, Stuck> {
        self.stop_asking();
        let untouched = !self.session.has_unsent()
            && matches!(self.session.lease(), Lease::Free { .. })
            && !self.session.marked_ready()
            && !self.taken_over;
        if untouched {
            return Ok(Turn::Ended(Driven::NothingOwed));
        }
        match self.flush(true, None).await? {
            Flushed::Durable => {
                let state = self.session.state();
                if state.status().is_terminal() {
                    self.driver.tools.ended(state.run()).await;
                }
                Ok(Turn::Ended(Driven::Parked))
            }
            Flushed::Moved | Flushed::Lost => Ok(Turn::Moved),
        }
    }

    /// The lease is gone: results of what this worker has sent are still recorded.
    async fn wind_up(&mut self) -> Result<Driven, Stuck> {
        self.stop_asking();
        for output in self.session.take_untold() {
            self.session.record_late(output).await;
        }
        while !self.underway.executing.is_empty() {
            let Some(done) = self.underway.futures.next().await else {
                break;
            };
            self.take_in(done).await?;
        }
        Ok(Driven::Lost)
    }
}

/// The currency of the namespace's cap, if it has one; an error if the cap is met. A journal that is
/// away is asked again: without an answer nothing is spent.
async fn spendable<J: Journal>(
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

fn refused(message: String) -> crate::world::ToolReply {
    crate::world::ToolReply {
        outcome: ToolOutcome::PermissionDenied,
        content: message,
        cut_bytes: 0,
        artifact: None,
    }
}

fn mismatch() -> crate::world::ToolReply {
    crate::world::ToolReply {
        outcome: sayso_run::ToolOutcome::Mismatch,
        content:
            "the tool is not defined any more as it was when this call was let through; nothing ran"
                .into(),
        cut_bytes: 0,
        artifact: None,
    }
}
