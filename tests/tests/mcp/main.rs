//! sayso as an MCP server (S6.13), asked by clients that no one here wrote: the protocol's official
//! conformance suite, its inspector, its SDKs for Rust and Python.

mod balancer;
mod caller;
mod conformance;
mod door;
mod guide;
mod inspector;
mod people;
mod python;
mod stdio;

use sayso_tests::{Bundle, Shape, World};

/// One process, and services apart with two gateways.
static WORLD: World = World::new(
    &[(
        "one",
        "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - when: {result_contains: denied}
    text: was denied
  - text: done",
    )],
    Shape::Apart {
        executors: 1,
        gateways: 2,
    },
);

/// An agent whose one call waits for a person.
fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .ask("ledger.append")
}
