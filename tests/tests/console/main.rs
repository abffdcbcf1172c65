//! The web pages in a real browser, served by `sayso up`.

mod browser;

use sayso_tests::{Bundle, Case, Options, Shape, on_runtime};

use browser::Browser;

const SCRIPT: &str = "turns:
  - text: I will write it down.
    calls: [{tool: ledger.append, args: {n: 1}}]
  - text: It is written.";

const EDITED: &str = r#"turns:
  - calls: [{tool: ledger.append, args_raw: '{"n":1, "note":"two\nlines", "z":1.10}'}]
  - text: It is written."#;

/// What a person wrote, with markup that must stay text.
const INPUT: &str = "Write 1 into the <b>ledger</b>, please.";

/// S6.13, S2.4: a person logs in, sees a call appear in the inbox without reloading, approves it with
/// a reason, and another tab follows the run to its end. The browser has nothing to complain of: the
/// policy lets all of our own pages work.
#[test]
fn a_person_approves_in_a_browser_and_sees_the_run_complete() {
    on_runtime(async {
        let case = Case::alone(Shape::Embedded, Options::new().script("balanced", SCRIPT)).await;
        let bundle = Bundle::new("page")
            .tier("balanced")
            .ledger("ledger", "append")
            .ask("ledger.append");
        case.deploy(&bundle).await;
        let browser = Browser::start(case.folder()).await;

        log_in(&case, &browser).await;
        let run = see_it_appear(&case, &browser).await;
        approve_beside_the_timeline(&case, &browser, &run).await;
        look_at_it_on_a_phone(&case, &browser, &run).await;

        assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
        assert_eq!(case.ledger.numbers(&run), [1]);
    });
}

/// S6.7: a person changes a value of a call on its page and approves it so; what they did not touch
/// stays as it was, and a form that changes nothing does nothing.
#[test]
fn s6_7_a_person_changes_a_value_in_a_browser() {
    on_runtime(async {
        let case = Case::alone(Shape::Embedded, Options::new().script("balanced", EDITED)).await;
        let bundle = Bundle::new("page")
            .tier("balanced")
            .ledger("ledger", "append")
            .ask("ledger.append");
        let run = case.begin(&bundle).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let browser = Browser::start(case.folder()).await;
        log_in_to(&case, &browser, "#inbox .card").await;

        let page = format!("{}/approvals/{}", case.address(0), held.id);
        for change in ["", "'19'"] {
            browser.open(&page);
            browser
                .until("document.readyState == 'complete' && !!document.querySelector('.edit')")
                .await;
            browser.click(".edit summary");
            if !change.is_empty() {
                let field = "document.querySelector('[name=\"value:/n\"]').value";
                browser.value(&format!("{field} = {change}"));
                browser.keep_picture("edit.png");
            }
            browser.click(".edit button");
            let seen = if change.is_empty() {
                "No value is changed"
            } else {
                "Edited by app"
            };
            let seen = format!("document.body.innerText.includes('{seen}')");
            browser.until(&seen).await;
        }
        case.completed(&run).await;
        let ran = case.app.approval(&held.id).await.expect("it is there");
        assert_eq!(ran.args_json, r#"{"n":19, "note":"two\nlines", "z":1.10}"#);
        assert_eq!(ran.edited_by.as_deref(), Some("app"));
    });
}

async fn log_in_to(case: &Case, browser: &Browser, until: &str) {
    browser.open(&case.address(0));
    browser.until("location.pathname == '/login'").await;
    browser.write("#token", &case.token("app"));
    browser.click("main button");
    browser
        .until(&format!("!!document.querySelector('{until}')"))
        .await;
}

async fn log_in(case: &Case, browser: &Browser) {
    browser.open(&case.address(0));
    browser.until("location.pathname == '/login'").await;
    browser.keep_picture("login.png");
    browser.write("#token", &case.token("app"));
    browser.click("main button");
    browser
        .until("document.body.innerText.includes('Nothing waits for a decision.')")
        .await;
    let cookies = browser.value("document.cookie");
    assert_eq!(cookies, "", "no script sees the session");
}

/// Answers with the run that waits.
async fn see_it_appear(case: &Case, browser: &Browser) -> String {
    mark(browser);
    let run = case.sub.start("page", INPUT).await;
    browser
        .until("document.querySelectorAll('#inbox .card').length == 1")
        .await;
    browser
        .until("document.title.startsWith('(1) Inbox')")
        .await;
    assert_not_reloaded(browser);
    browser.keep_picture("inbox.png");
    run
}

async fn approve_beside_the_timeline(case: &Case, browser: &Browser, run: &str) {
    let inbox = browser.open_tab();
    browser.open(&format!("{}/runs/{run}", case.address(0)));
    browser
        .until("document.querySelector('#head .badge').innerText == 'awaiting approval'")
        .await;
    assert_eq!(
        browser.value("document.querySelectorAll('#timeline b').length"),
        0
    );
    mark(browser);
    browser.keep_picture("run-waits.png");

    let timeline = browser.turn_to(&inbox);
    browser.click("#inbox .card a");
    browser
        .until("location.pathname.startsWith('/approvals/')")
        .await;
    browser.keep_picture("approval.png");
    browser.write("#reason", "I asked Ann.");
    browser.click("button[value=approve]");
    browser
        .until("document.querySelector('.badge').innerText == 'approved'")
        .await;
    let page = browser.value("document.body.innerText");
    let page = page.as_str().unwrap();
    assert!(
        page.contains("by app") && page.contains("I asked Ann."),
        "{page}"
    );
    browser.keep_picture("approved.png");

    browser.turn_to(&timeline);
    browser
        .until("document.querySelector('#head .badge').innerText == 'completed'")
        .await;
    browser.until("!document.querySelector('#controls')").await;
    assert_not_reloaded(browser);
    let last = case.sub.run(run).await.last_sequence;
    let numbers =
        browser.value("[...document.querySelectorAll('.step .number')].map(a => +a.innerText)");
    let expected: Vec<u64> = (1..=last).collect();
    assert_eq!(
        numbers,
        serde_json::json!(expected),
        "each step once, in order"
    );
    browser.keep_picture("run-complete.png");
}

/// Nothing is wider than a phone, by day or by night.
async fn look_at_it_on_a_phone(case: &Case, browser: &Browser, run: &str) {
    browser.become_a_phone_at_night();
    for (path, picture) in [
        ("/".to_owned(), "phone-inbox.png"),
        ("/runs".to_owned(), "phone-runs.png"),
        (format!("/runs/{run}"), "phone-run.png"),
    ] {
        browser.open(&format!("{}{path}", case.address(0)));
        browser.until("document.readyState == 'complete'").await;
        let fits = browser.value("document.documentElement.scrollWidth <= innerWidth");
        assert_eq!(fits, true, "{path} is wider than a phone");
        browser.keep_picture(picture);
    }
}

/// Marks the page as it is; loading it anew would take the mark away.
fn mark(browser: &Browser) {
    browser.value("window.untouched = true");
}

#[track_caller]
fn assert_not_reloaded(browser: &Browser) {
    assert_eq!(
        browser.value("window.untouched === true"),
        true,
        "the page was loaded again"
    );
}
