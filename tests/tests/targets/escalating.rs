//! Rules that have a target reminded (S6.12).

use std::time::Duration;

use sayso_tests::{Bundle, Case, Shape, alone, until};
use sayso_wire::v1::TargetEvent;
use serde_json::json;

use crate::receiver::{Receiver, told};
use crate::{KEY, WORLD, add, log, signed};

alone! {
    /// S6.12: while nobody decides, the target is reminded after the time, once, also if everything was
    /// restarted meanwhile; the timeline says so, and deploying warns of a target that does not exist,
    /// which the agent's log tells when its time comes.
    async fn s6_12_a_target_is_reminded_after_a_restart(case: Case) {
        case.sayso_reading("admin", ["secret", "set", "RECEIVER_KEY"], KEY).expect_success();
        let receiver = Receiver::http(KEY, &["500"]);
        let mut oncall = signed("oncall", receiver.url());
        oncall.events = vec![TargetEvent::Failures.into()];
        add(&case, oncall).await;
        let bundle = Bundle::new("one").ledger("ledger", "append").permission("rules", json!([{
            "tool": "ledger.append", "action": "ask",
            "escalate": [{"after": "1m", "to": {"target": "oncall"}},
                         {"after": "2m", "to": {"target": "nobody"}}],
        }]));
        let deployed = case.admin.try_deploy(&case.bundle(&bundle)).await.unwrap();
        let warned: Vec<_> = deployed.warnings.iter().map(|warning| warning.code.as_str()).collect();
        assert_eq!(warned, ["bundle.unknown_target"]);
        assert!(deployed.warnings[0].message.contains("sayso target add nobody"));

        let run = case.sub.start("one", "go").await;
        let held = case.app.held(&run, 1).await.remove(0);
        let decided = case.sub.start("one", "go").await;
        let early = case.app.held(&decided, 1).await.remove(0);
        case.app.approve(&early).await;
        case.completed(&decided).await;
        case.kill_all();
        case.start_all().await;
        assert_eq!(receiver.got().len(), 0);

        case.advance(Duration::from_secs(62)).await;
        receiver.reached(1).await;
        until("the failure to be in the log", async || {
            (!log(&case, "one").await.is_empty()).then_some(())
        })
        .await;
        case.advance(Duration::from_secs(125)).await;
        let got = receiver.reached(2).await;
        for one in &got {
            let told = told(one);
            assert_eq!(told["type"], "approval.escalated");
            assert_eq!(told["approval"]["id"], held.id.as_str());
            assert_eq!(one["headers"]["x-sayso-event"], "approval.escalated");
        }
        assert_eq!(got[0]["body"], got[1]["body"]);
        let missing = until("the unknown target to be in the log", async || {
            let log = log(&case, "one").await;
            log.into_iter().find(|entry| entry.code == "notify.target_missing")
        })
        .await;
        assert!(missing.message.contains("`nobody`"), "{missing:?}");
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("escalated"), 2);
        assert_eq!(case.app.timeline(&decided).await.count("escalated"), 0);
        let open = case.app.approval(&held.id).await.unwrap();
        assert_eq!(open.deciders.unwrap().escalated_to, Vec::<String>::new());
        case.app.approve(&held).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    }
}
