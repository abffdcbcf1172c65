//! The product on real NATS and Postgres while things break.
//!
//! - [`kills`]: executors are killed without warning while runs are approved and tools act;
//! - [`windows`]: killed and frozen at every window that the driver's hooks name;
//! - [`storm`]: everything is killed, frozen and restarted at random while people work, and disks
//!   run full.
//!
//! What must hold, whatever is killed when: no call stands twice in the ledger and none unapproved; no
//! approval is lost; every run ends completed, or failed naming the calls in flight at the kill, and
//! completes after a retry. With an idempotent tool every run completes by itself.
//!
//! | variable | what it says | else |
//! |---|---|---|
//! | `SAYSO_TEST_CHAOS_KILLS` | kills with 8 or more calls in flight | 3 |
//! | `SAYSO_TEST_CHAOS_WAVE` | runs in a wave | 200 |
//! | `SAYSO_TEST_CHAOS_SECONDS` | how long the storm lasts | 15 |
//! | `SAYSO_TEST_CHAOS_SEED` | what it is drawn from; printed | another each time |
//!
//! `cargo xtask chaos` sets them all.

mod faults;
mod kills;
mod load;
mod promises;
mod storm;
mod windows;

use sayso_tests::{Bundle, Options, Shape};
use serde_json::json;

const SHAPE: Shape = Shape::Apart {
    executors: 2,
    gateways: 1,
};

const SCRIPTS: [(&str, &str); 2] = [
    (
        "careful",
        "turns:
  - calls: [{tool: ledger.append, args: {n: 1, sleep_ms: 20}}]
  - text: done",
    ),
    (
        "idempotent",
        "turns:
  - calls: [{tool: ledger.append_once, args: {n: 1, sleep_ms: 20}}]
  - text: done",
    ),
];

fn number(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

fn options() -> Options {
    SCRIPTS
        .iter()
        .fold(Options::new(), |options, (name, script)| {
            options.script(name, script)
        })
}

fn careful() -> Bundle {
    Bundle::new("careful")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

fn idempotent() -> Bundle {
    Bundle::new("idempotent")
        .ledger("ledger", "append_once")
        .ask("ledger.append_once")
        .tool("ledger.append_once", json!({"idempotent": true}))
}
