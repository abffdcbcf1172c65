//! sayso.
fn main() {}
