//! Where a namespace is told of approvals and failures (S8.2, S8.3, S6.12), by receivers that no one
//! here wrote: the `standardwebhooks` package and a plain HMAC verify what comes over HTTP, `aiosmtpd`
//! takes e-mail.

mod approvals;
mod escalating;
mod guide;
mod mail;
mod people;
mod receiver;

use sayso_tests::{Bundle, Case, Shape, World};
use sayso_wire::v1::{AgentLogEntry, CreateTargetRequest, ListAgentLogsRequest, TargetKind};

pub(crate) const KEY: &str = "key-of-the-receivers";

/// Arguments that every serialisation writes otherwise (B48).
pub(crate) const ODD: &str = "{\"z\": 1.0, \"a\":\"\u{1f600} e\u{301} \u{2028} </x>\",\"n\":1}";

static WORLD: World = World::new(
    &[
        (
            "one",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        (
            "odd",
            "turns:
  - calls: [{tool: ledger.append, args_raw: \"{\\\"z\\\": 1.0, \\\"a\\\":\\\"\u{1f600} e\u{301} \\u2028 </x>\\\",\\\"n\\\":1}\"}]
  - text: done",
        ),
    ],
    Shape::APART,
);

/// An agent whose one call waits for a person.
fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

/// An agent whose every run fails: it has no role.
fn failing(name: &str) -> Bundle {
    gated(name).without("role")
}

fn target(name: &str, kind: TargetKind, address: impl Into<String>) -> CreateTargetRequest {
    CreateTargetRequest {
        name: name.into(),
        kind: kind.into(),
        address: address.into(),
        ..CreateTargetRequest::default()
    }
}

fn signed(name: &str, address: impl Into<String>) -> CreateTargetRequest {
    CreateTargetRequest {
        secret: "RECEIVER_KEY".into(),
        ..target(name, TargetKind::Webhook, address)
    }
}

async fn add(case: &Case, target: CreateTargetRequest) {
    let added = case.admin.targets().create_target(target).await;
    added.unwrap_or_else(|status| panic!("{status:?}"));
}

/// An agent's log, newest first.
async fn log(case: &Case, agent: &str) -> Vec<AgentLogEntry> {
    let request = ListAgentLogsRequest {
        agent: agent.into(),
        ..ListAgentLogsRequest::default()
    };
    let listed = case.admin.agents().list_agent_logs(request).await;
    listed.unwrap().into_inner().entries
}
