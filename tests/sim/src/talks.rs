//! Conversations (S1.9, S9.1): messages that come while a run of theirs lives, as one ends, twice under
//! one key; and what must hold of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use sayso_driver::{ConversationNow, NewMessage, converse};
use sayso_run::{AgentName, ConversationId, RunId, TaskId, Trust, limits};
use sayso_store::simulated::{Run, Tables};

use crate::kernel::OUTSIDE;
use crate::people::{REQUESTER, namespace, principal};
use crate::services::{Kind, ask};
use crate::world::World;

/// How many conversations there are, and how many messages each has from here.
const TALKS: u64 = 2;
const MESSAGES: u64 = 9;

fn conversation(talk: u64) -> ConversationId {
    ConversationId::new(format!("cnv_{talk}")).expect("digits make a valid id")
}

fn agent() -> AgentName {
    AgentName::new("clerk").expect("a plain word is an agent")
}

/// Begins the conversations, and talks.
pub(crate) fn begin(world: &Arc<World>) {
    for talk in 0..TALKS {
        let now = ConversationNow {
            namespace: namespace(),
            agent: agent(),
            created_by: principal(REQUESTER),
            last: None,
            moves: 0,
        };
        world.disk.converse(conversation(talk), now);
        world.kernel.spawn(OUTSIDE, hold(Arc::clone(world), talk));
    }
}

async fn hold(world: Arc<World>, talk: u64) {
    for number in 0..MESSAGES {
        world.kernel.sleep_between(50_000, 3_000_000).await;
        if talk == 0 && number % 4 == 1 {
            last_cycle(&world, talk).await;
        }
        let copies = if world.sky.strikes(250) { 2 } else { 1 };
        for copy in 0..copies {
            let saying = say(Arc::clone(&world), talk, number, copy);
            world.kernel.spawn(OUTSIDE, saying);
        }
    }
}

/// Waits until the live run of a conversation is about to use up its cycles, or there is none: the cap
/// keeps what is said then from its model.
async fn last_cycle(world: &World, talk: u64) {
    let conversation = conversation(talk);
    for _ in 0..150 {
        let cycles = world.disk.look(|tables| {
            let mut runs = tables.runs.values();
            let live = runs.find(|run| {
                run.row.conversation.as_ref() == Some(&conversation) && run.row.ended_at.is_none()
            });
            live.map(|run| run.row.cycles)
        });
        if cycles.is_none_or(|cycles| cycles + 1 >= limits::MAX_CYCLES) {
            return;
        }
        world.kernel.sleep_between(20_000, 60_000).await;
    }
}

/// Says something, however often it takes: the key makes that safe.
async fn say(world: Arc<World>, talk: u64, number: u64, copy: u64) {
    // Every other run goes on until its cycles are used up: see the moods of models.
    let mood = if number.is_multiple_of(2) { 3 } else { 0 };
    let id = 2 * (12 * (100 + talk * MESSAGES + number) + mood) + copy;
    let key = format!("talk-{talk}-{number}");
    let new = NewMessage {
        conversation: conversation(talk),
        namespace: namespace(),
        sender: principal(REQUESTER),
        reaches_all: false,
        trust: Trust::Trusted,
        outside: None,
        text: key.clone(),
        key: Some(key.clone()),
        ids: (
            RunId::new(format!("run_{id}")).expect("digits make a valid id"),
            TaskId::new(format!("task_{id}")).expect("digits make a valid id"),
        ),
        revision: world.revision.id.clone(),
        traceparent: None,
    };
    loop {
        let new = new.clone();
        let key_of_world = world.key.clone();
        let said = ask(&world, Kind::Scheduler, |desk| async move {
            converse(&desk.journal, &*desk.herald, &key_of_world, new).await
        });
        match said.await {
            Some(Ok(heard)) => {
                let first = world.checker().started(&key, &heard.run);
                if first != heard.run {
                    let promise = format!("`{key}` went to {first} and to {}", heard.run);
                    world.kernel.broken(promise);
                }
                return;
            }
            Some(Err(_)) | None => world.kernel.sleep_between(100_000, 900_000).await,
        }
    }
}

/// A conversation has one live run at most (S1.9).
pub(crate) fn one_lives(tables: &Tables, stored: &Run) -> Result<(), String> {
    let Some(conversation) = &stored.row.conversation else {
        return Ok(());
    };
    let of = |run: &&Run| run.row.conversation.as_ref() == Some(conversation);
    let live = tables.runs.values().filter(of);
    let live: Vec<&RunId> = live
        .filter(|run| run.row.ended_at.is_none())
        .map(|run| &run.row.run)
        .collect();
    if live.len() > 1 {
        return Err(format!("{conversation} has the live runs {live:?}"));
    }
    Ok(())
}

/// Every message was taken, and once (S1.1, S1.9).
pub(crate) fn all_was_said_once(tables: &Tables) -> Result<(), String> {
    let mut said = BTreeSet::new();
    let keyed = tables.messages.iter();
    for row in keyed.filter(|row| row.said.text.starts_with("talk-")) {
        if row.said.sender.is_some() && !said.insert(row.said.text.clone()) {
            return Err(format!("`{}` was said twice", row.said.text));
        }
    }
    let wanted = usize::try_from(TALKS * MESSAGES).unwrap_or(usize::MAX);
    if said.len() != wanted {
        return Err(format!("{} of {wanted} messages were taken", said.len()));
    }
    Ok(())
}
