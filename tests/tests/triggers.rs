//! Schedules and webhooks (S8.5, S5.7, S6.10).

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::StatusCode;
use sayso_tests::{Bundle, Case, Options, Shape, code, on_runtime, until};
use sayso_wire::v1::{
    ListAgentLogsRequest, ListRunsRequest, Run, Scope, StartSource, Trust, Verdict,
};
use serde_json::{Value, json};
use sha2::Sha256;

const SCRIPT: &str = "turns: [{text: done}]";
const GATED: &str = "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done";
const HOUR: Duration = Duration::from_secs(60 * 60);

/// A deployment's clock, moved by the hour. It stands at a quarter past, so that no schedule of
/// every hour, in a zone of half an hour's offset either, comes to a tick by itself while a test runs.
struct Clock {
    quarter_past: Duration,
}

impl Clock {
    async fn of(case: &Case) -> Self {
        let into = u64::try_from(now()).expect("a time after 1970") % HOUR.as_secs();
        let quarter_past = Duration::from_secs(HOUR.as_secs() + 15 * 60 - into);
        case.advance(quarter_past).await;
        Self { quarter_past }
    }

    /// So many hours after it was made.
    async fn hours(&self, case: &Case, hours: u32) {
        case.advance(self.quarter_past + HOUR * hours).await;
    }
}

fn options() -> Options {
    Options::new()
        .script("one", SCRIPT)
        .script("gated", GATED)
        .secret("ORDERS", "s3cret-of-orders")
}

fn agent(name: &str, triggers: Value) -> Bundle {
    Bundle::new(name).tier("one").field("triggers", triggers)
}

/// Runs a scenario in one process and in services apart, each in a deployment of its own.
fn on_both(scenario: impl AsyncFn(Case)) {
    for shape in [Shape::Embedded, Shape::APART] {
        on_runtime(async { scenario(Case::alone(shape, options()).await).await });
    }
}

async fn runs_of(case: &Case, agent: &str) -> Vec<Run> {
    let request = ListRunsRequest {
        agent: agent.into(),
        page_size: 500,
        ..ListRunsRequest::default()
    };
    let listed = case.admin.runs().list_runs(request).await;
    listed.expect("runs can be listed").into_inner().runs
}

/// Waits until an agent has so many runs, and looks that it has no more.
async fn runs(case: &Case, agent: &str, count: usize) -> Vec<Run> {
    let runs = until(&format!("{count} runs of {agent}"), async || {
        let runs = runs_of(case, agent).await;
        (runs.len() >= count).then_some(runs)
    })
    .await;
    assert_eq!(runs.len(), count, "{runs:#?}");
    runs
}

/// S8.5, S5.7, S6.10: each tick starts one run, as whoever deployed the schedule, trusted.
#[test]
fn s8_5_each_tick_of_a_schedule_starts_one_run() {
    on_both(async |case: Case| {
        let schedule = json!([{"cron": "0 * * * *", "input": "Check the stock"}]);
        let clock = Clock::of(&case).await;
        case.deploy(&agent("clerk", schedule)).await;
        for hour in 1..=4u32 {
            clock.hours(&case, hour).await;
            runs(&case, "clerk", hour as usize).await;
        }
        for run in runs_of(&case, "clerk").await {
            assert_eq!(run.source(), StartSource::Cron);
            assert_eq!(run.trigger, "0 * * * * UTC");
            assert_eq!(run.trust(), Trust::Trusted);
            assert_eq!(
                (run.requester.as_str(), run.input.as_str()),
                ("admin", "Check the stock")
            );
            case.completed(&run.id).await;
            let timeline = case.sub.timeline(&run.id).await;
            assert_eq!(timeline.0[0].actor, "system");
            let tick = &timeline.0[0].content["tick"];
            let due = tick["due_at"].as_i64().expect("a time in microseconds");
            assert_eq!(
                (due % 3_600_000_000, tick["skipped"].as_u64()),
                (0, Some(0)),
                "{tick}"
            );
        }
    });
}

/// B55: one run a tick with three schedulers, one of which is killed every few ticks.
#[test]
fn b55_one_run_a_tick_with_many_schedulers() {
    on_runtime(async {
        let case = Case::alone(Shape::APART, options().more_schedulers(2)).await;
        let schedule = json!([{"cron": "0 * * * *", "input": "x"}]);
        let clock = Clock::of(&case).await;
        case.deploy(&agent("clerk", schedule)).await;
        let schedulers = ["scheduler", "scheduler-1", "scheduler-2"];
        for tick in 1..=30u32 {
            let victim = case.process(schedulers[tick as usize / 4 % 3]);
            if tick % 4 == 0 {
                victim.kill();
            }
            clock.hours(&case, tick).await;
            runs(&case, "clerk", tick as usize).await;
            if tick % 4 == 0 {
                victim.start();
                case.ready().await;
            }
        }
        let mut due = BTreeSet::new();
        for run in runs_of(&case, "clerk").await {
            let timeline = case.sub.timeline(&run.id).await;
            due.insert(timeline.0[0].content["tick"]["due_at"].as_i64());
        }
        assert_eq!(due.len(), 30, "each tick has its run");
    });
}

/// B56: six hours of downtime are one run, which says how many ticks it stands for, and the schedule
/// goes on with the next tick.
#[test]
fn b56_missed_ticks_are_caught_up_once() {
    on_both(async |case: Case| {
        let schedule = json!([{"cron": "0 * * * *", "input": "x"}]);
        let clock = Clock::of(&case).await;
        case.deploy(&agent("clerk", schedule)).await;
        case.kill_all();
        clock.hours(&case, 6).await;
        case.start_all().await;
        let run = runs(&case, "clerk", 1).await.remove(0);
        let timeline = case.sub.timeline(&run.id).await;
        let skipped = timeline.0[0].content["tick"]["skipped"].as_u64();
        assert_eq!(skipped, Some(5));
        clock.hours(&case, 7).await;
        runs(&case, "clerk", 2).await;
    });
}

/// S8.5, S6.10: a redeploy changes what runs, keeps the tick that is due, and ends what is gone. Who
/// stands behind a schedule is who last changed it.
#[test]
fn s8_5_a_redeploy_neither_loses_nor_doubles_a_tick() {
    on_both(async |case: Case| {
        let bob = case
            .admin
            .create_token("bob", "bob", &[Scope::Operator])
            .await;
        let bob = case.client_with(&bob);
        let clock = Clock::of(&case).await;
        let hourly = |input: &str| {
            let trigger =
                json!([{"cron": "0 * * * *", "timezone": "Asia/Kolkata", "input": input}]);
            agent("clerk", trigger)
        };
        case.deploy(&hourly("one")).await;
        clock.hours(&case, 1).await;
        let first = runs(&case, "clerk", 1).await.remove(0);
        assert_eq!(
            (first.input.as_str(), first.requester.as_str()),
            ("one", "admin")
        );

        // The same times: nothing comes twice, and the same schedule stays whose it was.
        let same = hourly("one").field("description", "Another.".into());
        bob.try_deploy(&same.text()).await.expect("deployed");
        clock.hours(&case, 2).await;
        let second = runs(&case, "clerk", 2).await.remove(0);
        assert_eq!(
            (second.input.as_str(), second.requester.as_str()),
            ("one", "admin")
        );
        assert_ne!(second.revision_id, first.revision_id);

        bob.try_deploy(&hourly("two").text())
            .await
            .expect("deployed");
        clock.hours(&case, 3).await;
        let third = runs(&case, "clerk", 3).await.remove(0);
        assert_eq!(
            (third.input.as_str(), third.requester.as_str()),
            ("two", "bob")
        );

        // Gone: another agent's tick shows that the time has passed.
        case.deploy(&agent("clerk", json!([]))).await;
        case.deploy(&agent(
            "other",
            json!([{"cron": "0 * * * *", "input": "x"}]),
        ))
        .await;
        clock.hours(&case, 5).await;
        runs(&case, "other", 1).await;
        runs(&case, "clerk", 3).await;
    });
}

/// What a call is sent with.
#[derive(Debug, Clone, Default)]
struct Call {
    name: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

fn mac(key: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

impl Call {
    fn new(name: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            name,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    fn plain(mut self, key: &str) -> Self {
        let signature = format!("sha256={}", hex::encode(mac(key, &[&self.body])));
        self.headers.push(("x-sayso-signature", signature));
        self
    }

    fn standard(mut self, key: &str, id: &str, at: i64) -> Self {
        let head = format!("{id}.{at}.");
        let signature = STANDARD.encode(mac(key, &[head.as_bytes(), &self.body]));
        self.headers.extend([
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", format!("v1,{signature}")),
        ]);
        self
    }

    async fn send(&self, case: &Case) -> (StatusCode, Value) {
        let url = format!("{}/hooks/default/{}", case.address(0), self.name);
        let request = reqwest::Client::new().post(url).body(self.body.clone());
        let headers = self.headers.iter();
        let request = headers.fold(request, |request, (name, value)| {
            request.header(*name, value)
        });
        let answer = request.send().await.expect("the gateway answers");
        let status = answer.status();
        let text = answer.text().await.expect("an answer has a body");
        (
            status,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        )
    }
}

const KEY: &str = "s3cret-of-orders";

fn now() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    i64::try_from(since.as_secs()).expect("before the sun dies")
}

fn hooks() -> Bundle {
    agent(
        "desk",
        json!([
            {"webhook": "orders", "secret": "ORDERS"},
            {"webhook": "till", "secret": "ORDERS", "trust": "trusted"},
            {"webhook": "unset", "secret": "NOWHERE"},
        ]),
    )
}

async fn started(case: &Case, call: &Call) -> Run {
    let (status, answer) = call.send(case).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    let run = answer["run_id"].as_str().expect("the answer names the run");
    case.completed(run).await
}

/// S8.5, S5.7: a signed call, in either form, starts a run; the body is the input, the trust is the
/// trigger's.
#[test]
fn s8_5_a_signed_call_starts_a_run() {
    on_both(async |case: Case| {
        case.deploy(&hooks()).await;
        let body = "{\"order\": 17,\n \"note\": \"ü\"}";
        let run = started(&case, &Call::new("orders", body).plain(KEY)).await;
        assert_eq!(run.input, body);
        assert_eq!(
            (run.source(), run.trigger.as_str()),
            (StartSource::Webhook, "orders")
        );
        assert_eq!(
            (run.trust(), run.requester.as_str()),
            (Trust::Untrusted, "admin")
        );
        let run = started(
            &case,
            &Call::new("till", body).standard(KEY, "msg_1", now()),
        )
        .await;
        assert_eq!(
            (run.trust(), run.trigger.as_str()),
            (Trust::Trusted, "till")
        );
        let timeline = case.sub.timeline(&run.id).await;
        assert_eq!(timeline.0[0].actor, "system");
        assert_eq!(timeline.0[0].content["source"], "webhook");
        let shown = case
            .sayso_as("sub", ["runs", "show", &run.id])
            .expect_success();
        assert!(
            shown.stdout.contains("webhook till asks desk (trusted)"),
            "{}",
            shown.stdout
        );
    });
}

/// S8.5: the same id starts one run however often and however fast it comes; with another body it is
/// refused.
#[test]
fn s8_5_the_same_id_starts_one_run() {
    on_both(async |case: Case| {
        case.deploy(&hooks()).await;
        let call = Call::new("orders", "one").standard(KEY, "msg_1", now());
        let answers = futures::future::join_all((0..10).map(|_| call.send(&case))).await;
        let runs_named: BTreeSet<String> = answers
            .iter()
            .map(|(status, answer)| {
                assert_eq!(*status, StatusCode::ACCEPTED, "{answer}");
                answer["run_id"].to_string()
            })
            .collect();
        assert_eq!(runs_named.len(), 1);
        let new = answers
            .iter()
            .filter(|(_, answer)| answer["already_started"] == false);
        assert_eq!(new.count(), 1);
        let other = Call::new("orders", "two").standard(KEY, "msg_1", now());
        let (status, answer) = other.send(&case).await;
        assert_eq!(status, StatusCode::CONFLICT);
        assert_eq!(answer["error"]["code"], "request.key_reused");
        // With an id of its own, and to another hook, it is another call.
        started(
            &case,
            &Call::new("orders", "one").standard(KEY, "msg_2", now()),
        )
        .await;
        started(
            &case,
            &Call::new("till", "one").standard(KEY, "msg_1", now()),
        )
        .await;
        runs(&case, "desk", 3).await;
    });
}

/// S8.5: whoever lacks the secret learns nothing, not even which hooks there are.
#[test]
fn s8_5_a_call_that_is_not_signed_is_refused_like_one_of_a_hook_that_is_not() {
    on_both(async |case: Case| {
        case.deploy(&hooks()).await;
        let altered = {
            let mut call = Call::new("orders", "pay 10").plain(KEY);
            call.body = b"pay 99".to_vec();
            call
        };
        let refused = [
            Call::new("orders", "x"),
            Call::new("orders", "x").plain("another key"),
            Call::new("orders", "x").standard("another key", "msg_1", now()),
            altered,
            Call::new("nothing", "x").plain(KEY),
            Call::new("unset", "x").plain(KEY),
            Call::new("UPPER..%2f%00", "x").plain(KEY),
        ];
        let mut answers = BTreeSet::new();
        for call in &refused {
            let (status, answer) = call.send(&case).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{call:?}: {answer}");
            assert_eq!(answer["error"]["code"], "hook.refused", "{call:?}");
            answers.insert(answer.to_string());
        }
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(runs_of(&case, "desk").await, []);
        let request = ListAgentLogsRequest {
            agent: "desk".into(),
            ..ListAgentLogsRequest::default()
        };
        let logs = case.admin.agents().list_agent_logs(request).await;
        let logs = logs.expect("the log can be read").into_inner().entries;
        assert_eq!(logs.len(), 1, "{logs:#?}");
        assert_eq!(logs[0].code, "trigger.secret_missing");
        assert!(logs[0].message.contains("NOWHERE"), "{}", logs[0].message);
    });
}

/// S8.5: an old call is not taken again, by the database's clock; nor one from the future.
#[test]
fn s8_5_a_call_that_was_signed_long_ago_is_refused() {
    on_both(async |case: Case| {
        case.deploy(&hooks()).await;
        for (id, at) in [("msg_1", now() - 301), ("msg_2", now() + 330), ("msg_3", 0)] {
            let (status, answer) = Call::new("orders", "x")
                .standard(KEY, id, at)
                .send(&case)
                .await;
            assert_eq!(status, StatusCode::UNAUTHORIZED);
            assert_eq!(answer["error"]["code"], "hook.expired");
        }
        let call = Call::new("orders", "x").standard(KEY, "msg_4", now());
        case.advance(Duration::from_secs(6 * 60)).await;
        assert_eq!(call.send(&case).await.1["error"]["code"], "hook.expired");
        let ahead = Call::new("orders", "x").standard(KEY, "msg_4", now() + 6 * 60);
        started(&case, &ahead).await;
    });
}

/// S10.5: bodies that cannot be an input are refused with what is wrong; nothing is started.
#[test]
fn s10_5_bodies_that_cannot_be_an_input_are_refused() {
    on_both(async |case: Case| {
        case.deploy(&hooks()).await;
        let mib = 1024 * 1024;
        let cases = [
            (
                vec![b'x'; mib + 1],
                StatusCode::PAYLOAD_TOO_LARGE,
                "request.too_large",
            ),
            (
                b"a\0b".to_vec(),
                StatusCode::BAD_REQUEST,
                "request.invalid_text",
            ),
            (
                vec![0xff, 0xfe],
                StatusCode::BAD_REQUEST,
                "request.invalid_text",
            ),
        ];
        for (body, wanted, code) in cases {
            let (status, answer) = Call::new("orders", body).plain(KEY).send(&case).await;
            assert_eq!((status, &answer["error"]["code"]), (wanted, &json!(code)));
        }
        let url = format!("{}/hooks/default/orders", case.address(0));
        let got = reqwest::get(&url).await.expect("an answer").status();
        assert_eq!(got, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(runs_of(&case, "desk").await, []);
        // It is taken, whatever a model makes of so much.
        let (status, answer) = Call::new("orders", vec![b'x'; mib])
            .plain(KEY)
            .send(&case)
            .await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
    });
}

/// S6.10: behind a triggered run stands whoever changed the trigger; they cannot decide its
/// approvals, and anybody else can.
#[test]
fn s6_10_who_stands_behind_a_trigger_cannot_approve_what_it_started() {
    on_both(async |case: Case| {
        let gated = Bundle::new("desk")
            .tier("gated")
            .ledger("ledger", "append")
            .ask("ledger.append")
            .field(
                "triggers",
                json!([{"webhook": "orders", "secret": "ORDERS"}]),
            );
        case.deploy(&gated).await;
        let (_, answer) = Call::new("orders", "x").plain(KEY).send(&case).await;
        let run = answer["run_id"]
            .as_str()
            .expect("it was started")
            .to_owned();
        let held = case.app.held(&run, 1).await.remove(0);
        assert_eq!(held.requester, "admin");
        let refused = case
            .admin
            .decide(&held.id, Verdict::Approve, "")
            .await
            .unwrap_err();
        assert_eq!(code(&refused), "approval.own_request");
        case.app.approve(&held).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.numbers(&run), [1]);
    });
}

/// S5.11: a webhook's name belongs to one agent of a namespace; a mistake refuses the whole bundle.
#[test]
fn s5_11_triggers_that_cannot_be_are_refused() {
    on_both(async |case: Case| {
        let clock = Clock::of(&case).await;
        case.deploy(&hooks()).await;
        let deploy = async |triggers: Value| {
            let bundle = agent("clerk", triggers).text();
            let refused = case.admin.try_deploy(&bundle).await.unwrap_err();
            assert_eq!(code(&refused), "bundle.invalid", "{refused:?}");
            format!("{refused:?}")
        };
        let taken = json!([
            {"cron": "0 * * * *", "input": "x"},
            {"webhook": "orders", "secret": "ORDERS"},
        ]);
        let refused = deploy(taken).await;
        assert!(refused.contains("bundle.webhook_taken"), "{refused}");
        assert!(refused.contains("triggers[1].webhook"), "{refused}");
        deploy(json!([{"cron": "* * *", "input": "x"}])).await;
        // In another namespace the name is free.
        let foreign = agent("clerk", json!([{"webhook": "orders", "secret": "ORDERS"}]));
        case.foreigner
            .try_deploy(&foreign.text())
            .await
            .expect("deployed");
        // Nothing of the refused bundle is there.
        clock.hours(&case, 2).await;
        case.deploy(&agent(
            "other",
            json!([{"cron": "0 * * * *", "input": "x"}]),
        ))
        .await;
        clock.hours(&case, 4).await;
        runs(&case, "other", 1).await;
        assert_eq!(runs_of(&case, "clerk").await, []);
    });
}
