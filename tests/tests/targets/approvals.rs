//! What receivers get of approvals and failures, try after try (B48, B50, S8.2).

use std::time::Duration;

use sayso_tests::{Case, Shape, alone, until};
use sayso_wire::v1::{RunStatus, TargetEvent, TargetKind};
use serde_json::Value;

use crate::receiver::{Receiver, told};
use crate::{KEY, ODD, WORLD, add, failing, gated, log, signed, target};

async fn key(case: &Case) {
    let set = case.sayso_reading("admin", ["secret", "set", "RECEIVER_KEY"], KEY);
    set.expect_success();
}

/// What was told of an agent's approvals.
fn about(got: &[Value], agent: &str) -> Vec<Value> {
    let bodies = got.iter().map(told);
    let about =
        bodies.filter(|body| body["approval"]["agent"] == agent || body["run"]["agent"] == agent);
    about.collect()
}

alone! {
    /// S8.2: every agent's approvals and failures go to the targets that take them, each in the form of
    /// its kind; other namespaces have none of them.
    async fn s8_2_targets_get_approvals_and_failures(case: Case) {
        key(&case).await;
        let all = Receiver::http(KEY, &[]);
        let (failures, slack) = (Receiver::http(KEY, &[]), Receiver::http(KEY, &[]));
        add(&case, signed("all", all.url())).await;
        let mut only = signed("failures", failures.url());
        only.events = vec![TargetEvent::Failures.into()];
        add(&case, only).await;
        add(&case, target("slack", TargetKind::Slack, slack.url())).await;
        let elsewhere = Receiver::http(KEY, &[]);
        let foreign = target("elsewhere", TargetKind::Webhook, elsewhere.url());
        case.foreigner.targets().create_target(foreign).await.unwrap();

        case.deploy(&gated("told-one")).await;
        case.deploy(&failing("told-two")).await;
        until("the targets to count", async || {
            let run = case.sub.start("told-one", "go").await;
            case.app.held(&run, 1).await;
            (!about(&all.got(), "told-one").is_empty()).then_some(())
        })
        .await;
        let run = case.sub.start("told-two", "go").await;
        case.sub.until(&run, RunStatus::Failed).await;
        until("the failure to be told", async || {
            let told = about(&all.got(), "told-two");
            (told.len() == 1 && failures.got().len() == 1).then_some(())
        })
        .await;
        let failed = told(&failures.got()[0]);
        assert_eq!(failed["type"], "run.failed");
        assert_eq!(failed["run"]["id"], run.as_str());
        assert_eq!(failed["run"]["code"], "run.no_role");
        let posted = until("Slack to be told of both", async || {
            let got = slack.got().into_iter().map(|got| got["body"].as_str().unwrap().to_owned());
            let got: String = got.collect();
            (got.contains("told-one waits") && got.contains("told-two: a run failed")).then_some(got)
        })
        .await;
        assert!(posted.contains("ledger.append"), "{posted}");
        assert_eq!(elsewhere.got(), Vec::<Value>::new());
    }

    /// B48, B50: an emoji, a combining accent, U+2028, `1.0`, `</x>` and keys out of order: each try and
    /// each retry verifies over the raw body, is the same bytes under the same id, and goes on after
    /// everything was restarted in the middle; the approval stays decidable throughout.
    async fn b48_b50_every_try_verifies_over_the_raw_bytes(case: Case) {
        key(&case).await;
        let receiver = Receiver::http(KEY, &["500", "503"]);
        add(&case, signed("ops", receiver.url())).await;
        let run = case.begin(&gated("odd").tier("odd")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        receiver.reached(1).await;
        case.kill_all();
        case.start_all().await;
        case.advance(Duration::from_secs(40)).await;
        receiver.reached(2).await;
        until("the second failure to be told", async || {
            (log(&case, "odd").await.len() >= 2).then_some(())
        })
        .await;
        case.advance(Duration::from_secs(80)).await;
        let got = receiver.reached(3).await;
        for one in &got {
            assert_eq!(one["body"], got[0]["body"]);
            assert_eq!(one["headers"]["webhook-id"], got[0]["headers"]["webhook-id"]);
            assert_eq!(told(one)["approval"]["id"], held.id.as_str());
        }
        let body = got[0]["body"].as_str().unwrap();
        assert!(body.contains(&format!("\"args\":{ODD},")), "{body}");
        let log = log(&case, "odd").await;
        assert!(log.iter().all(|entry| entry.code == "notify.retrying"), "{log:?}");
        assert!(!format!("{log:?}").contains("secret-path"), "{log:?}");
        case.app.approve(&held).await;
        case.completed(&run).await;
    }

    /// B50: a refusal is final and in the log; the wait of a busy receiver is kept; one that never
    /// answers is not waited for; and nothing is sent for what was decided meanwhile.
    async fn b50_receivers_that_fail(case: Case) {
        key(&case).await;
        let gone = Receiver::http(KEY, &["410"]);
        let busy = Receiver::http(KEY, &["429:30"]);
        let silent = Receiver::http(KEY, &["0"]);
        for (name, receiver) in [("gone", &gone), ("busy", &busy), ("silent", &silent)] {
            add(&case, signed(name, receiver.url())).await;
        }
        let run = case.begin(&gated("one")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        for receiver in [&gone, &busy, &silent] {
            receiver.reached(1).await;
        }
        let said = until("all three to be in the log", async || {
            let log = log(&case, "one").await;
            let of = |name: &str| {
                let name = format!("`{name}`");
                log.iter().find(|entry| entry.message.contains(&name)).cloned()
            };
            of("gone").zip(of("busy")).zip(of("silent"))
        })
        .await;
        let ((refused, waits), late) = said;
        assert_eq!(refused.code, "notify.failed");
        assert!(refused.message.contains("answered 410"), "{refused:?}");
        assert!(waits.message.contains("answered 429"), "{waits:?}");
        assert!(waits.message.contains("in about 30 s"), "{waits:?}");
        assert!(late.message.contains("did not answer in time"), "{late:?}");
        case.app.deny(&held, "no").await;
        case.completed(&run).await;
        case.advance(Duration::from_secs(120)).await;
        let next = case.begin(&gated("one")).await;
        case.app.held(&next, 1).await;
        for receiver in [&gone, &busy, &silent] {
            let got = until("the next approval", async || {
                let got = receiver.got();
                let told = got.iter().map(told).filter(|told| told["approval"]["run_id"] == next.as_str());
                (told.count() == 1).then_some(got)
            })
            .await;
            let first = got.iter().filter(|got| told(got)["approval"]["id"] == held.id.as_str());
            assert!(first.count() <= 2, "{got:#?}");
        }
        assert_eq!(gone.got().len(), 2);
        assert_eq!(busy.got().len(), 2);
    }
}
