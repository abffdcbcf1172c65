//! E-mail, against a server that is one (S8.2).

use std::time::Duration;

use sayso_tests::{Case, Shape, on_runtime, until};
use sayso_wire::v1::{RunStatus, TargetKind};

use crate::receiver::Receiver;
use crate::{WORLD, add, failing, gated, log, target};

async fn with_mail(shape: Shape, scenario: impl AsyncFnOnce(Case, Receiver), replies: &[&str]) {
    let sink = Receiver::smtp(replies);
    let options = WORLD.options().smtp(sink.port());
    scenario(Case::alone(shape, options).await, sink).await;
}

/// S8.2: a letter says what waits and where to decide it; a server that is busy is asked again with
/// the same letter, one that refuses is not; and what went wrong is in the agent's log.
async fn letters(case: Case, sink: Receiver) {
    add(&case, target("ops", TargetKind::Email, "ops@example.org")).await;
    let run = case.begin(&gated("one")).await;
    let held = case.app.held(&run, 1).await.remove(0);
    sink.reached(1).await;
    until("the failure to be in the log", async || {
        (!log(&case, "one").await.is_empty()).then_some(())
    })
    .await;
    case.advance(Duration::from_secs(5)).await;
    let got = sink.reached(2).await;
    assert_eq!(
        got[0]["raw"], got[1]["raw"],
        "each try sends the same letter"
    );
    let letter = &got[1];
    assert_eq!(letter["sender"], "sayso@example.org");
    assert_eq!(letter["recipients"][0], "ops@example.org");
    let header = |name: &str| {
        letter["headers"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        header("subject"),
        "[sayso] one waits for a decision: ledger.append"
    );
    assert_eq!(header("from"), "sayso <sayso@example.org>");
    assert_eq!(header("auto-submitted"), "auto-generated");
    assert_eq!(
        header("message-id"),
        format!("<{}.target.ops@example.org>", held.id)
    );
    let body = letter["body"].as_str().unwrap();
    for part in [
        "ledger.append",
        r#"{"n":1}"#,
        &format!("/approvals/{}", held.id),
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }

    case.deploy(&failing("lost")).await;
    let lost = case.sub.start("lost", "go").await;
    case.sub.until(&lost, RunStatus::Failed).await;
    let got = sink.reached(3).await;
    assert_eq!(got[2]["headers"]["subject"], "[sayso] lost: a run failed");
    let refused = until("the refusal to be in the log", async || {
        let log = log(&case, "lost").await;
        log.into_iter().find(|entry| entry.code == "notify.failed")
    })
    .await;
    assert!(refused.message.contains("550"), "{refused:?}");
    assert!(refused.message.contains("not sent again"), "{refused:?}");
}

const REPLIES: &[&str] = &["451 busy", "250 taken", "550 no such mailbox"];

#[test]
fn s8_2_letters_embedded() {
    on_runtime(with_mail(Shape::Embedded, letters, REPLIES));
}

#[test]
fn s8_2_letters_apart() {
    on_runtime(with_mail(Shape::APART, letters, REPLIES));
}
