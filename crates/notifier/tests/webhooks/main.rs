//! The notifier against real receivers over HTTP and a real database in a folder of the test. Time
//! passes on the database's clock, by the offset that tests put on it.

#![expect(
    clippy::unwrap_used,
    reason = "tests state what they expect; a panic with the place is what a failing one should print"
)]

mod failing;
mod restarting;
mod signing;
mod targets;
mod world;
