//! Agents that start agents (S3.6).

use sayso_tests::{Bundle, Case, Options, Shape, World, both, code, on_runtime, until};
use sayso_wire::v1::{
    EndedBy, ListRunsRequest, Run, RunStatus, Scope, StartSource, Trust, Verdict,
};
use serde_json::json;

static WORLD: World = World::new(
    &[
        (
            "asks-one",
            "turns:
  - calls: [{tool: start_agent, args: {agent: helper, input: 'Find A-17'}}]
  - text: 'It says: {{result.start_agent}}'",
        ),
        (
            "asks-gated",
            "turns:
  - calls: [{tool: start_agent, args: {agent: gated, input: 'Do it'}}]
  - text: 'It says: {{result.start_agent}}'",
        ),
        (
            "asks-again",
            "turns:
  - calls: [{tool: start_agent, args: {agent: middle, input: 'Do it'}}]
  - text: done",
        ),
        ("finds", "turns: [{text: 'A-17 is a book'}]"),
        (
            "acts",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 7}}]
  - text: appended",
        ),
        (
            "recurses",
            "turns:
  - calls: [{tool: start_agent, args: {agent: recurses, input: 'Again'}}]
  - text: 'below: {{result.start_agent}}'",
        ),
        (
            "many",
            "turns:
  - calls:
      - {tool: start_agent, args: {agent: gated, input: '1'}}
      - {tool: start_agent, args: {agent: gated, input: '2'}}
      - {tool: start_agent, args: {agent: gated, input: '3'}}
      - {tool: start_agent, args: {agent: gated, input: '4'}}
      - {tool: start_agent, args: {agent: gated, input: '5'}}
      - {tool: start_agent, args: {agent: gated, input: '6'}}
      - {tool: start_agent, args: {agent: gated, input: '7'}}
      - {tool: start_agent, args: {agent: gated, input: '8'}}
      - {tool: start_agent, args: {agent: gated, input: '9'}}
  - text: done",
        ),
        (
            "reads-first",
            "turns:
  - calls: [{tool: web.read, args: {n: 1}}]
  - calls: [{tool: start_agent, args: {agent: careful, input: 'Write'}}]
  - text: done",
        ),
        (
            "asks-careful",
            "turns:
  - calls: [{tool: start_agent, args: {agent: careful, input: 'Write'}}]
  - text: done",
        ),
        (
            "careful",
            "turns:
  - calls:
      - {tool: crm.write, args: {n: 1}}
      - {tool: crm.delete_all, args: {n: 2}}
  - text: done",
        ),
        (
            "asks-reader",
            "turns:
  - calls: [{tool: start_agent, args: {agent: reader, input: 'Read'}}]
  - text: done",
        ),
        (
            "reader",
            "turns:
  - calls: [{tool: web.read, args: {n: 1}}]
  - text: done",
        ),
        (
            "nobody",
            "turns:
  - calls:
      - {tool: start_agent, args: {agent: gone, input: 'Read'}}
      - {tool: start_agent, args: {agent: other, input: 'Read'}}
  - text: done",
        ),
    ],
    Shape::APART,
);

fn starter(name: &str, tier: &str, agents: &[&str]) -> Bundle {
    Bundle::new(name)
        .tier(tier)
        .field("agents", json!(agents))
        .allow("start_agent")
}

fn gated() -> Bundle {
    Bundle::new("gated")
        .tier("acts")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

/// The runs that a run has started, once there are so many.
async fn children(case: &Case, parent: &str, count: usize) -> Vec<Run> {
    until(&format!("{count} children of {parent}"), async || {
        let request = ListRunsRequest {
            parent_run_id: parent.to_owned(),
            ..ListRunsRequest::default()
        };
        let listed = case.admin.runs().list_runs(request).await;
        let runs = listed.expect("runs can be listed").into_inner().runs;
        (runs.len() >= count).then_some(runs)
    })
    .await
}

both! {
    /// S3.6, S1.7: a call of `start_agent` is a run of its own, of the same principal and trust, and its
    /// output is the call's result.
    async fn s3_6_a_childs_output_is_the_calls_result(case: Case) {
        case.deploy(&Bundle::new("helper").tier("finds")).await;
        let run = case.begin(&starter("boss", "asks-one", &["helper"])).await;

        let done = case.completed(&run).await;

        assert_eq!(done.output(), "It says: A-17 is a book");
        let child = children(&case, &run, 1).await.remove(0);
        assert_eq!((child.agent.as_str(), child.input.as_str()), ("helper", "Find A-17"));
        assert_eq!((&child.requester, child.trust()), (&done.requester, done.trust()));
        assert_eq!(child.source(), StartSource::Agent);
        assert_eq!((&child.parent_run_id, &child.root_run_id), (&run, &run));
        assert_eq!((&child.parent_task_id, &child.root_task_id), (&done.task_id, &done.task_id));
        assert_eq!(case.app.timeline(&child.id).await.0[0].actor, "agent:boss");
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.one("child_started", "call_1_1").content["child"], child.id.as_str());
        let finished = timeline.one("child_finished", "call_1_1");
        assert_eq!(finished.content["content"], "A-17 is a book");
        let actions = case.app.actions(&run).await;
        assert_eq!(actions["call_1_1"].status().word(), "executed");
        assert!(case.app.is_verified(&child.id).await);
        let refused = case.sub.retry(&child.id).await.unwrap_err();
        assert_eq!(code(&refused), "run.is_child");
    }

    /// S6.10, S3.6: a child's approvals name the root's principal, who cannot decide them; the parent
    /// waits, as `running`, and goes on.
    async fn s6_10_a_childs_approval_is_its_roots_request(case: Case) {
        case.deploy(&gated()).await;
        let run = case.begin(&starter("boss-gated", "asks-gated", &["gated"])).await;
        let child = children(&case, &run, 1).await.remove(0);
        let approval = case.app.held(&child.id, 1).await.remove(0);
        assert_eq!(approval.requester, case.sub.run(&run).await.requester);
        assert_eq!(case.sub.run(&run).await.status(), RunStatus::Running);
        let approver = [Scope::Approver];
        let own = case.admin.create_token("sub-approver", &approval.requester, &approver).await;
        let refused = case.client_with(&own).decide(&approval.id, Verdict::Approve, "").await.unwrap_err();
        assert_eq!(code(&refused), "approval.own_request");

        case.app.approve(&approval).await;

        assert_eq!(case.completed(&run).await.output(), "It says: appended");
        assert_eq!(case.ledger.numbers(&child.id), [7]);
    }

    /// S1.4: cancelling a run cancels everything below it, and closes what is held there.
    async fn s1_4_cancelling_a_run_cancels_its_tree(case: Case) {
        case.deploy(&gated()).await;
        case.deploy(&starter("middle", "asks-gated", &["gated"])).await;
        let run = case.begin(&starter("top", "asks-again", &["middle"])).await;
        let middle = children(&case, &run, 1).await.remove(0);
        let leaf = children(&case, &middle.id, 1).await.remove(0);
        let approval = case.app.held(&leaf.id, 1).await.remove(0);
        assert_eq!((&leaf.root_run_id, &leaf.parent_run_id), (&run, &middle.id));

        case.sub.cancel(&run).await.expect("a running run can be cancelled");

        for run in [&run, &middle.id, &leaf.id] {
            let cancelled = case.sub.until(run, RunStatus::Cancelled).await;
            assert_eq!(cancelled.ended_by(), EndedBy::Cancelled);
            let timeline = case.app.timeline(run).await;
            assert_eq!(timeline.of("cancelled")[0].actor, "principal:sub");
        }
        let closed = case.app.approval(&approval.id).await.expect("it is still there");
        assert_eq!(closed.status().word(), "closed");
        let late = until("the end of the child is on record", async || {
            let timeline = case.app.timeline(&run).await;
            timeline.has("child_finished", "call_1_1").then_some(timeline)
        })
        .await;
        assert_eq!(late.one("child_finished", "call_1_1").content["ended_by"], "cancelled");
        assert_eq!(case.app.actions(&run).await["call_1_1"].status().word(), "failed");
        assert_eq!(case.ledger.numbers(&leaf.id), [0_i64; 0]);
    }

    /// S3.6: agents start agents five deep, and the deepest is told that it cannot.
    async fn s3_6_agents_start_agents_five_deep(case: Case) {
        let run = case.begin(&starter("recurses", "recurses", &["recurses"])).await;
        let done = case.completed(&run).await;
        assert!(done.output().contains("no run was started"), "{}", done.output());
        let mut depth = 0;
        let mut at = run;
        loop {
            let request = ListRunsRequest { parent_run_id: at.clone(), ..ListRunsRequest::default() };
            let below = case.admin.runs().list_runs(request).await.expect("listed").into_inner().runs;
            match below.into_iter().next() {
                Some(child) => (at, depth) = (child.id, depth + 1),
                None => break,
            }
        }
        assert_eq!(depth, 5);
    }

    /// S3.6: a run has eight live children at most; the ninth call is answered with that.
    async fn s3_6_a_run_has_eight_live_children(case: Case) {
        case.deploy(&gated()).await;
        let run = case.begin(&starter("many", "many", &["gated"])).await;
        let started = children(&case, &run, 8).await;
        for child in &started {
            let approval = case.app.held(&child.id, 1).await.remove(0);
            case.app.approve(&approval).await;
        }
        case.completed(&run).await;
        let timeline = case.app.timeline(&run).await;
        assert_eq!((timeline.count("child_started"), timeline.count("child_finished")), (8, 8));
        let refused = timeline.one("tool_result", "call_1_9").content["content"].to_string();
        assert!(refused.contains("not done yet"), "{refused}");
    }

    /// S3.6: the limit holds for approved calls too, by the time they would start; that is no matter of
    /// the role.
    async fn s3_6_an_approval_does_not_lift_the_limit(case: Case) {
        case.deploy(&gated()).await;
        let asking = Bundle::new("many-asked")
            .tier("many")
            .field("agents", json!(["gated"]))
            .ask("start_agent");
        let run = case.begin(&asking).await;
        for approval in case.app.held(&run, 9).await {
            case.app.approve(&approval).await;
        }
        let refused = until("the ninth to be answered", async || {
            let timeline = case.app.timeline(&run).await;
            timeline.of("tool_result").first().map(|step| (*step).clone())
        })
        .await;
        assert!(refused.content["content"].to_string().contains("not done yet"), "{refused:?}");
        assert_eq!((refused.code.as_str(), refused.content["outcome"].as_str()), ("", Some("invalid_arguments")));
        assert_eq!(children(&case, &run, 8).await.len(), 8);
        case.sub.cancel(&run).await.expect("a running run can be cancelled");
    }

    /// B39, S3.6: a child keeps its own rules however it was started, and is trusted no further than
    /// its parent was.
    async fn b39_a_child_keeps_its_own_rules(case: Case) {
        let below = json!({"tool": "crm.*", "action": "ask", "when": {"trustBelow": "trusted"}});
        let careful = Bundle::new("careful")
            .ledger("crm", "write,delete_all")
            .tool("crm.*", json!({"untrustedOutput": false}))
            .permission("default", "allow".into())
            .permission("rules", json!([{"tool": "*.delete_*", "action": "deny"}, below]));
        case.deploy(&careful).await;
        let direct = case.sub.start("careful", "go").await;
        let by_trusted = case.begin(&starter("trusting", "asks-careful", &["careful"])).await;
        let reader = starter("reading", "reads-first", &["careful"])
            .ledger("web", "read")
            .allow("web.read");
        let by_reader = case.begin(&reader).await;

        let trusted = children(&case, &by_trusted, 1).await.remove(0).id;
        for run in [&direct, &trusted] {
            case.completed(run).await;
            assert_eq!(case.ledger.numbers(run), [1], "it may write, and not delete");
        }
        let lowered = children(&case, &by_reader, 1).await.remove(0);
        assert_eq!(lowered.trust(), Trust::Untrusted);
        let approval = case.app.held(&lowered.id, 1).await.remove(0);
        assert_eq!(approval.tool, "crm.write");
        for run in [&direct, &trusted, &lowered.id] {
            let denied = case.app.timeline(run).await;
            assert_eq!(denied.one("tool_denied", "call_1_2").content["cause"], "rule");
        }
        case.app.deny(&approval, "no").await;
        case.completed(&by_reader).await;
        assert_eq!(case.ledger.numbers(&lowered.id), [0_i64; 0]);
    }

    /// S5.7: what a child has read counts for its parent too.
    async fn s5_7_a_child_that_read_an_outsider_lowers_its_parent(case: Case) {
        let reader = Bundle::new("reader").ledger("web", "read").allow("web.read");
        case.deploy(&reader).await;
        let run = case.begin(&starter("believes", "asks-reader", &["reader"])).await;
        let done = case.completed(&run).await;
        assert_eq!(done.trust(), Trust::Untrusted);
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.one("trust_lowered", "call_1_1").content["tool"], "start_agent");
    }

    /// S3.6: an agent that is not there is an answer to the model; one that the bundle does not name is
    /// no valid argument.
    async fn s3_6_only_agents_that_the_bundle_names_are_started(case: Case) {
        let run = case.begin(&starter("nobody", "nobody", &["gone"])).await;
        case.completed(&run).await;
        let timeline = case.app.timeline(&run).await;
        assert_eq!(timeline.count("child_started"), 0);
        let gone = timeline.one("tool_result", "call_1_1").content["content"].to_string();
        assert!(gone.contains("there is no agent `gone`"), "{gone}");
        let other = timeline.one("tool_result", "call_1_2").content["content"].to_string();
        assert!(other.contains("validation error"), "{other}");
    }
}

/// S3.6, S4.5: a parent that waits survives the death of every process, and its child is started once.
#[test]
fn s3_6_a_waiting_parent_survives_everything() {
    for shape in [Shape::Embedded, Shape::APART] {
        on_runtime(async {
            let options = Options::new()
                .script(
                    "asks-gated",
                    "turns:
  - calls: [{tool: start_agent, args: {agent: gated, input: 'Do it'}}]
  - text: 'It says: {{result.start_agent}}'",
                )
                .script(
                    "acts",
                    "turns:
  - calls: [{tool: ledger.append, args: {n: 7}}]
  - text: appended",
                );
            let case = Case::alone(shape, options).await;
            case.deploy(&gated()).await;
            let run = case.begin(&starter("boss", "asks-gated", &["gated"])).await;
            let child = children(&case, &run, 1).await.remove(0);
            let approval = case.app.held(&child.id, 1).await.remove(0);
            case.kill_all();
            case.start_all().await;
            case.app.approve(&approval).await;
            assert_eq!(case.completed(&run).await.output(), "It says: appended");
            assert_eq!(children(&case, &run, 1).await.len(), 1);
        });
    }
}
