//! Timelines that earlier versions have written are read for ever (S2.1, S2.2, S2.3).
//!
//! Each `timelines/*.jsonl` is one run, a step a line, as it was stored; beside it stands what it
//! folds to. Files are added, never changed. A new one is written from the script below with
//! `WRITE_TIMELINE=NAME cargo test -p sayso-run --test timelines`, which refuses to overwrite.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sayso_run::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    at: i64,
    actor: Actor,
    r#type: String,
    version: u16,
    content: String,
    content_sha256: Digest,
    hash: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<Seal>,
}

impl Line {
    fn link(&self) -> StoredLink {
        StoredLink {
            seq: self.seq,
            at: Timestamp::from_micros(self.at),
            actor: self.actor.clone(),
            kind: self.r#type.clone(),
            version: self.version,
            content: Some(self.content.clone()),
            content_sha256: self.content_sha256,
            hash: self.hash,
            seal: self.seal.clone(),
        }
    }

    fn recorded(&self) -> Recorded {
        Recorded {
            seq: self.seq,
            at: Timestamp::from_micros(self.at),
            actor: self.actor.clone(),
            step: Step::decode(&self.r#type, self.version, &self.content).unwrap(),
            content_sha256: self.content_sha256,
            hash: self.hash,
            seal: self.seal.clone(),
        }
    }
}

fn key() -> ChainKey {
    ChainKey::new("fixture", [42; 32])
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines")
}

fn run_id() -> RunId {
    RunId::new("run_fixture").unwrap()
}

/// Every stored timeline still verifies and folds to what it folded to when it was written.
#[test]
fn stored_timelines_are_read_for_ever() {
    if let Ok(name) = std::env::var("WRITE_TIMELINE") {
        write_new(&name);
    }
    let mut read = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        let lines: Vec<Line> = fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let links: Vec<StoredLink> = lines.iter().map(Line::link).collect();
        let keys: ChainKeys = [key()].into_iter().collect();
        verify(&run_id(), &links, &keys)
            .unwrap_or_else(|broken| panic!("{}: {broken}", path.display()));
        let expected = fs::read_to_string(path.with_extension("folded")).unwrap();
        assert_eq!(folded(&lines), expected, "{}", path.display());
        read += 1;
    }
    assert!(read > 0, "there is at least one stored timeline");
}

/// S2.3: whatever is changed in a stored timeline, the first broken step is named.
#[test]
fn a_changed_timeline_names_its_first_broken_step() {
    let text = fs::read_to_string(folder().join("gated-run-v1.jsonl")).unwrap();
    let links: Vec<StoredLink> = text
        .lines()
        .map(|line| serde_json::from_str::<Line>(line).unwrap().link())
        .collect();
    let keys: ChainKeys = [key()].into_iter().collect();
    let broken = |change: fn(&mut Vec<StoredLink>)| {
        let mut links = links.clone();
        change(&mut links);
        verify(&run_id(), &links, &keys).unwrap_err().seq
    };
    assert_eq!(broken(|links| links[3].content = Some("{}".into())), 4);
    assert_eq!(broken(|links| links[4].actor = Actor::System), 5);
    assert_eq!(broken(|links| links[2].at = Timestamp::from_micros(1)), 3);
    assert_eq!(broken(|links| links.swap(2, 3)), 3);
    assert_eq!(broken(|links| drop(links.remove(5))), 6);
    let sealed = links.iter().position(|link| link.seal.is_some()).unwrap();
    let mut without = links.clone();
    without[sealed].seal = None;
    assert_eq!(
        verify(&run_id(), &without, &keys).unwrap_err().seq,
        links[sealed].seq
    );
    let other: ChainKeys = [ChainKey::new("fixture", [43; 32])].into_iter().collect();
    assert_eq!(
        verify(&run_id(), &links, &other).unwrap_err().seq,
        links[sealed].seq
    );
    let mut redacted = links.clone();
    redacted.iter_mut().for_each(|link| link.content = None);
    assert!(
        verify(&run_id(), &redacted, &keys).is_ok(),
        "a redacted export still verifies"
    );
}

/// The state in words that a person can review.
fn folded(lines: &[Line]) -> String {
    let steps: Vec<Recorded> = lines.iter().map(Line::recorded).collect();
    let state = RunState::fold(&run_id(), &steps).unwrap().unwrap();
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").unwrap();
    line(format!("status: {}", state.status().as_str()));
    line(format!(
        "ended by: {:?}",
        state.ended_by().map(EndedBy::as_str)
    ));
    line(format!("output: {:?}", state.output()));
    line(format!(
        "failure: {:?}",
        state.failure().map(|failed| failed.code.as_str())
    ));
    line(format!(
        "cycles: {}, retries: {}",
        state.cycles(),
        state.retries()
    ));
    for call in state.calls() {
        line(format!(
            "{}: {} {} {}",
            call.id,
            call.tool,
            call.action_status().as_str(),
            call.digest
        ));
    }
    for message in state.messages() {
        line(format!("{message:?}"));
    }
    text
}

/// A run with everything that a timeline can hold today.
struct Scripted {
    state: RunState,
    lines: Vec<Line>,
    now: i64,
}

impl Scripted {
    fn push(&mut self, recorded: &Recorded, content: String) {
        let kind = recorded.step.kind();
        self.lines.push(Line {
            seq: recorded.seq,
            at: recorded.at.micros(),
            actor: recorded.actor.clone(),
            r#type: kind.as_str().to_owned(),
            version: kind.version(),
            content,
            content_sha256: recorded.content_sha256,
            hash: recorded.hash,
            seal: recorded.seal.clone(),
        });
    }

    fn take(&mut self, input: Input) {
        self.now += 1_000;
        let now = Timestamp::from_micros(self.now);
        for (actor, step) in self.state.decide(input, now).unwrap() {
            let (recorded, content) =
                Recorded::chain(self.state.head(), &run_id(), now, actor, step, &key());
            self.state.apply(&recorded).unwrap();
            self.push(&recorded, content);
        }
    }

    fn answer(&mut self, text: &str, calls: &[(&str, &str)]) {
        let (cycle, seen) = (self.state.cycles() + 1, self.state.seq());
        let calls = calls
            .iter()
            .map(|(tool, args)| Proposed {
                tool: (*tool).to_owned(),
                model_name: tool.replace('.', "_"),
                args: (*args).to_owned(),
                definition: (*tool != "no.such").then(|| Digest::of(tool.as_bytes())),
            })
            .collect();
        let failovers = match cycle {
            1 => vec![ModelFailover {
                from: "a".into(),
                to: "b".into(),
                reason: "503".into(),
            }],
            _ => Vec::new(),
        };
        let thinking = vec![Thinking {
            text: "hm".into(),
            signature: Some("s".into()),
        }];
        let usage = Usage {
            input: 10,
            cached: 2,
            output: 5,
        };
        let text = text.to_owned();
        let model = "b".to_owned();
        self.take(Input::Answer(Answer {
            cycle,
            seen,
            failovers,
            thinking,
            text,
            calls,
            model,
            cost: None,
            usage,
        }));
    }

    fn judge(&mut self, rulings: Vec<Ruling>) {
        let open: Vec<CallId> = self
            .state
            .calls()
            .iter()
            .filter(|call| call.phase == Phase::Proposed)
            .map(|call| call.id.clone())
            .collect();
        let judgements = open
            .into_iter()
            .zip(rulings)
            .map(|(call, ruling)| Judgement {
                call,
                ruling,
                shown: None,
            })
            .collect();
        let (worker, approval_timeout) = (worker("w1"), Duration::from_secs(3600));
        self.take(Input::Judged {
            judgements,
            worker,
            approval_timeout,
        });
    }

    fn output(&mut self, call: &str, by: &str, content: &str) {
        self.take(Input::Output(ToolOutput {
            call: CallId::new(call).unwrap(),
            worker: worker(by),
            outcome: ToolOutcome::Ok,
            content: content.into(),
            cut_bytes: 0,
            took_micros: 7,
            artifact: None,
        }));
    }

    fn respond(&mut self, decisions: &[(&str, Verdict)], message: Option<&str>) {
        let decisions = decisions
            .iter()
            .map(|(call, verdict)| DecisionItem {
                target: Target::Call(CallId::new(*call).unwrap()),
                decision: Decision::new(*verdict, Some("so".into())),
            })
            .collect();
        let by = PrincipalId::new("app").unwrap();
        let message = message.map(str::to_owned);
        self.take(Input::Respond(Response {
            by,
            decisions,
            message,
            goes_on: true,
            seen: None,
            idempotency: None,
            ballot: sayso_run::Ballot::default(),
        }));
    }
}

impl Scripted {
    /// Somebody of the finance group approves a call, perhaps as changed.
    fn vote(
        &mut self,
        by: &str,
        approval: &ApprovalId,
        edit: Option<Edit>,
        votes: &[(ApprovalId, OpenVote)],
    ) {
        let digest = self.state.call_of(approval).unwrap().digest;
        self.take(Input::Respond(Response {
            by: PrincipalId::new(by).unwrap(),
            decisions: vec![DecisionItem {
                target: Target::Approval(approval.clone()),
                decision: Decision {
                    saw: Some(digest),
                    edit,
                    ..Decision::new(Verdict::Approve, Some("so".into()))
                },
            }],
            message: None,
            goes_on: false,
            seen: None,
            idempotency: None,
            ballot: Ballot {
                groups: ["finance".to_owned()].into(),
                salt: "salt".into(),
                votes: votes.to_vec(),
            },
        }));
    }
}

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

fn ask() -> Ruling {
    Ruling::Ask {
        rule: "rules#1".into(),
        reason: "it changes data".into(),
        quorum: sayso_run::Quorum::default(),
        origins: Vec::new(),
    }
}

fn allow(idempotent: bool) -> Ruling {
    Ruling::Allow {
        rule: "rules#0".into(),
        marks: Marks {
            idempotent,
            ..Marks::default()
        },
    }
}

/// A run whose tools were listed.
fn begun() -> Scripted {
    begun_by(asked())
}

fn asked() -> TriggerReceived {
    TriggerReceived {
        task: TaskId::new("task_fixture").unwrap(),
        namespace: Namespace::new("default").unwrap(),
        agent: AgentName::new("clerk").unwrap(),
        revision: RevisionId::new("0".repeat(64)).unwrap(),
        source: Source::Start,
        input: "refund it".into(),
        principal: PrincipalId::new("sub").unwrap(),
        trust: Trust::Trusted,
        idempotency: Some(IdempotencyKey {
            key: "k".into(),
            request: Digest::of(b"r"),
        }),
        trigger: None,
        tick: None,
        traceparent: None,
        parent: None,
        conversation: None,
    }
}

fn begun_by(trigger: TriggerReceived) -> Scripted {
    let (actor, step) = Start {
        run: run_id(),
        trigger,
    }
    .decide()
    .unwrap();
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    let (first, content) = Recorded::chain(&Head::START, &run_id(), at, actor, step, &key());
    let state = RunState::begin(run_id(), &first).unwrap();
    let mut run = Scripted {
        state,
        lines: Vec::new(),
        now: at.micros(),
    };
    run.push(&first, content);
    run.take(Input::ToolsListed {
        set: ToolSetId::new("a".repeat(64)).unwrap(),
        count: 4,
    });
    run
}

fn scripted() -> Vec<Line> {
    let mut run = begun();
    run.answer(
        "",
        &[
            ("shop.get", "{\"id\":\"A-17\"}"),
            ("shop.refund", "{\"id\":\"A-17\",\"amount\":1.10}"),
            ("no.such", "{}"),
        ],
    );
    run.judge(vec![allow(true), ask(), Ruling::NotGranted]);
    run.take(Input::TakenOver {
        worker: worker("w2"),
        epoch: 2,
    });
    run.take(Input::Execute {
        call: CallId::of(1, 1),
        worker: worker("w2"),
        marks: Marks {
            idempotent: true,
            ..Marks::default()
        },
    });
    run.output("call_1_1", "w2", "{\"id\":\"A-17\",\"name\":\"Ada\"}");
    run.respond(&[], Some("only the half of it"));
    run.answer(
        "then so",
        &[
            ("shop.refund", "{\"id\":\"A-17\",\"amount\":0.55}"),
            ("ask_person", "{\"question\":\"sure?\"}"),
        ],
    );
    run.judge(vec![
        ask(),
        Ruling::AskPerson {
            question: "sure?".into(),
        },
    ]);
    run.respond(
        &[("call_1_2", Verdict::Deny), ("call_2_1", Verdict::Approve)],
        Some("sure"),
    );
    run.take(Input::Execute {
        call: CallId::of(2, 1),
        worker: worker("w2"),
        marks: Marks::default(),
    });
    run.take(Input::TakenOver {
        worker: worker("w3"),
        epoch: 3,
    });
    run.take(Input::Interrupt);
    run.take(Input::Retry {
        by: PrincipalId::new("sub").unwrap(),
    });
    run.answer(
        "",
        &[("shop.get", "{}"), ("shop.get", "{}"), ("shop.get", "{}")],
    );
    run.judge(vec![
        Ruling::InvalidArguments {
            message: "id is missing".into(),
        },
        allow(true),
    ]);
    run.output("call_3_2", "w1", "nothing");
    run.output("call_2_1", "w2", "refunded");
    run.answer("All done.", &[]);
    run.lines
}

/// A run that starts another agent, meets models that are away, is compacted and ends at the cap.
fn delegating() -> Vec<Line> {
    let mut run = begun();
    let page = "a long page ".repeat(60);
    run.answer(
        "",
        &[("start_agent", "{\"agent\":\"helper\",\"input\":\"look\"}")],
    );
    run.judge(vec![Ruling::Delegate {
        rule: "default".into(),
        child: NewChild {
            agent: AgentName::new("helper").unwrap(),
            revision: RevisionId::new("1".repeat(64)).unwrap(),
            input: "look".into(),
        },
    }]);
    run.take(Input::ChildEnded(ChildEnd {
        run: RunId::of_child(&run_id(), &CallId::of(1, 1)),
        ended_by: EndedBy::Answer,
        text: page,
        trust: Trust::Untrusted,
    }));
    for number in 2..=3 {
        run.answer("", &[("shop.get", &format!("{{\"n\":{number}}}"))]);
        run.judge(vec![allow(true)]);
        run.output(&format!("call_{number}_1"), "w1", "found");
    }
    run.take(Input::Prune {
        upto: 1,
        tokens: 9_000,
    });
    run.take(Input::Brief {
        upto: 2,
        tokens: 8_500,
        text: "Goal: refund it.".into(),
        model: "m".into(),
        usage: Usage {
            input: 40,
            cached: 0,
            output: 4,
        },
        cost: Some("0.01 EUR".parse().unwrap()),
    });
    run.take(Input::ModelFailed(ModelFailure {
        cycle: 4,
        failovers: Vec::new(),
        code: FailureCode::new(FailureCode::PROVIDER_UNAVAILABLE),
        message: "away".into(),
        billing: None,
    }));
    run.now += 60_000_000;
    run.take(Input::Tick);
    run.take(Input::SpendingCap(SpendingCap {
        cap: "1.00 EUR".parse().unwrap(),
        spent: "1.02 EUR".parse().unwrap(),
        resets_at: Timestamp::from_micros(1_701_388_800_000_000),
    }));
    run.lines
}

/// A run whose call is put into words, escalated, edited and approved by two, and that is cancelled.
fn reviewed() -> Vec<Line> {
    let mut run = begun();
    run.answer("", &[("shop.refund", "{\"id\":\"A-17\",\"amount\":1.10}")]);
    run.judge(vec![Ruling::Ask {
        rule: "rules#1".into(),
        reason: "it is much".into(),
        quorum: Quorum {
            group: Some("finance".into()),
            count: 2,
            no_writers: true,
            ..Quorum::default()
        },
        origins: vec![ArgumentOrigin {
            pointer: "/id".into(),
            from: OriginKind::Task,
            tool: None,
            call: None,
        }],
    }]);
    let held = run.state.calls()[0].clone();
    let approval = held.approval.unwrap().id;
    run.take(Input::Summarised(Summarised {
        approval: approval.clone(),
        digest: held.digest,
        text: "Refund 1.10 to Mallory.".into(),
        model: "m".into(),
        usage: Usage {
            input: 30,
            cached: 0,
            output: 6,
        },
        cost: Some("0.01 EUR".parse().unwrap()),
    }));
    let args = "{\"id\":\"A-17\",\"amount\":0.55}";
    let edit = Edit {
        args: args.into(),
        shown: None,
        origins: Vec::new(),
        quorum: Some(Quorum {
            group: Some("finance".into()),
            count: 2,
            escalate: vec![Escalation {
                after_micros: 60_000_000,
                to: EscalatedTo::Group("leads".into()),
            }],
            ..Quorum::default()
        }),
        judged_at: run.state.seq(),
    };
    run.vote("ann", &approval, Some(edit), &[]);
    run.now += 60_000_000;
    run.take(Input::Tick);
    let sealed = OpenVote {
        by: PrincipalId::new("ann").unwrap(),
        reason: Some("so".into()),
        salt: "salt".into(),
        at: run.state.calls()[0].approval.as_ref().unwrap().votes[0].at,
    };
    run.vote("bob", &approval, None, &[(approval.clone(), sealed)]);
    run.take(Input::Cancel {
        by: PrincipalId::new("sub").unwrap(),
        reason: Some("enough".into()),
        idempotency: None,
    });
    run.lines
}

/// A run of a conversation that hears an outsider, and leaves its last message to the next run.
fn talking() -> Vec<Line> {
    let person = |name: &str| PrincipalId::new(name).unwrap();
    let mut trigger = asked();
    trigger.source = Source::Chat;
    trigger.conversation = Some(Box::new(Conversation {
        id: ConversationId::new("cnv_fixture").unwrap(),
        turn: 2,
        by: Speaker::Person(person("sub")),
        trust: Trust::Trusted,
        earlier: vec![
            Earlier {
                by: Speaker::Person(person("sub")),
                text: "hello".into(),
                cut_bytes: 3,
                trust: Trust::Trusted,
            },
            Earlier {
                by: Speaker::Agent(AgentName::new("desk").unwrap()),
                text: "what is it?".into(),
                cut_bytes: 0,
                trust: Trust::Trusted,
            },
        ],
        left_out: 4,
        secret_read: true,
        carried: false,
    }));
    let mut run = begun_by(trigger);
    let say = |text: &str, outside: Option<&str>| {
        Input::Say(Saying {
            by: PrincipalId::new("sub").unwrap(),
            text: text.into(),
            trust: outside.map_or(Trust::Trusted, |_| Trust::Untrusted),
            outside: outside.map(str::to_owned),
            idempotency: None,
        })
    };
    run.take(say("pay me", Some("Mallory")));
    for n in 1..limits::MAX_CYCLES {
        run.answer("", &[("nobody.there", &format!("{{\"n\":{n}}}"))]);
        run.judge(vec![Ruling::NotGranted]);
    }
    let seen = run.state.seq();
    run.take(say("and?", None));
    run.take(Input::Answer(Answer {
        cycle: limits::MAX_CYCLES,
        seen,
        failovers: Vec::new(),
        thinking: Vec::new(),
        text: "done".into(),
        calls: Vec::new(),
        model: "m".into(),
        usage: Usage::default(),
        cost: None,
    }));
    run.take(Input::Continue {
        revision: RevisionId::new("2".repeat(64)).unwrap(),
    });
    run.lines
}

/// Every step type is in a stored timeline.
#[test]
fn every_step_type_is_stored() {
    let mut missing: Vec<&str> = StepKind::ALL.iter().map(|kind| kind.as_str()).collect();
    for entry in fs::read_dir(folder()).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        missing.retain(|kind| !text.contains(&format!("\"type\":\"{kind}\"")));
    }
    assert_eq!(missing, Vec::<&str>::new());
}

fn write_new(name: &str) {
    let lines = match name.split('-').next() {
        Some("delegating") => delegating(),
        Some("reviewed") => reviewed(),
        Some("talking") => talking(),
        Some(_) | None => scripted(),
    };
    let path = folder().join(name).with_extension("jsonl");
    assert!(
        !path.exists(),
        "{} exists: stored timelines are never changed",
        path.display()
    );
    let text: String = lines
        .iter()
        .map(|line| serde_json::to_string(line).unwrap() + "\n")
        .collect();
    fs::write(&path, text).unwrap();
    fs::write(path.with_extension("folded"), folded(&lines)).unwrap();
}
