//! The spending cap (S4.6, B59): what models cost, and the most that they may.

use std::time::Duration;

use sayso_tests::{
    Answer, Bundle, Case, Format, Options, Provider, Shape, code, on_runtime, until,
};
use sayso_wire::v1::{
    EndedBy, GetBudgetRequest, GetBudgetResponse, ListAuditEntriesRequest, RemoveBudgetRequest,
    Run, RunStatus, SetBudgetRequest,
};
use serde_json::{Value, json};
use tonic::Status;

/// Each turn costs 0.30 USD: 100,000 tokens in, none cached, at 3 USD a million.
fn priced(script: &str) -> Value {
    json!({
        "provider": "scripted",
        "script": script,
        "price": {"input": "3.00 USD", "cached": "0.30 USD", "output": "15.00 USD"},
    })
}

const TURN: &str = "usage: {input: 100000, output: 0}";

fn script(turns: usize) -> String {
    let call = format!("  - {{ calls: [{{tool: ledger.append, args: {{n: 1}}}}], {TURN} }}\n");
    let calls: String = (1..turns)
        .map(|n| call.replace("n: 1", &format!("n: {n}")))
        .collect();
    format!("turns:\n{calls}  - {{ text: done, {TURN} }}\n")
}

/// The tier `paid` is a priced scripted model that takes so many turns.
fn options(turns: usize) -> Options {
    let folder = tempfile::tempdir().expect("a folder can be made").keep();
    let path = folder.join("paid.yaml");
    std::fs::write(&path, script(turns)).expect("a script can be written");
    let path = path.display().to_string();
    Options::new()
        .model("paid", priced(&path))
        .tier("paid", &["paid"])
        .script("free", "turns: [{text: done}]")
}

async fn case(shape: Shape, turns: usize) -> Case {
    Case::alone(shape, options(turns)).await
}

const SEVERAL: Shape = Shape::Apart {
    executors: 2,
    gateways: 1,
};

fn on_both(turns: usize, scenario: impl AsyncFn(Case)) {
    for shape in [Shape::Embedded, SEVERAL] {
        on_runtime(async { scenario(case(shape, turns).await).await });
    }
}

fn spender(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("paid")
        .ledger("ledger", "append")
        .allow("ledger.append")
}

async fn set(case: &Case, cap: &str) -> Result<(), Status> {
    let request = SetBudgetRequest { cap: cap.into() };
    case.admin.budgets().set_budget(request).await.map(|_| ())
}

async fn budget(case: &Case) -> GetBudgetResponse {
    let got = case.sub.budgets().get_budget(GetBudgetRequest {}).await;
    got.expect("the budget can be read").into_inner()
}

async fn spent(case: &Case) -> String {
    budget(case).await.budget.expect("there is a cap").spent
}

/// Waits until a run has ended, however.
async fn ended(case: &Case, run: &str) -> Run {
    until(&format!("{run} to end"), async || {
        let run = case.sub.try_run(run).await.ok()?;
        run.ended_at.is_some().then_some(run)
    })
    .await
}

/// Millionths of `1.20 USD`.
fn millionths(amount: &str) -> u64 {
    let number = amount.strip_suffix(" USD").unwrap_or("0.00");
    let (whole, fraction) = number.split_once('.').expect("amounts have a point");
    let digits = format!("{whole}{fraction:0<6}");
    digits.parse().expect("amounts are digits")
}

/// S1.7, S4.6: a run says what it cost, the namespace what was spent; without a cap nothing is
/// limited.
#[test]
fn s4_6_what_models_cost_is_counted_by_run_and_month() {
    on_both(2, async |case: Case| {
        let run = case.begin(&spender("clerk")).await;
        let run = case.completed(&run).await;
        assert_eq!(run.cost, "0.60 USD");
        let free = case.begin(&Bundle::new("free")).await;
        assert_eq!(case.completed(&free).await.cost, "");
        let counted = budget(&case).await;
        assert!(counted.budget.is_none());
        let months: Vec<(&str, u64, u64)> = counted
            .months
            .iter()
            .map(|month| (month.spent.as_str(), month.answers, month.input_tokens))
            .collect();
        assert_eq!(months, [("", 1, 0), ("0.60 USD", 2, 200_000)]);
        let printed = case.sayso_as("sub", ["budget", "ls"]).expect_success();
        assert!(printed.stdout.contains("no cap") && printed.stdout.contains("0.60 USD"));
        let printed = case
            .sayso_as("sub", ["runs", "show", &run.id])
            .expect_success();
        assert!(printed.stdout.contains("0.60 USD"), "{}", printed.stdout);
    });
}

/// S4.6: a run that meets the cap completes with the cap as its output; so does one that starts
/// after; another month, or another cap, lets them run again.
#[test]
fn s4_6_a_run_that_meets_the_cap_completes_and_says_so() {
    on_both(4, async |case: Case| {
        set(&case, "0.50 USD").await.expect("set");
        let run = case.begin(&spender("clerk")).await;
        let stopped = ended(&case, &run).await;
        assert_eq!(
            (stopped.status(), stopped.ended_by()),
            (RunStatus::Completed, EndedBy::SpendingCap)
        );
        assert_eq!(stopped.cost, "0.60 USD");
        let output = stopped.output.expect("it says why");
        for part in ["default", "0.60 USD", "0.50 USD", "resets on "] {
            assert!(output.contains(part), "{output}");
        }
        let timeline = case.sub.timeline(&run).await;
        assert_eq!(
            (
                timeline.count("assistant_message"),
                timeline.count("spending_cap")
            ),
            (2, 1)
        );
        assert_eq!(
            timeline.0.last().map(|step| step.kind.as_str()),
            Some("completion")
        );
        assert_eq!(case.ledger.numbers(&run), [1, 2]);

        let next = case.sub.start("clerk", "go").await;
        let next = ended(&case, &next).await;
        assert_eq!(
            (next.status(), next.ended_by()),
            (RunStatus::Completed, EndedBy::SpendingCap)
        );
        assert_eq!((next.cycles, next.cost.as_str()), (0, ""));
        // A model without a price is refused under a cap that is met, too: it starts nothing.
        assert_eq!(
            code(&case.sub.retry(&run).await.unwrap_err()),
            "run.not_failed"
        );

        set(&case, "100 USD").await.expect("set");
        until("the new cap to count", async || {
            let run = case.sub.start("clerk", "go").await;
            (ended(&case, &run).await.ended_by() == EndedBy::Answer).then_some(())
        })
        .await;
    });
}

/// S4.6: a month is a calendar month in UTC: in the next one everything runs again.
#[test]
fn s4_6_the_cap_resets_with_the_month() {
    on_both(1, async |case: Case| {
        set(&case, "0.10 USD").await.expect("set");
        case.deploy(&spender("clerk")).await;
        let first = case.sub.start("clerk", "go").await;
        assert_eq!(ended(&case, &first).await.ended_by(), EndedBy::Answer);
        let second = case.sub.start("clerk", "go").await;
        assert_eq!(ended(&case, &second).await.ended_by(), EndedBy::SpendingCap);
        let resets = budget(&case)
            .await
            .budget
            .expect("a cap")
            .resets_at
            .expect("a time");
        case.advance(Duration::from_secs(31 * 24 * 60 * 60)).await;
        until("the next month", async || {
            let now = budget(&case).await.budget?;
            (now.resets_at? != resets && now.spent == "0.00 USD").then_some(())
        })
        .await;
        until("a run of the next month", async || {
            let run = case.sub.start("clerk", "go").await;
            (ended(&case, &run).await.ended_by() == EndedBy::Answer).then_some(())
        })
        .await;
    });
}

/// A provider whose streamed answers cost 0.30 USD each: 10 tokens in, at 0.03 a token.
async fn streaming(turns: usize) -> Value {
    let calls = [r#"{"n":1}"#, r#"{"n":2}"#].map(|args| Answer::calls(&[("ledger_append", args)]));
    let answers = calls.into_iter().cycle().take(turns).collect();
    let mut model = Provider::start(Format::OpenAi, answers).await.model();
    model["price"] = json!({"input": "30000.00 USD", "cached": "0 USD", "output": "0 USD"});
    model
}

/// B59: runs that spend at once, half of them on models that stream, pass the cap by no more than the
/// answers in flight, and what was spent is the sum of what was recorded.
#[test]
fn b59_concurrent_runs_pass_the_cap_by_no_more_than_what_is_in_flight() {
    for shape in [Shape::Embedded, SEVERAL] {
        on_runtime(async {
            const RUNS: usize = 10;
            let options = options(19).model("streamed", streaming(19).await);
            let case = Case::alone(shape, options.tier("streamed", &["streamed"])).await;
            set(&case, "1.00 USD").await.expect("set");
            case.deploy(&spender("clerk")).await;
            case.deploy(&spender("streamer").tier("streamed")).await;
            let starts = (0..RUNS).map(|n| {
                let agent = if n % 2 == 0 { "clerk" } else { "streamer" };
                case.sub.start(agent, "go")
            });
            let runs = futures::future::join_all(starts).await;
            let mut sum = 0;
            for run in &runs {
                let run = ended(&case, run).await;
                assert_eq!((run.status(), run.retries), (RunStatus::Completed, 0));
                assert_eq!(run.ended_by(), EndedBy::SpendingCap, "{run:#?}");
                sum += millionths(&run.cost);
            }
            let spent = millionths(&spent(&case).await);
            assert_eq!(
                spent, sum,
                "what was spent is the sum of what the runs cost"
            );
            let most = 1_000_000 + 300_000 * u64::try_from(RUNS).expect("few");
            assert!((1_000_000..=most).contains(&spent), "{spent}");
        });
    }
}

/// S4.6: under a cap a model without a price is not asked; the next of the chain is, or the run
/// fails and says what to do.
#[test]
fn s4_6_under_a_cap_a_model_without_a_price_is_refused() {
    on_both(1, async |case: Case| {
        set(&case, "10 USD").await.expect("set");
        let run = case.begin(&Bundle::new("free")).await;
        let failed = ended(&case, &run).await;
        assert_eq!(failed.status(), RunStatus::Failed);
        let failure = failed.failure.expect("it says why");
        assert_eq!(failure.code, "model.no_price");
        assert!(failure.message.contains("USD"), "{}", failure.message);

        let removed = case
            .admin
            .budgets()
            .remove_budget(RemoveBudgetRequest {})
            .await;
        assert_eq!(removed.expect("removed").into_inner().cap, "10.00 USD");
        until("the cap to be gone", async || {
            let run = case.sub.start("free", "go").await;
            (ended(&case, &run).await.status() == RunStatus::Completed).then_some(())
        })
        .await;
        let again = case
            .admin
            .budgets()
            .remove_budget(RemoveBudgetRequest {})
            .await;
        assert_eq!(code(&again.unwrap_err()), "budget.not_found");
    });
}

/// S4.6, S10.8: 80 % are announced once a month; who changed the cap is written down.
#[test]
fn s4_6_most_of_the_cap_is_announced_once() {
    on_both(1, async |case: Case| {
        assert_eq!(
            code(&set(&case, "ten dollars").await.unwrap_err()),
            "budget.malformed"
        );
        let request = SetBudgetRequest {
            cap: "1 USD".into(),
        };
        let refused = case.sub.budgets().set_budget(request).await.unwrap_err();
        assert_eq!(code(&refused), "token.scope_missing");
        case.sayso_as("admin", ["budget", "set", "1.00", "USD"])
            .expect_success();
        case.deploy(&spender("clerk")).await;
        for run in 1..=3 {
            let run_id = case.sub.start("clerk", "go").await;
            case.completed(&run_id).await;
            if run < 3 {
                assert_eq!(announced(&case).await, 0, "after {run} runs");
            }
        }
        until("the announcement", async || {
            (announced(&case).await == 1).then_some(())
        })
        .await;
        let run = case.sub.start("clerk", "go").await;
        ended(&case, &run).await;
        assert_eq!(announced(&case).await, 1);
        assert_eq!(audited(&case, "budget.set").await, 1);
        case.sayso_as("admin", ["budget", "rm"]).expect_success();
        assert_eq!(audited(&case, "budget.remove").await, 1);
    });
}

async fn announced(case: &Case) -> usize {
    audited(case, "budget.near").await
}

async fn audited(case: &Case, action: &str) -> usize {
    let request = ListAuditEntriesRequest {
        action: action.into(),
        ..ListAuditEntriesRequest::default()
    };
    let listed = case.admin.audit().list_audit_entries(request).await;
    listed
        .expect("the audit log can be read")
        .into_inner()
        .entries
        .len()
}
