//! One bundle, deployed to the services and run in this process: the same verdicts, the same timeline
//! (S6.14).

use sayso_sdk::embedded::{Agent, Decision, Model, RunId, Start, Tool};
use sayso_sdk::v1::Run;
use sayso_tests::{Bundle, Case, Shape, Step, World, both, until};
use serde_json::{Value, json};

const ONE: &str = "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done";

const MANY: &str = "turns:
  - calls:
      - {tool: ledger.append, args: {n: 1}}
      - {tool: ledger.append, args: {n: 2}}
      - {tool: ledger.missing, args: {}}
  - text: and again
    calls: [{tool: ledger.append, args: {n: 3}}, {tool: create_artifact, args: {name: a, mime_type: text/plain, content: x}}]
  - text: done";

const LOOP: &str = "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}, {tool: ledger.append, args: {n: 1}}]
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done";

static WORLD: World = World::new(
    &[("one", ONE), ("many", MANY), ("loop", LOOP)],
    Shape::APART,
);

/// Bundles that are judged each in another way, with their scripts.
fn bundles() -> Vec<(Bundle, &'static str)> {
    let clerk = |name: &str, tier: &str| Bundle::new(name).tier(tier).ledger("ledger", "append");
    let preset = |name: &str, preset: &str| clerk(name, "many").permission("preset", preset.into());
    vec![
        (clerk("asked", "one").ask("ledger.append"), ONE),
        (clerk("allowed", "one").allow("ledger.append"), ONE),
        (clerk("denied", "one").deny("ledger.append"), ONE),
        (clerk("unsaid", "one"), ONE),
        (
            clerk("reader", "one")
                .allow("*")
                .field("role", "none".into()),
            ONE,
        ),
        (
            clerk("looping", "loop").permission("default", "allow".into()),
            LOOP,
        ),
        (
            preset("balanced", "balanced").field("builtins", json!(["create_artifact"])),
            MANY,
        ),
        (preset("strict", "strict"), MANY),
        (
            preset("marked", "careful").tool(
                "ledger.*",
                json!({"effect": "read", "untrustedOutput": false}),
            ),
            MANY,
        ),
    ]
}

/// What a timeline says of calls, whoever appended it: types, and which rule spoke. Calls of one turn
/// run concurrently, so their order is free.
fn told(steps: &[Step], in_order: bool) -> Vec<String> {
    let told = steps.iter().map(|step| {
        let of = |key: &str| step.content[key].as_str().unwrap_or_default().to_owned();
        let words = ["tool", "rule", "reason", "cause", "outcome", "from", "to"].map(of);
        format!("{} {}", step.kind, words.join(" ").trim())
    });
    let mut told: Vec<String> = told.collect();
    if !in_order {
        told.sort();
    }
    told
}

async fn in_process(text: &str, script: &str) -> (Run, Vec<Step>) {
    let schema = json!({"type": "object"});
    let append = Tool::with_schema("ledger.append", "Appends.", schema, |_: Value, _| async {
        Ok("appended")
    });
    let agent = Agent::from_bundle(text)
        .unwrap()
        .model(Model::scripted(script))
        .tool(append)
        .role("none", ["nothing.*"])
        .on_approval("app", |_| async { Decision::approve() });
    let agent = agent
        .build()
        .await
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    let run = agent.run(Start::new("go").by("sub")).await.unwrap();
    let id = RunId::new(&run.id).unwrap();
    let steps = agent.steps(&id).await.unwrap();
    agent.stop().await;
    (run, steps.into_iter().map(Step::from).collect())
}

/// The same bundle on the services, with somebody who approves whatever is held.
async fn deployed(case: &Case, bundle: &Bundle) -> (Run, Vec<Step>) {
    case.deploy(bundle).await;
    let run = case.sub.start(bundle.name(), "go").await;
    let ended = until("the run to end", async || {
        for held in case.app.pending(&run).await {
            case.app.approve(&held).await;
        }
        let now = case.sub.run(&run).await;
        sayso_sdk::is_final(now.status()).then_some(now)
    });
    let ended = ended.await;
    (ended, case.app.timeline(&run).await.0)
}

both! {
    /// S6.14: the same bundle gets the same verdicts, steps and end, embedded and deployed.
    async fn s6_14_one_bundle_has_one_behaviour(case: Case) {
        case.admin.put_role("none", &["nothing.*"]).await.unwrap();
        for (bundle, script) in bundles() {
            let (there, steps_there) = deployed(&case, &bundle).await;
            let (here, steps_here) = in_process(&case.bundle(&bundle), script).await;
            let name = bundle.name();
            let in_order = script != MANY;
            assert_eq!(told(&steps_here, in_order), told(&steps_there, in_order), "{name}");
            assert_eq!((here.status(), here.ended_by()), (there.status(), there.ended_by()), "{name}");
            assert_eq!((here.trust(), here.output()), (there.trust(), there.output()), "{name}");
        }
    }
}
