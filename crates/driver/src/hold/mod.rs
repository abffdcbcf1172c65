//! One worker's hold of a run: perform what is owed, take in what comes of it, append, until the run
//! waits or ends.
//!
//! What is owed is asked of the state again after every change; [`underway`] keeps what was begun
//! and has not come back. The parts: [`judging`] lists tools and judges calls, [`asking`] asks the
//! model, [`compacting`] makes what it is asked smaller, [`sending`] sends calls, [`delegating`]
//! makes runs of them.

pub(crate) mod asking;
mod compacting;
pub(crate) mod delegating;
mod judging;
mod sending;
mod underway;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sayso_rules::bundle::SummaryBy;
use sayso_run::{Effect, Input, Next, SpendingCap, WaitFor};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::underway::{Done, Underway};
use crate::drive::{Driven, Driver};
use crate::journal::Journal;
use crate::lane::Place;
use crate::resolved::ResolvedTools;
use crate::session::{Flushed, Lease, Session, Stuck};
use crate::world::{Herald, Models, Policy, Revision, Tools};

/// How long after a pause was seen a hold that cannot be given back yet looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long a run rests when policy, or what keeps lists of tools, cannot be asked.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct Hold<J, M, T, P, H> {
    driver: Arc<Driver<J, M, T, P, H>>,
    revision: Arc<Revision>,
    known: Option<Arc<ResolvedTools>>,
    session: Session<J, H>,
    taken_over: bool,
    /// Where a suspected run stands until it has come further.
    place: Option<Place>,
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
    pub(crate) fn new(
        driver: Arc<Driver<J, M, T, P, H>>,
        revision: Arc<Revision>,
        session: Session<J, H>,
        taken_over: bool,
        place: Option<Place>,
    ) -> Self {
        Self {
            driver,
            revision,
            known: None,
            session,
            taken_over,
            place,
            underway: Underway::default(),
        }
    }

    pub(crate) async fn run_until_parked(
        &mut self,
        nudges: &mut mpsc::Receiver<()>,
        claimed: impl FnOnce() + Send,
        drain: CancellationToken,
    ) -> Result<Driven, Stuck> {
        let mut claimed = Some(claimed);
        if self.taken_over {
            let epoch = self.session.epoch();
            let has_ended = self.session.state().status().is_terminal();
            self.session.take(if has_ended {
                Input::Lost
            } else {
                Input::TakenOver {
                    worker: self.driver.worker.clone(),
                    epoch,
                }
            })?;
        }
        self.take_ended_children().await?;
        loop {
            if self.session.lease() == Lease::Gone {
                return self.wind_up().await;
            }
            if !self.session.state().is_suspected() {
                self.place = None;
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
            if matches!(next, Next::Wait(WaitFor::Retry { due_at }) if due_at <= self.driver.journal.now())
                && !draining
                && self.session.take(Input::Tick)?
            {
                continue;
            }
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
                    let came = !self.underway.came.is_empty();
                    if self.underway.executing.is_empty() && !busy && !came {
                        return self.park().await;
                    }
                    return Ok(Turn::Again);
                }
            };
            if effects == [Effect::Complete] && self.session.state().unanswered().is_some() {
                if self.leave_to_next().await? {
                    continue;
                }
                return Ok(match self.session.lease() {
                    Lease::Gone => Turn::Moved,
                    Lease::Free { .. } | Lease::Held { .. } => Turn::Again,
                });
            }
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

    /// The run has had its cycles and a message of its conversation was not seen: the conversation's next
    /// run begins with it (S1.9). False if nobody can tell the agent's revision now.
    async fn leave_to_next(&mut self) -> Result<bool, Stuck> {
        let trigger = self.session.state().trigger();
        let (namespace, agent) = (&trigger.namespace, &trigger.agent);
        let current = self.driver.policy.current(namespace, agent);
        match self.underway.beside(current).await {
            Ok(current) => {
                let revision = current.unwrap_or_else(|| trigger.revision.clone());
                self.session.take(Input::Continue { revision })
            }
            Err(error) => {
                self.rest(&error).await?;
                Ok(false)
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
        let paused = self.driver.policy.paused(namespace, agent);
        match self.underway.beside(paused).await {
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
            Effect::AskModel { cycle } => self.begin_asking(cycle),
        }
    }

    /// Waits until something comes of what is under way, or somebody wrote to the run. What was
    /// taken in is appended meanwhile, unless the next thing comes at once.
    async fn progress(
        &mut self,
        nudges: &mut mpsc::Receiver<()>,
        drain: &CancellationToken,
        draining: bool,
    ) -> Result<(), Stuck> {
        let at_once = std::pin::pin!(self.underway.next()).now_or_never();
        if let Some(Some(done)) = at_once {
            return self.take_in(done).await;
        }
        if self.session.has_unsent() || matches!(self.session.lease(), Lease::Free { .. }) {
            let flush = self.session.flush(&self.revision, false, None);
            self.underway.beside(flush).await?;
            self.abandon_request_of_ended_run();
            return Ok(());
        }
        tokio::select! {
            biased;
            Some(done) = self.underway.next() => self.take_in(done).await,
            Some(()) = nudges.recv() => {
                self.underway.beside(self.session.reload()).await?;
                self.take_ended_children().await?;
                self.abandon_request_of_ended_run();
                Ok(())
            }
            () = drain.cancelled(), if !draining => Ok(()),
        }
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
            Done::Role(calls, answer) => {
                self.underway.judging = false;
                match answer {
                    Ok((Some(role), current)) => self.judged(&calls, &role, &current)?,
                    Ok((None, _)) => self.fail_without_role()?,
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
                self.underway.clearing.clear();
            }
            Done::Ceiling(call, role) => self.ceiling_told(call, role).await?,
            Done::Briefed {
                cycle,
                upto,
                tokens,
                reply,
            } => {
                self.underway.briefing = false;
                self.briefed(cycle, upto, tokens, reply)?;
            }
            Done::Capped(met) => {
                self.underway.briefing = false;
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
                    let recording = self.session.record_late(output);
                    self.underway.beside(recording).await;
                } else {
                    self.session.take(Input::Output(output))?;
                }
            }
        }
        Ok(())
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
        let flush = self.session.flush(&self.revision, release, ready_in);
        let flushed = self.underway.beside(flush).await?;
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
                self.look_once_more().await;
                let state = self.session.state();
                if state.status().is_terminal() {
                    let ending = self.driver.tools.ended(state.run());
                    self.underway.beside(ending).await;
                }
                let is_due = self.revision.bundle.summary == SummaryBy::Model
                    && state.unsummarised().next().is_some();
                Ok(Turn::Ended(if is_due {
                    Driven::Held
                } else {
                    Driven::Parked
                }))
            }
            Flushed::Moved | Flushed::Lost => Ok(Turn::Moved),
        }
    }

    /// A child that ended just before the run was given back told a worker that had looked already.
    async fn look_once_more(&mut self) {
        let state = self.session.state();
        if !state.has_live_children() {
            return;
        }
        let (run, namespace) = (state.run().clone(), state.trigger().namespace.clone());
        let driver = Arc::clone(&self.driver);
        let ended = self
            .underway
            .beside(driver.journal.ended_children(&run))
            .await;
        // If it cannot be read, the sweep finds it.
        if ended.is_ok_and(|ended| !ended.is_empty()) {
            driver.herald.wake(&namespace, &run, "child ended");
        }
    }

    /// The lease is gone: results of what this worker has sent are still recorded.
    async fn wind_up(&mut self) -> Result<Driven, Stuck> {
        self.stop_asking();
        for output in self.session.take_untold() {
            let recording = self.session.record_late(output);
            self.underway.beside(recording).await;
        }
        while !self.underway.executing.is_empty() {
            let Some(done) = self.underway.next().await else {
                break;
            };
            self.take_in(done).await?;
        }
        Ok(Driven::Lost)
    }
}
