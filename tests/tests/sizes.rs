//! What is large (S3.8, B33).

use std::collections::BTreeMap;

use reqwest::StatusCode;
use reqwest::header::{COOKIE, SET_COOKIE};
use reqwest::redirect::Policy;
use sayso_tests::{Bundle, Case, Options, Shape, code, on_runtime, until};
use sayso_wire::v1::{ListRunStepsRequest, RunStep};
use sqlx::{Connection, PgConnection};
use tonic::Code;
use tonic_types::StatusExt;

const MIB: usize = 1 << 20;

/// A held call with 2 MB of arguments, and one that answers with 3 MB.
fn options() -> Options {
    let note = "x".repeat(2 * MIB);
    let script = format!(
        "turns:
  - calls: [{{tool: ledger.append, args: {{n: 1, note: {note}}}}}]
  - calls: [{{tool: ledger.read, args: {{answer_bytes: {}}}}}]
  - text: done",
        3 * MIB
    );
    Options::new().script("large", &script)
}

/// All steps, a few a page.
async fn paged(case: &Case, run: &str) -> Vec<RunStep> {
    let mut steps = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListRunStepsRequest {
            run_id: run.into(),
            from_sequence: 0,
            page_size: 3,
            page_token,
        };
        let page = case.app.runs().list_run_steps(request).await;
        let page = page.expect("every page loads").into_inner();
        steps.extend(page.steps);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return steps;
        }
    }
}

/// A page as somebody sees it who is logged in.
async fn page(case: &Case, cookie: &str, path: &str) -> String {
    let page = reqwest::Client::new()
        .get(format!("{}{path}", case.address(0)))
        .header(COOKIE, cookie)
        .send()
        .await
        .expect("pages are served");
    assert_eq!(page.status(), StatusCode::OK, "{path}");
    page.text().await.expect("a page is text")
}

async fn logged_in(case: &Case) -> String {
    let browser = reqwest::Client::builder().redirect(Policy::none()).build();
    let form = format!("token={}", case.token("app"));
    let answer = browser
        .expect("a client can be made")
        .post(format!("{}/login", case.address(0)))
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", case.address(0))
        .body(form)
        .send()
        .await
        .expect("the login answers");
    let cookie = answer
        .headers()
        .get(SET_COOKIE)
        .unwrap_or_else(|| panic!("{answer:?}"));
    let cookie = cookie.to_str().expect("a cookie is ASCII");
    cookie.split(';').next().expect("it has a value").to_owned()
}

/// B33: a held call with 2 MB of arguments is shown, decided and run with all of them; 3 MB of a tool's
/// answer are cut with a mark; the approval, the timeline and the pages load; every event goes out; what
/// is too large for the API is refused as too large.
fn large(shape: Shape) {
    on_runtime(async {
        let case = Case::alone(shape, options()).await;
        let bundle = Bundle::new("large")
            .ledger("ledger", "append,read")
            .ask("ledger.append")
            .allow("ledger.read");
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 1).await.remove(0);
        assert!(held.args_json.len() > 2 * MIB);
        let cookie = logged_in(&case).await;
        let shown = page(&case, &cookie, &format!("/approvals/{}", held.id)).await;
        assert!(shown.contains("ledger.append"), "the call is shown");
        case.app.approve(&held).await;
        case.completed(&run).await;

        let entries = case.ledger.of(&run);
        let note = entries[0].args["note"].as_str().map(str::len);
        assert_eq!(note, Some(2 * MIB), "it ran with all of its arguments");
        let steps = paged(&case, &run).await;
        let numbers: Vec<u64> = steps.iter().map(|step| step.sequence).collect();
        let last = case.sub.run(&run).await.last_sequence;
        assert_eq!(numbers, (1..=last).collect::<Vec<_>>());
        let results: BTreeMap<String, (usize, u64, bool)> = steps
            .iter()
            .filter(|step| step.r#type == "tool_result")
            .map(|step| {
                let content: serde_json::Value = serde_json::from_str(&step.content_json).unwrap();
                let text = content["content"].as_str().unwrap();
                let cut = content["cut_bytes"].as_u64().unwrap();
                let call = content["call"].as_str().unwrap();
                (call.to_owned(), (text.len(), cut, text.contains("[cut: ")))
            })
            .collect();
        for call in ["call_1_1", "call_2_1"] {
            let (length, cut, marked) = results[call];
            assert!(length < 300 * 1024 && cut > MIB as u64 && marked, "{call}");
        }
        let shown = page(&case, &cookie, &format!("/runs/{run}")).await;
        assert!(shown.contains("done"), "the timeline is shown");
        everything_is_published(&case, &run).await;

        let huge = case.sub.try_start("large", &"x".repeat(MIB + 1)).await;
        let huge = huge.unwrap_err();
        assert_eq!(
            (huge.code(), code(&huge).as_str()),
            (Code::OutOfRange, "request.too_large")
        );
        let fields = huge.get_details_bad_request().unwrap().field_violations;
        assert!(fields[0].description.contains("1048576"), "{fields:?}");
    });
}

/// The mark of published events reaches the end of the timeline, over the steps that no message can
/// carry.
async fn everything_is_published(case: &Case, run: &str) {
    if case.shape() == Shape::Embedded {
        return;
    }
    let mut database = PgConnection::connect(case.database()).await.unwrap();
    until("every event to be published", async || {
        let lag: i64 = sqlx::query_scalar("SELECT seq - published FROM runs WHERE id = $1")
            .bind(run)
            .fetch_one(&mut database)
            .await
            .unwrap();
        (lag == 0).then_some(())
    })
    .await;
}

#[test]
fn b33_what_is_large_is_cut_with_a_mark_and_stalls_nothing_embedded() {
    large(Shape::Embedded);
}

#[test]
fn b33_what_is_large_is_cut_with_a_mark_and_stalls_nothing_apart() {
    large(Shape::APART);
}
