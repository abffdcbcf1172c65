//! Random interleavings of model answers, verdicts, decisions, messages, cancels, retries, expiry,
//! children and crashes, against the promises that must hold in every one of them (S2.1, S4.8, S6.1,
//! S1.2), and a few that were found by them.

use proptest::prelude::*;
use sayso_run::*;

use crate::event::{Event, event};
use crate::world::World;

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
