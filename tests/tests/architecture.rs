//! The dependency rule: every edge between crates of the workspace points to a smaller number,
//! and what is kept in one place stays there.
//!
//! Dev-dependencies are free: tests may build on whatever they like.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Every crate and its number. A new crate fails here until it is given its place.
const PLACES: &[(&str, u8)] = &[
    ("sayso-run", 0),
    ("sayso-rules", 0),
    ("sayso-wire", 1),
    ("sayso-driver", 1),
    ("sayso-store", 2),
    ("sayso-bus", 2),
    ("sayso-models", 2),
    ("sayso-tools", 2),
    ("sayso-service", 2),
    ("sayso-herald", 3),
    ("sayso-engine", 3),
    ("sayso-gateway", 4),
    ("sayso-scheduler", 4),
    ("sayso-executor", 4),
    ("sayso-policy", 4),
    ("sayso-approval-hub", 4),
    ("sayso-notifier", 4),
    ("sayso-sdk", 4),
    ("sayso", 5),
    ("sayso-sim", FREE),
    ("sayso-tests", FREE),
    ("xtask", FREE),
];

/// The number of what stands outside: it may use everything, and nothing may use it.
const FREE: u8 = u8::MAX;

/// What a crate must not know although the numbers would let it.
const MUST_NOT_KNOW: &[(&str, &[&str], &str)] = &[
    (
        "sayso-store",
        &["sayso-wire", "prost", "prost-types", "tonic"],
        "the store knows no protobuf",
    ),
    (
        "sayso-bus",
        &["sayso-run", "sayso-rules", "sayso-wire", "sayso-driver"],
        "the bus carries names and bytes, not runs",
    ),
    (
        "sayso-wire",
        &["sqlx", "rusqlite"],
        "the wire knows no storage",
    ),
    ("sayso-run", IMPURE, "the core is pure"),
    ("sayso-rules", IMPURE, "the rules are pure"),
];

/// Crates that do input and output, tell the time or draw lots. chrono is not among them: the
/// workspace has it without its clock, and clippy forbids the clock that others may bring in.
const IMPURE: &[&str] = &[
    "async-nats",
    "getrandom",
    "rand",
    "reqwest",
    "rusqlite",
    "sqlx",
    "time",
    "tokio",
    "tonic",
    "uuid",
];

/// Crates that stay behind the walls of one of ours.
const ONLY_IN: &[(&str, &str)] = &[
    ("async-nats", "sayso-bus"),
    ("sqlx", "sayso-store"),
    ("rusqlite", "sayso-store"),
];

/// What each package of the workspace depends on, dev-dependencies left out.
type Edges = BTreeMap<String, BTreeSet<String>>;

fn edges(metadata: &Metadata) -> Edges {
    metadata
        .workspace_packages()
        .iter()
        .map(|package| {
            let uses = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind != DependencyKind::Development)
                .map(|dependency| dependency.name.clone())
                .collect();
            (package.name.to_string(), uses)
        })
        .collect()
}

fn place(name: &str) -> Option<u8> {
    PLACES
        .iter()
        .find(|(crate_name, _)| *crate_name == name)
        .map(|(_, number)| *number)
}

/// Every way in which these edges break the rule, in words.
fn faults(edges: &Edges) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, uses) in edges {
        let Some(number) = place(name) else {
            faults.push(format!("{name} has no place: give it a number in PLACES"));
            continue;
        };
        for used in uses.iter().filter(|used| edges.contains_key(*used)) {
            match place(used) {
                Some(other) if other < number => {}
                Some(other) => faults.push(format!(
                    "{name} ({number}) depends on {used} ({other}): an edge points to a smaller \
                     number"
                )),
                None => {}
            }
        }
        for (knows, what, reason) in MUST_NOT_KNOW {
            for used in what.iter().filter(|_| knows == name) {
                if uses.contains(*used) {
                    faults.push(format!("{name} depends on {used}: {reason}"));
                }
            }
        }
        for (used, home) in ONLY_IN {
            if name != home && number != FREE && uses.contains(*used) {
                faults.push(format!("{name} depends on {used}: only {home} may"));
            }
        }
    }
    faults
}

#[test]
fn every_edge_points_to_a_smaller_number() {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .expect("cargo knows the workspace");
    let faults = faults(&edges(&metadata));
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

fn drawn(edges: &[(&str, &[&str])]) -> Edges {
    edges
        .iter()
        .map(|(name, uses)| {
            let uses = uses.iter().map(|used| (*used).to_owned()).collect();
            ((*name).to_owned(), uses)
        })
        .collect()
}

#[test]
fn an_edge_to_the_same_or_a_larger_number_is_a_fault() {
    let found = faults(&drawn(&[
        ("sayso-gateway", &["sayso-policy", "sayso-store"]),
        ("sayso-policy", &["sayso"]),
        ("sayso-store", &["sayso-run"]),
        ("sayso-run", &[]),
        ("sayso", &[]),
    ]));
    assert_eq!(found.len(), 2, "{found:#?}");
    let names = |fault: &str, edge: [&str; 2]| edge.iter().all(|name| fault.contains(name));
    assert!(names(&found[0], ["sayso-gateway (", "sayso-policy ("]));
    assert!(names(&found[1], ["sayso-policy (", "sayso ("]));
}

#[test]
fn a_crate_without_a_place_is_a_fault() {
    let found = faults(&drawn(&[("sayso-novelty", &[])]));
    assert_eq!(
        found,
        ["sayso-novelty has no place: give it a number in PLACES"]
    );
}

#[test]
fn what_is_kept_in_one_place_is_not_used_elsewhere() {
    let found = faults(&drawn(&[
        ("sayso-bus", &["async-nats"]),
        ("sayso-executor", &["async-nats"]),
        ("sayso-store", &["sayso-wire", "sqlx"]),
        ("sayso-rules", &["tokio"]),
        ("sayso-wire", &[]),
        ("sayso-tests", &["sqlx", "async-nats"]),
    ]));
    assert_eq!(
        found,
        [
            "sayso-executor depends on async-nats: only sayso-bus may",
            "sayso-rules depends on tokio: the rules are pure",
            "sayso-store depends on sayso-wire: the store knows no protobuf",
        ]
    );
}
