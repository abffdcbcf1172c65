//! Watching runs (S2.4, B52) and approvals (B17).

use std::time::Duration;

use sayso_bus::Bus;
use sayso_bus::local::LocalConfig;
use sayso_driver::Herald as _;
use sayso_gateway::GatewayConfig;
use sayso_gateway::auth::Scope;
use sayso_run::{Input, RunId};
use sayso_wire::v1;
use sayso_wire::v1::watch_approvals_response::Event as Approvals;
use sayso_wire::v1::watch_run_response::Event;
use tonic::Streaming;

use crate::house::{House, Person, next};

async fn event(stream: &mut Streaming<v1::WatchRunResponse>) -> Option<Event> {
    let message = next(stream).await?.expect("no error");
    Some(message.event.expect("an event"))
}

/// The numbers of the steps up to the end of the stream.
async fn steps(stream: &mut Streaming<v1::WatchRunResponse>) -> Vec<u64> {
    let mut seen = Vec::new();
    while let Some(event) = event(stream).await {
        match event {
            Event::Step(step) => seen.push(step.sequence),
            other => panic!("only steps come: {other:?}"),
        }
    }
    seen
}

/// A run of about 200 steps, made while others look on.
async fn long_run(house: &House, run: &RunId) {
    house.begin(run).await;
    for cycle in 0..9 {
        let args: Vec<String> = (0..7)
            .map(|n| format!("{{\"n\":{}}}", cycle * 10 + n))
            .collect();
        let calls: Vec<(&str, &str)> = args
            .iter()
            .map(|args| ("shop.get", args.as_str()))
            .collect();
        house.answer(run, "Looking.", &calls).await;
        house.allow(run).await;
        house.results(run).await;
    }
    house.answer(run, "Done.", &[]).await;
}

/// A small number from a seed: the same for the same seed.
fn random(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// B52: a watcher that is cut ten times at random sees each of 200 steps once, in order; reconnecting
/// after the end gives the rest, then ends.
#[tokio::test]
async fn b52_a_watcher_that_is_cut_sees_every_step_once() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    let mut seed = u64::from(std::process::id());
    println!("seed {seed}");
    let (watched, watcher) = (run.clone(), person.clone());
    let watching = tokio::spawn(async move {
        let (mut seen, mut cuts) = (Vec::new(), 0);
        loop {
            let mut stream = watcher.watch(&watched, seen.len() as u64 + 1).await;
            let cut_after = if cuts < 10 {
                random(&mut seed) % 30
            } else {
                u64::MAX
            };
            cuts += 1;
            for _ in 0..cut_after {
                match event(&mut stream).await {
                    Some(Event::Step(step)) => seen.push(step.sequence),
                    Some(other) => panic!("only steps come: {other:?}"),
                    None => return seen,
                }
            }
        }
    });
    long_run(&house, &run).await;
    let seen = watching.await.expect("no panic");
    let last = person.run(&run).await.last_sequence;
    assert!(last >= 200, "{last}");
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());

    assert_eq!(steps(&mut person.watch(&run, 0).await).await, seen);
    assert_eq!(steps(&mut person.watch(&run, last).await).await, [last]);
    assert_eq!(steps(&mut person.watch(&run, last + 1).await).await, [0; 0]);
    assert_eq!(house.gateway.watchers(), (0, 0));
}

/// B52: a position that the run does not have gives a marked fresh start.
#[tokio::test]
async fn b52_an_unknown_position_gives_a_marked_fresh_start() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    house.begin(&run).await;
    house.answer(&run, "Done.", &[]).await;
    let mut stream = person.watch(&run, 700).await;
    let fresh = v1::FreshStart {
        asked_sequence: 700,
        last_sequence: 4,
    };
    assert_eq!(event(&mut stream).await, Some(Event::FreshStart(fresh)));
    assert_eq!(steps(&mut stream).await, [1, 2, 3, 4]);
}

/// S2.4: a bus that loses almost everything costs time, never a step, and a slow watcher is told
/// everything from the database.
#[tokio::test]
async fn s2_4_a_lossy_bus_and_a_slow_watcher_lose_no_step() {
    let bus = LocalConfig {
        feed_capacity: 2,
        ..LocalConfig::default()
    };
    let config = GatewayConfig {
        look_every: Duration::from_millis(100),
        ..GatewayConfig::default()
    };
    let house = House::with(bus, config).await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    let mut streams = [person.watch(&run, 1).await, person.watch(&run, 1).await];
    long_run(&house, &run).await;
    let last = person.run(&run).await.last_sequence;
    for stream in &mut streams {
        assert_eq!(steps(stream).await, (1..=last).collect::<Vec<_>>());
    }
}

/// S2.4: what stands beside the steps: where the run is, always beside the last one.
#[tokio::test]
async fn s2_4_the_last_step_says_where_the_run_is() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let (run, _) = house.gated(&person).await;
    let last = person.run(&run).await.last_sequence;
    let mut stream = person.watch(&run, 1).await;
    for sequence in 1..=last {
        let message = next(&mut stream).await.expect("a step").expect("no error");
        match &message.event {
            Some(Event::Step(step)) => assert_eq!(step.sequence, sequence),
            other => panic!("only steps come: {other:?}"),
        }
        if sequence == last {
            assert_eq!(message.run_status(), v1::RunStatus::AwaitingApproval);
        }
    }
}

/// S2.4: a cancelled run's stream ends once no sent call is open; its late result is still told.
#[tokio::test]
async fn s2_4_a_cancelled_run_is_watched_until_its_sent_calls_answered() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    house.begin(&run).await;
    house.answer(&run, "", &[("shop.get", "{}")]).await;
    house.allow(&run).await;
    let mut stream = person.watch(&run, 1).await;
    let cancel = v1::CancelRunRequest {
        run_id: run.to_string(),
        ..v1::CancelRunRequest::default()
    };
    let cancelled = person
        .runs()
        .cancel_run(cancel)
        .await
        .expect("cancelled")
        .into_inner();
    let cancelled = cancelled.run.expect("a run");
    assert!(cancelled.has_open_calls);
    for sequence in 1..=cancelled.last_sequence {
        match event(&mut stream).await {
            Some(Event::Step(step)) => assert_eq!(step.sequence, sequence),
            other => panic!("only steps come: {other:?}"),
        }
    }
    house.results(&run).await;
    assert_eq!(steps(&mut stream).await, [cancelled.last_sequence + 1]);
    let all: Vec<u64> = (1..=cancelled.last_sequence + 1).collect();
    assert_eq!(
        steps(&mut person.watch(&run, 1).await).await,
        all,
        "a finished one ends at once"
    );
}

/// S2.4: text is told while the model writes it, marked as provisional and withdrawn by a marker;
/// whoever wants steps only gets none of it.
#[tokio::test]
async fn s2_4_provisional_text_and_its_withdrawal_are_told() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    house.begin(&run).await;
    let mut stream = person.watch(&run, 3).await;
    let request = v1::WatchRunRequest {
        run_id: run.to_string(),
        from_sequence: 3,
        steps_only: true,
    };
    let mut quiet = person
        .runs()
        .watch_run(request)
        .await
        .expect("a stream")
        .into_inner();
    let herald = &house.siblings.herald;
    herald.delta(&run, 1, Some("Hel"));
    let delta = |text: &str| {
        Some(Event::Delta(v1::TextDelta {
            cycle: 1,
            text: text.into(),
        }))
    };
    assert_eq!(event(&mut stream).await, delta("Hel"));
    herald.delta(&run, 1, None);
    herald.delta(&run, 1, Some("Good"));
    let withdrawn = Some(Event::Withdrawn(v1::DeltaWithdrawn { cycle: 1 }));
    assert_eq!(event(&mut stream).await, withdrawn);
    assert_eq!(event(&mut stream).await, delta("Good"));
    house.answer(&run, "Goodbye.", &[]).await;
    assert_eq!(steps(&mut stream).await, [3, 4]);
    assert_eq!(steps(&mut quiet).await, [3, 4]);
}

/// A gateway that stops ends its streams and says so; the client goes on elsewhere.
#[tokio::test]
async fn s10_2_streams_end_when_the_gateway_stops() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    let mut stream = person.watch(&run, 2).await;
    house.shutdown.cancel();
    let status = next(&mut stream)
        .await
        .expect("an end")
        .expect_err("an error");
    assert_eq!(crate::house::code(&status), "service.unavailable");
}

async fn approvals(
    person: &Person,
    request: v1::WatchApprovalsRequest,
) -> Streaming<v1::WatchApprovalsResponse> {
    person
        .approvals()
        .watch_approvals(request)
        .await
        .expect("a stream")
        .into_inner()
}

async fn change(stream: &mut Streaming<v1::WatchApprovalsResponse>) -> Approvals {
    let message = next(stream).await.expect("a message").expect("no error");
    message.event.expect("an event")
}

/// B17: a second pause of the same run reaches a watcher of the run, a watcher of the approvals, and
/// the list; the run says again that it waits.
#[tokio::test]
async fn b17_a_second_pause_reaches_everyone() {
    let house = House::new().await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let bob = house.person("shop", "bob", &[Scope::Approver]).await;
    let snapshot = v1::WatchApprovalsRequest {
        snapshot: true,
        ..v1::WatchApprovalsRequest::default()
    };
    let mut inbox = approvals(&bob, snapshot.clone()).await;
    let complete = |count| Approvals::SnapshotComplete(v1::SnapshotComplete { count });
    assert_eq!(change(&mut inbox).await, complete(0));

    let (run, first) = house.gated(&ann).await;
    match change(&mut inbox).await {
        Approvals::Requested(approval) => {
            assert_eq!(approval.id, first);
            assert_eq!(approval.args_json, r#"{"order": "A-17", "amount": 1.10}"#);
            assert_eq!(approval.tool, "shop.refund");
            assert_eq!(approval.requester, "ann");
            assert_eq!(approval.task_input, "Refund order A-17.");
            assert_eq!(approval.rule, "rules#0");
            assert!(!approval.summary.is_empty());
            assert_eq!(approval.digest.len(), 64);
        }
        other => panic!("it is asked for: {other:?}"),
    }
    let mut late = approvals(&bob, snapshot).await;
    assert!(
        matches!(change(&mut late).await, Approvals::Pending(approval) if approval.id == first)
    );
    assert_eq!(change(&mut late).await, complete(1));

    let mut steps = bob.watch(&run, 1).await;
    bob.decide(&first, v1::Verdict::Approve)
        .await
        .expect("decided");
    assert!(
        matches!(change(&mut inbox).await, Approvals::Decided(approval) if approval.id == first)
    );
    house.execute(&run).await;
    house.results(&run).await;
    house.answer(&run, "", &[("shop.close", "{}")]).await;
    house.ask(&run).await;
    let second = match change(&mut inbox).await {
        Approvals::Requested(approval) => approval.id,
        other => panic!("the second is asked for: {other:?}"),
    };
    assert_ne!(second, first);
    let pending = bob.pending().await;
    assert_eq!(
        pending
            .iter()
            .map(|approval| approval.id.as_str())
            .collect::<Vec<_>>(),
        [second.as_str()]
    );
    assert_eq!(
        bob.run(&run).await.status(),
        v1::RunStatus::AwaitingApproval
    );
    let mut pauses = 0;
    while pauses < 2 {
        let message = next(&mut steps).await.expect("a step").expect("no error");
        if let Some(Event::Step(step)) = &message.event
            && step.r#type == "awaiting_approval"
        {
            pauses += 1;
        }
    }

    let cancel = v1::CancelRunRequest {
        run_id: run.to_string(),
        ..v1::CancelRunRequest::default()
    };
    ann.runs().cancel_run(cancel).await.expect("cancelled");
    match change(&mut inbox).await {
        Approvals::Closed(approval) => {
            assert_eq!(approval.closed_cause(), v1::DenyCause::Cancelled);
            assert_eq!(approval.decided_by.as_deref(), Some("ann"));
        }
        other => panic!("it is closed: {other:?}"),
    }
}

/// Where changes may have been lost, watchers of approvals begin anew, behind a mark.
#[tokio::test]
async fn s2_4_lost_changes_give_a_new_snapshot() {
    let bus = LocalConfig {
        feed_capacity: 1,
        ..LocalConfig::default()
    };
    let house = House::with(bus, GatewayConfig::default()).await;
    let ann = house.person("shop", "ann", &[Scope::Submit]).await;
    let bob = house.person("shop", "bob", &[Scope::Approver]).await;
    let of_desk = v1::WatchApprovalsRequest {
        agent: "desk".into(),
        ..v1::WatchApprovalsRequest::default()
    };
    let mut inbox = approvals(&bob, of_desk).await;
    let (_, approval) = house.gated(&ann).await;
    let mut marked = false;
    loop {
        match change(&mut inbox).await {
            Approvals::SnapshotRestarted(_) => marked = true,
            Approvals::Pending(pending) if pending.id == approval => break assert!(marked),
            Approvals::Requested(_) | Approvals::SnapshotComplete(_) => {}
            other => panic!("nothing else happened: {other:?}"),
        }
    }
}

/// S4.5: a run that fails ends its stream with the error, and goes on being watched after a retry.
#[tokio::test]
async fn s2_6_a_failed_run_ends_with_its_error_and_says_what_to_do() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    house.begin(&run).await;
    let mut stream = person.watch(&run, 1).await;
    let fail = |_: &sayso_run::RunState| Input::Fail {
        code: sayso_run::FailureCode::new("run.no_role"),
        message: "desk has no role".into(),
    };
    house.siblings.write(&run, fail).await.expect("failed");
    assert_eq!(steps(&mut stream).await, [1, 2, 3]);
    let failed = person.run(&run).await;
    let failure = failed.failure.clone().expect("a failure");
    assert_eq!(failure.code, "run.no_role");
    assert_eq!(failure.message, "desk has no role");
    assert!(
        failure.advice.contains("Attach a role"),
        "{}",
        failure.advice
    );
    assert_eq!(failed.ended_by(), v1::EndedBy::Error);

    let retry = v1::RetryRunRequest {
        run_id: run.to_string(),
    };
    let retried = person
        .runs()
        .retry_run(retry.clone())
        .await
        .expect("retried")
        .into_inner();
    assert_eq!(retried.run.expect("a run").retries, 1);
    let refused = person
        .runs()
        .retry_run(retry)
        .await
        .expect_err("it has not failed");
    assert_eq!(crate::house::code(&refused), "run.not_failed");
    let mut stream = person.watch(&run, 4).await;
    house.answer(&run, "Done.", &[]).await;
    assert_eq!(steps(&mut stream).await, [4, 5, 6]);
}

/// An event that nobody can read costs nothing but a look.
#[tokio::test]
async fn s2_4_a_broken_event_loses_no_step() {
    let house = House::new().await;
    let person = house.person("shop", "ann", &[Scope::Submit]).await;
    let run = person.start("hello").await;
    let mut stream = person.watch(&run, 1).await;
    assert!(matches!(event(&mut stream).await, Some(Event::Step(step)) if step.sequence == 1));
    let broken = sayso_bus::Event {
        subject: "sayso.events.v1.shop.desk.tools_listed".into(),
        id: format!("{run}:2"),
        headers: vec![
            ("ce-type".into(), "sayso.step.tools_listed.v1".into()),
            ("ce-subject".into(), run.to_string()),
            ("ce-sequence".into(), "00000000000000000002".into()),
        ],
        body: bytes::Bytes::from_static(b"{"),
    };
    house.bus.publish_event(broken).await.expect("published");
    house.begin(&run).await;
    house.answer(&run, "Done.", &[]).await;
    assert_eq!(steps(&mut stream).await, [2, 3, 4]);
}
