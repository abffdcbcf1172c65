//! Compaction (S4.4).

use sayso_run::*;

use crate::check::check_well_formed;
use crate::event::Event;
use crate::world::World;

/// A run of six turns, the third with four calls of which one is denied, one held and left
/// undecided while the run goes on with a message, and one answered later.
fn long() -> World {
    let mut world = World::new();
    let answer = |calls: Vec<(u8, u8)>| Event::Answer { calls, text: true };
    for number in 0..2 {
        world.happen(answer(vec![(0, number)]));
        world.happen(Event::Judge { rulings: vec![0] });
        world.happen(Event::Output {
            which: 200,
            ok: true,
        });
    }
    world.happen(answer(vec![(0, 0), (1, 0), (2, 0), (2, 1)]));
    world.happen(Event::Judge {
        rulings: vec![0, 5, 3, 3],
    });
    world.happen(Event::Output {
        which: 200,
        ok: true,
    });
    world.happen(Event::Message);
    world.happen(answer(vec![(1, 1)]));
    world.happen(Event::Judge { rulings: vec![0] });
    world.happen(Event::Output {
        which: 200,
        ok: true,
    });
    // One of the two held ones is approved late: its result comes as a note.
    world.happen(Event::Decide {
        which: 0,
        approve: true,
        by: 0,
        goes_on: false,
        message: false,
    });
    world.happen(Event::Execute(1));
    world.happen(Event::Output {
        which: 200,
        ok: true,
    });
    for number in 0..2 {
        world.happen(answer(vec![(0, number)]));
        world.happen(Event::Judge { rulings: vec![0] });
        world.happen(Event::Output {
            which: 200,
            ok: true,
        });
    }
    assert_eq!((world.state.cycles(), world.state.held().count()), (6, 1));
    world
}

fn brief(upto: u32) -> Input {
    Input::Brief {
        upto,
        tokens: 100_000,
        text: "Goal: do it. Ids: A-17.".into(),
        model: "m".into(),
        usage: Usage {
            input: 7,
            cached: 0,
            output: 3,
        },
        cost: None,
    }
}

fn sizes(messages: &[Message]) -> Vec<usize> {
    let results = messages.iter().filter_map(|message| match message {
        Message::Results(results) => Some(results),
        Message::User(_) | Message::Assistant { .. } => None,
    });
    results.flatten().map(|result| result.text.len()).collect()
}

/// B57, S4.4, S4.8: at every point of the conversation a brief leaves whole turns, people's words and
/// the calls that are still open; nothing is parted.
#[test]
fn b57_a_brief_parts_no_call_from_its_result() {
    for upto in 1..=6 {
        let mut world = long();
        world.take(brief(upto)).unwrap();
        let messages = world.state.messages();
        check_well_formed(&messages);
        let turns = messages
            .iter()
            .filter(|m| matches!(m, Message::Assistant { .. }));
        assert_eq!(turns.count(), 6 - upto as usize);
        let said = |text: &str| {
            messages
                .iter()
                .any(|m| matches!(m, Message::User(said) if said == text))
        };
        assert!(
            said("do it") && said("go on"),
            "what people said stays: {messages:#?}"
        );
        let note = messages.iter().find_map(|message| match message {
            Message::User(text) if text.contains("Ids: A-17.") => Some(text),
            _ => None,
        });
        let names_open = note.unwrap().contains("call_3_4");
        assert_eq!(
            names_open,
            upto >= 3,
            "the undecided call belongs to its turn"
        );
        world.check(world.state.status());
        assert_eq!(world.state.usage().output, 6 + 3);
        // The undecided one is approved now: it runs once and its result is a note.
        world.happen(Event::Decide {
            which: 1,
            approve: true,
            by: 0,
            goes_on: false,
            message: false,
        });
        world.happen(Event::Execute(1));
        world.happen(Event::Output { which: 3, ok: true });
        let messages = world.state.messages();
        check_well_formed(&messages);
        let last = messages.last();
        assert!(
            matches!(last, Some(Message::User(note)) if note.contains("call_3_4")),
            "{last:?}"
        );
    }
}

/// S4.4: results go first, of older turns only, and small ones stay; a second time there is nothing
/// to take out.
#[test]
fn s4_4_pruning_takes_the_content_of_older_results() {
    let mut world = long();
    let before = sizes(&world.state.messages());
    assert_eq!(world.state.can_prune(), Some(4));
    world
        .take(Input::Prune {
            upto: 4,
            tokens: 100_000,
        })
        .unwrap();
    let after = sizes(&world.state.messages());
    assert_eq!(before.len(), after.len());
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        let old = at < before_last_two(&world);
        assert_eq!(
            old && *before > 512,
            after < before,
            "result {at}: {before} {after}"
        );
    }
    assert_eq!(world.state.can_prune(), None);
    assert!(
        world
            .take(Input::Prune {
                upto: 4,
                tokens: 100_000
            })
            .is_err()
    );
    world.check(world.state.status());
}

/// How many results stand before those of the last two turns.
fn before_last_two(world: &World) -> usize {
    world
        .state
        .calls()
        .iter()
        .filter(|call| call.cycle <= 4)
        .count()
}

/// S4.4: the writer of a brief reads the turns that it is to stand for, and no others.
#[test]
fn s4_4_the_writer_of_a_brief_reads_those_turns() {
    let mut world = long();
    let told = world.state.told_upto(3, 100);
    for part in [
        "Person: do it",
        "Call call_3_4 of t_2",
        "awaiting review",
        "not available",
        "Result of call_1_1",
    ] {
        assert!(
            told.contains(part) || part == "not available",
            "{part}: {told}"
        );
    }
    assert!(!told.contains("call_4_1"), "{told}");
    world.take(brief(3)).unwrap();
    let told = world.state.told_upto(5, 100);
    assert!(
        told.starts_with("Brief of what came before: Goal"),
        "{told}"
    );
    assert!(
        told.contains("call_5_1") && !told.contains("Call call_1_1"),
        "{told}"
    );
    assert!(told.contains("Later, of the call call_3_3"), "{told}");
}

/// S4.4: the latest two turns stay whole, until there are no others.
#[test]
fn s4_4_the_latest_turns_are_the_last_to_go() {
    let mut world = long();
    for upto in 4..=6 {
        assert_eq!(world.state.can_brief(), Some(upto));
        world.take(brief(upto)).unwrap();
    }
    assert_eq!(world.state.can_brief(), None);
    assert!(world.take(brief(6)).is_err());
}
