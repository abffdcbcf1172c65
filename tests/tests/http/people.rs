//! Who may do what: the same as over gRPC.

use sayso_tests::{Case, both};
use serde_json::json;

use super::{WORLD, gated};
use crate::caller::Caller;

const BOTH_WAYS: [&str; 2] = ["VERDICT_APPROVE", "VERDICT_DENY"];

both! {
    /// B42: nobody decides their own request over HTTP either, in either direction; each attempt is on
    /// record, and another person's token works.
    async fn b42_nobody_decides_their_own_request_over_http(case: Case) {
        case.deploy(&gated("b42h")).await;
        for holder in ["both", "admin"] {
            let own = Caller::of(&case, holder);
            let run = own.start("b42h").await;
            let held = case.app.held(&run, 1).await.remove(0);
            for verdict in BOTH_WAYS {
                let refused = own.decide(&held.id, verdict).await.problem();
                assert_eq!(refused, (403, "approval.own_request".to_owned()), "{holder}");
            }
            let respond = json!({"decisions": [{"approvalId": held.id, "verdict": "VERDICT_APPROVE"}]});
            let refused = own.post(&format!("/v1/runs/{run}:respond"), &respond).await.problem();
            assert_eq!(refused, (403, "approval.own_request".to_owned()), "{holder}");
            let recorded = case.admin.refusals(&held.id).await;
            assert!(recorded.len() >= 2, "{recorded:#?}");
            for entry in recorded {
                assert_eq!(entry.actor, format!("principal:{holder}"));
                assert_eq!(entry.code, "approval.own_request");
            }
            assert_eq!(case.ledger.of(&run), []);

            let decided = Caller::of(&case, "app").decide(&held.id, "VERDICT_APPROVE").await.ok();

            assert_eq!(decided["outcome"]["decidedBy"], "app");
            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);
        }
        let sub = Caller::of(&case, "sub");
        let run = sub.start("b42h").await;
        let held = case.app.held(&run, 1).await.remove(0);
        for verdict in BOTH_WAYS {
            let refused = sub.decide(&held.id, verdict).await.problem();
            assert_eq!(refused, (403, "token.scope_missing".to_owned()));
        }
        assert_eq!(case.admin.refusals(&held.id).await.len(), 2);
        case.app.deny(&held, "").await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run), []);
    }

    /// B43: an approver of another namespace sees nothing of it over HTTP: it is not listed and not
    /// streamed, and reading and deciding it answer as for an id that does not exist.
    async fn b43_another_namespace_sees_and_decides_nothing_over_http(case: Case) {
        let run = case.begin(&gated("b43h")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let stranger = Caller::of(&case, "foreigner");
        let listed = stranger.get("/v1/approvals").await.ok();
        assert_eq!(listed, json!({}));
        let first = stranger.watch("/v1/approvals:watch?snapshot=true", None).await.next().await;
        let first = first.unwrap();
        assert_eq!(first.kind, "snapshotComplete");
        assert_eq!(first.data, json!({"snapshotComplete": {}}));

        let unknown = "apr_00000000000000000000000000000000";
        let masked = |answer: crate::caller::Answer, id: &str| {
            (answer.problem(), answer.text.replace(id, "ID"))
        };
        let read = async |id: &str| {
            masked(stranger.get(&format!("/v1/approvals/{id}")).await, id)
        };
        let theirs = read(&held.id).await;
        assert_eq!(theirs.0, (404, "approval.not_found".to_owned()));
        assert_eq!(theirs, read(unknown).await);
        for verdict in BOTH_WAYS {
            let theirs = masked(stranger.decide(&held.id, verdict).await, &held.id);
            let nobodys = masked(stranger.decide(unknown, verdict).await, unknown);
            assert_eq!(theirs.0, (404, "approval.not_found".to_owned()));
            assert_eq!(theirs, nobodys);
        }
        for path in ["", "/steps", "/actions", ":watch", ":verify"] {
            let refused = stranger.get(&format!("/v1/runs/{run}{path}")).await.problem();
            assert_eq!(refused, (404, "run.not_found".to_owned()), "{path}");
        }
        let cancelled = stranger.post(&format!("/v1/runs/{run}:cancel"), &json!({})).await;
        assert_eq!(cancelled.problem(), (404, "run.not_found".to_owned()));

        assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&held));
        case.app.deny(&held, "").await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run), []);
    }

    /// S6.11: without a token, with one that is none, or with one of another namespace than is named,
    /// nothing is answered, whatever the body.
    async fn s6_11_the_token_comes_first(case: Case) {
        let nobody = Caller::with(&case, "nonsense");
        let refused = nobody.post_text("/v1/runs", "{").await;
        assert_eq!(refused.problem(), (401, "token.invalid".to_owned()));
        assert_eq!(refused.header("www-authenticate"), "Bearer");
        let plain = reqwest::Client::new().get(format!("{}/v1/runs", case.address(0)));
        assert_eq!(Caller::send(plain).await.problem(), (401, "token.missing".to_owned()));
        let app = Caller::of(&case, "app");
        let refused = app.post_text("/v1/runs", "{").await.problem();
        assert_eq!(refused, (403, "token.scope_missing".to_owned()));
        let named = |name: &str| {
            app.request(reqwest::Method::GET, "/v1/runs").header("sayso-namespace", name)
        };
        let refused = Caller::send(named("elsewhere")).await.problem();
        assert_eq!(refused, (403, "token.other_namespace".to_owned()));
        let own = app.get("/v1/runs").await;
        let runs = own.ok();
        if let Some(namespace) = runs["runs"][0]["namespace"].as_str() {
            Caller::send(named(namespace)).await.ok();
        }
    }
}
