//! Which turn comes next, derived from the conversation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use sayso_driver::ModelRequest;
use sayso_run::{Message, RunId};

use super::EXHAUSTED;
use super::script::{Script, Turn, When};
use crate::fault::Fault;

/// How the run core begins the note that carries a result which came late.
const NOTE: &str = "[note]";

/// Runs whose failed turns are remembered at once; beyond it the oldest are forgotten.
const MOST_RUNS: usize = 4096;

/// One script with the models that play it.
pub(crate) struct Player {
    script: Script,
    /// The models' configured names: their answers are this script's.
    models: BTreeSet<String>,
    failed: Mutex<Failed>,
}

/// What was seen since the answer before, and who answered then.
#[derive(Default)]
struct Round<'a> {
    results: Vec<&'a str>,
    messages: Vec<&'a str>,
    /// `None` if that is what is asked for now.
    answered_by: Option<&'a str>,
}

impl When {
    fn holds(&self, round: &Round<'_>) -> bool {
        let within = |texts: &[&str], wanted: &Option<String>| {
            wanted
                .as_ref()
                .is_none_or(|wanted| texts.iter().any(|text| text.contains(wanted.as_str())))
        };
        within(&round.results, &self.result_contains)
            && within(&round.messages, &self.message_contains)
    }
}

impl Player {
    pub(crate) fn new(script: Script, models: impl IntoIterator<Item = String>) -> Self {
        Self {
            script,
            models: models.into_iter().collect(),
            failed: Mutex::default(),
        }
    }

    /// The turn for a request, with its number from 0.
    pub(super) fn turn(&self, request: &ModelRequest) -> Result<(usize, &Turn), Fault> {
        let (past, now) = rounds(request);
        let mut place = 0;
        for round in &past {
            place = self.place_after(place, round);
        }
        // A panic between lock and unlock is not possible: the memory is whole in any case.
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..failed.times(&request.run, request.cycle) {
            place = self.pick(place, &now).map_or(place, |at| at + 1);
        }
        let at = self.pick(place, &now).ok_or_else(|| {
            Fault::Script(
                EXHAUSTED,
                format!(
                    "has no turn left for cycle {}: its script has {}",
                    request.cycle,
                    self.script.turns.len()
                ),
            )
        })?;
        let turn = &self.script.turns[at];
        if turn.fails() {
            failed.remember(&request.run, request.cycle);
        }
        Ok((at, turn))
    }

    /// Where the script stands after a round that has been answered.
    fn place_after(&self, place: usize, round: &Round<'_>) -> usize {
        let own = round
            .answered_by
            .is_none_or(|model| self.models.contains(model));
        let mut place = place;
        while let Some(at) = self.pick(place, round) {
            let failing = self.script.turns[at].fails();
            if own || failing {
                place = at + 1;
            }
            if !(own && failing) {
                break;
            }
        }
        place
    }

    /// The turn to play in this round, from this place on.
    fn pick(&self, place: usize, round: &Round<'_>) -> Option<usize> {
        let from = self.script.turns.get(place..).unwrap_or_default();
        from.iter()
            .position(|turn| turn.when.as_ref().is_none_or(|when| when.holds(round)))
            .map(|at| place + at)
    }
}

/// The rounds before, and the one that is asked for. Answers that compaction took out of the
/// conversation count as this script's, given without anything seen.
fn rounds(request: &ModelRequest) -> (Vec<Round<'_>>, Round<'_>) {
    let mut past = Vec::new();
    let mut now = Round::default();
    for message in &request.messages {
        match message {
            Message::User(text) if text.starts_with(NOTE) => now.results.push(text),
            Message::User(text) => now.messages.push(text),
            Message::Results(results) => {
                now.results
                    .extend(results.iter().map(|result| result.text.as_str()));
            }
            Message::Assistant { model, .. } => {
                now.answered_by = Some(model);
                past.push(std::mem::take(&mut now));
            }
        }
    }
    let answers = usize::try_from(request.cycle.saturating_sub(1)).unwrap_or(usize::MAX);
    let gone = answers.saturating_sub(past.len());
    past.splice(0..0, std::iter::repeat_with(Round::default).take(gone));
    (past, now)
}

/// How often a run's current cycle met a turn with an error.
#[derive(Default)]
struct Failed {
    runs: BTreeMap<RunId, (u32, usize)>,
    order: VecDeque<RunId>,
}

impl Failed {
    fn times(&self, run: &RunId, cycle: u32) -> usize {
        match self.runs.get(run) {
            Some((of, times)) if *of == cycle => *times,
            Some(_) | None => 0,
        }
    }

    fn remember(&mut self, run: &RunId, cycle: u32) {
        let times = self.times(run, cycle) + 1;
        if self.runs.insert(run.clone(), (cycle, times)).is_none() {
            self.order.push_back(run.clone());
        }
        while self.order.len() > MOST_RUNS {
            if let Some(oldest) = self.order.pop_front() {
                self.runs.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{request, result};

    fn player(script: &str) -> Player {
        Player::new(Script::parse(script).unwrap(), ["s".to_owned()])
    }

    fn answer(model: &str) -> Message {
        Message::Assistant {
            text: String::new(),
            model: model.into(),
            thinking: vec![],
            calls: vec![],
        }
    }

    fn saw(text: &str) -> Message {
        Message::Results(vec![result(1, 1, text, false)])
    }

    fn task() -> Message {
        Message::User("do it".into())
    }

    fn next(player: &Player, cycle: u32, messages: Vec<Message>) -> Option<usize> {
        match player.turn(&request(cycle, messages)) {
            Ok((at, _)) => Some(at),
            Err(Fault::Script(EXHAUSTED, _)) => None,
            Err(fault) => panic!("{fault:?}"),
        }
    }

    const BRANCHES: &str = r#"
turns:
  - { text: "0" }
  - { when: { result_contains: denied }, text: "1" }
  - { when: { result_contains: review }, text: "2" }
  - { text: "3" }
  - { when: { message_contains: stop }, text: "4" }
  - { text: "5" }
"#;

    /// The place follows from the conversation alone: any process finds it.
    #[test]
    fn turns_are_picked_by_what_was_seen_and_found_again_by_any_process() {
        let histories: [(Vec<Message>, Option<usize>); 7] = [
            (vec![task()], Some(0)),
            (vec![task(), answer("s"), saw("ok")], Some(3)),
            (vec![task(), answer("s"), saw("was denied")], Some(1)),
            (vec![task(), answer("s"), saw("in review")], Some(2)),
            (
                vec![
                    task(),
                    answer("s"),
                    saw("was denied"),
                    answer("s"),
                    saw("in review"),
                ],
                Some(2),
            ),
            (
                vec![
                    task(),
                    answer("s"),
                    saw("ok"),
                    answer("s"),
                    Message::User("please stop".into()),
                ],
                Some(4),
            ),
            (
                vec![
                    task(),
                    answer("s"),
                    saw("ok"),
                    answer("s"),
                    saw("stop"),
                    answer("s"),
                    saw("x"),
                ],
                None,
            ),
        ];
        let one = player(BRANCHES);
        for (messages, expected) in histories {
            let answers = messages
                .iter()
                .filter(|m| matches!(m, Message::Assistant { .. }));
            let cycle = u32::try_from(answers.count()).unwrap() + 1;
            assert_eq!(
                next(&one, cycle, messages.clone()),
                expected,
                "{messages:?}"
            );
            assert_eq!(next(&one, cycle, messages.clone()), expected, "asked again");
            assert_eq!(
                next(&player(BRANCHES), cycle, messages),
                expected,
                "asked elsewhere"
            );
        }
    }

    #[test]
    fn a_late_result_is_seen_through_its_note() {
        let note = Message::User("[note] result of the earlier call call_1_1 (t): denied".into());
        assert_eq!(
            next(
                &player(BRANCHES),
                2,
                vec![task(), answer("s"), saw("ok"), note]
            ),
            Some(1)
        );
        let not_a_note = Message::User("denied".into());
        assert_eq!(
            next(
                &player(BRANCHES),
                2,
                vec![task(), answer("s"), saw("ok"), not_a_note]
            ),
            Some(3)
        );
    }

    #[test]
    fn a_failing_turn_is_played_once_then_the_next() {
        let script = "turns: [{text: a}, {error: {status: 529}}, {error: {status: 503}}, {text: b}, {text: c}]";
        let one = player(script);
        let second = vec![task(), answer("s"), saw("ok")];
        assert_eq!(next(&one, 2, second.clone()), Some(1));
        assert_eq!(next(&one, 2, second.clone()), Some(2));
        assert_eq!(next(&one, 2, second.clone()), Some(3));
        assert_eq!(
            next(&one, 2, second.clone()),
            Some(3),
            "an answer is given again"
        );
        let mut third = second;
        third.extend([answer("s"), saw("ok")]);
        assert_eq!(next(&one, 3, third.clone()), Some(4));
        assert_eq!(next(&player(script), 3, third), Some(4), "elsewhere");
    }

    #[test]
    fn another_models_answer_moves_the_script_only_past_its_failure() {
        let script = "turns: [{text: a}, {error: {status: 529}}, {text: b}]";
        let messages = vec![task(), answer("s"), saw("ok"), answer("other"), saw("ok")];
        assert_eq!(next(&player(script), 3, messages), Some(2));
        // It was not even asked: the other one stands before it in the chain.
        assert_eq!(
            next(&player(script), 2, vec![task(), answer("other"), saw("ok")]),
            Some(0)
        );
    }

    #[test]
    fn answers_that_compaction_took_away_still_count() {
        assert_eq!(next(&player(BRANCHES), 3, vec![task()]), Some(5));
    }

    #[test]
    fn the_memory_of_failures_does_not_grow_without_end() {
        let mut failed = Failed::default();
        for number in 0..MOST_RUNS + 10 {
            failed.remember(&RunId::new(format!("run_{number}")).unwrap(), 1);
        }
        assert_eq!(
            (failed.runs.len(), failed.order.len()),
            (MOST_RUNS, MOST_RUNS)
        );
        assert_eq!(failed.times(&RunId::new("run_0").unwrap(), 1), 0);
    }
}
