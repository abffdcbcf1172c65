//! What may happen to a run.

use proptest::prelude::*;

/// One thing that happens; the numbers pick among what is possible at that moment.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// The model is asked; the answer comes with a later event, after whatever happens in between.
    Ask,
    Answer {
        calls: Vec<(u8, u8)>,
        text: bool,
    },
    ModelFails {
        billing: bool,
    },
    Judge {
        rulings: Vec<u8>,
    },
    Execute(u8),
    Output {
        which: u8,
        ok: bool,
    },
    Decide {
        which: u8,
        approve: bool,
        by: u8,
        goes_on: bool,
        message: bool,
    },
    DecideByTool {
        tool: u8,
        approve: bool,
        back: u8,
    },
    Message,
    Cancel,
    Retry,
    Crash,
    Wait(u8),
    Reap,
    Complete,
    Interrupt,
    /// The conversation is made smaller; a brief of how many of its turns.
    Prune,
    Brief(u8),
    /// A model has written on a held call, or on one that was.
    Summarised(u8),
    /// An approved call starts an agent.
    Delegate(u8),
    ChildEnds {
        which: u8,
        trusted: bool,
        ended_by: u8,
    },
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Ask),
        6 => (prop::collection::vec((0..3u8, 0..2u8), 0..4), any::<bool>())
            .prop_map(|(calls, text)| Event::Answer { calls, text }),
        1 => any::<bool>().prop_map(|billing| Event::ModelFails { billing }),
        6 => prop::collection::vec(0..9u8, 4).prop_map(|rulings| Event::Judge { rulings }),
        5 => any::<u8>().prop_map(Event::Execute),
        6 => (any::<u8>(), any::<bool>()).prop_map(|(which, ok)| Event::Output { which, ok }),
        6 => (any::<u8>(), any::<bool>(), 0..4u8, any::<bool>(), any::<bool>())
            .prop_map(|(which, approve, by, goes_on, message)| Event::Decide { which, approve, by, goes_on, message }),
        1 => (0..3u8, any::<bool>(), any::<u8>())
            .prop_map(|(tool, approve, back)| Event::DecideByTool { tool, approve, back }),
        2 => Just(Event::Message),
        1 => Just(Event::Cancel),
        2 => Just(Event::Retry),
        2 => Just(Event::Crash),
        2 => any::<u8>().prop_map(Event::Wait),
        1 => Just(Event::Reap),
        2 => Just(Event::Complete),
        3 => Just(Event::Interrupt),
        2 => Just(Event::Prune),
        1 => any::<u8>().prop_map(Event::Brief),
        2 => any::<u8>().prop_map(Event::Summarised),
        2 => any::<u8>().prop_map(Event::Delegate),
        4 => (any::<u8>(), any::<bool>(), 0..6u8)
            .prop_map(|(which, trusted, ended_by)| Event::ChildEnds { which, trusted, ended_by }),
    ]
}
