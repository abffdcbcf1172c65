//! Whoever starts runs, decides, writes, cancels and retries, by lot; and whoever finishes what is
//! left once the troubles are over.

use std::sync::Arc;
use std::time::Duration;

use sayso_driver::WriteError;
use sayso_engine::{Asked, Asker, NewRun, StartOrigin, admit, cancel, respond, retry};
use sayso_rules::judge::START_AGENT;
use sayso_run::{
    AgentName, Call, Decision, DecisionItem, Digest, Edit, HeldCall, IdempotencyKey, Namespace,
    PrincipalId, Quorum, Response, RunId, RunState, Status, Target, TaskId, Trust, Verdict,
};

use crate::ballots::BallotBox;
use crate::random::Random;
use crate::services::{Kind, ask};
use crate::world::World;

/// Who asks for every run.
pub(crate) const REQUESTER: &str = "alice";
/// Who else decides and writes.
const OTHERS: [&str; 2] = ["bob", "carol"];

pub(crate) fn namespace() -> Namespace {
    Namespace::new("default").expect("a plain word is a namespace")
}

pub(crate) fn principal(name: &str) -> PrincipalId {
    PrincipalId::new(name).expect("a plain word is a principal")
}

/// Starts all runs over some seconds.
pub(crate) async fn start_runs(world: Arc<World>, count: u64) {
    for number in 0..count {
        world.kernel.sleep_between(10_000, 1_400_000).await;
        let key = (number % 2 == 0).then(|| format!("start-{number}"));
        let copies = if key.is_some() && world.sky.strikes(250) {
            2
        } else {
            1
        };
        for copy in 0..copies {
            let starting = start_run(Arc::clone(&world), number, copy, key.clone());
            world.kernel.spawn(crate::kernel::OUTSIDE, starting);
        }
    }
}

/// Starts one run, however often it takes; a start without a key that may have been taken is not
/// repeated.
async fn start_run(world: Arc<World>, number: u64, copy: u64, key: Option<String>) {
    let id = number * 2 + copy;
    let run = RunId::new(format!("run_{id:03}")).expect("digits make a valid id");
    let task = TaskId::new(format!("task_{id:03}")).expect("digits make a valid id");
    let new = NewRun {
        ids: (run, task),
        namespace: namespace(),
        agent: AgentName::new("clerk").expect("a plain word is an agent"),
        revision: world.revision.id.clone(),
        principal: principal(REQUESTER),
        trust: Trust::Trusted,
        input: format!("task {number}"),
        origin: StartOrigin::Asked,
        idempotency_key: key.clone(),
        traceparent: None,
    };
    loop {
        let new = new.clone();
        let key_of_world = world.key.clone();
        let started = ask(&world, Kind::Scheduler, |desk| async move {
            admit(&desk.journal, &*desk.herald, &key_of_world, new).await
        });
        match started.await {
            Some(Ok(started)) => {
                if let Some(key) = &key {
                    let first = world.checker().started(key, &started.run);
                    if first != started.run {
                        let promise = format!("`{key}` started {first} and {}", started.run);
                        world.kernel.broken(promise);
                    }
                }
                return;
            }
            Some(Err(WriteError::Append(sayso_driver::AppendError::Conflict(_)))) => return,
            Some(Err(_)) | None => world.kernel.sleep_between(100_000, 900_000).await,
        }
    }
}

/// One person who acts at random until the troubles are over.
pub(crate) async fn act(world: Arc<World>, name: &'static str) {
    while !world.sky.is_calm() {
        world.kernel.sleep_between(50_000, 1_600_000).await;
        let Some(state) = world.checker().any_run(&world.kernel) else {
            continue;
        };
        // What was read is acted upon after some thought; meanwhile it may have changed.
        let hesitates = world.sky.strikes(150);
        let thinks = if hesitates { 8_000_000 } else { 300_000 };
        world.kernel.sleep_between(1_000, thinks).await;
        act_on(&world, name, &state).await;
    }
}

async fn act_on(world: &Arc<World>, name: &str, state: &RunState) {
    let run = state.run();
    let lot = world.kernel.draw(|random| random.below(100));
    let status = state.status();
    if status == Status::Failed && lot < 55 {
        return retry_run(world, name, run).await;
    }
    match lot {
        0..=4 => cancel_run(world, name, run).await,
        5..=6 => retry_run(world, name, run).await,
        7..=15 => say(world, name, run).await,
        _ if status == Status::AwaitingInput && lot < 70 => say(world, name, run).await,
        _ => {
            let response = world.kernel.draw(|random| decisions(random, name, state));
            if let Some(response) = response {
                send(world, run, response).await;
            }
        }
    }
}

/// A response with some decisions, on calls that are held or were.
fn decisions(random: &mut Random, name: &str, state: &RunState) -> Option<Response> {
    let decided_too = random.permille(150);
    let open = |held: &HeldCall| held.outcome.is_none() || decided_too;
    let calls: Vec<_> = state
        .calls()
        .iter()
        .filter(|call| call.approval.as_ref().is_some_and(open))
        .collect();
    if calls.is_empty() {
        return None;
    }
    let mut items = Vec::new();
    for _ in 0..random.between(1, 2) {
        let call = *random.pick(&calls);
        let approval = call.approval.as_ref()?;
        let target = match random.below(4) {
            0 => Target::Call(call.id.clone()),
            1 => Target::Tool(call.tool.clone()),
            _ => Target::Approval(approval.id.clone()),
        };
        let verdict = if random.permille(700) {
            Verdict::Approve
        } else {
            Verdict::Deny
        };
        let edits = verdict == Verdict::Approve && !matches!(target, Target::Tool(_));
        let edit = (edits && random.permille(150)).then(|| edit(random, state, call));
        items.push(DecisionItem {
            target,
            decision: Decision {
                edit,
                ..Decision::new(verdict, None)
            },
        });
    }
    let message = random.permille(150).then(|| "mind the customer".to_owned());
    Some(Response {
        by: principal(name),
        decisions: items,
        message,
        goes_on: random.permille(300),
        seen: Some(state.seq()),
        idempotency: None,
        ballot: sayso_run::Ballot::default(),
    })
}

/// An edit as the hub would take it: it holds for the state in which it was judged. Sometimes the
/// rules ask for two of the edited call.
fn edit(random: &mut Random, state: &RunState, call: &Call) -> Edit {
    let args = match call.tool.as_str() {
        // What a child is started with stays a task.
        START_AGENT => call.args.clone(),
        _ => format!("{{\"edited\":{}}}", random.below(1000)),
    };
    Edit {
        args,
        shown: None,
        origins: Vec::new(),
        quorum: random.permille(300).then(|| Quorum {
            count: 2,
            ..Quorum::default()
        }),
        judged_at: state.seq(),
    }
}

async fn say(world: &Arc<World>, name: &str, run: &RunId) {
    let response = Response {
        by: principal(name),
        decisions: Vec::new(),
        message: Some("go on".into()),
        goes_on: true,
        seen: None,
        idempotency: None,
        ballot: sayso_run::Ballot::default(),
    };
    send(world, run, response).await;
}

/// Sends a response, sometimes twice and with a key.
async fn send(world: &Arc<World>, run: &RunId, mut response: Response) {
    let twice = world.sky.strikes(150);
    if twice {
        let key = world.kernel.draw(|random| random.below(u64::MAX));
        let request = Digest::of(format!("{response:?}").as_bytes());
        response.idempotency = Some(IdempotencyKey {
            key: format!("{key:x}"),
            request,
        });
        let (world, run, response) = (Arc::clone(world), run.clone(), response.clone());
        let second = Arc::clone(&world);
        world.kernel.spawn(crate::kernel::OUTSIDE, async move {
            second.kernel.sleep_between(1_000, 900_000).await;
            send_once(&second, &run, response).await;
        });
    }
    send_once(world, run, response).await;
}

async fn send_once(world: &Arc<World>, run: &RunId, response: Response) {
    let asked = Asked {
        namespace: namespace(),
        reaches_all: true,
        run: run.clone(),
        response: response.clone(),
        trust: Trust::Trusted,
        redaction: None,
    };
    let key = world.key.clone();
    let ballots = BallotBox(Arc::clone(world));
    let salt = world.kernel.draw(|random| random.below(u64::MAX));
    let salt = format!("{salt:x}");
    let answered = ask(world, Kind::Hub, |desk| async move {
        respond(&desk.journal, &*desk.herald, &ballots, &key, asked, &salt).await
    });
    let answered = answered.await;
    let by = &response.by;
    match answered {
        Some(Ok(_)) => world
            .kernel
            .note(format_args!("{run} takes the response of {by}")),
        Some(Err(error)) => {
            world.checker().coverage.refused(&error);
            world
                .kernel
                .note(format_args!("{run} refuses {by}: {error}"));
        }
        None => world
            .kernel
            .note(format_args!("{run}: nobody answers {by}")),
    }
}

fn asker(name: &str) -> Asker {
    Asker {
        namespace: namespace(),
        principal: principal(name),
        reaches_all: true,
    }
}

async fn cancel_run(world: &Arc<World>, name: &str, run: &RunId) {
    let (key, run, asker) = (world.key.clone(), run.clone(), asker(name));
    let cancelling = ask(world, Kind::Scheduler, |desk| async move {
        cancel(&desk.journal, &*desk.herald, &key, asker, &run, None, None).await
    });
    note_refusal(world, cancelling.await);
}

async fn retry_run(world: &Arc<World>, name: &str, run: &RunId) {
    let (key, run, asker) = (world.key.clone(), run.clone(), asker(name));
    let retrying = ask(world, Kind::Scheduler, |desk| async move {
        retry(&desk.journal, &*desk.herald, &key, asker, &run).await
    });
    note_refusal(world, retrying.await);
}

fn note_refusal<R>(world: &World, answered: Option<Result<R, WriteError>>) {
    if let Some(Err(error)) = answered {
        world.checker().coverage.refused(&error);
    }
}

/// Everybody acts.
pub(crate) fn begin(world: &Arc<World>) {
    let runs = world.kernel.draw(|random| random.between(20, 24));
    world
        .kernel
        .spawn(crate::kernel::OUTSIDE, start_runs(Arc::clone(world), runs));
    crate::talks::begin(world);
    for name in [REQUESTER, REQUESTER, OTHERS[0], OTHERS[0], OTHERS[1]] {
        let acting = act(Arc::clone(world), name);
        world.kernel.spawn(crate::kernel::OUTSIDE, acting);
    }
}

/// After the troubles: approves and answers whatever still waits, until nothing does.
pub(crate) async fn finish(world: Arc<World>) {
    for round in 0.. {
        world.kernel.sleep(Duration::from_millis(700)).await;
        let waiting = world.checker().waiting();
        for state in waiting {
            let run = state.run().clone();
            let items: Vec<DecisionItem> = state
                .held()
                .filter_map(|call| Some((call, call.approval.as_ref()?)))
                .map(|(call, held)| DecisionItem {
                    target: Target::Approval(held.id.clone()),
                    decision: Decision {
                        saw: Some(call.digest),
                        ..Decision::new(Verdict::Approve, None)
                    },
                })
                .collect();
            let message = items.is_empty().then(|| "go on".to_owned());
            let response = Response {
                // Where it takes two, both have to come.
                by: principal(OTHERS[round % 2]),
                decisions: items,
                message,
                goes_on: true,
                seen: None,
                idempotency: None,
                ballot: sayso_run::Ballot::default(),
            };
            let sending = Arc::clone(&world);
            world.kernel.spawn(crate::kernel::OUTSIDE, async move {
                send_once(&sending, &run, response).await;
            });
        }
    }
}
