//! The toolbox from outside: real processes, real sockets, and servers that misbehave.
#![expect(
    clippy::unwrap_used,
    reason = "what a test cannot do without is a panic with its place"
)]

mod builtin;
mod demo_shop;
#[path = "../../test-server/handler.rs"]
mod handler;
mod http;
mod stdio;
mod third_party;
mod world;
