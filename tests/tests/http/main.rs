//! The public API over HTTP and JSON (S6.13), as a program meets it that knows nothing of gRPC.

mod caller;
mod input;
mod people;
mod surface;
mod watching;

use sayso_tests::{Bundle, Shape, World};

static WORLD: World = World::new(
    &[
        (
            "one",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        ("none", "turns: [{text: done}]"),
    ],
    Shape::APART,
);

fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .ask("ledger.append")
}
