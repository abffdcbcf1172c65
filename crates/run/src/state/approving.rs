//! Folding what happens to held calls: blocked, edited, voted on, decided.

use super::apply::person;
use super::call::{ApprovalOutcome, Edited, WrittenSummary};
use super::{Clearance, Entry, HeldCall, Outcome, Phase, RunState};
use crate::actor::Actor;
use crate::digest::{CallDigest, Digest, Fingerprint};
use crate::quorum::CastVote;
use crate::step::{
    DenyCause, Escalated, SummaryWritten, ToolApproved, ToolBlocked, ToolDenied, ToolEdited,
    VoteCast,
};
use crate::time::Timestamp;

impl RunState {
    pub(super) fn tool_blocked(
        &mut self,
        step: &ToolBlocked,
        seq: u64,
        at: Timestamp,
    ) -> Result<(), String> {
        let call = self.call_in(&step.call, |phase| matches!(phase, Phase::Proposed))?;
        if call.digest != step.digest {
            return Err(format!("what is held as {} is another call", step.call));
        }
        call.phase = Phase::Held;
        call.approval = Some(HeldCall {
            id: step.approval.clone(),
            rule: step.rule.clone(),
            reason: step.reason.clone(),
            summary: step.summary.clone(),
            written: None,
            requested_at: at,
            expires_at: step.expires_at,
            seq,
            origins: step.origins.clone(),
            quorum: step.quorum.clone(),
            escalated: Vec::new(),
            votes: Vec::new(),
            outcome: None,
        });
        Ok(())
    }

    pub(super) fn tool_edited(
        &mut self,
        actor: &Actor,
        step: &ToolEdited,
        seq: u64,
    ) -> Result<(), String> {
        let by = person(actor).ok_or("an edit by nobody")?;
        let run = self.run.clone();
        let call = self.call_in(&step.call, |phase| matches!(phase, Phase::Held))?;
        if call.digest != step.before {
            return Err(format!("the edit of {} is of another call", step.call));
        }
        let definition = call.definition.unwrap_or(Digest::ZERO);
        if step.digest != CallDigest::of(&run, &call.id, &call.tool, &definition, &step.args) {
            return Err(format!("the edit of {} is bound to other bytes", step.call));
        }
        let proposed = call.proposed_args().to_owned();
        call.edited = Some(Edited { by, proposed });
        call.args.clone_from(&step.args);
        call.digest = step.digest;
        call.fingerprint = Fingerprint::of(&call.tool, &step.args);
        let approval = call.approval.as_mut().ok_or("an edit of no approval")?;
        if approval.quorum != step.quorum {
            approval.quorum = step.quorum.clone();
            approval.escalated.clear();
        }
        approval.votes.clear();
        approval.seq = seq;
        approval.summary.clone_from(&step.summary);
        approval.written = None;
        approval.origins.clone_from(&step.origins);
        Ok(())
    }

    pub(super) fn vote_cast(
        &mut self,
        actor: &Actor,
        step: &VoteCast,
        at: Timestamp,
    ) -> Result<(), String> {
        let by = person(actor).ok_or("a vote by nobody")?;
        let call = self.call_in(&step.call, |phase| matches!(phase, Phase::Held))?;
        if call.digest != step.digest {
            return Err(format!("a vote on {} is bound to another call", step.call));
        }
        let approval = call.approval.as_mut().ok_or("a vote on no approval")?;
        if approval.votes.iter().any(|vote| vote.by == by) {
            return Err(format!("a second vote by {by}"));
        }
        approval.votes.push(CastVote {
            by,
            sealed: step.sealed,
            at,
        });
        Ok(())
    }

    pub(super) fn escalated(&mut self, step: &Escalated) -> Result<(), String> {
        let call = self.call_in(&step.call, |phase| matches!(phase, Phase::Held))?;
        let approval = call.approval.as_mut().ok_or("no approval was escalated")?;
        approval.escalated.push(step.to.clone());
        Ok(())
    }

    pub(super) fn summary_written(&mut self, step: &SummaryWritten) -> Result<(), String> {
        self.spend(step.usage, step.cost);
        let call = self
            .call_mut(&step.call)
            .ok_or("a summary of no call that was proposed")?;
        if call.digest != step.digest {
            return Err(format!("the summary of {} is of another call", step.call));
        }
        let approval = call.approval.as_mut().ok_or("a summary of no approval")?;
        approval.written = Some(WrittenSummary {
            text: step.text.clone(),
            unsupported: step.unsupported.clone(),
            model: step.model.clone(),
        });
        Ok(())
    }

    pub(super) fn tool_approved(
        &mut self,
        actor: &Actor,
        step: &ToolApproved,
        at: Timestamp,
    ) -> Result<(), String> {
        let by = person(actor).ok_or("an approval by nobody")?;
        let call = self.call_in(&step.call, |phase| matches!(phase, Phase::Held))?;
        if call.digest != step.digest {
            return Err(format!(
                "the approval of {} is bound to another call",
                step.call
            ));
        }
        call.phase = Phase::Cleared;
        call.clearance = Some(Clearance::Person(by.clone()));
        if let Some(approval) = &mut call.approval {
            approval.outcome = Some(ApprovalOutcome {
                denied: None,
                by: Some(by),
                reason: step.reason.clone(),
                at,
            });
        }
        self.goes_on |= step.goes_on;
        Ok(())
    }

    pub(super) fn tool_denied(
        &mut self,
        actor: &Actor,
        step: &ToolDenied,
        seq: u64,
        at: Timestamp,
    ) -> Result<(), String> {
        let call = self.call_in(&step.call, |phase| {
            matches!(
                phase,
                Phase::Proposed | Phase::Held | Phase::Asked | Phase::Cleared
            )
        })?;
        if let Some(approval) = call
            .approval
            .as_mut()
            .filter(|approval| approval.outcome.is_none())
        {
            approval.outcome = Some(ApprovalOutcome {
                denied: Some(step.cause),
                by: person(actor),
                reason: step.reason.clone(),
                at,
            });
        }
        let quiet = step.cause == DenyCause::Superseded;
        let outcome = Outcome::Denied {
            cause: step.cause,
            reason: step.reason.clone(),
        };
        self.finish(&step.call, outcome, seq)?;
        if quiet {
            self.unseen
                .retain(|(_, entry)| *entry != Entry::LateResult(step.call.clone()));
        }
        self.goes_on |= step.goes_on;
        Ok(())
    }
}
