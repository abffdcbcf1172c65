//! The rails that the services have, and what an agent is refused for.

use sayso_sdk::embedded::{Agent, BuildError, Decision, Helper, Model, Start, Tool, Trust};
use sayso_sdk::v1::{self, RunStatus};
use serde_json::{Value, json};

use super::{CLERK, SCRIPT, Shop, clerk, id, kinds, verified};

async fn refusal(bundle: &str) -> BuildError {
    clerk(bundle, SCRIPT, &Shop::default())
        .build()
        .await
        .unwrap_err()
}

/// What only the services do, and what is wrong, is refused with a code: never accepted and ignored.
#[tokio::test]
async fn what_cannot_be_done_is_refused() {
    let with = |more: &str| format!("name: clerk\nrole: unrestricted\n{more}");
    for (bundle, code) in [
        (
            with("triggers: [{cron: '0 0 * * *', timezone: UTC, input: x}]"),
            "bundle.unsupported",
        ),
        (
            with("permissions: {notify: {url: 'https://x.example'}}"),
            "bundle.unsupported",
        ),
        (
            with(
                "permissions: {approvalTimeout: 1h, rules: [{tool: x, action: ask, escalate: [{after: 1m, to: {target: t}}]}]}",
            ),
            "bundle.unsupported",
        ),
        ("name: clerk".to_owned(), "run.no_role"),
        ("name: clerk\nrole: support".to_owned(), "role.not_found"),
    ] {
        let refused = refusal(&bundle).await;
        assert_eq!(refused.code(), code, "{refused}");
    }
    let mistaken = Agent::from_bundle("name: clerk\nrules: []").unwrap_err();
    assert_eq!(mistaken.code(), "bundle.invalid");

    let nothing =
        |name: &str| Tool::with_schema(name, "", json!({}), |_: Value, _| async { Ok("") });
    for bad in ["ask_person", "create_artifact", "a b", "twice"] {
        let agent = Agent::from_bundle("{name: a, role: unrestricted}").unwrap();
        let agent = agent.model(Model::scripted("turns: [{text: x}]"));
        let refused = agent
            .tool(nothing("twice"))
            .tool(nothing(bad))
            .build()
            .await;
        assert_eq!(refused.unwrap_err().code(), "tool.invalid", "{bad}");
    }
    let agent = Agent::from_bundle("{name: a, role: unrestricted, tier: fast}").unwrap();
    let refused = agent
        .tier("slow", Model::scripted("turns: [{text: x}]"))
        .build()
        .await;
    assert_eq!(refused.unwrap_err().code(), "model.missing");
}

/// S3.9: the role is the ceiling here too.
#[tokio::test]
async fn s3_9_the_role_is_the_ceiling() {
    let shop = Shop::default();
    let bundle = CLERK.replace("role: unrestricted", "role: reader");
    let agent = clerk(&bundle, SCRIPT, &shop)
        .role("reader", ["shop.get_*"])
        .on_approval("desk-lead", |_| async {
            panic!("nobody is asked") as Decision
        });
    let agent = agent.build().await.unwrap();
    let run = agent.run("Refund order A-17").await.unwrap();
    assert_eq!(
        (run.status(), shop.done()),
        (RunStatus::Completed, vec!["get".to_owned()])
    );
    let steps = agent.steps(&id(&run)).await.unwrap();
    assert!(
        steps
            .iter()
            .any(|step| step.code == "tool.permission_denied")
    );
}

/// S5.7, S5.8: trust and taint are those of the services.
#[tokio::test]
async fn s5_8_what_a_tool_reads_lowers_the_trust() {
    let shop = Shop::default();
    let bundle = "name: clerk\nrole: unrestricted\npermissions: {default: allow}";
    let agent = clerk(bundle, SCRIPT, &shop).build().await.unwrap();
    let run = agent.run("Refund order A-17").await.unwrap();
    assert_eq!(run.trust(), v1::Trust::Untrusted);
    assert!(
        kinds(&agent, &id(&run))
            .await
            .contains(&"trust_lowered".to_owned())
    );
    let run = agent
        .run(Start::new("Refund").trust(Trust::Untrusted))
        .await
        .unwrap();
    assert!(
        !kinds(&agent, &id(&run))
            .await
            .contains(&"trust_lowered".to_owned())
    );
}

/// S4.3: the third identical call in a row is not executed.
#[tokio::test]
async fn s4_3_loops_are_broken() {
    let shop = Shop::default();
    let call = "{tool: shop.get_order, args: {id: x}}";
    let script = format!("turns: [{{calls: [{call}, {call}, {call}]}}, {{text: done}}]");
    let agent = clerk(CLERK, &script, &shop).build().await.unwrap();
    let run = agent.run("Look three times").await.unwrap();
    assert_eq!(shop.done(), ["get", "get"]);
    assert!(
        kinds(&agent, &id(&run))
            .await
            .contains(&"repeat_loop".to_owned())
    );
}

/// S3.10: a secret is in no step and no approval.
#[tokio::test]
async fn s3_10_secrets_are_masked() {
    let script = r#"turns: [{calls: [{tool: shop.refund_order, args: {order_id: "s3cr3t-value", password: "hunter22"}}]}, {text: "it was s3cr3t-value"}]"#;
    let agent = clerk(CLERK, script, &Shop::default())
        .secret("SHOP_KEY", "s3cr3t-value")
        .on_approval("desk-lead", |approval| async move {
            assert!(
                !approval.args_json.contains("s3cr3t"),
                "{}",
                approval.args_json
            );
            assert!(
                !approval.args_json.contains("hunter22"),
                "{}",
                approval.args_json
            );
            Decision::approve()
        });
    let agent = agent.build().await.unwrap();
    let run = agent.run("Refund").await.unwrap();
    assert_eq!(run.status(), RunStatus::Completed);
    let steps = agent.steps(&id(&run)).await.unwrap();
    for step in &steps {
        assert!(
            !step.content_json.contains("s3cr3t"),
            "{}",
            step.content_json
        );
        assert!(
            !step.content_json.contains("hunter22"),
            "{}",
            step.content_json
        );
    }
    assert!(verified(&agent, &id(&run)).await);
    assert!(agent.log().await.unwrap().is_empty());
}

/// S4.6: a cap ends a run cleanly.
#[tokio::test]
async fn s4_6_a_cap_ends_runs() {
    let script = "turns: [{text: done, usage: {input: 1000000, output: 0}}, {text: more}]";
    let money = |text: &str| text.parse().unwrap();
    let model = Model::scripted(script).price(money("3 USD"), money("15 USD"));
    let agent = Agent::from_bundle("{name: a, role: unrestricted}").unwrap();
    let agent = agent
        .model(model)
        .monthly_cap(money("2 USD"))
        .build()
        .await
        .unwrap();
    assert_eq!(agent.run("one").await.unwrap().output(), "done");
    let capped = agent.run("two").await.unwrap();
    assert_eq!(capped.ended_by(), v1::EndedBy::SpendingCap);
}

/// S1.8: a run that asks a person is answered by a reply.
#[tokio::test]
async fn s1_8_a_question_is_answered_by_a_reply() {
    let script = "turns: [{calls: [{tool: ask_person, args: {question: Which?}}]}, {when: {result_contains: that one}, text: thanks}, {text: nothing}]";
    let agent = Agent::from_bundle("{name: a, role: unrestricted, interaction: true}").unwrap();
    let agent = agent.model(Model::scripted(script)).build().await.unwrap();
    let run = agent.run("Choose").await.unwrap();
    assert_eq!(run.status(), RunStatus::AwaitingInput);
    agent.reply(&id(&run), "alice", "that one").await.unwrap();
    let run = agent.finish(&id(&run)).await.unwrap();
    assert_eq!(
        (run.status(), run.output()),
        (RunStatus::Completed, "thanks")
    );
    let late = agent.reply(&id(&run), "alice", "more").await.unwrap_err();
    assert_eq!(late.code(), "run.ended");
}

/// S1.5: a failed run goes on from where it stopped.
#[tokio::test]
async fn s1_5_a_failed_run_is_retried() {
    let script = "turns: [{calls: [{tool: shop.get_order, args: {id: x}}]}, {error: {status: 400, body: no}}, {text: done}]";
    let shop = Shop::default();
    let agent = clerk(CLERK, script, &shop).build().await.unwrap();
    let run = agent.run("Look").await.unwrap();
    assert_eq!(run.status(), RunStatus::Failed);
    agent.retry(&id(&run), "alice").await.unwrap();
    let run = agent.finish(&id(&run)).await.unwrap();
    assert_eq!((run.output(), shop.done().len()), ("done", 1));
    let again = agent.retry(&id(&run), "alice").await.unwrap_err();
    assert_eq!(again.code(), "run.not_failed");
}

/// S3.6: an agent starts another one of the same process.
#[tokio::test]
async fn s3_6_an_agent_starts_another() {
    let script = "turns: [{calls: [{tool: start_agent, args: {agent: researcher, input: Look}}]}, {text: '{{result.start_agent}}'}]";
    let bundle =
        "name: boss\nrole: unrestricted\nagents: [researcher]\npermissions: {default: allow}";
    let researcher =
        "name: researcher\nrole: unrestricted\ntier: fast\npermissions: {default: allow}";
    let seen = Shop::default();
    let [look, _] = seen.tools();
    let helper = Helper::from_bundle(researcher).unwrap().tool(look);
    let agent = Agent::from_bundle(bundle)
        .unwrap()
        .model(Model::scripted(script).named("boss"))
        .tier(
            "fast",
            Model::scripted("turns: [{calls: [{tool: shop.get_order, args: {}}]}, {text: found}]"),
        )
        .helper(helper);
    let agent = agent.build().await.unwrap();
    let run = agent.run("Ask around").await.unwrap();
    assert_eq!(run.status(), RunStatus::Completed, "{run:?}");
    assert!(run.output().contains("found"), "{}", run.output());
    assert_eq!(seen.done(), ["get"]);
    let runs = agent.list().await.unwrap();
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().any(|child| child.parent_run_id == run.id));
}

/// S2.4: a watch hands on every step once, in order, and the text before it.
#[tokio::test]
async fn s2_4_a_watch_hands_on_every_step() {
    use v1::watch_run_response::Event;
    let agent = clerk(CLERK, SCRIPT, &Shop::default())
        .build()
        .await
        .unwrap();
    let run = agent.start("Refund order A-17").await.unwrap();
    let (mut watch, mut seen, mut text) = (agent.watch(&run, 1), Vec::new(), String::new());
    while let Some(message) = watch.next().await {
        match message.unwrap().event {
            Some(Event::Step(step)) => seen.push(step.sequence),
            Some(Event::Delta(delta)) => text.push_str(&delta.text),
            Some(Event::Withdrawn(_) | Event::FreshStart(_)) | None => {}
        }
    }
    let steps = agent.steps(&run).await.unwrap();
    assert_eq!(seen, (1..=steps.len() as u64).collect::<Vec<_>>());
    let mut later = agent.watch(&run, 3);
    let first = later.next().await.unwrap().unwrap();
    assert!(matches!(first.event, Some(Event::Step(step)) if step.sequence == 3));
}
