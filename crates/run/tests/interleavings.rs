//! Random interleavings of model answers, verdicts, decisions, messages, cancels, retries, expiry and
//! crashes, against the promises that must hold in every one of them (S2.1, S4.8, S6.1, S1.2).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use sayso_run::*;

const MINUTE: i64 = 60_000_000;

/// One thing that happens; the numbers pick among what is possible at that moment.
#[derive(Debug, Clone)]
enum Event {
    /// The model is asked; the answer comes with a later event, after whatever happens in between.
    Ask,
    Answer {
        calls: Vec<(u8, u8)>,
        text: bool,
    },
    ModelFails {
        billing: bool,
    },
    Judge {
        rulings: Vec<u8>,
    },
    Execute(u8),
    Output {
        which: u8,
        ok: bool,
    },
    Decide {
        which: u8,
        approve: bool,
        by: u8,
        goes_on: bool,
        message: bool,
    },
    DecideByTool {
        tool: u8,
        approve: bool,
        back: u8,
    },
    Message,
    Cancel,
    Retry,
    Crash,
    Wait(u8),
    Reap,
    Complete,
    Interrupt,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Ask),
        6 => (prop::collection::vec((0..3u8, 0..2u8), 0..4), any::<bool>())
            .prop_map(|(calls, text)| Event::Answer { calls, text }),
        1 => any::<bool>().prop_map(|billing| Event::ModelFails { billing }),
        6 => prop::collection::vec(0..8u8, 4).prop_map(|rulings| Event::Judge { rulings }),
        5 => any::<u8>().prop_map(Event::Execute),
        6 => (any::<u8>(), any::<bool>()).prop_map(|(which, ok)| Event::Output { which, ok }),
        6 => (any::<u8>(), any::<bool>(), 0..4u8, any::<bool>(), any::<bool>())
            .prop_map(|(which, approve, by, goes_on, message)| Event::Decide { which, approve, by, goes_on, message }),
        1 => (0..3u8, any::<bool>(), any::<u8>())
            .prop_map(|(tool, approve, back)| Event::DecideByTool { tool, approve, back }),
        2 => Just(Event::Message),
        1 => Just(Event::Cancel),
        2 => Just(Event::Retry),
        2 => Just(Event::Crash),
        2 => any::<u8>().prop_map(Event::Wait),
        1 => Just(Event::Reap),
        2 => Just(Event::Complete),
        3 => Just(Event::Interrupt),
    ]
}

/// A run with everything that was recorded of it and everything that was shown to its model.
struct World {
    state: RunState,
    steps: Vec<Recorded>,
    contents: Vec<String>,
    now: i64,
    worker: u32,
    requests: Vec<(u64, Vec<Message>)>,
    /// The request under way: its cycle and what it shows.
    asked: Option<(u32, u64)>,
}

fn key() -> ChainKey {
    ChainKey::new("k1", [7; 32])
}

impl World {
    fn new() -> Self {
        let run = RunId::new("run_1").unwrap();
        let trigger = TriggerReceived {
            task: TaskId::new("task_1").unwrap(),
            namespace: Namespace::new("default").unwrap(),
            agent: AgentName::new("agent").unwrap(),
            revision: RevisionId::new("0".repeat(64)).unwrap(),
            source: Source::Start,
            input: "do it".into(),
            principal: PrincipalId::new("sub").unwrap(),
            trust: Trust::Trusted,
            idempotency: None,
            trigger: None,
            tick: None,
            traceparent: None,
        };
        let (actor, step) = Start {
            run: run.clone(),
            trigger,
        }
        .decide()
        .unwrap();
        let (first, content) = Recorded::chain(
            &Head::START,
            &run,
            Timestamp::from_micros(0),
            actor,
            step,
            &key(),
        );
        let state = RunState::begin(run, &first).unwrap();
        let mut world = Self {
            state,
            steps: vec![first],
            contents: vec![content],
            now: 0,
            worker: 0,
            requests: Vec::new(),
            asked: None,
        };
        world
            .take(Input::ToolsListed {
                set: ToolSetId::new("a".repeat(64)).unwrap(),
                count: 3,
            })
            .unwrap();
        world
    }

    fn worker(&self) -> WorkerId {
        WorkerId::new(format!("w{}", self.worker)).unwrap()
    }

    fn take(&mut self, input: Input) -> Result<usize, Refusal> {
        self.now += 1;
        let now = Timestamp::from_micros(self.now);
        let caused = self.state.decide(input, now)?;
        let count = caused.len();
        for (actor, step) in caused {
            let (recorded, content) = Recorded::chain(
                self.state.head(),
                self.state.run(),
                now,
                actor,
                step,
                &key(),
            );
            self.state
                .apply(&recorded)
                .unwrap_or_else(|corrupt| panic!("decide made a corrupt timeline: {corrupt}"));
            self.steps.push(recorded);
            self.contents.push(content);
        }
        Ok(count)
    }

    fn happen(&mut self, event: Event) {
        let before = self.state.status();
        // Refusals are fine: what matters is that nothing wrong is ever taken.
        let _taken = match event {
            Event::Ask => {
                self.ask();
                Ok(0)
            }
            Event::Answer { calls, text } => self.answer(calls, text),
            Event::ModelFails { billing } => self.model_fails(billing),
            Event::Judge { rulings } => self.judge(&rulings),
            Event::Execute(which) => self.execute(which),
            Event::Output { which, ok } => self.output(which, ok),
            Event::Decide {
                which,
                approve,
                by,
                goes_on,
                message,
            } => self.decide(which, approve, by, goes_on, message),
            Event::DecideByTool {
                tool,
                approve,
                back,
            } => self.decide_by_tool(tool, approve, back),
            Event::Message => self.respond(Vec::new(), "app", Some("go on".into()), true, None),
            Event::Cancel => {
                let by = PrincipalId::new("sub").unwrap();
                self.take(Input::Cancel {
                    by,
                    reason: None,
                    idempotency: None,
                })
            }
            Event::Retry => self.take(Input::Retry {
                by: PrincipalId::new("sub").unwrap(),
            }),
            Event::Crash => {
                self.worker += 1;
                let (worker, epoch) = (self.worker(), u64::from(self.worker));
                self.take(Input::TakenOver { worker, epoch })
            }
            Event::Wait(minutes) => {
                self.now += i64::from(minutes) * MINUTE / 4;
                self.take(Input::Tick)
            }
            Event::Reap => {
                self.worker += 1;
                let (worker, message) = (WorkerId::new("reaper").unwrap(), "reaped".to_owned());
                self.take(Input::Reap { worker, message })
            }
            Event::Complete => self.take(Input::Complete),
            Event::Interrupt => self.take(Input::Interrupt),
        };
        self.check(before);
    }

    fn ask(&mut self) {
        let Next::Owed(owed) = self.state.next() else {
            return;
        };
        let [Effect::AskModel { cycle }] = owed.as_slice() else {
            return;
        };
        self.asked = Some((*cycle, self.state.seq()));
        self.requests
            .push((self.state.seq(), self.state.messages()));
    }

    fn answer(&mut self, calls: Vec<(u8, u8)>, text: bool) -> Result<usize, Refusal> {
        if self.asked.is_none() {
            self.ask();
        }
        let Some((cycle, seen)) = self.asked.take() else {
            return Ok(0);
        };
        let calls = calls
            .into_iter()
            .map(|(tool, args)| Proposed {
                tool: format!("t.{tool}"),
                model_name: format!("t_{tool}"),
                args: format!("{{\"n\":{args}}}"),
                definition: Some(Digest::of(&[tool])),
            })
            .collect();
        self.take(Input::Answer(Answer {
            cycle,
            seen,
            failovers: Vec::new(),
            thinking: Vec::new(),
            text: if text { "so".into() } else { String::new() },
            calls,
            model: "m".into(),
            cost: None,
            usage: Usage {
                input: 1,
                cached: 0,
                output: 1,
            },
        }))
    }

    fn model_fails(&mut self, billing: bool) -> Result<usize, Refusal> {
        let cycle = self.state.cycles() + 1;
        self.take(Input::ModelFailed(ModelFailure {
            cycle,
            failovers: Vec::new(),
            code: FailureCode::new(FailureCode::PROVIDER_UNAVAILABLE),
            message: "away".into(),
            billing: billing.then(|| "p".into()),
        }))
    }

    fn judge(&mut self, rulings: &[u8]) -> Result<usize, Refusal> {
        let Next::Owed(owed) = self.state.next() else {
            return Ok(0);
        };
        let Some(Effect::Judge { calls }) = owed.first() else {
            return Ok(0);
        };
        let judgements = calls
            .iter()
            .zip(rulings.iter().cycle())
            .map(|(call, ruling)| Judgement {
                call: call.clone(),
                shown: None,
                ruling: match ruling {
                    0 | 1 => Ruling::Allow {
                        rule: "rules#0".into(),
                        marks: Marks {
                            untrusted_output: *ruling == 1,
                            ..Marks::default()
                        },
                    },
                    2 => Ruling::Allow {
                        rule: "rules#0".into(),
                        marks: Marks {
                            idempotent: true,
                            sensitive_output: true,
                            ..Marks::default()
                        },
                    },
                    3 | 4 => Ruling::Ask {
                        rule: "default".into(),
                        reason: "because".into(),
                        quorum: sayso_run::Quorum::default(),
                        origins: Vec::new(),
                    },
                    5 => Ruling::Deny {
                        rule: "rules#1".into(),
                        reason: "never".into(),
                    },
                    6 => Ruling::InvalidArguments {
                        message: "bad".into(),
                    },
                    _ => Ruling::AskPerson {
                        question: "which?".into(),
                    },
                },
            })
            .collect();
        let worker = self.worker();
        self.take(Input::Judged {
            judgements,
            worker,
            approval_timeout: Duration::from_secs(3600),
        })
    }

    fn execute(&mut self, which: u8) -> Result<usize, Refusal> {
        let Next::Owed(owed) = self.state.next() else {
            return Ok(0);
        };
        let calls: Vec<&CallId> = owed
            .iter()
            .filter_map(|effect| match effect {
                Effect::Execute { call } => Some(call),
                _ => None,
            })
            .collect();
        let Some(call) = pick(&calls, which) else {
            return Ok(0);
        };
        let (call, worker) = ((*call).clone(), self.worker());
        self.take(Input::Execute {
            call,
            worker,
            marks: Marks {
                idempotent: which.is_multiple_of(2),
                untrusted_output: which.is_multiple_of(3),
                ..Marks::default()
            },
        })
    }

    fn output(&mut self, which: u8, ok: bool) -> Result<usize, Refusal> {
        let open: Vec<(CallId, WorkerId)> = self
            .state
            .calls()
            .iter()
            .filter_map(|call| match &call.phase {
                Phase::Started { worker, .. } | Phase::Unknown { worker, .. } => {
                    Some((call.id.clone(), worker.clone()))
                }
                _ => None,
            })
            .collect();
        let Some((call, worker)) = pick(&open, which).cloned() else {
            return Ok(0);
        };
        self.take(Input::Output(ToolOutput {
            call,
            worker,
            outcome: if ok {
                ToolOutcome::Ok
            } else {
                ToolOutcome::Error
            },
            content: "done".into(),
            cut_bytes: 0,
            took_micros: 5,
            artifact: None,
        }))
    }

    fn decide(
        &mut self,
        which: u8,
        approve: bool,
        by: u8,
        goes_on: bool,
        message: bool,
    ) -> Result<usize, Refusal> {
        let all: Vec<ApprovalId> = self
            .state
            .calls()
            .iter()
            .filter_map(|call| call.approval.as_ref())
            .map(|held| held.id.clone())
            .collect();
        let Some(approval) = pick(&all, which).cloned() else {
            return Ok(0);
        };
        let before = self
            .state
            .call_of(&approval)
            .unwrap()
            .approval
            .as_ref()
            .unwrap()
            .outcome
            .clone();
        let by = ["app", "app2", "sub", "app"][usize::from(by)];
        let item = DecisionItem {
            target: Target::Approval(approval.clone()),
            decision: decision(approve),
        };
        let taken = self.respond(
            vec![item],
            by,
            message.then(|| "and this".into()),
            goes_on,
            None,
        );
        let after = self
            .state
            .call_of(&approval)
            .unwrap()
            .approval
            .as_ref()
            .unwrap()
            .outcome
            .clone();
        if before.is_some() {
            assert_eq!(before, after, "the first decision is final (S6.4)");
        }
        if by == "sub" {
            assert!(taken.is_err(), "nobody decides their own request (S6.10)");
        }
        taken
    }

    fn decide_by_tool(&mut self, tool: u8, approve: bool, back: u8) -> Result<usize, Refusal> {
        let seen = self.state.seq().saturating_sub(u64::from(back) % 6);
        let later: BTreeSet<CallId> = self
            .state
            .held_later(&format!("t.{tool}"), seen)
            .into_iter()
            .collect();
        let item = DecisionItem {
            target: Target::Tool(format!("t.{tool}")),
            decision: decision(approve),
        };
        let taken = self.respond(vec![item], "app", None, true, Some(seen));
        for call in later {
            assert!(
                self.state.call(&call).unwrap().phase == Phase::Held,
                "a call held later is not covered (S6.4)"
            );
        }
        taken
    }

    fn respond(
        &mut self,
        decisions: Vec<DecisionItem>,
        by: &str,
        message: Option<String>,
        goes_on: bool,
        seen: Option<u64>,
    ) -> Result<usize, Refusal> {
        let by = PrincipalId::new(by).unwrap();
        self.take(Input::Respond(Response {
            by,
            decisions,
            message,
            goes_on,
            seen,
            idempotency: None,
            ballot: sayso_run::Ballot::default(),
        }))
    }

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
    fn check(&self, before: Status) {
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
        for (seen, request) in &self.requests {
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
        let mut sent = None;
        for step in &self.steps {
            if let Some(call) = sent.take() {
                let Step::TrustLowered(lowered) = &step.step else {
                    panic!("{call} was sent and trust stays {trust:?}");
                };
                assert_eq!((&lowered.call, lowered.from), (call, trust));
                assert!(lowered.to < trust, "trust never rises");
                trust = lowered.to;
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

fn decision(approve: bool) -> Decision {
    Decision {
        verdict: if approve {
            Verdict::Approve
        } else {
            Verdict::Deny
        },
        reason: None,
    }
}

fn pick<T>(from: &[T], which: u8) -> Option<&T> {
    if from.is_empty() {
        None
    } else {
        from.get(usize::from(which) % from.len())
    }
}

/// S4.8: each call has exactly one result, in order, directly after its answer; no other results.
fn check_well_formed(messages: &[Message]) {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// S1.2, S2.1, S4.1, S4.5, S4.8, S6.1, S6.4, S6.5, S6.10.
    #[test]
    fn every_interleaving_keeps_the_promises(events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
    }
}

/// S4.1: 20 cycles, whatever happens in between, and then the run is complete and says so.
#[test]
fn the_cycle_cap_completes_the_run() {
    let mut world = World::new();
    for cycle in 0..limits::MAX_CYCLES {
        let tool = u8::try_from(cycle % 3).unwrap();
        let args = u8::try_from(cycle % 2).unwrap();
        world.happen(Event::Answer {
            calls: vec![(tool, args)],
            text: false,
        });
        world.happen(Event::Judge { rulings: vec![0] });
        world.happen(Event::Output { which: 0, ok: true });
    }
    assert_eq!(world.state.next(), Next::Owed(vec![Effect::Complete]));
    world.happen(Event::Complete);
    assert_eq!(world.state.status(), Status::Completed);
    assert_eq!(world.state.ended_by(), Some(EndedBy::MaxCycles));
    assert!(
        world
            .state
            .output()
            .unwrap()
            .contains("too big for one run")
    );
}

/// S6.5: an earlier call that is still pending gives way once, however many identical ones follow.
#[test]
fn two_identical_calls_of_one_answer_supersede_an_earlier_one_together() {
    let mut world = World::new();
    let held = vec![3];
    let answer = |calls| Event::Answer { calls, text: false };
    world.happen(answer(vec![(0, 0)]));
    world.happen(Event::Judge {
        rulings: held.clone(),
    });
    world.happen(Event::Message);
    world.happen(answer(vec![(0, 0), (1, 0), (0, 0)]));
    world.happen(Event::Judge { rulings: held });
    assert_eq!(world.state.held().count(), 3);
    assert_eq!(world.state.status(), Status::AwaitingApproval);
}

/// S4.5: a call that was approved after the model was told that it waits, and whose outcome is
/// unknown, is told to the model by a retry; the answer before it is not the last word.
#[test]
fn a_retry_tells_of_an_unknown_outcome_that_the_model_took_for_undecided() {
    let mut world = World::new();
    let answer = |calls| Event::Answer { calls, text: true };
    world.happen(answer(vec![(0, 0)]));
    world.happen(Event::Judge { rulings: vec![3] });
    world.happen(Event::Message);
    world.happen(Event::Ask);
    world.happen(Event::Decide {
        which: 0,
        approve: true,
        by: 0,
        goes_on: false,
        message: false,
    });
    world.happen(answer(Vec::new()));
    world.happen(Event::Execute(1));
    world.happen(Event::Crash);
    world.happen(Event::Interrupt);
    assert_eq!(world.state.status(), Status::Failed);
    world.happen(Event::Retry);
    let last = world.state.messages().pop();
    assert!(
        matches!(&last, Some(Message::User(note)) if note.contains("outcome unknown")),
        "{last:?}"
    );
    assert_eq!(
        world.state.next(),
        Next::Owed(vec![Effect::AskModel { cycle: 3 }])
    );
}
