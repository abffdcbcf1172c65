//! People at work while things break: each starts a run, follows it to its end, and begins again.
//!
//! They approve, deny, send messages, cancel and retry, drawn from a seed. What does not answer is
//! asked again, with the same key where there is one; a refusal is an answer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use sayso_tests::{Bundle, Case, Client, Dice, Options, code};
use sayso_wire::v1::{Run, RunStatus, StartRunRequest, Verdict};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status};

/// How long one question may take before it is asked again.
const PATIENCE: Duration = Duration::from_secs(5);
/// No question stays unanswered for so long, whatever breaks meanwhile.
const GUARD: Duration = Duration::from_secs(240);
/// How often a run is looked at.
const LOOK: Duration = Duration::from_millis(40);

const SCRIPTS: [(&str, &str); 3] = [
    (
        "mixed",
        "turns:
  - calls: [{tool: ledger.read, args: {a: 1}}, {tool: ledger.append, args: {n: 1, sleep_ms: 30}}]
  - calls: [{tool: ledger.append, args: {n: 2, linger_ms: 30}}]
  - text: done",
    ),
    (
        "once",
        "turns:
  - calls: [{tool: ledger.append_once, args: {n: 1, sleep_ms: 30}}]
  - calls: [{tool: ledger.append_once, args: {n: 2, linger_ms: 30}}, {tool: ledger.read, args: {a: 2}}]
  - text: done",
    ),
    (
        "reader",
        "turns:
  - calls: [{tool: ledger.read, args: {a: 1, sleep_ms: 10}}, {tool: ledger.read, args: {a: 2}}]
  - calls: [{tool: ledger.read, args: {a: 3}}]
  - calls: [{tool: ledger.read, args: {a: 4, linger_ms: 10}}]
  - text: done",
    ),
];

/// The last turn again: a message, or a result that came while the model answered, is one more to be
/// answered.
const ONCE_MORE: &str = "\n  - text: done";

/// The models of the load. Their scripts have a turn for each of a run's 20 cycles.
pub(crate) fn options() -> Options {
    let scripts = SCRIPTS.iter();
    scripts.fold(Options::new(), |options, (name, script)| {
        options.script(name, &format!("{script}{}", ONCE_MORE.repeat(17)))
    })
}

/// Deploys the agents: one with a tool that may not be sent again, two whose tools may.
pub(crate) async fn deploy(case: &Case) {
    let again = json!({"idempotent": true});
    for (agent, tools) in [
        ("mixed", "append,read"),
        ("once", "append_once,read"),
        ("reader", "read"),
    ] {
        let bundle = Bundle::new(agent)
            .ledger("ledger", tools)
            .ask("ledger.append*")
            .allow("ledger.read")
            .tool("ledger.append_once", again.clone())
            .tool("ledger.read", again.clone());
        case.deploy(&bundle).await;
    }
}

/// Whether an agent's runs go on by themselves whatever dies: its tools may be sent again.
pub(crate) fn goes_on_alone(agent: &str) -> bool {
    agent != "mixed"
}

/// People, and the runs that they have seen end.
pub(crate) struct Load<'a> {
    case: &'a Case,
    seed: u64,
    enough: AtomicBool,
    ended: Mutex<Vec<Run>>,
}

impl<'a> Load<'a> {
    pub(crate) fn new(case: &'a Case, seed: u64) -> Self {
        Self {
            case,
            seed,
            enough: AtomicBool::new(false),
            ended: Mutex::default(),
        }
    }

    /// So many people begin. It ends after [`Load::enough`], when each has seen their last run end.
    pub(crate) async fn work(&self, people: usize) {
        join_all((0..people).map(|person| self.person(person))).await;
    }

    /// Nobody starts another run.
    pub(crate) fn enough(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    /// How many runs have ended so far.
    pub(crate) fn count(&self) -> usize {
        self.ended.lock().expect("nothing panics with it").len()
    }

    /// The runs that ended.
    pub(crate) fn ended(self) -> Vec<Run> {
        self.ended.into_inner().expect("nothing panics with it")
    }

    async fn person(&self, person: usize) {
        let mut dice = Dice::new(self.seed.wrapping_add(person as u64));
        let mut number = 0;
        while !self.enough.load(Ordering::Relaxed) {
            number += 1;
            let key = format!("{}-{person}-{number}", self.seed);
            let run = self.start(&mut dice, &key).await;
            let ended = self.follow(&mut dice, &run).await;
            let mut all = self.ended.lock().expect("nothing panics with it");
            all.push(ended);
        }
    }

    async fn start(&self, dice: &mut Dice, key: &str) -> String {
        let agent = *dice.pick(&["mixed", "mixed", "once", "reader"]);
        let request = StartRunRequest {
            agent: agent.into(),
            input: "go".into(),
            idempotency_key: key.into(),
        };
        let client = &self.case.sub;
        let started = insist("a start", async || {
            client.runs().start_run(request.clone()).await
        });
        let started = started.await.expect("a start is not refused").into_inner();
        started.run.expect("a start answers with the run").id
    }

    async fn follow(&self, dice: &mut Dice, run: &str) -> Run {
        let client = &self.case.sub;
        if dice.roll(20) == 0 {
            cancel(client, run).await;
        }
        let began = Instant::now();
        loop {
            let now = insist("a run", async || client.try_run(run).await).await;
            let now = now.expect("a run can be read");
            match now.status() {
                RunStatus::Completed | RunStatus::Cancelled => return now,
                RunStatus::Failed if self.gives_up(&now).await => return now,
                RunStatus::AwaitingApproval => self.decide(dice, run).await,
                _ => {}
            }
            assert!(began.elapsed() < GUARD, "{run} does not end: {now:?}");
            sleep(LOOK).await;
        }
    }

    /// Retries a failed run; false if it will go on.
    async fn gives_up(&self, failed: &Run) -> bool {
        let failure = failed.failure.as_ref().expect("a failed run says why");
        assert_eq!(failure.code, "run.interrupted", "{failed:?}");
        let client = &self.case.sub;
        match insist("a retry", async || client.retry(&failed.id).await).await {
            Ok(_) => false,
            Err(refused) => match code(&refused).as_str() {
                "run.not_failed" => false,
                "run.retries_used_up" => true,
                _ => panic!("a retry is refused: {refused:?}"),
            },
        }
    }

    /// What a person does who sees that a run waits.
    async fn decide(&self, dice: &mut Dice, run: &str) {
        let (sub, app) = (&self.case.sub, &self.case.app);
        match dice.roll(20) {
            0 => return cancel(sub, run).await,
            1 => {
                let reply = insist("a message", async || sub.reply(run, "please go on").await);
                return expected("a message", reply.await.map(drop));
            }
            _ => {}
        }
        let verdict = match dice.roll(10) {
            0 => Verdict::Deny,
            _ => Verdict::Approve,
        };
        let pending = insist("the inbox", async || app.try_pending(run).await).await;
        for approval in pending.expect("approvals can be listed") {
            let decided = insist("a decision", async || {
                app.decide(&approval.id, verdict, "").await
            });
            expected("a decision", decided.await.map(drop));
        }
    }
}

async fn cancel(client: &Client, run: &str) {
    let cancelled = insist("a cancel", async || client.cancel(run).await);
    expected("a cancel", cancelled.await.map(drop));
}

/// What was decided or ended meanwhile is refused; nothing else is.
fn expected(what: &str, answer: Result<(), Status>) {
    if let Err(refused) = answer {
        let code = code(&refused);
        let word = code.as_str();
        assert!(
            matches!(word, "approval.already_decided" | "run.ended"),
            "{what} is refused: {refused:?}"
        );
    }
}

/// Asks until there is an answer. A refusal with a code is one, unless it says that something is away.
pub(crate) async fn insist<T>(
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<T, Status>,
) -> Result<T, Status> {
    let began = Instant::now();
    loop {
        let last = match timeout(PATIENCE, ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(refused)) if !passes(&refused) => return Err(refused),
            other => other,
        };
        assert!(
            began.elapsed() < GUARD,
            "{what} is not answered: {:?}",
            last.map(|answer| answer.map(drop))
        );
        sleep(LOOK).await;
    }
}

fn passes(refused: &Status) -> bool {
    let away = [Code::Unavailable, Code::DeadlineExceeded, Code::Aborted];
    code(refused).is_empty() || away.contains(&refused.code())
}
