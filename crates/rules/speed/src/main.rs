//! How long judging takes, beside two policy engines on the same rules, in one run:
//!
//! ```text
//! cargo run --release --manifest-path crates/rules/speed/Cargo.toml
//! ```
//!
//! Prints one JSON line; all times are medians in nanoseconds. The other engines judge the hundred
//! rules without provenance, which neither can express.

mod cedar;
mod own;
mod rego;
mod rules;

use serde_json::json;

fn main() {
    let nanoseconds = |time: u128| u64::try_from(time).unwrap_or(u64::MAX);
    let line = json!({
        "bench": "judging",
        "rules": 100,
        "tools": 1000,
        "unit": "ns",
        "sayso": own::measure(),
        "cedar_policy": { "judge": nanoseconds(cedar::measure()) },
        "regorus": { "judge": nanoseconds(rego::measure()) },
    });
    println!("{line}");
}
