//! The world that tools act on: what was executed, by whom, and what came of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use sayso_driver::{
    Fence, ListError, Revision, ToolDefinition, ToolReply, ToolRequest, ToolSet, Tools,
};
use sayso_run::{CallId, Namespace, RunId, ToolOutcome, ToolSetId, WorkerId};

use crate::kernel::Pid;
use crate::sky::Turn;
use crate::world::World;

/// What is on record of one call.
#[derive(Debug, Default, Clone)]
struct Entry {
    executions: u32,
    /// Processes that have heard what came of it.
    heard: Vec<Pid>,
}

/// Every execution there was.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<(RunId, CallId), Entry>>);

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<(RunId, CallId), Entry>> {
        self.0
            .lock()
            .expect("no code panics while it holds the ledger")
    }

    /// A call arrives: how often it did, this time included.
    fn executed(&self, run: &RunId, call: &CallId) -> u32 {
        let mut entries = self.entries();
        let entry = entries.entry((run.clone(), call.clone())).or_default();
        entry.executions += 1;
        entry.executions
    }

    fn heard(&self, run: &RunId, call: &CallId, pid: Pid) {
        let mut entries = self.entries();
        let entry = entries.entry((run.clone(), call.clone())).or_default();
        entry.heard.push(pid);
    }

    /// Calls whose outcome a process has heard that was never killed.
    pub(crate) fn heard_by_living(&self, world: &World) -> Vec<(RunId, CallId)> {
        let entries = self.entries();
        let living = entries
            .iter()
            .filter(|(_, entry)| entry.heard.iter().any(|pid| world.kernel.is_alive(*pid)));
        living.map(|(key, _)| key.clone()).collect()
    }
}

/// The tools as one worker reaches them.
pub(crate) struct Shop {
    pub(crate) world: Arc<World>,
    pub(crate) pid: Pid,
    pub(crate) worker: WorkerId,
    pub(crate) turn: Turn,
}

fn unlisted(why: &str, passes: bool) -> ListError {
    ListError {
        server: "shop".into(),
        why: why.into(),
        passes,
    }
}

impl Tools for Shop {
    async fn list(
        &self,
        _: &Namespace,
        _: &Revision,
        _: &RunId,
    ) -> Result<Arc<ToolSet>, ListError> {
        self.world.kernel.sleep_between(1_000, 60_000).await;
        if self.world.sky.strikes(15) {
            return Err(unlisted("it does not start", false));
        }
        Ok(Arc::clone(&self.world.tools))
    }

    async fn stored(&self, set: &ToolSetId) -> Result<Arc<ToolSet>, ListError> {
        let trip = self.world.sky.trip();
        self.world.kernel.sleep(trip).await;
        if self.world.sky.strikes(20) {
            return Err(unlisted("the database is away", true));
        }
        if *set != self.world.tools.id {
            return Err(unlisted("there is no such set", false));
        }
        Ok(Arc::clone(&self.world.tools))
    }

    fn check(&self, _: &ToolDefinition, args: &str) -> Result<(), String> {
        if args.contains("bad") {
            Err("`n` is a number".into())
        } else {
            Ok(())
        }
    }

    async fn ended(&self, _: &RunId) {}

    async fn call(&self, _: &Revision, request: ToolRequest, fence: Fence) -> ToolReply {
        let world = &self.world;
        world.kernel.sleep_between(200, 20_000).await;
        if !fence.holds() {
            return reply(ToolOutcome::Unreachable, "not sent: the lease may be gone");
        }
        if world.sky.strikes(10) {
            return reply(ToolOutcome::Mismatch, "it is defined otherwise now");
        }
        let (run, call) = (&request.run, &request.call);
        let count = world.ledger.executed(run, call);
        world.kernel.note(format_args!(
            "{run} {call} EXECUTED by {} ({}), number {count}",
            self.worker, request.tool.registered
        ));
        world
            .checker()
            .check_execution(world, run, call, &self.worker, count);
        if request.tool.registered == "shop.label" {
            // It keeps something in the database, as tools of the process may.
            let _turn = self.turn.lock().await;
            world.kernel.sleep_between(100, 5_000).await;
        }
        let slow = world.sky.strikes(80);
        let works = world.kernel.draw(|random| {
            if slow {
                random.micros(1_000_000, 9_000_000)
            } else {
                random.micros(1_000, 300_000)
            }
        });
        world.kernel.sleep(works).await;
        world.ledger.heard(run, call, self.pid);
        match world.kernel.draw(|random| random.below(20)) {
            0 => reply(ToolOutcome::Error, "no such order"),
            1 => reply(ToolOutcome::Timeout, "no answer in time"),
            2..=4 => reply(ToolOutcome::Ok, &"a long page ".repeat(60)),
            _ => reply(ToolOutcome::Ok, r#"{"id":"1","name":"a book"}"#),
        }
    }
}

fn reply(outcome: ToolOutcome, content: &str) -> ToolReply {
    ToolReply {
        outcome,
        content: content.into(),
        cut_bytes: 0,
        artifact: None,
    }
}
