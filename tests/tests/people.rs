//! Who may decide (S6.10, S6.11), over gRPC and the command line.

use futures::StreamExt;
use sayso_tests::{Bundle, Case, Shape, World, both, code};
use sayso_wire::v1::watch_approvals_response::Event;
use sayso_wire::v1::{ApprovalStatus, ListApprovalsRequest, Verdict};

static WORLD: World = World::new(
    &[(
        "one",
        "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
    )],
    Shape::APART,
);

fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

const BOTH_WAYS: [Verdict; 2] = [Verdict::Approve, Verdict::Deny];

both! {
    /// B42: nobody decides their own request, in either direction: not with a token that may both
    /// submit and approve, not as an admin, and one that may only submit decides nothing at all. Each
    /// attempt is recorded, and another person's token works.
    async fn b42_nobody_decides_their_own_request_over_grpc(case: Case) {
        case.deploy(&gated("b42")).await;
        for (holder, client) in [("both", &case.both), ("admin", &case.admin)] {
            let run = client.start("b42", "go").await;
            let held = case.app.held(&run, 1).await.remove(0);
            for verdict in BOTH_WAYS {
                let refused = client.decide(&held.id, verdict, "").await.unwrap_err();
                assert_eq!(code(&refused), "approval.own_request", "{holder}: {refused:?}");
                assert_eq!(refused.code(), tonic::Code::PermissionDenied);
            }
            let recorded = case.admin.refusals(&held.id).await;
            assert_eq!(recorded.len(), 2, "{recorded:#?}");
            for entry in recorded {
                assert_eq!(entry.actor, format!("principal:{holder}"));
                assert_eq!(entry.code, "approval.own_request");
            }
            assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&held));
            case.app.approve(&held).await;
            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);
        }
        let run = case.sub.start("b42", "go").await;
        let held = case.app.held(&run, 1).await.remove(0);
        for verdict in BOTH_WAYS {
            let refused = case.sub.decide(&held.id, verdict, "").await.unwrap_err();
            assert_eq!(code(&refused), "token.scope_missing");
        }
        assert_eq!(case.ledger.of(&run), []);
        case.app.deny(&held, "").await;
        case.completed(&run).await;
    }

    /// B42: the same at the command line, which says what to do instead.
    async fn b42_nobody_decides_their_own_request_at_the_command_line(case: Case) {
        case.deploy(&gated("b42c")).await;
        let run = case.both.start("b42c", "go").await;
        let held = case.app.held(&run, 1).await.remove(0);
        for command in ["approve", "deny"] {
            let refused = case.sayso_as("both", [command, &held.id, "--yes"]);
            assert_ne!(refused.code, Some(0), "{}", refused.text());
            assert!(refused.stderr.contains("approval.own_request"), "{}", refused.text());
            assert!(refused.stderr.contains("token create"), "{}", refused.text());
        }
        assert_eq!(case.admin.refusals(&held.id).await.len(), 2);
        assert_eq!(case.ledger.of(&run), []);

        case.sayso_as("app", ["approve", &held.id, "--yes"]).expect_success();

        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
        let decided = case.app.approval(&held.id).await.unwrap();
        assert_eq!(decided.status(), ApprovalStatus::Approved);
        assert_eq!(decided.decided_by.as_deref(), Some("app"));
    }

    /// B43: an approver of another namespace sees nothing of it: it is not listed and not streamed,
    /// and reading and deciding it answer as for an id that does not exist.
    async fn b43_another_namespace_sees_and_decides_nothing(case: Case) {
        let run = case.begin(&gated("b43")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let stranger = &case.foreigner;

        let listed = stranger.approvals().list_approvals(ListApprovalsRequest::default()).await;
        assert_eq!(listed.unwrap().into_inner().approvals, []);
        let mut watched = stranger.watch_approvals("").await.unwrap();
        let first = watched.next().await.unwrap().unwrap().event.unwrap();
        assert!(matches!(&first, Event::SnapshotComplete(snapshot) if snapshot.count == 0), "{first:?}");

        let unknown = "apr_00000000000000000000000000000000";
        let shown = |status: &tonic::Status, id: &str| {
            (status.code(), code(status), status.message().replace(id, "ID"))
        };
        let theirs = stranger.approval(&held.id).await.unwrap_err();
        let nobodys = stranger.approval(unknown).await.unwrap_err();
        assert_eq!(code(&theirs), "approval.not_found");
        assert_eq!(shown(&theirs, &held.id), shown(&nobodys, unknown));
        for verdict in BOTH_WAYS {
            let theirs = stranger.decide(&held.id, verdict, "").await.unwrap_err();
            let nobodys = stranger.decide(unknown, verdict, "").await.unwrap_err();
            assert_eq!(code(&theirs), "approval.not_found");
            assert_eq!(shown(&theirs, &held.id), shown(&nobodys, unknown));
        }
        assert_eq!(code(&stranger.try_run(&run).await.unwrap_err()), "run.not_found");
        assert_eq!(code(&stranger.cancel(&run).await.unwrap_err()), "run.not_found");

        assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&held));
        assert_eq!(case.ledger.of(&run), []);
        case.app.deny(&held, "").await;
        case.completed(&run).await;
    }
}
