//! What breaks, and for how long, drawn from a seed.

use std::fmt::{self, Display};
use std::time::Duration;

use sayso_tests::{Case, Dice, Process};
use tokio::time::{Instant, sleep};

/// The longest that something stays broken.
const LONGEST_MS: usize = 5_000;
/// The longest that nothing is broken.
const CALM_MS: usize = 1_500;

/// What can be done to what runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    /// `kill -9`, and a new start.
    Kill,
    /// `SIGSTOP`, and `SIGCONT`.
    Freeze,
    /// An end in order, and a new start.
    Restart,
    /// Its streams are deleted.
    DeleteStreams,
}

/// Something that breaks.
#[derive(Clone, Copy)]
struct Fault<'a> {
    harm: Harm,
    victim: &'a Process,
}

impl Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.harm, self.victim.name())
    }
}

/// Everything that may break in a deployment, and how; what is named more often breaks more often.
fn possible(case: &Case) -> Vec<Fault<'_>> {
    let mut faults = Vec::new();
    for victim in case.processes() {
        faults.push(Fault {
            harm: Harm::Kill,
            victim,
        });
        faults.push(Fault {
            harm: Harm::Freeze,
            victim,
        });
        if victim.name().starts_with("executor") || victim.name() == "sayso" {
            faults.push(Fault {
                harm: Harm::Kill,
                victim,
            });
        }
    }
    if let Some(victim) = case.broker() {
        for harm in [Harm::Kill, Harm::Freeze, Harm::DeleteStreams] {
            faults.push(Fault { harm, victim });
        }
    }
    if let Some(victim) = case.own_server() {
        for harm in [Harm::Kill, Harm::Restart] {
            faults.push(Fault { harm, victim });
        }
    }
    faults
}

impl Fault<'_> {
    async fn strike(&self, case: &Case) {
        match self.harm {
            Harm::Kill => self.victim.kill(),
            // What has ended by itself cannot be stopped.
            Harm::Freeze if self.victim.is_running() => self.victim.freeze(),
            Harm::Restart if self.victim.is_running() => self.victim.interrupt(),
            Harm::Freeze | Harm::Restart => {}
            Harm::DeleteStreams => {
                if let Err(error) = case.delete_streams().await {
                    println!("         the broker was away: {error}");
                }
            }
        }
    }

    fn mend(&self) {
        if self.victim.is_frozen() {
            self.victim.thaw();
        }
    }
}

/// Starts everything that is down, as a supervisor does.
async fn supervise(case: &Case) {
    if case.own_server().is_some() {
        case.database_up().await;
    }
    if let Some(broker) = case.broker() {
        broker.start();
    }
    for process in case.processes() {
        process.start();
    }
}

/// Breaks one thing or two at once, mends them, and again, for so long; in the end all runs.
pub(crate) async fn storm(case: &Case, seed: u64, length: Duration) {
    let mut dice = Dice::new(seed);
    let possible = possible(case);
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < length {
        let mut struck = vec![*dice.pick(&possible)];
        let second = *dice.pick(&possible);
        if dice.roll(3) == 0 && second.victim.name() != struck[0].victim.name() {
            struck.push(second);
        }
        let lasting = Duration::from_millis(dice.roll(LONGEST_MS) as u64);
        for fault in &struck {
            println!(
                "{:8.3} {fault} for {lasting:?}",
                began.elapsed().as_secs_f64()
            );
            fault.strike(case).await;
        }
        sleep(lasting).await;
        for fault in &struck {
            fault.mend();
        }
        supervise(case).await;
        count += struck.len();
        sleep(Duration::from_millis(dice.roll(CALM_MS) as u64)).await;
    }
    println!(
        "{:8.3} the end of {count} faults",
        began.elapsed().as_secs_f64()
    );
    case.ready().await;
}
