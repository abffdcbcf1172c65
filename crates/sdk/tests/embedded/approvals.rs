//! Who decides, and what comes of it.

use std::sync::{Arc, Mutex};

use sayso_sdk::embedded::{Agent, Approver, BuildError, Decision, Journal, RunId, Start};
use sayso_sdk::v1::{self, RunStatus};

use tokio::sync::Notify;

use super::{CLERK, SCRIPT, Shop, clerk, id, kinds, verified};

/// S6.3, S6.14: the callback is given what a reviewer needs, and its principal decides.
#[tokio::test]
async fn s6_14_the_callback_decides_as_its_principal() {
    let (shop, seen) = (Shop::default(), Arc::new(Mutex::new(None)));
    let kept = Arc::clone(&seen);
    let agent = clerk(CLERK, SCRIPT, &shop).on_approval("desk-lead", move |approval| {
        *kept.lock().unwrap() = Some(approval);
        async { Decision::approve().because("she asked nicely") }
    });
    let agent = agent.build().await.unwrap();
    let run = agent
        .run(Start::new("Refund order A-17").by("alice"))
        .await
        .unwrap();
    assert_eq!(
        (run.status(), run.output()),
        (RunStatus::Completed, "Refunded.")
    );
    assert_eq!(shop.done(), ["get", "refund \"A-17\""]);

    let asked: v1::Approval = seen.lock().unwrap().take().unwrap();
    assert_eq!(
        (asked.tool.as_str(), asked.requester.as_str()),
        ("shop.refund_order", "alice")
    );
    assert_eq!(asked.args_json, r#"{"order_id":"A-17","amount":20}"#);
    assert!(asked.summary.contains("A-17"), "{}", asked.summary);
    assert_eq!(
        (asked.rule.as_str(), asked.trust()),
        ("rules#0", v1::Trust::Trusted)
    );
    assert_eq!(asked.task_input, "Refund order A-17");
    let origin = &asked
        .origins
        .iter()
        .find(|origin| origin.pointer == "/order_id")
        .unwrap();
    assert_eq!(origin.from(), v1::OriginKind::Task);
    assert!(asked.expires_at.unwrap().seconds > asked.requested_at.unwrap().seconds);

    let steps = agent.steps(&id(&run)).await.unwrap();
    let approved = steps
        .iter()
        .find(|step| step.r#type == "tool_approved")
        .unwrap();
    assert_eq!(approved.actor, "principal:desk-lead");
    assert!(approved.content_json.contains("she asked nicely"));
    assert!(verified(&agent, &id(&run)).await);
    agent.stop().await;
}

/// S6.14: a denial with its reason is what the model is told.
#[tokio::test]
async fn s6_14_a_denial_is_told_with_its_reason() {
    let shop = Shop::default();
    let agent = clerk(CLERK, SCRIPT, &shop).on_approval("desk-lead", |_| async {
        Ok::<_, String>(Decision::deny("not today"))
    });
    let agent = agent.build().await.unwrap();
    let run = agent.run("Refund order A-17").await.unwrap();
    assert_eq!(run.output(), "I may not.");
    assert_eq!(shop.done(), ["get"]);
    let denied = agent.steps(&id(&run)).await.unwrap();
    let denied = denied
        .iter()
        .find(|step| step.r#type == "tool_denied")
        .unwrap();
    assert!(
        denied.content_json.contains("not today"),
        "{}",
        denied.content_json
    );
}

/// S6.14: without anybody to decide, `ask` is `deny`: nothing waits.
#[tokio::test]
async fn s6_14_without_a_callback_ask_is_deny() {
    let shop = Shop::default();
    let agent = clerk(CLERK, SCRIPT, &shop).build().await.unwrap();
    let run = agent.run("Refund order A-17").await.unwrap();
    assert_eq!(run.status(), RunStatus::Completed);
    assert_eq!(shop.done(), ["get"]);
    let steps = agent.steps(&id(&run)).await.unwrap();
    assert!(steps.iter().all(|step| step.r#type != "awaiting_approval"));
    let denied = steps
        .iter()
        .find(|step| step.r#type == "tool_denied")
        .unwrap();
    assert!(
        denied.content_json.contains("nobody is there to be asked"),
        "{}",
        denied.content_json
    );
    assert!(
        denied.content_json.contains(r#""cause":"rule""#),
        "{}",
        denied.content_json
    );
}

/// S6.10, S6.14: who decides cannot ask, if nobody else decides.
#[tokio::test]
async fn s6_14_the_only_one_who_decides_cannot_ask() {
    let agent = clerk(CLERK, SCRIPT, &Shop::default())
        .on_approval("alice", |_| async { Decision::approve() });
    let agent = agent.build().await.unwrap();
    let refused = agent
        .start(Start::new("Refund A-17").by("alice"))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "approval.own_request");
    assert!(agent.list().await.unwrap().is_empty());
}

/// S6.10, S6.14: of several the requester is not asked; the others are.
#[tokio::test]
async fn s6_14_the_requester_is_never_asked() {
    let shop = Shop::default();
    let agent = clerk(CLERK, SCRIPT, &shop)
        .on_approval("alice", |_| async {
            panic!("it is her own request") as Decision
        })
        .on_approval("bob", |_| async { Decision::approve() });
    let agent = agent.build().await.unwrap();
    let run = agent
        .run(Start::new("Refund order A-17").by("alice"))
        .await
        .unwrap();
    assert_eq!(run.output(), "Refunded.");
    assert!(agent.log().await.unwrap().is_empty());
}

/// S6.4, S6.14: where one of several is enough, the first decision is final, and nothing is said of the
/// one that came too late.
#[tokio::test]
async fn s6_14_of_several_the_first_decides() {
    let shop = Shop::default();
    let (decided, answered) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (hears, says) = (Arc::clone(&decided), Arc::clone(&answered));
    let agent = clerk(CLERK, SCRIPT, &shop)
        .on_approval("bob", |_| async { Decision::approve() })
        .on_approval("carol", move |_| {
            let (hears, says) = (Arc::clone(&hears), Arc::clone(&says));
            async move {
                hears.notified().await;
                says.notify_one();
                Decision::deny("too late")
            }
        });
    let agent = agent.build().await.unwrap();
    let run = agent.run("Refund order A-17").await.unwrap();
    assert_eq!(run.output(), "Refunded.");
    decided.notify_one();
    answered.notified().await;
    agent.stop().await;
    assert!(agent.log().await.unwrap().is_empty());
}

const SHORT: &str = r#"
name: clerk
role: unrestricted
permissions:
  default: allow
  approvalTimeout: 1s
  rules: [{tool: shop.refund_order, action: ask}]
"#;

/// S6.8, S6.14: a callback that panics or fails decides nothing: the call is denied when its time is up,
/// and the agent's log says why.
#[tokio::test]
async fn s6_14_a_callback_that_breaks_decides_nothing() {
    for (why, fails) in [
        ("the callback panicked", false),
        ("the queue is away", true),
    ] {
        let shop = Shop::default();
        let agent = clerk(SHORT, SCRIPT, &shop).on_approval("desk-lead", move |_| async move {
            assert!(fails, "it breaks");
            Err::<Decision, _>("the queue is away")
        });
        let agent = agent.build().await.unwrap();
        let run = agent.run("Refund order A-17").await.unwrap();
        assert_eq!(run.status(), RunStatus::Completed);
        assert_eq!(shop.done(), ["get"]);
        let steps = agent.steps(&id(&run)).await.unwrap();
        let denied = steps
            .iter()
            .find(|step| step.r#type == "tool_denied")
            .unwrap();
        assert!(
            denied.content_json.contains("timeout"),
            "{}",
            denied.content_json
        );
        let log = agent.log().await.unwrap();
        assert_eq!((log.len(), log[0].code.as_str()), (1, "approval.undecided"));
        assert!(log[0].message.contains(why), "{}", log[0].message);
        agent.stop().await;
    }
}

/// S6.14: who decides is named anew with each start of the process. A requester who has become the one
/// who decides is still refused, and nobody is asked.
#[tokio::test]
async fn s6_14_a_requester_who_became_the_approver_is_not_asked() {
    let (folder, shop) = (tempfile::tempdir().unwrap(), Shop::default());
    let journal = || Journal::sqlite(folder.path().join("agent.db"));
    let agent = clerk(SHORT, SCRIPT, &shop)
        .journal(journal())
        .on_approval("desk-lead", |_| async {
            std::future::pending::<Decision>().await
        });
    let agent = agent.build().await.unwrap();
    let run = agent
        .start(Start::new("Refund order A-17").by("alice"))
        .await
        .unwrap();
    held(&agent, &run).await;
    agent.stop().await;
    drop(agent);

    let agent = clerk(SHORT, SCRIPT, &shop)
        .journal(journal())
        .on_approval("alice", |_| async { Decision::approve() });
    let agent = agent.build().await.unwrap();
    let ended = agent.finish(&run).await.unwrap();
    assert_eq!(
        (ended.status(), shop.done()),
        (RunStatus::Completed, vec!["get".to_owned()])
    );
    assert_eq!(agent.log().await.unwrap()[0].code, "approval.nobody");
}

/// Waits until a call of the run is held.
pub(super) async fn held(agent: &Agent, run: &RunId) {
    let mut watch = agent.watch(run, 1);
    while let Some(message) = watch.next().await {
        if message.unwrap().run_status() == RunStatus::AwaitingApproval {
            return;
        }
    }
    panic!("the run has ended");
}

const TWO: &str = r#"
name: clerk
role: unrestricted
permissions:
  default: allow
  rules: [{tool: shop.refund_order, action: ask, approvers: {group: finance, count: 2}}]
"#;

/// S6.12, S6.14: a rule may ask for two of a group; one who is not in it is not asked.
#[tokio::test]
async fn s6_14_several_decide_where_a_rule_says_so() {
    let shop = Shop::default();
    let agent = clerk(TWO, SCRIPT, &shop)
        .on_approval(Approver::new("bob").in_group("finance"), |_| async {
            Decision::approve()
        })
        .on_approval(Approver::new("eve").in_group("finance"), |_| async {
            Decision::approve()
        })
        .on_approval("mallory", |_| async { Decision::deny("not asked") });
    let agent = agent.build().await.unwrap();
    let run = agent
        .run(Start::new("Refund order A-17").by("alice"))
        .await
        .unwrap();
    assert_eq!(run.output(), "Refunded.");
    let kinds = kinds(&agent, &id(&run)).await;
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "vote_cast").count(),
        1,
        "{kinds:?}"
    );
    assert!(verified(&agent, &id(&run)).await);
}

/// S6.12, S6.14: a rule that can never be met is refused when the agent is built.
#[tokio::test]
async fn s6_14_too_few_to_decide_is_refused() {
    let agent = clerk(TWO, SCRIPT, &Shop::default())
        .on_approval(Approver::new("bob").in_group("finance"), |_| async {
            Decision::approve()
        })
        .on_approval("eve", |_| async { Decision::approve() });
    let refused = agent.build().await.unwrap_err();
    assert_eq!(refused.code(), "approver.too_few");
    assert!(matches!(
        refused,
        BuildError::TooFewApprovers {
            needed: 2,
            given: 1,
            ..
        }
    ));
}
