//! Agents in one's own process (S6.14).

mod approvals;
mod journal;
mod rails;
mod tools;

use std::sync::{Arc, Mutex};

use sayso_sdk::embedded::{Agent, AgentBuilder, Journal, Model, RunId, Tool};
use sayso_sdk::v1;
use serde_json::{Value, json};

/// Looks up an order, refunds it, and says so.
const SCRIPT: &str = r#"
turns:
  - calls: [{tool: shop.get_order, args: {id: "A-17"}}]
  - calls: [{tool: shop.refund_order, args: {order_id: "A-17", amount: 20}}]
  - when: {result_contains: "denied"}
    text: "I may not."
  - text: "Refunded."
"#;

/// A clerk whose refunds are asked for.
const CLERK: &str = r#"
name: clerk
role: unrestricted
tools:
  shop.get_order: {effect: read, untrustedOutput: false}
  shop.refund_order: {effect: write, untrustedOutput: false}
permissions:
  default: allow
  rules: [{tool: shop.refund_order, action: ask}]
"#;

/// What the shop's tools were called with.
#[derive(Debug, Clone, Default)]
struct Shop(Arc<Mutex<Vec<String>>>);

impl Shop {
    fn done(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn note(&self, call: &str) {
        self.0.lock().unwrap().push(call.to_owned());
    }

    fn tools(&self) -> [Tool; 2] {
        let (got, refunded) = (self.clone(), self.clone());
        let object = json!({"type": "object"});
        let get = Tool::with_schema(
            "shop.get_order",
            "Reads.",
            object.clone(),
            move |_: Value, _| {
                got.note("get");
                async { Ok(json!({"id": "A-17", "customer": "Ann"})) }
            },
        );
        let refund = Tool::with_schema(
            "shop.refund_order",
            "Refunds.",
            object,
            move |args: Value, _| {
                refunded.note(&format!("refund {}", args["order_id"]));
                async { Ok("refunded") }
            },
        );
        [get, refund]
    }
}

fn clerk(bundle: &str, script: &str, shop: &Shop) -> AgentBuilder {
    let [get, refund] = shop.tools();
    let agent = Agent::from_bundle(bundle).unwrap();
    let agent = agent.model(Model::scripted(script)).tool(get).tool(refund);
    agent.journal(Journal::memory())
}

async fn kinds(agent: &Agent, run: &RunId) -> Vec<String> {
    let steps = agent.steps(run).await.unwrap();
    steps.into_iter().map(|step| step.r#type).collect()
}

async fn verified(agent: &Agent, run: &RunId) -> bool {
    let verified = agent.verify(run).await.unwrap();
    matches!(
        verified.result,
        Some(v1::verify_run_response::Result::Verified(_))
    )
}

fn id(run: &v1::Run) -> RunId {
    RunId::new(&run.id).unwrap()
}
