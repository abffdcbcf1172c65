use std::sync::Arc;

use sayso_driver::{Deltas, ModelCall, ModelReply, ModelRequest, Models};
use sayso_rules::judge::START_AGENT;
use sayso_run::{Currency, FailureCode, ModelFailover, Price, RunId, Thinking, Usage};

use crate::agents::TOOLS;
use crate::random::Random;
use crate::world::World;

/// How the model of a run behaves, all along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// Calls some tools, then answers.
    Mixed,
    /// Never comes to an end.
    Endless,
    /// Repeats itself.
    Stubborn,
    /// Is away, mostly.
    Absent,
}

fn mood(run: &RunId) -> Mood {
    let number: u32 = run
        .as_str()
        .trim_start_matches("run_")
        .parse()
        .unwrap_or_default();
    // A start that was made twice has an odd number.
    match number / 2 % 12 {
        3 => Mood::Endless,
        7 => Mood::Stubborn,
        10 => Mood::Absent,
        _ => Mood::Mixed,
    }
}

/// What one token costs, in millionths.
const TOKEN: u64 = 10;

/// Tokens that a request and its answer may have.
const WINDOW: u64 = 400;

/// The currency of the simulation.
pub(crate) fn currency() -> Currency {
    "USD".parse().expect("the word is a currency")
}

/// Models that answer by lot.
pub(crate) struct Mind(pub(crate) Arc<World>);

impl Models for Mind {
    fn price(&self, _: &str) -> Option<Price> {
        let million = TOKEN * 1_000_000;
        Some(Price {
            input: million,
            cached: million,
            output: million,
            currency: currency(),
        })
    }

    /// Small enough for a long run to reach it.
    fn window(&self, _: &str) -> Option<u64> {
        Some(WINDOW)
    }

    async fn ask(&self, request: ModelRequest, deltas: &dyn Deltas) -> ModelReply {
        let world = &self.0;
        let slow = world.sky.strikes(30);
        let (run, cycle) = (request.run.clone(), request.cycle);
        world.checker().check_request(world, request);
        let thinks = world.kernel.draw(|random| {
            if slow {
                random.micros(1_000_000, 12_000_000)
            } else {
                random.micros(5_000, 500_000)
            }
        });
        world.kernel.sleep(thinks).await;
        deltas.text("…");
        let calm = world.sky.is_calm();
        world
            .kernel
            .draw(|random| reply(random, mood(&run), cycle, calm))
    }
}

fn reply(random: &mut Random, mood: Mood, cycle: u32, calm: bool) -> ModelReply {
    let failovers = if random.permille(40) {
        vec![ModelFailover {
            from: "first".into(),
            to: "second".into(),
            reason: "away".into(),
        }]
    } else {
        Vec::new()
    };
    let away = match mood {
        Mood::Absent => 900,
        Mood::Mixed | Mood::Endless | Mood::Stubborn if calm => 0,
        Mood::Mixed | Mood::Endless | Mood::Stubborn => 25,
    };
    if random.permille(away) {
        return failed(random, failovers);
    }
    let calls = calls(random, mood, cycle, calm);
    ModelReply::Answer {
        text: if random.permille(700) {
            format!("answer {cycle}")
        } else {
            String::new()
        },
        thinking: if random.permille(200) {
            vec![Thinking {
                text: "hm".into(),
                signature: None,
            }]
        } else {
            Vec::new()
        },
        calls,
        model: "second".into(),
        usage: Usage {
            input: 100 + 30 * u64::from(cycle),
            cached: 10,
            output: 20,
        },
        failovers,
    }
}

fn failed(random: &mut Random, failovers: Vec<ModelFailover>) -> ModelReply {
    let (code, billing) = match random.below(5) {
        0 => (FailureCode::PROVIDER_REFUSED, Some("second".to_owned())),
        1 => (FailureCode::CONTEXT_LENGTH, None),
        _ => (FailureCode::PROVIDER_UNAVAILABLE, None),
    };
    ModelReply::Failed {
        code: FailureCode::new(code),
        message: "no model answers".into(),
        billing,
        failovers,
    }
}

fn calls(random: &mut Random, mood: Mood, cycle: u32, calm: bool) -> Vec<ModelCall> {
    let count = match mood {
        Mood::Endless => 1,
        Mood::Stubborn if cycle < 6 => 1,
        Mood::Stubborn => 0,
        Mood::Mixed | Mood::Absent if random.permille(if calm { 600 } else { 300 }) => 0,
        Mood::Mixed | Mood::Absent if random.permille(3) => 66,
        Mood::Mixed | Mood::Absent => random.between(1, 3),
    };
    (0..count)
        .map(|_| match mood {
            Mood::Endless => call("shop.read", u64::from(cycle)),
            Mood::Stubborn => call("shop.refund", 1),
            Mood::Mixed | Mood::Absent => {
                let tool = *random.pick(&TOOLS);
                call(tool, random.below(3))
            }
        })
        .collect()
}

fn call(tool: &str, number: u64) -> ModelCall {
    // One set of arguments in three is not what the schema of this tool wants.
    let bad = number == 2 && tool == "shop.label";
    ModelCall {
        name: tool.replace('.', "_"),
        args: if tool == START_AGENT {
            format!(r#"{{"agent":"clerk","input":"{number}"}}"#)
        } else if bad {
            r#"{"n":"bad"}"#.to_owned()
        } else {
            format!(r#"{{"n":{number}}}"#)
        },
    }
}
