//! Automatic retry (S1.6).

use sayso_run::*;

use crate::event::Event;
use crate::world::World;

const SECOND: i64 = 1_000_000;

fn fails(world: &World, code: &'static str) -> Input {
    Input::ModelFailed(ModelFailure {
        cycle: world.state.cycles() + 1,
        failovers: Vec::new(),
        code: FailureCode::new(code),
        message: "away".into(),
        billing: None,
    })
}

/// When the retry that the run waits for is due, from now, in microseconds.
fn due_in(world: &World) -> i64 {
    match world.state.next() {
        Next::Wait(WaitFor::Retry { due_at }) => due_at.micros_since(world.state.head().at),
        other => panic!("it waits for no retry: {other:?}"),
    }
}

/// S1.6: three by itself, each twice as long after as the one before, within a quarter either way, and
/// under two minutes; meanwhile the run is `pending`. Then it is for a person, twice.
#[test]
fn s1_6_a_run_is_retried_by_itself_three_times() {
    let mut world = World::new();
    for (attempt, seconds) in [(1, 15), (2, 30), (3, 60)] {
        world
            .take(fails(&world, FailureCode::PROVIDER_UNAVAILABLE))
            .unwrap();
        assert_eq!(world.state.status(), Status::Pending);
        let delay = due_in(&world);
        let (least, most) = (seconds * SECOND * 3 / 4, seconds * SECOND * 5 / 4);
        assert!((least..=most).contains(&delay), "{delay}");
        assert!(delay < 120 * SECOND);
        assert!(
            world
                .take(Input::Retry {
                    by: PrincipalId::new("sub").unwrap()
                })
                .is_err()
        );
        assert_eq!(world.take(Input::Tick).unwrap(), 0, "it is not due yet");
        world.happen(Event::Wait(6));
        assert_eq!(world.state.retries(), attempt);
        assert_eq!(
            world.state.next(),
            Next::Owed(vec![Effect::AskModel { cycle: 1 }])
        );
    }
    world
        .take(fails(&world, FailureCode::PROVIDER_UNAVAILABLE))
        .unwrap();
    assert_eq!(world.state.status(), Status::Failed);
    for _ in 0..2 {
        world
            .take(Input::Retry {
                by: PrincipalId::new("sub").unwrap(),
            })
            .unwrap();
        world
            .take(fails(&world, FailureCode::PROVIDER_UNAVAILABLE))
            .unwrap();
        assert_eq!(
            world.state.status(),
            Status::Failed,
            "the three are used up for life"
        );
    }
    let refused = world.take(Input::Retry {
        by: PrincipalId::new("sub").unwrap(),
    });
    assert_eq!(refused.unwrap_err().code(), "run.retries_used_up");
}

/// S1.6: retries by hand use up the same five.
#[test]
fn s1_6_the_budget_is_shared() {
    let mut world = World::new();
    for _ in 0..5 {
        world
            .take(fails(&world, FailureCode::PROVIDER_REFUSED))
            .unwrap();
        assert_eq!(
            world.state.status(),
            Status::Failed,
            "it would be refused again"
        );
        world
            .take(Input::Retry {
                by: PrincipalId::new("sub").unwrap(),
            })
            .unwrap();
    }
    world
        .take(fails(&world, FailureCode::PROVIDER_UNAVAILABLE))
        .unwrap();
    assert_eq!(world.state.status(), Status::Failed);
}

/// S1.6: what waits for its retry can be cancelled, and no retry comes of it.
#[test]
fn s1_6_a_scheduled_retry_can_be_cancelled() {
    let mut world = World::new();
    world
        .take(fails(&world, FailureCode::PROVIDER_UNAVAILABLE))
        .unwrap();
    world.happen(Event::Cancel);
    assert_eq!(world.state.status(), Status::Cancelled);
    world.happen(Event::Wait(20));
    assert_eq!(world.state.status(), Status::Cancelled);
}

/// S1.6: runs that fail together do not come back together.
#[test]
fn s1_6_the_delay_differs_from_run_to_run() {
    let delays: std::collections::BTreeSet<i64> = (0..20)
        .map(|number| {
            let mut world = World::of(&format!("run_{number}"));
            world
                .take(fails(&world, FailureCode::PROVIDER_UNAVAILABLE))
                .unwrap();
            due_in(&world)
        })
        .collect();
    assert!(delays.len() > 15, "{delays:?}");
}
