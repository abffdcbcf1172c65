//! Decisions and held calls (S6). The deployments are shared: each test has an agent of its own.

use futures::StreamExt;
use futures::stream;
use sayso_tests::{Bundle, Case, Client, Shape, World, both, code, detail, rounds, until};
use sayso_wire::v1::decision::Target;
use sayso_wire::v1::{ActionStatus, ApprovalStatus, DenyCause, RunStatus, Verdict};
use serde_json::json;

static WORLD: World = World::new(
    &[
        (
            "b01",
            "turns:
  - calls: [{tool: crm.update_contact, args: {record: 1}}]
  - calls: [{tool: crm.update_contact, args: {record: 2}}]
  - text: done",
        ),
        (
            "b02",
            "turns:
  - calls:
      - {tool: ledger.append, args: {n: 1}}
      - {tool: ledger.append, args: {n: 2}}
      - {tool: ledger.append, args: {n: 3}}
  - text: done",
        ),
        (
            "b03",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}, {tool: mail.send, args: {to: a}}]
  - calls: [{tool: ledger.append, args: {n: 2}}]
  - text: done",
        ),
        (
            "b04",
            "turns:
  - calls: [{tool: mail.send, args: {to: a}}]
  - calls: [{tool: mail.send, args: {to: a}}]
  - calls: [{tool: mail.send, args: {to: b}}]
  - text: done",
        ),
        (
            "b06",
            "turns:
  - calls:
      - {tool: create_artifact, args: {name: a.txt, mime_type: text/plain, content: hello}}
      - {tool: ledger.append, args: {n: 1}}
      - {tool: plain.anything, args: {x: 1}}
  - text: done",
        ),
        (
            "one",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        (
            "two",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}, {tool: ledger.append, args: {n: 2}}]
  - text: done",
        ),
    ],
    Shape::Apart {
        executors: 1,
        gateways: 2,
    },
);

/// An agent of this name and tier whose `ledger.append` is gated.
fn gated(name: &str, tier: &str) -> Bundle {
    Bundle::new(name)
        .tier(tier)
        .ledger("ledger", "append")
        .ask("ledger.append")
}

both! {
    /// B01: a decision holds for the call that it names, whatever the run holds by now. A stale
    /// "approve" for a denied call is refused, with the record, and is in the audit log.
    async fn b01_a_decision_never_moves_to_another_call(case: Case) {
        let bundle = Bundle::new("b01").ledger("crm", "update_contact").ask("crm.*");
        let run = case.begin(&bundle).await;
        let first = case.app.held(&run, 1).await.remove(0);
        case.app.deny(&first, "").await;
        let second = case.app.held(&run, 1).await.remove(0);
        assert_ne!(first.id, second.id);

        let stale = case.app.decide(&first.id, Verdict::Approve, "").await.unwrap_err();

        assert_eq!(code(&stale), "approval.already_decided");
        assert_eq!(detail(&stale, "recorded_decision").as_deref(), Some("denied"));
        assert_eq!(detail(&stale, "decided_by").as_deref(), Some("app"));
        assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&second));
        assert_eq!(case.ledger.of(&run), []);
        let refused = case.admin.refusals(&first.id).await;
        assert_eq!(refused.len(), 1, "{refused:#?}");
        assert_eq!(refused[0].actor, "principal:app");
        assert_eq!(refused[0].code, "approval.already_decided");
        case.app.deny(&second, "").await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run), []);
    }

    /// B02: of three held calls of one tool each gets the decision that was meant for it, in one
    /// response or in three, in any order.
    async fn b02_each_decision_lands_on_its_own_call(case: Case) {
        let bundle = gated("b02", "b02");
        let wanted = [(2, Verdict::Approve), (0, Verdict::Deny), (1, Verdict::Approve)];
        for at_once in [true, false] {
            let run = case.begin(&bundle).await;
            let held = case.app.held(&run, 3).await;
            assert_eq!(held.iter().map(|a| a.call_id.as_str()).collect::<Vec<_>>(),
                ["call_1_1", "call_1_2", "call_1_3"]);
            if at_once {
                let decisions = wanted.map(|(at, verdict)| {
                    (Target::ApprovalId(held[at].id.clone()), verdict, "")
                });
                let answer = case.app.respond(&run, decisions.into(), "").await.unwrap();
                assert_eq!(answer.outcomes.len(), 3);
            } else {
                for (at, verdict) in wanted {
                    case.app.decide(&held[at].id, verdict, "").await.unwrap();
                }
            }
            case.completed(&run).await;

            assert_eq!(case.ledger.numbers(&run), [2, 3]);
            let actions = case.app.actions(&run).await;
            let status = |call: &str| actions[call].status();
            assert_eq!(status("call_1_1"), ActionStatus::Rejected);
            assert_eq!(status("call_1_2"), ActionStatus::Executed);
            assert_eq!(status("call_1_3"), ActionStatus::Executed);
            assert_eq!(actions["call_1_1"].denied(), DenyCause::Person);
        }
    }

    /// B03: approving one of two releases that one. The other stays pending and listed while the run
    /// goes on.
    async fn b03_what_is_not_decided_stays_pending(case: Case) {
        let bundle = gated("b03", "b03").ledger("mail", "send").ask("mail.send");
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 2).await;
        let only = (Target::CallId(held[0].call_id.clone()), Verdict::Approve, "");
        case.app.respond(&run, vec![only], "").await.unwrap();

        let held_later = until("the next turn's call to be held", async || {
            let pending = case.app.pending(&run).await;
            pending.into_iter().find(|approval| approval.call_id == "call_2_1")
        }).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
        let pending = case.app.pending(&run).await;
        assert_eq!(pending.len(), 2);
        assert!(pending.contains(&held[1]));
        case.app.approve(&held_later).await;

        case.completed(&run).await;
        let other = case.app.approval(&held[1].id).await.unwrap();
        assert_eq!(other.status(), ApprovalStatus::Closed);
        assert_eq!(other.closed_cause(), DenyCause::RunEnded);
        assert_eq!(case.ledger.of(&run).iter().filter(|entry| entry.tool == "send").count(), 0);
        assert_eq!(case.ledger.of(&run).len(), 2);
    }

    /// B04, S6.6: an approval is for one call. The same tool, even with the same arguments, is asked for
    /// again, and there is nothing but approve and deny to choose from.
    async fn b04_no_approval_covers_a_later_call(case: Case) {
        let bundle = Bundle::new("b04").ledger("mail", "send").ask("mail.send");
        let run = case.begin(&bundle).await;
        let mut seen = Vec::new();
        for executed in 0..3 {
            let approval = case.app.held(&run, 1).await.remove(0);
            assert_eq!(case.ledger.of(&run).len(), executed);
            assert!(!seen.contains(&approval.id));
            case.app.approve(&approval).await;
            seen.push(approval.id);
        }
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run).len(), 3);
        let choices = (1..10).filter_map(|n| Verdict::try_from(n).ok());
        assert_eq!(choices.collect::<Vec<_>>(), [Verdict::Approve, Verdict::Deny]);
    }

    /// B06: whatever kind of tool is denied, its handler is not entered: a built-in, an MCP tool, a
    /// tool that knows nothing of approvals.
    async fn b06_a_denied_tool_of_any_kind_is_not_entered(case: Case) {
        let bundle = gated("b06", "b06")
            .field("builtins", json!(["create_artifact"]))
            .ledger("plain", "anything")
            .ask("*");
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 3).await;
        let decisions = held.iter()
            .map(|approval| (Target::ApprovalId(approval.id.clone()), Verdict::Deny, ""))
            .collect();
        case.app.respond(&run, decisions, "").await.unwrap();
        case.completed(&run).await;

        assert_eq!(case.ledger.of(&run), []);
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("tool_started"), 0);
        assert_eq!(timeline.count("tool_result"), 0);
        for approval in &held {
            let denied = timeline.one("tool_denied", &approval.call_id);
            assert_eq!(denied.content["cause"], "person");
            assert_eq!(denied.actor, "principal:app");
        }
    }

    /// B08: a decision on a held call stands whatever was deployed meanwhile; the new rules hold from
    /// the next run on.
    async fn b08_a_redeploy_does_not_reach_a_run_that_waits(case: Case) {
        let cases = [("allow", Verdict::Deny, 0, 1), ("deny", Verdict::Approve, 1, 0)];
        for (action, verdict, executed, executed_later) in cases {
            let name = format!("b08-{action}");
            let run = case.begin(&gated(&name, "one")).await;
            let held = case.app.held(&run, 1).await.remove(0);
            let changed = Bundle::new(&name)
                .tier("one")
                .ledger("ledger", "append")
                .rule("ledger.append", action);
            case.deploy(&changed).await;
            case.app.decide(&held.id, verdict, "").await.unwrap();
            case.completed(&run).await;
            assert_eq!(case.ledger.of(&run).len(), executed, "{action}");

            let next = case.sub.start(&name, "again").await;
            case.completed(&next).await;
            assert_eq!(case.ledger.of(&next).len(), executed_later, "{action}");
            assert_eq!(case.app.timeline(&next).await.count("tool_blocked"), 0);
        }
    }

    /// B11: of two people who decide at the same moment, through two gateways where there are two,
    /// one is told that it is done and the other what was recorded; the call runs once where approve
    /// won, and there is one rating.
    async fn b11_two_who_decide_at_once(case: Case) {
        let bundle = gated("b11", "one");
        case.deploy(&bundle).await;
        let app2 = case.other_client("app2");
        let round = async |_| {
            let run = case.sub.start("b11", "go").await;
            let held = case.app.held(&run, 1).await.remove(0);
            let (yes, no) = tokio::join!(
                case.app.decide(&held.id, Verdict::Approve, ""),
                app2.decide(&held.id, Verdict::Deny, ""),
            );
            let (approved, refused) = match (yes, no) {
                (Ok(_), Err(refused)) => (true, refused),
                (Err(refused), Ok(_)) => (false, refused),
                other => panic!("one of two is accepted: {other:?}"),
            };
            assert_eq!(code(&refused), "approval.already_decided");
            let recorded = detail(&refused, "recorded_decision");
            assert_eq!(recorded.as_deref(), Some(if approved { "approved" } else { "denied" }));
            case.completed(&run).await;
            assert_eq!(case.ledger.of(&run).len(), usize::from(approved));
            let feedback = case.app.feedback(&run).await;
            assert_eq!(feedback.len(), 1);
            assert_eq!(feedback[0].by, if approved { "app" } else { "app2" });
        };
        stream::iter(0..rounds()).map(round).buffer_unordered(8).collect::<Vec<()>>().await;
    }

    /// B12, S1.4: a cancel closes what waits, in the canceller's name, and nothing can be approved any
    /// more.
    async fn b12_a_cancel_closes_what_waits(case: Case) {
        let run = case.begin(&gated("b12", "two")).await;
        let held = case.app.held(&run, 2).await;
        let cancelled = case.sub.cancel(&run).await.unwrap();
        assert_eq!(cancelled.status(), RunStatus::Cancelled);

        let late = case.app.decide(&held[0].id, Verdict::Approve, "").await.unwrap_err();

        assert!(["run.ended", "approval.already_decided"].contains(&code(&late).as_str()), "{late:?}");
        assert_eq!(case.ledger.of(&run), []);
        for approval in held {
            let closed = case.app.approval(&approval.id).await.unwrap();
            assert_eq!(closed.status(), ApprovalStatus::Closed);
            assert_eq!(closed.closed_cause(), DenyCause::Cancelled);
            assert_eq!(closed.decided_by.as_deref(), Some("sub"));
            assert_eq!(closed.action_status(), ActionStatus::Rejected);
        }
        assert_eq!(case.app.pending(&run).await, []);
        assert_eq!(case.app.feedback(&run).await, []);
    }

    /// B12, S1.4: where cancel and approve race, a call either ran once and is recorded as executed, or
    /// did not run: never after a recorded rejection.
    async fn b12_cancel_and_approve_race(case: Case) {
        case.deploy(&gated("b12r", "one")).await;
        let round = async |_| {
            let run = case.sub.start("b12r", "go").await;
            let held = case.app.held(&run, 1).await.remove(0);
            let (approved, cancelled) = tokio::join!(
                case.app.decide(&held.id, Verdict::Approve, ""),
                case.sub.cancel(&run),
            );
            let ended = until("the run to end with no call open", async || {
                let now = case.sub.run(&run).await;
                (now.ended_at.is_some() && !now.has_open_calls).then_some(now)
            }).await;
            let executed = case.ledger.of(&run).len();
            let action = &case.app.actions(&run).await["call_1_1"];
            match action.status() {
                ActionStatus::Executed => {
                    assert!(approved.is_ok(), "{approved:?}");
                    assert_eq!(executed, 1);
                }
                ActionStatus::Rejected => assert_eq!(executed, 0),
                other => panic!("the action is {other:?}"),
            }
            if cancelled.is_ok() {
                assert_eq!(ended.status(), RunStatus::Cancelled);
            } else {
                assert_eq!(ended.status(), RunStatus::Completed);
            }
        };
        stream::iter(0..rounds()).map(round).buffer_unordered(8).collect::<Vec<()>>().await;
    }

    /// B15: the same decision by the same person, sent five times, some at once, is one decision.
    async fn b15_the_same_decision_again_is_answered_with_the_record(case: Case) {
        let run = case.begin(&gated("b15", "one")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let send = || case.app.decide(&held.id, Verdict::Approve, "");
        let at_once = futures::future::join_all([send(), send(), send()]).await;
        let after = [send().await, send().await];
        let answers: Vec<_> = at_once.into_iter().chain(after)
            .map(|answer| answer.expect("the same again is no error").outcome.unwrap())
            .collect();
        assert!(answers.iter().all(|outcome| outcome.verdict() == Verdict::Approve));
        assert_eq!(answers.iter().filter(|outcome| !outcome.already_recorded).count(), 1);

        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
        assert_eq!(case.app.timeline(&run).await.count("tool_approved"), 1);
        assert_eq!(case.app.feedback(&run).await.len(), 1);
    }
}

/// B10: what runs is what was reviewed.
mod b10_altered_arguments {
    use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

    use super::*;

    async fn alter(case: &Case, sql: &str) {
        let sql = sql.to_owned();
        let changed = if case.database().starts_with("sqlite") {
            let mut database = SqliteConnection::connect(case.database()).await.unwrap();
            sqlx::query(AssertSqlSafe(sql))
                .execute(&mut database)
                .await
                .unwrap()
                .rows_affected()
        } else {
            let mut database = PgConnection::connect(case.database()).await.unwrap();
            sqlx::query(AssertSqlSafe(sql))
                .execute(&mut database)
                .await
                .unwrap()
                .rows_affected()
        };
        assert_eq!(changed, 1);
    }

    both! {
        /// B10: altered in the timeline after the approval was raised, the call never runs, with
        /// these arguments or others, and the timeline says where it was altered.
        async fn b10_in_the_timeline(case: Case) {
            let run = case.begin(&gated("b10", "one")).await;
            let held = case.app.held(&run, 1).await.remove(0);
            let step = case.app.timeline(&run).await.one("tool_call", "call_1_1").sequence;
            alter(&case, &format!(
                r#"UPDATE steps SET content = REPLACE(content, '{{\"n\":1}}', '{{\"n\":2}}') WHERE run = '{run}' AND seq = {step}"#
            )).await;

            let decided = case.app.decide(&held.id, Verdict::Approve, "").await;

            if decided.is_ok() {
                let ended = until("the run to end", async || {
                    let now = case.sub.run(&run).await;
                    now.ended_at.is_some().then_some(now)
                }).await;
                let action = &case.app.actions(&run).await["call_1_1"];
                assert_eq!(action.status(), ActionStatus::Failed, "{ended:?} {action:?}");
            }
            let verified = case.app.verify(&run).await.result.unwrap();
            let sayso_wire::v1::verify_run_response::Result::Broken(broken) = verified else {
                panic!("the chain is broken");
            };
            assert_eq!(broken.sequence, step);
            assert_eq!(case.ledger.of(&run), []);
        }

        /// B10: altered in what lists show, the reviewed bytes run and no others.
        async fn b10_in_the_list(case: Case) {
            let run = case.begin(&gated("b10l", "one")).await;
            let held = case.app.held(&run, 1).await.remove(0);
            assert_eq!(held.args_json, r#"{"n":1}"#);
            for table in ["approvals", "actions"] {
                alter(&case, &format!(
                    r#"UPDATE {table} SET args = '{{"n":2}}' WHERE run = '{run}'"#
                )).await;
            }
            case.app.approve(&held).await;
            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);
        }
    }
}

/// B04, B15: what a client is told of a decision; kept beside the others so that a change to it is
/// seen.
async fn outcome(client: &Client, approval: &str) -> (String, u64) {
    let decided = client
        .decide(approval, Verdict::Approve, "looks right")
        .await
        .unwrap();
    (decided.outcome.unwrap().reason, decided.last_sequence)
}

both! {
    /// S6.4: the answer to a decision has the record and where the run stands.
    async fn a_decision_is_answered_with_the_record(case: Case) {
        let run = case.begin(&gated("record", "one")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let (reason, sequence) = outcome(&case.app, &held.id).await;
        assert_eq!(reason, "looks right");
        assert!(sequence > held.sequence);
        case.completed(&run).await;
        let shown = case.app.approval(&held.id).await.unwrap();
        assert_eq!(shown.status(), ApprovalStatus::Approved);
        assert_eq!(shown.decision_reason.as_deref(), Some("looks right"));
        assert_eq!(shown.action_status(), ActionStatus::Executed);
    }
}
