//! Edits of held calls (S6.7).

use sayso_run::*;

use crate::check::check_well_formed;
use crate::event::Event;
use crate::world::{World, edit};

/// A run that waits for one call.
fn waiting() -> World {
    let mut world = World::new();
    world.happen(Event::Answer {
        calls: vec![(2, 0)],
        text: false,
    });
    world.happen(Event::Judge { rulings: vec![3] });
    assert_eq!(world.state.held().count(), 1);
    world
}

fn held(world: &World) -> &Call {
    world.state.held().next().unwrap()
}

fn approval(world: &World) -> &HeldCall {
    world.state.calls()[0].approval.as_ref().unwrap()
}

fn input(world: &World, by: &str, decision: Decision) -> Input {
    Input::Respond(Response {
        by: PrincipalId::new(by).unwrap(),
        decisions: vec![DecisionItem {
            target: Target::Approval(approval(world).id.clone()),
            decision,
        }],
        message: None,
        goes_on: false,
        seen: None,
        idempotency: None,
        ballot: Ballot::default(),
    })
}

fn edited(edit: Edit) -> Decision {
    Decision {
        edit: Some(edit),
        ..Decision::new(Verdict::Approve, None)
    }
}

/// S6.7, B09: only the edited bytes can run; the model reads in its own call what it wrote, and with the
/// result what became of it.
#[test]
fn s6_7_the_edited_bytes_are_what_is_bound() {
    let mut world = waiting();
    let (before, proposed) = (held(&world).digest, held(&world).args.clone());
    let args = "{\"n\": 1.10}";
    let taken = input(&world, "app", edited(edit(&world.state, args)));
    assert_eq!(world.take(taken), Ok(2));
    let call = &world.state.calls()[0];
    assert_eq!((call.args.as_str(), &call.phase), (args, &Phase::Cleared));
    assert_ne!(call.digest, before);
    assert_eq!(call.proposed_args(), proposed);
    world.happen(Event::Execute(0));
    world.happen(Event::Output { which: 0, ok: true });
    let messages = world.state.messages();
    check_well_formed(&messages);
    let calls = messages.iter().find_map(|message| match message {
        Message::Assistant { calls, .. } => calls.first(),
        Message::User(_) | Message::Results(_) => None,
    });
    assert_eq!(calls.unwrap().args, proposed);
    let told = messages.iter().find_map(|message| match message {
        Message::Results(results) => results.first(),
        Message::User(_) | Message::Assistant { .. } => None,
    });
    let told = &told.unwrap().text;
    assert!(
        told.starts_with("[edited]") && told.contains(args),
        "{told}"
    );
}

/// S6.7, S6.10, S6.8: not by who asked, not after it expired, not twice, not on what was judged before.
#[test]
fn s6_7_an_edit_is_refused_like_any_decision() {
    let mut world = waiting();
    let now = Timestamp::from_micros(approval(&world).requested_at.micros() + 1);
    let made = edit(&world.state, "{}");
    let refused = |world: &World, by: &str, edit: &Edit, at: Timestamp| {
        let input = input(world, by, edited(edit.clone()));
        world.state.decide(input, at).unwrap_err().code()
    };
    assert_eq!(refused(&world, "sub", &made, now), "approval.own_request");
    let late = approval(&world).expires_at;
    assert_eq!(refused(&world, "app", &made, late), "approval.expired");
    let early = Edit {
        judged_at: made.judged_at - 1,
        ..made.clone()
    };
    assert_eq!(refused(&world, "app", &early, now), "run.stale");
    let other = Decision {
        saw: Some(Digest::of(b"another").into()),
        ..edited(made.clone())
    };
    let changed = world.state.decide(input(&world, "app", other), now);
    assert_eq!(changed.unwrap_err().code(), "approval.changed");

    let taken = input(&world, "app", edited(made.clone()));
    world.take(taken).unwrap();
    for by in ["app", "app2"] {
        let again = edit(&world.state, "{\"again\":1}");
        assert_eq!(refused(&world, by, &again, now), "approval.already_decided");
    }
}

/// S6.12: who may not decide the edited call may not edit it so.
#[test]
fn s6_7_an_edit_needs_whom_it_would_need() {
    let world = waiting();
    let stricter = Quorum {
        group: Some("finance".into()),
        ..Quorum::default()
    };
    let made = Edit {
        quorum: Some(stricter),
        ..edit(&world.state, "{}")
    };
    let now = Timestamp::from_micros(approval(&world).requested_at.micros() + 1);
    let refused = world.state.decide(input(&world, "app", edited(made)), now);
    assert_eq!(refused.unwrap_err().code(), "approval.not_in_group");
}

/// S6.1, S6.7: an edit that is bound to other bytes than it holds, or to another call, is no history.
#[test]
fn s6_7_a_forged_edit_is_corrupt() {
    let world = waiting();
    let now = Timestamp::from_micros(approval(&world).requested_at.micros() + 1);
    let input = input(&world, "app", edited(edit(&world.state, "{}")));
    let steps = world.state.decide(input, now).unwrap();
    let (actor, Step::ToolEdited(edited)) = steps[0].clone() else {
        panic!("an edit comes first: {steps:?}");
    };
    let forge = |actor: &Actor, change: fn(&mut ToolEdited)| {
        let mut step = edited.clone();
        change(&mut step);
        let key = ChainKey::new("k", [7; 32]);
        let (recorded, _) = Recorded::chain(
            world.state.head(),
            world.state.run(),
            now,
            actor.clone(),
            Step::ToolEdited(step),
            &key,
        );
        world.state.clone().apply(&recorded)
    };
    assert_eq!(forge(&actor, |_| {}), Ok(()));
    assert!(forge(&actor, |step| step.args.push(' ')).is_err());
    assert!(forge(&actor, |step| step.before = step.digest).is_err());
    assert!(forge(&Actor::System, |_| {}).is_err());
}
