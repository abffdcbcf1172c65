//! Watching a run (S2.4).

use futures::StreamExt;
use sayso_tests::{Bundle, Case, Client, Dice, Options, Shape, on_runtime};
use sayso_wire::v1::watch_run_response::Event;
use sayso_wire::v1::{FreshStart, RunStatus};

const TURNS: usize = 6;
const CALLS: usize = 12;

/// A script of more than 200 steps: three for each call.
fn long_script() -> String {
    let mut script = String::from("turns:\n");
    for turn in 0..TURNS {
        let calls: Vec<_> = (0..CALLS)
            .map(|call| {
                format!(
                    "{{tool: ledger.append, args: {{n: {}}}}}",
                    turn * CALLS + call
                )
            })
            .collect();
        script.push_str(&format!(
            "  - calls: [{}]\n    delay: 50ms\n",
            calls.join(", ")
        ));
    }
    script.push_str("  - text: done\n");
    script
}

/// The next steps of a stream from `from` on, at most `limit`; whether the stream has ended.
async fn read(client: &Client, run: &str, from: u64, limit: usize) -> (Vec<u64>, bool) {
    let mut stream = client
        .watch(run, from)
        .await
        .expect("the run can be watched");
    let mut seen = Vec::new();
    while seen.len() < limit {
        match stream.next().await {
            None => return (seen, true),
            Some(message) => match message.expect("the stream does not break").event {
                Some(Event::Step(step)) => seen.push(step.sequence),
                Some(Event::FreshStart(fresh)) => panic!("{from} exists: {fresh:?}"),
                Some(Event::Delta(_) | Event::Withdrawn(_)) | None => {}
            },
        }
    }
    (seen, false)
}

/// B52: a watcher that is cut off ten times at random, while the run works, and comes back with what
/// it saw last, sees each of more than 200 steps once and in order. Afterwards the finished run gives
/// the rest and ends the stream; a position that does not exist gives a marked fresh start.
fn cut_off(shape: Shape) {
    on_runtime(async {
        let case = Case::alone(shape, Options::new().script("b52", &long_script())).await;
        let seed = uuid::Uuid::now_v7().as_u128() as u64;
        println!("seed {seed}");
        let mut dice = Dice::new(seed);
        let bundle = Bundle::new("b52").ledger("ledger", "append").allow("*");
        let run = case.begin(&bundle).await;
        let mut seen: Vec<u64> = Vec::new();
        for _ in 0..10 {
            let next = seen.last().map_or(1, |last| last + 1);
            let (steps, ended) = read(&case.app, &run, next, 1 + dice.roll(35)).await;
            seen.extend(steps);
            assert!(!ended || case.app.run(&run).await.status() == RunStatus::Completed);
        }
        let next = seen.last().map_or(1, |last| last + 1);
        let (rest, ended) = read(&case.app, &run, next, usize::MAX).await;
        assert!(ended);
        seen.extend(rest);
        let last = case.app.run(&run).await.last_sequence;
        assert!(last > 200, "{last} steps");
        assert_eq!(seen, (1..=last).collect::<Vec<_>>());

        // Finished: the rest, then the end.
        let (rest, ended) = read(&case.app, &run, last - 4, usize::MAX).await;
        assert_eq!((rest, ended), ((last - 4..=last).collect(), true));

        // A position that it does not have.
        let mut stream = case.app.watch(&run, last + 1000).await.unwrap();
        let first = stream.next().await.unwrap().unwrap().event;
        let fresh = FreshStart {
            asked_sequence: last + 1000,
            last_sequence: last,
        };
        assert_eq!(first, Some(Event::FreshStart(fresh)));
        let mut again = Vec::new();
        while let Some(message) = stream.next().await {
            if let Some(Event::Step(step)) = message.unwrap().event {
                again.push(step.sequence);
            }
        }
        assert_eq!(again, (1..=last).collect::<Vec<_>>());
    });
}

#[test]
fn b52_a_watcher_sees_each_step_once_embedded() {
    cut_off(Shape::Embedded);
}

#[test]
fn b52_a_watcher_sees_each_step_once_apart() {
    cut_off(Shape::APART);
}

async fn announced(receiver: &sayso_tests::Receiver, approval: &str) {
    sayso_tests::until("the approval to be announced", async || {
        let told = receiver.bodies();
        told.iter()
            .any(|body| body["approval"]["id"] == approval)
            .then_some(())
    })
    .await;
}

/// B17: the second pause of a run reaches whoever has watched since the start, whoever only asks the
/// list, and the bundle's webhook; and the run's status says again that it waits.
fn second_pause(shape: Shape) {
    on_runtime(async {
        let script = "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - calls: [{tool: mail.send, args: {to: a}}]
  - text: done";
        let case = Case::alone(shape, Options::new().script("b17", script)).await;
        let receiver = sayso_tests::Receiver::start().await;
        let bundle = Bundle::new("b17")
            .ledger("ledger", "append")
            .ledger("mail", "send")
            .ask("*")
            .permission("notify", serde_json::json!({"url": receiver.url()}));
        case.deploy(&bundle).await;
        let mut watched = case.app.watch_approvals("").await.unwrap();
        let run = case.sub.start("b17", "go").await;
        let first = case.app.held(&run, 1).await.remove(0);
        // Nothing is sent for what was decided meanwhile (S8.1).
        announced(&receiver, &first.id).await;
        case.app.approve(&first).await;
        let second = case.app.held(&run, 1).await.remove(0);
        assert_eq!(
            (first.tool.as_str(), second.tool.as_str()),
            ("ledger.append", "mail.send")
        );

        let mut requested = Vec::new();
        while requested.len() < 2 {
            use sayso_wire::v1::watch_approvals_response::Event;
            let message = watched.next().await.unwrap().unwrap();
            if let Some(Event::Requested(approval)) = message.event
                && !requested.contains(&approval.id)
            {
                requested.push(approval.id);
            }
        }
        assert_eq!(requested, [first.id.clone(), second.id.clone()]);
        announced(&receiver, &second.id).await;
        case.app.approve(&second).await;
        case.completed(&run).await;
        assert_eq!(case.ledger.of(&run).len(), 2);
    });
}

#[test]
fn b17_the_second_pause_reaches_everybody_embedded() {
    second_pause(Shape::Embedded);
}

#[test]
fn b17_the_second_pause_reaches_everybody_apart() {
    second_pause(Shape::APART);
}
