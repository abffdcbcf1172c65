//! What people may do: decide, write, cancel, retry. Four-eyes, expiry and first-decision-wins are
//! refused or accepted here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};

use super::{Ballot, Caused, Decision, DecisionItem, Edit, Response, Saying, Target, check_text};
use crate::actor::Actor;
use crate::digest::{CallDigest, Digest};
use crate::id::{ApprovalId, CallId, PrincipalId};
use crate::limits;
use crate::quorum::{CastVote, OpenVote, Quorum};
use crate::state::{Call, End, HeldCall, Phase, Refusal, RunState};
use crate::step::{
    Cancelled, DenyCause, IdempotencyKey, Retried, Step, ToolApproved, ToolDenied, ToolEdited,
    TrustLowered, UserMessage, Verdict, VoteCast,
};
use crate::summary::summarise;
use crate::time::Timestamp;

impl RunState {
    /// Decisions and a message, taken together or not at all (S6.4). What the same person already
    /// decided the same way causes nothing and is no error.
    pub(super) fn responded(&self, response: Response, now: Timestamp) -> Result<Caused, Refusal> {
        if self.was_done(&response.by, response.idempotency.as_ref())? {
            return Ok(Caused::new());
        }
        let Response {
            by,
            decisions,
            message,
            goes_on,
            seen,
            idempotency,
            ballot,
        } = response;
        if decisions.is_empty() && message.is_none() {
            return Err(Refusal::Empty);
        }
        for text in message.iter().chain(
            decisions
                .iter()
                .filter_map(|item| item.decision.reason.as_ref()),
        ) {
            check_text(text)?;
        }
        if !decisions.is_empty() && by == self.trigger.principal {
            return Err(Refusal::OwnRequest);
        }
        let mut caused = Caused::new();
        for (call, decision) in self.targets(decisions, seen)? {
            caused.extend(self.decided(
                call,
                (&by, &ballot),
                decision,
                goes_on || message.is_some(),
                now,
            )?);
        }
        if let Some(text) = message {
            self.check_live()?;
            caused.push((
                Actor::Principal(by),
                Step::UserMessage(UserMessage {
                    text,
                    answers: self.asked(),
                    idempotency,
                    trust: None,
                    outside: None,
                }),
            ));
        }
        Ok(caused)
    }

    /// A message alone. It answers what the model has asked, and lowers the run's trust to that of
    /// whoever wrote it (S5.7).
    pub(super) fn told(&self, saying: Saying) -> Result<Caused, Refusal> {
        if self.was_done(&saying.by, saying.idempotency.as_ref())? {
            return Ok(Caused::new());
        }
        check_text(&saying.text)?;
        self.check_live()?;
        let message = UserMessage {
            text: saying.text,
            answers: self.asked(),
            idempotency: saying.idempotency,
            trust: Some(saying.trust),
            outside: saying.outside,
        };
        let mut caused = vec![(Actor::Principal(saying.by), Step::UserMessage(message))];
        if saying.trust < self.trust {
            let lowered = TrustLowered {
                call: None,
                tool: String::new(),
                from: self.trust,
                to: saying.trust,
            };
            caused.push((Actor::System, Step::TrustLowered(lowered)));
        }
        Ok(caused)
    }

    /// The calls that a message answers.
    fn asked(&self) -> Vec<CallId> {
        let asked = self.calls.iter().filter(|call| call.phase == Phase::Asked);
        asked.map(|call| call.id.clone()).collect()
    }

    /// The calls that are decided, in call order. Where a call is named by id and by tool, the id
    /// counts.
    fn targets(
        &self,
        items: Vec<DecisionItem>,
        seen: Option<u64>,
    ) -> Result<Vec<(&Call, Decision)>, Refusal> {
        let mut by_id: BTreeMap<usize, Decision> = BTreeMap::new();
        let mut by_tool: BTreeMap<usize, Decision> = BTreeMap::new();
        for DecisionItem { target, decision } in items {
            match target {
                Target::Approval(id) => {
                    let call = self
                        .call_of(&id)
                        .ok_or_else(|| Refusal::UnknownTarget(id.to_string()))?;
                    by_id.insert(self.call_index[&call.id], decision);
                }
                Target::Call(id) => {
                    let held = self.call(&id).filter(|call| call.approval.is_some());
                    let call = held.ok_or_else(|| Refusal::UnknownTarget(id.to_string()))?;
                    by_id.insert(self.call_index[&call.id], decision);
                }
                Target::Tool(tool) => {
                    let seen = seen.ok_or(Refusal::SeenMissing)?;
                    let mut covered = self
                        .held()
                        .filter(|call| call.tool == tool || call.model_name == tool)
                        .filter(|call| {
                            call.approval
                                .as_ref()
                                .is_some_and(|approval| approval.seq <= seen)
                        })
                        .peekable();
                    if covered.peek().is_none() {
                        return Err(Refusal::UnknownTarget(tool));
                    }
                    by_tool
                        .extend(covered.map(|call| (self.call_index[&call.id], decision.clone())));
                }
            }
        }
        by_tool.append(&mut by_id);
        let seen_now = |call: &Call| {
            let held = call.approval.as_ref();
            held.is_some_and(|held| seen.is_some_and(|seen| held.seq <= seen))
        };
        let targets = by_tool.into_iter().map(|(at, mut decision)| {
            let call = &self.calls[at];
            if seen_now(call) {
                decision.saw.get_or_insert(call.digest);
            }
            (call, decision)
        });
        Ok(targets.collect())
    }

    fn decided(
        &self,
        call: &Call,
        (by, ballot): (&PrincipalId, &Ballot),
        mut decision: Decision,
        goes_on: bool,
        now: Timestamp,
    ) -> Result<Caused, Refusal> {
        // What leaves every byte as it is edits nothing.
        decision.edit = decision.edit.filter(|edit| edit.args != call.args);
        let approval = call
            .approval
            .as_ref()
            .ok_or_else(|| Refusal::UnknownTarget(call.id.to_string()))?;
        if was_decided(approval, by, &decision)? {
            return Ok(Caused::new());
        }
        self.check_live()?;
        if now >= approval.expires_at {
            return Err(Refusal::Expired {
                approval: approval.id.clone(),
                expires_at: approval.expires_at,
            });
        }
        #[cfg(not(feature = "hooks"))]
        debug_assert_eq!(
            call.phase,
            Phase::Held,
            "an undecided approval is that of a held call"
        );
        self.check_may(approval, &approval.quorum, by, &ballot.groups)?;
        let voted = approval.votes.iter().any(|vote| vote.by == *by);
        if voted && decision.edit.is_none() {
            return match decision.verdict {
                Verdict::Approve => Ok(Caused::new()),
                Verdict::Deny => Err(Refusal::VotedBefore(approval.id.clone())),
            };
        }
        check_saw(call, approval, &decision)?;
        if let Some(edit) = &decision.edit {
            return self.edited(call, approval, (by, ballot), &decision, edit, goes_on);
        }
        let before = u32::try_from(approval.votes.len()).unwrap_or(u32::MAX);
        let step = match decision.verdict {
            Verdict::Approve if before + 1 < approval.quorum.needed() => {
                let reason = decision.reason.as_deref();
                Step::VoteCast(VoteCast {
                    call: call.id.clone(),
                    approval: approval.id.clone(),
                    digest: call.digest,
                    sealed: OpenVote::seal(&approval.id, by, reason, &ballot.salt),
                })
            }
            Verdict::Approve => Step::ToolApproved(ToolApproved {
                call: call.id.clone(),
                approval: approval.id.clone(),
                digest: call.digest,
                reason: decision.reason,
                goes_on,
                votes: opened(approval, ballot)?,
            }),
            Verdict::Deny => Step::ToolDenied(ToolDenied {
                call: call.id.clone(),
                approval: Some(approval.id.clone()),
                cause: DenyCause::Person,
                reason: decision.reason,
                rule: None,
                goes_on,
                votes: opened(approval, ballot)?,
            }),
        };
        Ok(vec![(Actor::Principal(by.clone()), step)])
    }

    /// A new proposal in the place of the old one, and the editor's approval of it (S6.7): the votes
    /// before it are void. Who may edit may decide both.
    fn edited(
        &self,
        call: &Call,
        approval: &HeldCall,
        (by, ballot): (&PrincipalId, &Ballot),
        decision: &Decision,
        edit: &Edit,
        goes_on: bool,
    ) -> Result<Caused, Refusal> {
        let quorum = edit.quorum.as_ref().unwrap_or(&approval.quorum);
        self.check_may(approval, quorum, by, &ballot.groups)?;
        if edit.judged_at != self.seq() {
            return Err(Refusal::Stale("the edit was judged before the last step"));
        }
        let definition = call.definition.unwrap_or(Digest::ZERO);
        let digest = CallDigest::of(&self.run, &call.id, &call.tool, &definition, &edit.args);
        let shown = edit.shown.as_ref().unwrap_or(&edit.args);
        let edited = ToolEdited {
            call: call.id.clone(),
            approval: approval.id.clone(),
            before: call.digest,
            digest,
            args: edit.args.clone(),
            summary: summarise(self, call, shown),
            quorum: quorum.clone(),
            origins: edit.origins.clone(),
        };
        let reason = decision.reason.clone();
        let approved = if quorum.needed() > 1 {
            Step::VoteCast(VoteCast {
                call: call.id.clone(),
                approval: approval.id.clone(),
                digest,
                sealed: OpenVote::seal(&approval.id, by, reason.as_deref(), &ballot.salt),
            })
        } else {
            Step::ToolApproved(ToolApproved {
                call: call.id.clone(),
                approval: approval.id.clone(),
                digest,
                reason,
                goes_on,
                votes: Vec::new(),
            })
        };
        let actor = Actor::Principal(by.clone());
        Ok(vec![
            (actor.clone(), Step::ToolEdited(edited)),
            (actor, approved),
        ])
    }

    /// Whether somebody may decide an approval: not barred, and in the group that decides, or one of
    /// those that were let in since (S6.12). The requester is refused before.
    fn check_may(
        &self,
        approval: &HeldCall,
        quorum: &Quorum,
        by: &PrincipalId,
        groups: &BTreeSet<String>,
    ) -> Result<(), Refusal> {
        if quorum.author.as_ref() == Some(by) {
            return Err(Refusal::Excluded("deployed the agent"));
        }
        if quorum.no_writers && self.writers().any(|writer| writer == by) {
            return Err(Refusal::Excluded("wrote into the run"));
        }
        let Some(group) = &quorum.group else {
            return Ok(());
        };
        // Others are let in to what nobody has decided for a while, not to what is new.
        let unchanged = *quorum == approval.quorum;
        let since = approval.widened().filter(|_| unchanged);
        let mut open = std::iter::once(group).chain(since);
        if open.any(|group| groups.contains(group)) {
            return Ok(());
        }
        Err(Refusal::NotInGroup(group.clone()))
    }

    /// Everybody whose words are in it beside its principal's, those said in its conversation before
    /// included.
    fn writers(&self) -> impl Iterator<Item = &PrincipalId> {
        let conversation = self.trigger.conversation.iter();
        let before = conversation.flat_map(|conversation| conversation.persons());
        self.words.iter().map(|words| &words.by).chain(before)
    }

    /// Pending calls of a tool that a decision by tool did not cover, since they were held later
    /// than what the person saw (S6.4).
    pub fn held_later(&self, tool: &str, seen: u64) -> Vec<CallId> {
        self.held()
            .filter(|call| call.tool == tool || call.model_name == tool)
            .filter(|call| {
                call.approval
                    .as_ref()
                    .is_some_and(|approval| approval.seq > seen)
            })
            .map(|call| call.id.clone())
            .collect()
    }

    /// What a response says on approvals that take more than anybody who may decide, and are not
    /// decided: what votes need has to be known before it is taken (S6.12).
    pub fn votes_of(&self, response: &Response) -> Vec<(ApprovalId, Decision)> {
        let targets = self.targets(response.decisions.clone(), response.seen);
        let targets = targets.unwrap_or_default().into_iter();
        let open = targets.filter_map(|(call, decision)| {
            let approval = call.approval.as_ref()?;
            let edit = decision.edit.as_ref().and_then(|edit| edit.quorum.as_ref());
            let plain = approval.quorum.is_plain() && edit.is_none_or(Quorum::is_plain);
            let counts = !plain && approval.outcome.is_none();
            counts.then(|| (approval.id.clone(), decision))
        });
        open.collect()
    }

    /// The calls that a response decides, in call order; empty if it names something unknown.
    pub fn decided_calls(&self, response: &Response) -> Vec<CallId> {
        let targets = self.targets(response.decisions.clone(), response.seen);
        targets.map_or_else(
            |_| Vec::new(),
            |targets| {
                targets
                    .into_iter()
                    .map(|(call, _)| call.id.clone())
                    .collect()
            },
        )
    }

    /// The earliest expiry among the approvals that a response decides: the append must not commit
    /// after it, by the database's clock (S6.8).
    pub fn decides_before(&self, response: &Response) -> Option<Timestamp> {
        let targets = self
            .targets(response.decisions.clone(), response.seen)
            .ok()?;
        targets
            .iter()
            .filter_map(|(call, _)| call.approval.as_ref())
            .map(|approval| approval.expires_at)
            .min()
    }

    /// Cancel works from every status that is not terminal (S1.4).
    pub(super) fn cancels(
        &self,
        by: PrincipalId,
        reason: Option<String>,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<Caused, Refusal> {
        if self.was_done(&by, idempotency.as_ref())? {
            return Ok(Caused::new());
        }
        self.check_live()?;
        if let Some(reason) = &reason {
            check_text(reason)?;
        }
        let actor = Actor::Principal(by);
        let mut caused = self.close_open(DenyCause::Cancelled, &actor, reason.as_deref());
        caused.push((
            actor,
            Step::Cancelled(Cancelled {
                reason,
                idempotency,
            }),
        ));
        Ok(caused)
    }

    /// Only a failed run, at most five times (S1.5), and no child: its end is its parent's matter.
    pub(super) fn retries_by(&self, by: PrincipalId) -> Result<Caused, Refusal> {
        if let Some(parent) = &self.trigger.parent {
            return Err(Refusal::IsChild(parent.run.clone()));
        }
        match self.end {
            Some(End::Failed(_)) if self.retries < limits::MAX_RETRIES => Ok(vec![(
                Actor::Principal(by),
                Step::Retried(Retried {
                    attempt: self.retries + 1,
                }),
            )]),
            Some(End::Failed(_)) => Err(Refusal::RetriesUsedUp),
            Some(End::Completed { .. } | End::Cancelled(_)) | None => {
                Err(Refusal::NotFailed(self.status()))
            }
        }
    }

    /// Whether a request with this key was taken before; the same key with other content is refused.
    fn was_done(&self, by: &PrincipalId, key: Option<&IdempotencyKey>) -> Result<bool, Refusal> {
        let Some(key) = key else { return Ok(false) };
        match self.keys.get(&(by.to_string(), key.key.clone())) {
            None => Ok(false),
            Some(before) if before.request == key.request => Ok(true),
            Some(_) => Err(Refusal::KeyReused(key.key.clone())),
        }
    }
}

/// Whether what is decided was decided so before, by the same person; false if nobody has decided.
/// Anything else is refused with what is on record.
fn was_decided(
    approval: &HeldCall,
    by: &PrincipalId,
    decision: &Decision,
) -> Result<bool, Refusal> {
    let recorded = approval.outcome.as_ref();
    #[cfg(feature = "hooks")]
    let recorded = recorded.filter(|_| !crate::hooks::planted(crate::hooks::Fault::DecisionTwice));
    let Some(recorded) = recorded else {
        return Ok(false);
    };
    let same_way = match decision.verdict {
        Verdict::Approve => recorded.denied.is_none(),
        Verdict::Deny => recorded.denied == Some(DenyCause::Person),
    };
    if recorded.denied == Some(DenyCause::Timeout) {
        return Err(Refusal::Expired {
            approval: approval.id.clone(),
            expires_at: approval.expires_at,
        });
    }
    let voted = approval.votes.iter().any(|vote| vote.by == *by);
    let counted = voted && decision.verdict == Verdict::Approve;
    let repeats = same_way && decision.edit.is_none();
    if repeats && (recorded.by.as_ref() == Some(by) || counted) {
        return Ok(true);
    }
    Err(Refusal::AlreadyDecided {
        approval: approval.id.clone(),
        recorded: Box::new(recorded.clone()),
    })
}

/// What somebody has edited is decided only by who names what it is now: nobody approves what they
/// have not seen.
fn check_saw(call: &Call, approval: &HeldCall, decision: &Decision) -> Result<(), Refusal> {
    let saw = match (decision.saw, decision.verdict) {
        (Some(saw), _) => saw == call.digest,
        (None, Verdict::Approve) => call.edited.is_none(),
        (None, Verdict::Deny) => true,
    };
    if saw {
        Ok(())
    } else {
        Err(Refusal::Changed(approval.id.clone()))
    }
}

/// The votes before a decision, each as it was sealed on the timeline.
fn opened(approval: &HeldCall, ballot: &Ballot) -> Result<Vec<OpenVote>, Refusal> {
    let open = |cast: &CastVote| {
        let mut said = ballot.votes.iter().filter(|(of, _)| *of == approval.id);
        said.find(|(_, vote)| {
            let seal = OpenVote::seal(&approval.id, &cast.by, vote.reason.as_deref(), &vote.salt);
            vote.by == cast.by && seal == cast.sealed
        })
        .map(|(_, vote)| OpenVote {
            at: cast.at,
            ..vote.clone()
        })
        .ok_or_else(|| Refusal::BrokenVote(approval.id.clone()))
    };
    approval.votes.iter().map(open).collect()
}
