use std::sync::Arc;

use sayso_driver::{Revision, ToolDefinition, ToolHints, ToolKind, ToolSet};
use sayso_rules::judge::START_AGENT;
use sayso_rules::{Bundle, Glob, Role};
use sayso_run::RevisionId;

/// One agent, whose approvals wait for less than a minute of the simulation.
const BUNDLE: &str = r#"
name: clerk
instructions: You work in a simulated shop.
interaction: true
summary: model
role: clerk
agents: [clerk]
servers:
  shop: { command: [shop] }
tools:
  "shop.read": { effect: read }
  "shop.put": { effect: write, idempotent: true }
  "shop.label": { effect: write, idempotent: true }
  "shop.post": { effect: write, idempotent: false }
permissions:
  default: ask
  rules:
    - { tool: "shop.read", action: allow }
    - { tool: "shop.put", action: allow }
    - { tool: "shop.post", action: allow }
    - { tool: "shop.secret", action: allow }
    - { tool: "shop.wipe", action: deny }
    - tool: "shop.refund"
      action: ask
      approvers: { group: till, count: 2, exclude: [writers] }
      escalate: [{ after: 6s, to: { group: leads } }, { after: 9s, to: { target: oncall } }]
    - { tool: "start_agent", when: { args: { "/input": { equals: "1" } } }, action: allow }
  approvalTimeout: 25s
"#;

/// What models call: the tools, one that the role does not permit, one that a rule denies and one
/// that does not exist.
pub(crate) const TOOLS: [&str; 10] = [
    "shop.read",
    "shop.put",
    "shop.post",
    "shop.refund",
    "shop.label",
    "shop.secret",
    "shop.wipe",
    "ask_person",
    "start_agent",
    "shop.dream",
];

/// The revision that every run pins.
pub(crate) fn revision() -> Arc<Revision> {
    let bundle = Bundle::parse(BUNDLE).expect("the bundle is one that sayso takes");
    let id = RevisionId::new(bundle.revision_hash()).expect("a hash is a valid id");
    Arc::new(Revision::new(id, bundle))
}

/// What the agent may do at most.
pub(crate) fn role() -> Arc<Role> {
    let permits = [
        "shop.read",
        "shop.put",
        "shop.post",
        "shop.refund",
        "shop.label",
        "shop.wipe",
        "start_agent",
    ];
    Arc::new(Role {
        name: "clerk".into(),
        permits: permits
            .into_iter()
            .map(|glob| Glob::new(glob).expect("a plain name is a glob"))
            .collect(),
    })
}

/// What the shop offers.
pub(crate) fn tools() -> Arc<ToolSet> {
    let tool = |name: &str| ToolDefinition {
        registered: name.to_owned(),
        model_name: name.replace('.', "_"),
        kind: match name {
            sayso_driver::ASK_PERSON => ToolKind::Control,
            START_AGENT => ToolKind::Agent,
            _ => ToolKind::Mcp,
        },
        description: String::new(),
        input_schema: "{}".into(),
        hints: ToolHints::default(),
        origin: "shop".into(),
    };
    let real = TOOLS.iter().filter(|name| **name != "shop.dream");
    Arc::new(ToolSet::new(real.map(|name| tool(name)).collect()))
}
