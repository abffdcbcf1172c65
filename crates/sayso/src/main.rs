//! sayso.
mod serve;
mod up;
mod wiring;
fn main() {}
