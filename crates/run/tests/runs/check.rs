//! What holds of a run after everything that happens to it.

use std::collections::{BTreeMap, BTreeSet};

use sayso_run::*;

use crate::world::{World, key};

impl World {
    /// No answer is the last one while the model has not seen everything (B23).
    fn check_last_word(&self) {
        if self.state.ended_by() != Some(EndedBy::Answer) {
            return;
        }
        let shown = self.steps.iter().rev().find_map(|step| match &step.step {
            Step::AssistantMessage(message) => Some(message.seen),
            _ => None,
        });
        for step in &self.steps {
            let matters = matches!(
                &step.step,
                Step::UserMessage(_) | Step::ToolApproved(_) | Step::ToolResult(_)
            );
            let before_end = step.seq < self.ended_seq();
            assert!(
                !matters || !before_end || Some(step.seq) <= shown,
                "step {} was never shown",
                step.seq
            );
        }
    }

    fn ended_seq(&self) -> u64 {
        let end = |step: &&Recorded| matches!(step.step, Step::Completion(_));
        self.steps
            .iter()
            .find(end)
            .map_or(u64::MAX, |step| step.seq)
    }

    /// Everything that holds after every event.
    pub(crate) fn check(&self, before: Status) {
        let refolded = RunState::fold(self.state.run(), &self.steps)
            .unwrap()
            .unwrap();
        assert_eq!(
            refolded, self.state,
            "folding the stored steps gives the same state (S2.1)"
        );
        assert_eq!(self.state.next(), self.state.next(), "next is idempotent");
        self.check_terminal(before);
        check_well_formed(&self.state.messages());
        self.check_history();
        self.check_last_word();
        self.check_executions();
        self.check_trust();
        self.check_chain();
    }

    fn check_terminal(&self, before: Status) {
        let after = self.state.status();
        let retried = matches!(self.steps.last().unwrap().step, Step::Retried(_));
        if before.is_terminal() && after != before {
            assert!(
                before == Status::Failed && retried,
                "{before:?} became {after:?} (S1.2)"
            );
        }
        if after.is_terminal() {
            assert_eq!(self.state.next(), Next::Done);
            assert_eq!(
                self.state.held().count(),
                0,
                "nothing stays pending after the end (S6.5)"
            );
        }
    }

    /// What was sent to the model once is never sent otherwise.
    fn check_history(&self) {
        let now = self.state.messages();
        let compacted = |step: &&Recorded| matches!(step.step, Step::Compaction(_));
        let compacted = self.steps.iter().rev().find(compacted);
        let since = compacted.map_or(0, |step| step.seq);
        for (seen, request) in self.requests.iter().filter(|(seen, _)| *seen >= since) {
            let answered = self.steps.iter().any(|step| match &step.step {
                Step::AssistantMessage(message) => message.seen == *seen,
                _ => false,
            });
            if answered {
                assert_eq!(
                    &now[..request.len()],
                    &request[..],
                    "the conversation up to step {seen} has changed"
                );
                let next = now.get(request.len());
                assert!(
                    matches!(next, Some(Message::Assistant { .. })),
                    "the answer to step {seen} does not follow it"
                );
            }
        }
    }

    /// S5.7, S5.8: trust is lowered once, right after the first call whose result may be an outsider's
    /// words was sent, and never rises.
    fn check_trust(&self) {
        let mut trust = self.state.trigger().trust;
        let mut secret = false;
        let mut ended = false;
        let mut sent: Option<&CallId> = None;
        for step in &self.steps {
            if let Some(call) = sent.take() {
                let Step::TrustLowered(lowered) = &step.step else {
                    panic!("{call} was sent and trust stays {trust:?}");
                };
                assert_eq!((lowered.call.as_ref(), lowered.from), (Some(call), trust));
                assert!(lowered.to < trust, "trust never rises");
                trust = lowered.to;
            }
            ended |= matches!(step.step, Step::Completion(_) | Step::Cancelled(_));
            if let Step::ChildFinished(finished) = &step.step
                && finished.trust < trust
                && !ended
            {
                sent = Some(&finished.call);
            }
            if let Step::ToolStarted(started) = &step.step {
                secret |= started.sensitive_output;
                if started.untrusted_output && trust > Trust::Untrusted {
                    sent = Some(&started.call);
                }
            }
        }
        assert_eq!(self.state.trust(), trust);
        assert_eq!(self.state.secret_read(), secret);
    }

    /// Nothing is sent without an allow or an approval of the same digest, and only what is declared
    /// idempotent is sent twice.
    fn check_executions(&self) {
        let mut approved: BTreeMap<&CallId, CallDigest> = BTreeMap::new();
        let mut idempotent: BTreeSet<&CallId> = BTreeSet::new();
        let mut denied: BTreeSet<&CallId> = BTreeSet::new();
        let mut starts: BTreeMap<&CallId, u32> = BTreeMap::new();
        for step in &self.steps {
            match &step.step {
                Step::ToolApproved(step) => {
                    approved.insert(&step.call, step.digest);
                }
                Step::ToolDenied(step) => {
                    denied.insert(&step.call);
                }
                Step::ChildStarted(step) => {
                    assert!(!denied.contains(&step.call), "{} was denied", step.call);
                    let allowed = match &step.approval {
                        Some(_) => approved.get(&step.call) == Some(&step.digest),
                        None => step.rule.is_some(),
                    };
                    assert!(allowed, "{} became a run unapproved", step.call);
                    let count = starts.entry(&step.call).or_default();
                    *count += 1;
                    assert_eq!(*count, 1, "{} became two runs", step.call);
                }
                Step::ToolStarted(step) => {
                    assert!(
                        !denied.contains(&step.call),
                        "{} was denied and sent",
                        step.call
                    );
                    match &step.approval {
                        Some(_) => assert_eq!(
                            approved.get(&step.call),
                            Some(&step.digest),
                            "sent unapproved"
                        ),
                        None => assert!(step.rule.is_some(), "sent without a rule"),
                    }
                    let count = starts.entry(&step.call).or_default();
                    *count += 1;
                    assert!(
                        *count == 1 || idempotent.contains(&step.call),
                        "{} was sent twice",
                        step.call
                    );
                    if step.idempotent {
                        idempotent.insert(&step.call);
                    }
                }
                _ => {}
            }
        }
    }

    fn check_chain(&self) {
        let links: Vec<StoredLink> = self
            .steps
            .iter()
            .zip(&self.contents)
            .map(|(step, content)| StoredLink {
                seq: step.seq,
                at: step.at,
                actor: step.actor.clone(),
                kind: step.step.kind().to_string(),
                version: step.step.kind().version(),
                content: Some(content.clone()),
                content_sha256: step.content_sha256,
                hash: step.hash,
                seal: step.seal.clone(),
            })
            .collect();
        let keys: ChainKeys = [key()].into_iter().collect();
        assert_eq!(
            verify(self.state.run(), &links, &keys).unwrap(),
            *self.state.head()
        );
    }
}

/// S4.8: each call has exactly one result, in order, directly after its answer; no other results.
pub(crate) fn check_well_formed(messages: &[Message]) {
    let mut open: Vec<CallId> = Vec::new();
    let mut ids = BTreeSet::new();
    for message in messages {
        match message {
            Message::Results(results) => {
                let answered: Vec<CallId> =
                    results.iter().map(|result| result.id.clone()).collect();
                assert_eq!(answered, open, "results do not fit the calls");
                open.clear();
            }
            Message::User(_) | Message::Assistant { .. } => {
                assert!(open.is_empty(), "calls without results: {open:?}")
            }
        }
        if let Message::Assistant { calls, .. } = message {
            open = calls.iter().map(|call| call.id.clone()).collect();
            assert!(
                open.iter().all(|id| ids.insert(id.clone())),
                "a call id stands twice"
            );
        }
    }
    assert!(open.is_empty(), "the last calls have no results");
}
