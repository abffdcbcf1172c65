//! Decisions that take several people, or members of a group (S6.12).

use std::time::Duration;

use sayso_tests::{Bundle, Case, Client, Shape, World, alone, both, code, until};
use sayso_wire::v1::{
    AddToGroupRequest, Approval, ApprovalStatus, DecisionOutcome, ListApprovalsRequest,
    ListGroupsRequest, RemoveFromGroupRequest, Scope, Verdict,
};
use serde_json::{Value, json};
use sqlx::Connection;

static WORLD: World = World::new(
    &[
        (
            "one",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        (
            "two",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - calls: [{tool: ledger.append, args: {n: 2}}]
  - text: done",
        ),
    ],
    Shape::Apart {
        executors: 1,
        gateways: 2,
    },
);

/// An agent whose call is decided as these fields of its rule say.
fn decided_by(name: &str, fields: Value) -> Bundle {
    let mut rule = json!({"tool": "ledger.append", "action": "ask"});
    for (key, value) in fields.as_object().unwrap() {
        rule[key] = value.clone();
    }
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .permission("rules", json!([rule]))
}

async fn join(case: &Case, group: &str, principal: &str) {
    let request = AddToGroupRequest {
        group: group.into(),
        principal: principal.into(),
    };
    case.admin.groups().add_to_group(request).await.unwrap();
}

async fn begun(case: &Case, bundle: &Bundle) -> (String, Approval) {
    let run = case.begin(bundle).await;
    let held = case.app.held(&run, 1).await.remove(0);
    (run, held)
}

async fn vote(
    client: &Client,
    held: &Approval,
    verdict: Verdict,
) -> Result<DecisionOutcome, String> {
    let decided = client.decide(&held.id, verdict, "I looked").await;
    let decided = decided.map_err(|refused| code(&refused))?;
    Ok(decided.outcome.expect("what is on record"))
}

/// Somebody changes the database behind everybody's back.
async fn tamper(case: &Case, sql: &'static str) {
    let url = case.database();
    let changed = if url.starts_with("sqlite") {
        let mut database = sqlx::SqliteConnection::connect(url).await.unwrap();
        sqlx::query(sql)
            .execute(&mut database)
            .await
            .unwrap()
            .rows_affected()
    } else {
        let mut database = sqlx::PgConnection::connect(url).await.unwrap();
        sqlx::query(sql)
            .execute(&mut database)
            .await
            .unwrap()
            .rows_affected()
    };
    assert!(changed > 0, "{sql}");
}

async fn approver(case: &Case, name: &str) -> Client {
    let token = case
        .admin
        .create_token(name, name, &[Scope::Approver])
        .await;
    case.client_with(&token)
}

both! {
    /// S6.12: it takes two of the group; each vote is on the timeline, sealed; the last one decides, and
    /// carries what was said before. Who is not in the group, or votes again, decides nothing.
    async fn s6_12_it_takes_two_of_a_group(case: Case) {
        let third = approver(&case, "third").await;
        for member in ["app", "app2"] {
            join(&case, "finance", member).await;
        }
        let bundle = decided_by("quorum", json!({"approvers": {"group": "finance", "count": 2}}));
        let (run, held) = begun(&case, &bundle).await;
        let deciders = held.deciders.clone().unwrap();
        assert_eq!((deciders.group.as_str(), deciders.needed), ("finance", 2));

        assert_eq!(vote(&third, &held, Verdict::Approve).await.unwrap_err(), "approval.not_in_group");
        assert_eq!(vote(&third, &held, Verdict::Deny).await.unwrap_err(), "approval.not_in_group");
        let first = vote(&case.app, &held, Verdict::Approve).await.unwrap();
        assert_eq!((first.votes, first.votes_needed, first.decided_by.as_str()), (1, 2, ""));
        let again = vote(&case.app, &held, Verdict::Approve).await.unwrap();
        assert!(again.already_recorded, "{again:?}");
        assert_eq!(vote(&case.app, &held, Verdict::Deny).await.unwrap_err(), "approval.voted_before");
        assert_eq!(case.ledger.of(&run), []);
        let pending = case.app.approval(&held.id).await.unwrap();
        assert_eq!(pending.status(), ApprovalStatus::Pending);
        assert_eq!(pending.deciders.unwrap().voters, ["app"]);
        let sealed = format!("{:?}", case.app.timeline(&run).await);
        assert!(sealed.contains("vote_cast") && !sealed.contains("I looked"), "{sealed}");

        let last = vote(&case.app2, &held, Verdict::Approve).await.unwrap();
        assert_eq!((last.votes, last.decided_by.as_str()), (2, "app2"));
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
        let timeline = case.app.timeline(&run).await;
        let approved = &timeline.of("tool_approved")[0].content;
        assert_eq!(approved["votes"][0]["by"], "app", "{approved}");
        assert_eq!(approved["votes"][0]["reason"], "I looked");
        assert!(case.admin.refusals(&held.id).await.len() >= 3);
    }

    /// S6.12: one denial denies, whatever was voted before.
    async fn s6_12_one_denial_denies(case: Case) {
        let bundle = decided_by("veto", json!({"approvers": {"count": 2}}));
        let (run, held) = begun(&case, &bundle).await;
        vote(&case.app, &held, Verdict::Approve).await.unwrap();
        let denied = vote(&case.app2, &held, Verdict::Deny).await.unwrap();
        assert_eq!(denied.verdict(), Verdict::Deny);
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run), []);
    }

    /// S6.12: who deployed the revision, and who wrote into the run, can be barred beside the requester,
    /// who always is.
    async fn s6_12_author_and_writers_can_be_barred(case: Case) {
        let both = approver(&case, "reader").await;
        let bundle = decided_by("barred", json!({"approvers": {"exclude": ["author", "writers"]}}));
        let (run, held) = begun(&case, &bundle.tier("two")).await;
        assert_eq!(vote(&case.admin, &held, Verdict::Approve).await.unwrap_err(), "approval.excluded");
        case.app.respond(&run, vec![], "mind the date").await.unwrap();
        for held in case.app.held(&run, 2).await {
            assert_eq!(vote(&case.app, &held, Verdict::Deny).await.unwrap_err(), "approval.excluded");
            vote(&both, &held, Verdict::Approve).await.unwrap();
        }
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1, 2]);
    }

    /// S6.12: membership counts when a vote is cast, and groups are an admin's to change.
    async fn s6_12_membership_counts_at_the_vote(case: Case) {
        let bundle = decided_by("members", json!({"approvers": {"group": "leavers"}}));
        join(&case, "leavers", "app").await;
        let (run, held) = begun(&case, &bundle).await;
        let of_group = ListApprovalsRequest {
            group: "leavers".into(),
            run_id: run.clone(),
            ..ListApprovalsRequest::default()
        };
        let listed = case.app.approvals().list_approvals(of_group).await;
        assert_eq!(listed.unwrap().into_inner().approvals.len(), 1);
        let leaves = RemoveFromGroupRequest { group: "leavers".into(), principal: "app".into() };
        case.admin.groups().remove_from_group(leaves).await.unwrap();
        assert_eq!(vote(&case.app, &held, Verdict::Approve).await.unwrap_err(), "approval.not_in_group");
        case.sayso_as("admin", ["group", "add", "leavers", "app2"]).expect_success();
        let groups = case.sayso_as("app", ["group", "ls"]).expect_success();
        assert!(groups.stdout.contains("leavers"), "{}", groups.text());
        vote(&case.app2, &held, Verdict::Approve).await.unwrap();
        case.completed(&run).await;

        let refused = case.sayso_as("app", ["group", "add", "leavers", "app"]);
        assert!(refused.stderr.contains("token.scope_missing"), "{}", refused.text());
        let unknown = case.sayso_as("admin", ["group", "add", "leavers", "nobody"]);
        assert!(unknown.stderr.contains("group.no_principal"), "{}", unknown.text());
        let theirs = case.foreigner.groups().list_groups(ListGroupsRequest {}).await.unwrap();
        assert_eq!(theirs.into_inner().groups, []);
        assert!(!case.admin.audited("group.remove", "leavers").await.is_empty());
    }

    /// S6.12, B11: two who vote at once, on two gateways, both count, and the call runs once.
    async fn s6_12_votes_cast_at_once_both_count(case: Case) {
        let bundle = decided_by("at-once", json!({"approvers": {"count": 2}}));
        let other = case.other_client("app2");
        case.deploy(&bundle).await;
        for _ in 0..10 {
            let run = case.sub.start("at-once", "go").await;
            let held = case.app.held(&run, 1).await.remove(0);
            let (one, two) = tokio::join!(
                vote(&case.app, &held, Verdict::Approve),
                vote(&other, &held, Verdict::Approve),
            );
            let decided = [one.unwrap(), two.unwrap()];
            let last = decided.iter().filter(|outcome| !outcome.decided_by.is_empty());
            assert_eq!(last.count(), 1, "{decided:?}");
            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);
        }
    }
}

alone! {
    /// S6.12: votes and escalations survive the restart of every process; the group that is let in
    /// decides together with who was there before, and the timeline says when.
    async fn s6_12_votes_and_escalations_survive_restarts(case: Case) {
        for (group, member) in [("clerks", "app"), ("leads", "app2")] {
            join(&case, group, member).await;
        }
        let fields = json!({
            "approvers": {"group": "clerks", "count": 2},
            "escalate": [{"after": "10m", "to": {"group": "leads"}}],
        });
        let (run, held) = begun(&case, &decided_by("escalated", fields)).await;
        vote(&case.app, &held, Verdict::Approve).await.unwrap();
        assert_eq!(vote(&case.app2, &held, Verdict::Approve).await.unwrap_err(), "approval.not_in_group");
        case.kill_all();
        case.start_all().await;
        case.advance(Duration::from_secs(11 * 60)).await;
        until("the escalation", async || {
            let timeline = case.app.timeline(&run).await;
            (timeline.count("escalated") == 1).then_some(())
        })
        .await;
        let open = case.app.approval(&held.id).await.unwrap().deciders.unwrap();
        assert_eq!((open.escalated_to, open.voters), (vec!["leads".to_owned()], vec!["app".to_owned()]));
        vote(&case.app2, &held, Verdict::Approve).await.unwrap();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    }

    /// S6.12: what was said with a vote and was changed in the database decides nothing; neither does
    /// a vote that is not on the timeline.
    async fn s6_12_changed_words_decide_nothing(case: Case) {
        let bundle = decided_by("tampered", json!({"approvers": {"count": 2}}));
        let (run, held) = begun(&case, &bundle).await;
        vote(&case.app, &held, Verdict::Approve).await.unwrap();
        tamper(&case, "UPDATE votes SET reason = 'somebody else'").await;
        assert_eq!(vote(&case.app2, &held, Verdict::Approve).await.unwrap_err(), "approval.broken_vote");
        assert_eq!(case.ledger.of(&run), []);
        tamper(&case, "UPDATE votes SET reason = 'I looked'").await;
        vote(&case.app2, &held, Verdict::Approve).await.unwrap();
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    }
}
