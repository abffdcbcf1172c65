//! The notifier against real receivers over HTTP and a real database in a folder of the test. Time
//! passes on the database's clock, by the offset that tests put on it.

mod failing;
mod restarting;
mod signing;
mod world;
