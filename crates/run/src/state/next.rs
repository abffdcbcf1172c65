//! What is owed. Derived from the state alone and never queued: asked twice, it answers the same,
//! so a crash between two effects loses nothing.

use super::{Entry, Phase, RunState};
use crate::id::CallId;
use crate::limits;
use crate::time::Timestamp;

/// One thing that a worker has to do for the run to go on. Plain data.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// List the tools of the agent.
    ListTools,
    /// Ask the model, with [`RunState::messages`].
    AskModel {
        /// The cycle that the answer will be, from 1.
        cycle: u32,
    },
    /// Judge these calls, in this order.
    Judge {
        /// The calls.
        calls: Vec<CallId>,
    },
    /// Send an approved call, or send an idempotent one again.
    Execute {
        /// The call.
        call: CallId,
    },
    /// Fail the run: it was taken over too often, or the outcome of these calls is unknown.
    Interrupt {
        /// The calls whose outcome is unknown; may be empty.
        unknown: Vec<CallId>,
    },
    /// Complete the run: the last answer stands, or the cycle cap is reached.
    Complete,
}

/// What the run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitFor {
    /// A person's decision.
    Approval {
        /// When the first of the approvals expires.
        expires_at: Timestamp,
    },
    /// A person's message.
    Input,
    /// Results of calls that a live worker has sent.
    Results,
    /// The end of a run that it started (S3.6).
    Child,
    /// The time of an automatic retry (S1.6).
    Retry {
        /// When it is due.
        due_at: Timestamp,
    },
}

/// What the run needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A worker has these to do. They may be performed concurrently.
    Owed(Vec<Effect>),
    /// Nothing to do until something comes.
    Wait(WaitFor),
    /// It has ended.
    Done,
}

impl RunState {
    /// What is owed now.
    pub fn next(&self) -> Next {
        if self.end.is_some() {
            return Next::Done;
        }
        if self.takeovers > limits::MAX_TAKEOVERS {
            return Next::Owed(vec![Effect::Interrupt {
                unknown: self.lost_calls(),
            }]);
        }
        if self.tools.is_none() {
            return Next::Owed(vec![Effect::ListTools]);
        }
        let lost = self.lost_calls();
        if !lost.is_empty() {
            return Next::Owed(vec![Effect::Interrupt { unknown: lost }]);
        }
        let owed = self.owed_calls();
        if !owed.is_empty() {
            return Next::Owed(owed);
        }
        if self.has_open_calls() {
            return Next::Wait(WaitFor::Results);
        }
        if self.has_live_children() {
            return Next::Wait(WaitFor::Child);
        }
        self.next_turn()
    }

    /// Every call is settled, held, or told to be unknown: whose turn is it?
    fn next_turn(&self) -> Next {
        let undecided = self
            .calls
            .iter()
            .filter(|call| call.placeheld.is_none() && call.phase == Phase::Held);
        let expires_at = undecided
            .filter_map(|call| call.approval.as_ref())
            .map(|approval| approval.expires_at)
            .min();
        if let Some(expires_at) = expires_at
            && !self.goes_on
        {
            return Next::Wait(WaitFor::Approval { expires_at });
        }
        let asked = |call: &&super::Call| call.placeheld.is_none() && call.phase == Phase::Asked;
        if self.calls.iter().any(|call| asked(&call)) && !self.goes_on {
            return Next::Wait(WaitFor::Input);
        }
        if self.cycles >= limits::MAX_CYCLES || self.last_answer_stands() {
            return Next::Owed(vec![Effect::Complete]);
        }
        if let Some((_, due_at)) = self.scheduled {
            return Next::Wait(WaitFor::Retry { due_at });
        }
        Next::Owed(vec![Effect::AskModel {
            cycle: self.cycles + 1,
        }])
    }

    /// The last answer proposed nothing, and the model has seen everything.
    pub(crate) fn last_answer_stands(&self) -> bool {
        self.unseen.is_empty()
            && matches!(self.seen.last(), Some(Entry::Assistant { calls, .. }) if calls.is_empty())
    }

    /// Calls whose outcome is unknown and that may not be sent again. Those that an earlier failure
    /// has named are told to the model instead.
    fn lost_calls(&self) -> Vec<CallId> {
        self.calls
            .iter()
            .filter(|call| {
                matches!(
                    call.phase,
                    Phase::Unknown {
                        idempotent: false,
                        ..
                    }
                )
            })
            .filter(|call| !call.unknown)
            .map(|call| call.id.clone())
            .collect()
    }

    fn owed_calls(&self) -> Vec<Effect> {
        let proposed: Vec<CallId> = self
            .calls
            .iter()
            .filter(|call| call.phase == Phase::Proposed)
            .map(|call| call.id.clone())
            .collect();
        let judge = (!proposed.is_empty()).then_some(Effect::Judge { calls: proposed });
        let execute = self
            .calls
            .iter()
            .filter(|call| {
                matches!(
                    call.phase,
                    Phase::Cleared
                        | Phase::Unknown {
                            idempotent: true,
                            ..
                        }
                )
            })
            .map(|call| Effect::Execute {
                call: call.id.clone(),
            });
        judge.into_iter().chain(execute).collect()
    }

    /// The key under which a tool may drop a repeated call: the same however often it is sent.
    pub fn idempotency_key(&self, call: &CallId) -> String {
        format!("{}:{call}", self.run)
    }
}
