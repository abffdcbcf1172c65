//! Who may do what over MCP: as on every route.

use sayso_tests::{Case, both};
use sayso_wire::v1::{ApprovalStatus, RunStatus};
use serde_json::json;

use crate::balancer::Balancer;
use crate::caller::{Caller, REVISIONS};
use crate::{WORLD, gated};

async fn client(case: &Case, holder: &str, at: usize) -> Caller {
    let url = format!("{}/mcp", case.address(0));
    Caller::connect(&url, &case.token(holder), &REVISIONS[at]).await
}

both! {
    /// S6.13: a client of either revision lists what waits, decides it, and sees what came of it. No
    /// gateway remembers anything of it: each request goes to the next one.
    async fn s6_13_an_approval_is_listed_and_decided_over_mcp(case: Case) {
        case.deploy(&gated("mcp")).await;
        let balancer = Balancer::start(case.addresses(), None).await;
        for revision in REVISIONS {
            let sub = Caller::connect(balancer.url(), &case.token("sub"), &revision).await;
            let started = sub.told("start_run", json!({"agent": "mcp", "input": "go"})).await;
            let run = started["run"]["id"].as_str().unwrap().to_owned();
            let held = case.app.held(&run, 1).await.remove(0);

            let app = Caller::connect(balancer.url(), &case.token("app"), &revision).await;
            let listed = app.told("list_approvals", json!({"agent": "mcp"})).await;
            let shown = &listed["approvals"][0];
            assert_eq!(shown["id"], held.id);
            assert_eq!(shown["tool"], "ledger.append");
            assert_eq!(shown["argsJson"], held.args_json, "the exact bytes (S3.7)");
            assert_eq!(shown["requester"], "sub");
            assert_eq!(app.told("get_run", json!({"id": run})).await["run"]["status"],
                "RUN_STATUS_AWAITING_APPROVAL");
            assert_eq!(case.ledger.of(&run), []);

            let decide = json!({"id": held.id, "decision": "approve", "reason": "fine"});
            let decided = app.told("decide_approval", decide.clone()).await;
            assert_eq!(decided["outcome"]["verdict"], "VERDICT_APPROVE");
            assert_eq!(decided["outcome"]["decidedBy"], "app");

            case.completed(&run).await;
            assert_eq!(case.ledger.numbers(&run), [1]);
            assert_eq!(sub.told("get_run", json!({"id": run})).await["run"]["output"], "done");
            assert_eq!(app.pending(&run).await, [""; 0]);
            let again = app.told("decide_approval", decide).await;
            assert_eq!(again["outcome"]["alreadyRecorded"], true);
            let record = case.app.approval(&held.id).await.unwrap();
            assert_eq!(record.status(), ApprovalStatus::Approved);
            assert_eq!(record.decision_reason.as_deref(), Some("fine"));
            let all = app.told("list_approvals", json!({"run_id": run, "statuses": []})).await;
            assert_eq!(all["approvals"][0]["status"], "APPROVAL_STATUS_APPROVED");
            sub.close().await;
            app.close().await;
        }
        let served = balancer.served();
        assert!(served.iter().all(|count| *count > 8), "{served:?}");
    }

    /// S6.5: a denial over MCP, with its reason, reaches the agent.
    async fn s6_5_a_denial_over_mcp_reaches_the_agent(case: Case) {
        let run = case.begin(&gated("mcp-deny")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let app = client(&case, "app", 1).await;
        let deny = json!({"id": held.id, "decision": "deny", "reason": "not today"});
        app.told("decide_approval", deny).await;
        assert_eq!(case.completed(&run).await.output.as_deref(), Some("was denied"));
        assert_eq!(case.ledger.of(&run), []);
        let approve = json!({"id": held.id, "decision": "approve"});
        let (code, _) = app.refused("decide_approval", approve).await;
        assert_eq!(code, "approval.already_decided");
    }

    /// B42: nobody decides their own request over MCP, in either direction, admin included; each
    /// attempt is on record, and a token that may only submit decides nothing.
    async fn b42_nobody_decides_their_own_request_over_mcp(case: Case) {
        case.deploy(&gated("mcp-b42")).await;
        for (holder, starter) in [("both", &case.both), ("admin", &case.admin)] {
            let run = starter.start("mcp-b42", "go").await;
            let held = case.app.held(&run, 1).await.remove(0);
            let own = client(&case, holder, 1).await;
            for decision in ["approve", "deny"] {
                let decide = json!({"id": held.id, "decision": decision});
                let (code, sentence) = own.refused("decide_approval", decide).await;
                assert_eq!(code, "approval.own_request", "{holder}: {sentence}");
            }
            let recorded = case.admin.refusals(&held.id).await;
            let codes: Vec<&str> = recorded.iter().map(|entry| entry.code.as_str()).collect();
            assert_eq!(codes, ["approval.own_request"; 2]);
            assert_eq!(recorded[0].actor, format!("principal:{holder}"));
            assert_eq!(case.app.pending(&run).await, std::slice::from_ref(&held));
            assert_eq!(case.ledger.of(&run), []);
            let app = client(&case, "app", 0).await;
            let approve = json!({"id": held.id, "decision": "approve"});
            app.told("decide_approval", approve).await;
            case.completed(&run).await;
        }
        let run = case.sub.start("mcp-b42", "go").await;
        let held = case.app.held(&run, 1).await.remove(0);
        let sub = client(&case, "sub", 0).await;
        let approve = json!({"id": held.id, "decision": "approve"});
        let (code, sentence) = sub.refused("decide_approval", approve).await;
        assert_eq!(code, "token.scope_missing");
        assert!(sentence.contains("approver"), "{sentence}");
        assert_eq!(case.ledger.of(&run), []);
    }

    /// B43: for an approver of another namespace there is nothing: not listed, not to be decided, and
    /// answered as an id that nobody has.
    async fn b43_another_namespaces_approvals_do_not_exist_over_mcp(case: Case) {
        let run = case.begin(&gated("mcp-b43")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        for at in [0, 1] {
            let foreigner = client(&case, "foreigner", at).await;
            assert_eq!(foreigner.pending(&run).await, [""; 0]);
            let nobodys = format!("apr_{}", "0".repeat(32));
            let decide = |id: &str| json!({"id": id, "decision": "approve"});
            let other = foreigner.refused("decide_approval", decide(&held.id)).await;
            let none = foreigner.refused("decide_approval", decide(&nobodys)).await;
            assert_eq!(other, none);
            assert_eq!(other.0, "approval.not_found");
            let (code, _) = foreigner.refused("get_run", json!({"id": run})).await;
            assert_eq!(code, "run.not_found");
        }
        assert_eq!(case.app.run(&run).await.status(), RunStatus::AwaitingApproval);
        assert_eq!(case.ledger.of(&run), []);
    }

    /// S10.5: what does not fit is refused with a code.
    async fn s10_5_what_does_not_fit_is_refused_over_mcp(case: Case) {
        for at in [0, 1] {
            let app = client(&case, "app", at).await;
            let refused = [
                ("decide_approval", json!({"id": "apr_1"}), "request.invalid"),
                ("decide_approval", json!({"id": "x", "decision": "approve"}), "request.invalid"),
                ("decide_approval", json!({"id": "x", "decision": "always"}), "request.invalid"),
                ("list_approvals", json!({"page_token": "x"}), "page.malformed"),
                ("list_approvals", json!({"everyone": true}), "request.invalid"),
                ("start_run", json!({"agent": "nobody", "input": "x"}), "token.scope_missing"),
                ("get_run", json!({"id": "x"}), "request.invalid"),
            ];
            for (tool, arguments, expected) in refused {
                let (code, sentence) = app.refused(tool, arguments.clone()).await;
                assert_eq!(code, expected, "{tool} {arguments}: {sentence}");
            }
            let sub = client(&case, "sub", at).await;
            let start = json!({"agent": "nobody", "input": "x"});
            let (code, _) = sub.refused("start_run", start).await;
            assert_eq!(code, "agent.not_found");
            let (code, sentence) = app.refused("delete_everything", json!({})).await;
            assert_eq!(code, "tool.not_found");
            assert!(sentence.contains("decide_approval"), "{sentence}");
        }
    }

    /// S6.13: the tools say what they do, and what shape their answers have.
    async fn s6_13_tools_carry_hints_and_shapes(case: Case) {
        for at in [0, 1] {
            let app = client(&case, "app", at).await;
            let tools = app.client().list_all_tools().await.unwrap();
            let hints = |name: &str| {
                let tool = tools.iter().find(|tool| tool.name == name).unwrap();
                assert!(tool.output_schema.is_some(), "{name}");
                let hints = tool.annotations.clone().unwrap();
                (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint)
            };
            assert_eq!(tools.len(), 4);
            assert_eq!(hints("list_approvals").0, Some(true));
            assert_eq!(hints("get_run").0, Some(true));
            assert_eq!(hints("decide_approval"), (Some(false), Some(true), Some(true)));
            assert_eq!(hints("start_run"), (Some(false), Some(true), Some(false)));
        }
    }
}
