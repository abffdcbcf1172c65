//! A run to which anything may happen, one thing after the other.

use std::collections::BTreeSet;
use std::time::Duration;

use sayso_run::*;

use crate::event::Event;

const MINUTE: i64 = 60_000_000;

/// A run with everything that was recorded of it and everything that was shown to its model.
pub(crate) struct World {
    pub(crate) state: RunState,
    pub(crate) steps: Vec<Recorded>,
    pub(crate) contents: Vec<String>,
    now: i64,
    worker: u32,
    pub(crate) requests: Vec<(u64, Vec<Message>)>,
    /// The request under way: its cycle and what it shows.
    asked: Option<(u32, u64)>,
}

pub(crate) fn key() -> ChainKey {
    ChainKey::new("k1", [7; 32])
}

impl World {
    pub(crate) fn new() -> Self {
        Self::of("run_1")
    }

    pub(crate) fn of(run: &str) -> Self {
        let run = RunId::new(run).unwrap();
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
            parent: None,
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

    pub(crate) fn worker(&self) -> WorkerId {
        WorkerId::new(format!("w{}", self.worker)).unwrap()
    }

    pub(crate) fn take(&mut self, input: Input) -> Result<usize, Refusal> {
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

    pub(crate) fn happen(&mut self, event: Event) {
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
            Event::Prune => match self.state.can_prune() {
                Some(upto) => self.take(Input::Prune { upto, tokens: 9 }),
                None => Ok(0),
            },
            Event::Brief(turns) => self.brief(turns),
            Event::Summarised(which) => self.summarised(which),
            Event::Delegate(which) => self.delegate(which),
            Event::ChildEnds {
                which,
                trusted,
                ended_by,
            } => self.child_ends(which, trusted, ended_by),
        };
        self.check(before);
    }

    fn brief(&mut self, turns: u8) -> Result<usize, Refusal> {
        let upto = u32::from(turns) % (self.state.cycles() + 1);
        let told = self.state.told_upto(upto, 64);
        self.take(Input::Brief {
            upto,
            tokens: 9,
            text: format!("brief of {} bytes", told.len()),
            model: "m".into(),
            usage: Usage::default(),
            cost: None,
        })
    }

    fn summarised(&mut self, which: u8) -> Result<usize, Refusal> {
        let asked = |call: &&Call| call.approval.is_some();
        let asked: Vec<_> = self.state.calls().iter().filter(asked).collect();
        let Some(call) = pick(&asked, which) else {
            return Ok(0);
        };
        let summarised = Summarised {
            approval: call.approval.as_ref().unwrap().id.clone(),
            digest: call.digest,
            text: "Do it for Bob.".into(),
            model: "m".into(),
            usage: Usage::default(),
            cost: None,
        };
        let status = self.state.status();
        let next = self.state.next();
        self.take(Input::Summarised(summarised.clone()))?;
        assert_eq!((self.state.status(), self.state.next()), (status, next));
        let again = self.take(Input::Summarised(summarised));
        assert!(again.is_err(), "a call is put into words once (S6.2)");
        Ok(1)
    }

    fn delegate(&mut self, which: u8) -> Result<usize, Refusal> {
        let phase = |call: &&Call| call.phase == Phase::Cleared;
        let cleared: Vec<_> = self.state.calls().iter().filter(phase).collect();
        let Some(call) = pick(&cleared, which).map(|call| call.id.clone()) else {
            return Ok(0);
        };
        self.take(Input::Delegate {
            call,
            child: new_child(),
        })
    }

    fn child_ends(&mut self, which: u8, trusted: bool, ended_by: u8) -> Result<usize, Refusal> {
        let children: Vec<RunId> = self
            .state
            .live_children()
            .filter_map(|call| Some(call.child.as_ref()?.run.clone()))
            .collect();
        let Some(run) = pick(&children, which).cloned() else {
            return Ok(0);
        };
        let end = ChildEnd {
            run,
            ended_by: [
                EndedBy::Answer,
                EndedBy::MaxCycles,
                EndedBy::SpendingCap,
                EndedBy::ProviderBilling,
                EndedBy::Error,
                EndedBy::Cancelled,
            ][usize::from(ended_by)],
            text: "the child says so".into(),
            trust: if trusted {
                Trust::Operator
            } else {
                Trust::Untrusted
            },
        };
        self.take(Input::ChildEnded(end.clone()))?;
        let again = self.take(Input::ChildEnded(end));
        assert!(again.is_err(), "a child's end is taken once (S3.6)");
        Ok(1)
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
                    7 => Ruling::Delegate {
                        rule: "default".into(),
                        child: new_child(),
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
            content: "done ".repeat(usize::from(which)),
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
        let edits = approve && by == 3;
        let by = ["app", "app2", "sub", "app"][usize::from(by)];
        let edit = edits.then(|| edit(&self.state, &format!("{{\"edited\":{which}}}")));
        let item = DecisionItem {
            target: Target::Approval(approval.clone()),
            decision: Decision {
                edit,
                ..decision(approve)
            },
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
}

pub(crate) fn new_child() -> NewChild {
    NewChild {
        agent: AgentName::new("helper").unwrap(),
        revision: RevisionId::new("1".repeat(64)).unwrap(),
        input: "look".into(),
    }
}

/// An edit as it is judged now.
pub(crate) fn edit(state: &RunState, args: &str) -> Edit {
    Edit {
        args: args.to_owned(),
        shown: None,
        origins: Vec::new(),
        quorum: None,
        judged_at: state.seq(),
    }
}

fn decision(approve: bool) -> Decision {
    let verdict = if approve {
        Verdict::Approve
    } else {
        Verdict::Deny
    };
    Decision::new(verdict, None)
}

fn pick<T>(from: &[T], which: u8) -> Option<&T> {
    if from.is_empty() {
        None
    } else {
        from.get(usize::from(which) % from.len())
    }
}
