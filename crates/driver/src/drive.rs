//! Taking a run up: whether there is anything to do, and who may do it.

use std::sync::Arc;

#[cfg(feature = "hooks")]
use sayso_run::hooks::{Fault, planted};
use sayso_run::{ChainKey, RunId, WorkerId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::hold::Hold;
use crate::hold::delegating::DelegationLimits;
use crate::journal::{Journal, LoadError, Loaded};
use crate::lane::{Lane, Place};
use crate::session::{Session, Stuck};
use crate::world::{Fence, Herald, Models, Policy, Tools};
use crate::write::is_due;

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
    /// How deep and wide its runs may start others (S3.6).
    pub delegation: DelegationLimits,
    /// Whether traces carry arguments and results (S10.3).
    pub tells_content: bool,
}

/// How a drive ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Driven {
    /// The run waits for somebody, or has ended; the lease was given back.
    Parked,
    /// The same, and calls are held on which a model is to write ([`Driver::write_summaries`]).
    Held,
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

impl<J: Journal, M: Models, T: Tools, P: Policy, H: Herald> Driver<J, M, T, P, H> {
    /// Drives a run until it waits, ends, or is lost. A message on `nudges` says that somebody wrote
    /// to it; a suspected run is driven alone in `lane`; `claimed` is called once the claim is durable,
    /// or it is clear that there is nothing to claim; `drain` asks to hand the run back as soon as no
    /// call is in flight.
    pub async fn drive(
        self: &Arc<Self>,
        run: &RunId,
        nudges: &mut mpsc::Receiver<()>,
        lane: &Lane,
        claimed: impl FnOnce() + Send,
        drain: CancellationToken,
    ) -> Driven {
        let driven = async {
            let mut loaded = self.look(run).await?;
            let mut place = None;
            if loaded.state.is_suspected() {
                let entered = lane.enter(&drain).await;
                place = Some(entered.ok_or(Driven::Unavailable("this worker ends".into()))?);
                loaded = self.look(run).await?;
            }
            let span = self.span(&loaded);
            let driving = async {
                let mut hold = self.hold(loaded, place).await?;
                let parked = hold.run_until_parked(nudges, claimed, drain).await;
                parked.map_err(|stuck| match stuck {
                    Stuck::Load(error) => Driven::LeftAlone(error.to_string()),
                    Stuck::Refused(why) => Driven::LeftAlone(why),
                })
            };
            driving.instrument(span).await
        };
        match driven.await {
            Ok(driven) | Err(driven) => driven,
        }
    }

    /// Loads a run, if there is something for this worker to do in it.
    async fn look(&self, run: &RunId) -> Result<Loaded, Driven> {
        let loaded = match self.journal.load(run).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Err(Driven::NotFound),
            Err(LoadError::Unavailable(why)) => return Err(Driven::Unavailable(why)),
            Err(error) => return Err(Driven::LeftAlone(error.to_string())),
        };
        let elsewhere = loaded
            .lease
            .worker
            .as_ref()
            .is_some_and(|worker| *worker != self.worker && loaded.lease.worker_alive);
        #[cfg(feature = "hooks")]
        let elsewhere = elsewhere && !planted(Fault::TakeoverOfLiveWorker);
        if elsewhere {
            return Err(Driven::HeldElsewhere);
        }
        let now = self.journal.now();
        let child_ended = match self.has_ended_children(&loaded).await {
            Ok(ended) => ended,
            Err(error) => return Err(Driven::Unavailable(error.to_string())),
        };
        let owed = child_ended || is_due(&loaded.state, now);
        let marked_ready = loaded.lease.ready_at.is_some_and(|at| at <= now);
        if !owed && !marked_ready && loaded.lease.worker.is_none() {
            return Err(Driven::NothingOwed);
        }
        let untouched = loaded.lease.paused && !loaded.state.status().is_terminal();
        if untouched && (owed || loaded.lease.worker.is_some()) {
            return Err(Driven::Paused);
        }
        Ok(loaded)
    }

    /// Whether the run waits for children that have ended.
    async fn has_ended_children(&self, loaded: &Loaded) -> Result<bool, LoadError> {
        if !loaded.state.has_live_children() {
            return Ok(false);
        }
        let ended = self.journal.ended_children(loaded.state.run()).await?;
        Ok(!ended.is_empty())
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

    async fn hold(
        self: &Arc<Self>,
        loaded: Loaded,
        place: Option<Place>,
    ) -> Result<Hold<J, M, T, P, H>, Driven> {
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
        let redaction = match self.tools.redaction(&trigger.namespace).await {
            Ok(redaction) => redaction,
            Err(error) => return Err(Driven::Unavailable(error.to_string())),
        };
        let taken_over = loaded.lease.worker.is_some();
        let session = Session::new(
            Arc::clone(&self.journal),
            Arc::clone(&self.herald),
            self.key.clone(),
            self.worker.clone(),
            redaction,
            loaded,
        );
        Ok(Hold::new(
            Arc::clone(self),
            revision,
            session,
            taken_over,
            place,
        ))
    }
}
