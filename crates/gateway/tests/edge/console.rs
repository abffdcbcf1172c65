//! The web pages, as a browser meets them.

use std::fmt::Write;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::response::Response;
use futures::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode};
use sayso_gateway::auth::Scope;
use sayso_run::RunId;
use sayso_wire::v1;
use tower::ServiceExt;

use crate::house::{House, Person};

/// A browser with at most one session.
#[derive(Clone)]
struct Browser {
    router: Router,
    cookie: String,
}

/// What it shows.
#[derive(Debug)]
struct Page {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Browser {
    fn new(house: &House) -> Browser {
        Browser {
            router: house.gateway.router(),
            cookie: String::new(),
        }
    }

    async fn of(house: &House, person: &Person) -> Browser {
        let mut browser = Browser::new(house);
        let fields = [("token", person.secret.as_str())];
        let page = browser.post("/login", &fields).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.text);
        browser.cookie = page.cookie().split(';').next().unwrap().to_owned();
        browser
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(path);
        match self.cookie.as_str() {
            "" => request,
            cookie => request.header(COOKIE, cookie),
        }
    }

    async fn send(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn show(&self, request: Request<Body>) -> Page {
        let (parts, body) = self.send(request).await.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        Page {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    async fn get(&self, path: &str) -> Page {
        let request = self.request(Method::GET, path);
        self.show(request.body(Body::empty()).unwrap()).await
    }

    /// Sends a form as a page of ours would.
    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        self.post_from(Some("same-origin"), path, fields).await
    }

    async fn post_from(&self, site: Option<&str>, path: &str, fields: &[(&str, &str)]) -> Page {
        let mut request = self
            .request(Method::POST, path)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(site) = site {
            request = request.header("sec-fetch-site", site);
        }
        self.show(request.body(encoded(fields).into()).unwrap())
            .await
    }

    /// Decides with the form of the approval's own page.
    async fn decide(&self, approval: &str, verdict: &str, reason: &str) -> Page {
        let form = self.form().await;
        let fields = [
            ("form", form.as_str()),
            ("verdict", verdict),
            ("reason", reason),
        ];
        self.post(&format!("/approvals/{approval}/decide"), &fields)
            .await
    }

    /// The value that the session's forms carry.
    async fn form(&self) -> String {
        let page = self.get("/").await;
        let (_, rest) = page
            .text
            .split_once("name=\"form\" value=\"")
            .expect("a form");
        rest.split('"').next().unwrap().to_owned()
    }

    async fn events(&self, path: &str, last: Option<u64>) -> Events {
        let mut request = self.request(Method::GET, path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = self.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Events {
            body: response.into_body().into_data_stream(),
            text: String::new(),
        }
    }
}

impl Page {
    fn cookie(&self) -> &str {
        self.headers[SET_COOKIE].to_str().unwrap()
    }

    fn location(&self) -> &str {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{}", self.text);
        self.headers[LOCATION].to_str().unwrap()
    }

    #[track_caller]
    fn holds(&self, text: &str) -> &Page {
        assert!(self.text.contains(text), "no {text} in {}", self.text);
        self
    }

    #[track_caller]
    fn lacks(&self, text: &str) -> &Page {
        assert!(!self.text.contains(text), "{text} in {}", self.text);
        self
    }
}

fn encoded(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        write!(text, "{name}=").unwrap();
        for byte in value.bytes() {
            write!(text, "%{byte:02X}").unwrap();
        }
        text.push('&');
    }
    text
}

/// A stream of events.
struct Events {
    body: BodyDataStream,
    text: String,
}

#[derive(Debug, Default)]
struct Event {
    name: String,
    id: Option<u64>,
    data: String,
}

impl Events {
    /// The next named event; none after the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = event(block);
                self.text = rest.to_owned();
                if !event.name.is_empty() {
                    return Some(event);
                }
            }
            let soon = tokio::time::timeout(Duration::from_secs(20), self.body.next()).await;
            let bytes = soon.expect("the stream goes on or ends")?.unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The next event of this name.
    async fn until(&mut self, name: &str) -> Event {
        loop {
            let event = self.next().await;
            let event = event.unwrap_or_else(|| panic!("the stream ended without {name}"));
            if event.name == name {
                return event;
            }
        }
    }
}

fn event(block: &str) -> Event {
    let mut event = Event::default();
    for line in block.lines() {
        match line.split_once(": ").unwrap_or((line, "")) {
            ("event", name) => event.name = name.to_owned(),
            ("id", id) => event.id = Some(id.parse().unwrap()),
            ("data", data) => event.data.push_str(data),
            _ => {}
        }
    }
    event
}

/// A submitter, an approver, and a run of the former that waits for one approval.
struct Scene {
    house: House,
    approver: Person,
    run: RunId,
    approval: String,
}

impl Scene {
    async fn new() -> Scene {
        let house = House::new().await;
        let submitter = house.person("shop", "sub", &[Scope::Submit]).await;
        let approver = house.person("shop", "app", &[Scope::Approver]).await;
        let (run, approval) = house.gated(&submitter).await;
        Scene {
            house,
            approver,
            run,
            approval,
        }
    }

    async fn is_pending(&self) -> bool {
        let pending = self.approver.pending().await;
        pending.iter().any(|approval| approval.id == self.approval)
    }

    fn page(&self) -> String {
        format!("/approvals/{}", self.approval)
    }
}

/// The session is out of reach of scripts and other sites, and every page carries the policy.
#[tokio::test]
async fn a_session_is_a_strict_cookie_and_every_page_carries_the_policy() {
    let house = House::new().await;
    let person = house.person("shop", "app", &[Scope::Approver]).await;
    let browser = Browser::new(&house);
    let fields = [("token", person.secret.as_str()), ("next", "/runs")];
    let page = browser.post("/login", &fields).await;
    assert_eq!(page.location(), "/runs");
    let cookie = page.cookie();
    assert!(cookie.starts_with("sayso_session="), "{cookie}");
    assert!(!cookie.contains(&person.secret[6..]), "{cookie}");
    for part in ["; Path=/;", "; HttpOnly", "; SameSite=Strict", "; Max-Age="] {
        assert!(cookie.contains(part), "{part} in {cookie}");
    }
    assert!(
        !cookie.contains("Secure"),
        "the browser came over http: {cookie}"
    );

    let browser = Browser::of(&house, &person).await;
    for page in [browser.get("/").await, browser.get("/login").await, page] {
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert_eq!(
            policy,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        );
        assert_eq!(page.headers["x-content-type-options"], "nosniff");
        assert_eq!(page.headers["referrer-policy"], "same-origin");
        assert_eq!(page.headers["cross-origin-opener-policy"], "same-origin");
        assert_eq!(page.headers[CACHE_CONTROL], "no-store");
        page.lacks("<style").lacks("style=").lacks("onclick");
    }

    let form = browser.form().await;
    let page = browser.post("/logout", &[("form", &form)]).await;
    assert_eq!(page.location(), "/login");
    assert!(
        page.cookie()
            .starts_with("sayso_session=; Path=/; Max-Age=0;")
    );
}

/// Over https, as a proxy says, the cookie stays on https.
#[tokio::test]
async fn the_cookie_is_secure_where_the_browser_came_over_https() {
    let house = House::new().await;
    let person = house.person("shop", "app", &[Scope::Approver]).await;
    let browser = Browser::new(&house);
    let request = browser
        .request(Method::POST, "/login")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header("host", "sayso.example")
        .header("origin", "https://sayso.example")
        .header("x-forwarded-proto", "https")
        .body(encoded(&[("token", &person.secret)]).into());
    let page = browser.show(request.unwrap()).await;
    assert!(page.cookie().ends_with("; Secure"), "{}", page.cookie());
}

#[tokio::test]
async fn a_wrong_token_opens_nothing() {
    let house = House::new().await;
    let browser = Browser::new(&house);
    for token in ["", "x", &format!("sayso_{}", "0".repeat(64))] {
        let page = browser.post("/login", &[("token", token)]).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED);
        assert!(!page.headers.contains_key(SET_COOKIE));
        page.holds("name=\"token\"").holds("role=\"alert\"");
    }
    let page = browser.post_from(Some("cross-site"), "/login", &[]).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
}

/// Without a session pages lead to the login and back; forms and streams do nothing.
#[tokio::test]
async fn without_a_session_there_is_only_the_login() {
    let scene = Scene::new().await;
    let mut browser = Browser::new(&scene.house);
    let run = format!("/runs/{}", scene.run);
    for cookie in ["", "sayso_session=made.up"] {
        browser.cookie = cookie.to_owned();
        for path in ["/", "/runs", &run, &scene.page()] {
            let page = browser.get(path).await;
            let expected = format!("/login?next={path}");
            assert!(
                page.location().starts_with(&expected),
                "{}",
                page.location()
            );
            page.lacks("A-17");
        }
        for path in ["/events/inbox".to_owned(), format!("/events{run}")] {
            assert_eq!(browser.get(&path).await.status, StatusCode::UNAUTHORIZED);
        }
        let decide = format!("{}/decide", scene.page());
        let page = browser.post(&decide, &[("verdict", "approve")]).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED);
        page.holds("Nothing was done");
    }
    assert!(scene.is_pending().await);
}

/// A link on another site arrives without the strict cookie: the page is asked for once more.
#[tokio::test]
async fn a_link_from_elsewhere_takes_one_step_inside() {
    let scene = Scene::new().await;
    let browser = Browser::new(&scene.house);
    let request = browser
        .request(Method::GET, &scene.page())
        .header("sec-fetch-site", "cross-site");
    let page = browser.show(request.body(Body::empty()).unwrap()).await;
    assert_eq!(page.status, StatusCode::OK);
    page.holds(&format!("content=\"0; url={}\"", scene.page()))
        .lacks("A-17");
}

/// S6.3, S6.4: an approver sees all of it, decides, and sees what is on record; a second, different
/// decision is refused naming it.
#[tokio::test]
async fn s6_3_an_approval_is_shown_and_decided() {
    let scene = Scene::new().await;
    let browser = Browser::of(&scene.house, &scene.approver).await;
    browser
        .get("/")
        .await
        .holds(&scene.page())
        .holds("1 call waits");
    let page = browser.get(&scene.page()).await;
    page.holds("{&quot;order&quot;: &quot;A-17&quot;, &quot;amount&quot;: 1.10}")
        .holds("shop.refund")
        .holds("Refund order A-17.")
        .holds("rules#0")
        .holds("It changes something.")
        .holds("sub")
        .holds(&format!("/runs/{}", scene.run))
        .holds("value=\"approve\"")
        .holds("value=\"deny\"");

    let decided = browser
        .decide(&scene.approval, "approve", "Fine\r\nwith <me>.")
        .await;
    assert_eq!(decided.location(), scene.page());
    let page = browser.get(&scene.page()).await;
    page.holds("<span class=\"badge approved\">approved</span> by <strong>app</strong>")
        .holds("Fine\nwith &lt;me&gt;.")
        .lacks("value=\"approve\"");

    let other = scene.house.person("shop", "app2", &[Scope::Approver]).await;
    let other = Browser::of(&scene.house, &other).await;
    let page = other.decide(&scene.approval, "deny", "").await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    page.holds("approval.already_decided")
        .holds("by <strong>app</strong>");
}

/// A form without a verdict decides nothing.
#[tokio::test]
async fn a_form_without_a_verdict_decides_nothing() {
    let scene = Scene::new().await;
    let browser = Browser::of(&scene.house, &scene.approver).await;
    let page = browser.decide(&scene.approval, "", "").await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    page.holds("request.invalid");
    assert!(scene.is_pending().await);
}

/// S6.13: GET never decides anything.
#[tokio::test]
async fn s6_13_get_never_decides() {
    let scene = Scene::new().await;
    let browser = Browser::of(&scene.house, &scene.approver).await;
    let form = browser.form().await;
    let query = encoded(&[("form", &form), ("verdict", "approve")]);
    let run = format!("/runs/{}", scene.run);
    for path in [
        format!("{}/decide?{query}", scene.page()),
        format!("{}?{query}", scene.page()),
        format!("{run}?{query}"),
        format!("{run}/cancel?{query}"),
        format!("/?{query}"),
    ] {
        let page = browser.get(&path).await;
        let harmless = [StatusCode::OK, StatusCode::METHOD_NOT_ALLOWED];
        assert!(harmless.contains(&page.status), "{path}: {}", page.status);
    }
    assert!(scene.is_pending().await);
}

/// A form decides only from a page of ours and with the value of its own session.
#[tokio::test]
async fn a_forged_form_decides_nothing() {
    let scene = Scene::new().await;
    let browser = Browser::of(&scene.house, &scene.approver).await;
    let again = Browser::of(&scene.house, &scene.approver).await;
    let (form, of_another) = (browser.form().await, again.form().await);
    assert_ne!(form, of_another);
    let decide = format!("{}/decide", scene.page());
    let ours = Some("same-origin");
    for (site, form) in [
        (ours, ""),
        (ours, of_another.as_str()),
        (ours, &form[1..]),
        (Some("cross-site"), &form),
        (Some("same-site"), &form),
        (Some("none"), &form),
        (None, &form),
    ] {
        let fields = [("form", form), ("verdict", "approve")];
        let page = browser.post_from(site, &decide, &fields).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{site:?} {form}");
    }
    assert!(scene.is_pending().await);
}

/// B43: another namespace's things are not there.
#[tokio::test]
async fn b43_a_foreign_approver_finds_nothing() {
    let scene = Scene::new().await;
    let scopes = [Scope::Approver, Scope::Operator, Scope::Submit];
    let foreigner = scene.house.person("other", "foreigner", &scopes).await;
    let browser = Browser::of(&scene.house, &foreigner).await;
    browser.get("/").await.holds("Nothing waits").lacks("A-17");
    browser.get("/runs").await.lacks("A-17");
    let run = format!("/runs/{}", scene.run);
    for path in [
        scene.page(),
        run.clone(),
        format!("{run}/steps/1"),
        format!("/events{run}"),
    ] {
        let page = browser.get(&path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        let nowhere = path.replace(scene.approval.as_str(), "apr_none");
        let nowhere = nowhere.replace(scene.run.as_str(), "run_none");
        assert_eq!(page.text, browser.get(&nowhere).await.text, "{path}");
    }
    let page = browser.decide(&scene.approval, "approve", "").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    let form = browser.form().await;
    let page = browser
        .post(&format!("{run}/cancel"), &[("form", &form)])
        .await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    assert!(scene.is_pending().await);
}

/// B42: nobody decides their own request here either; the page says why and what to do, and an
/// attempt goes on record.
#[tokio::test]
async fn b42_ones_own_request_cannot_be_decided() {
    let scene = Scene::new().await;
    let scopes = [Scope::Submit, Scope::Approver];
    let both = scene.house.person("shop", "both", &scopes).await;
    let (_, approval) = scene.house.gated(&both).await;
    let browser = Browser::of(&scene.house, &both).await;
    browser
        .get(&format!("/approvals/{approval}"))
        .await
        .holds("nobody decides their own request")
        .holds("sayso token create --name NAME --scope approver")
        .lacks("value=\"approve\"");
    for verdict in ["approve", "deny"] {
        let page = browser.decide(&approval, verdict, "").await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
        page.holds("approval.own_request");
    }
    let refused = refusals(&scene.house, &approval).await;
    assert_eq!(refused, ["approval.own_request", "approval.own_request"]);
}

/// S6.11: who may only read sees what waits and cannot decide it; the attempt goes on record.
#[tokio::test]
async fn s6_11_a_reader_reads_and_does_not_decide() {
    let scene = Scene::new().await;
    let reader = scene.house.person("shop", "reader", &[Scope::Read]).await;
    let browser = Browser::of(&scene.house, &reader).await;
    browser.get("/").await.holds(&scene.page());
    browser
        .get(&scene.page())
        .await
        .holds("scope `approver`")
        .lacks("value=\"approve\"");
    browser
        .get(&format!("/runs/{}", scene.run))
        .await
        .lacks("/cancel");
    let page = browser.decide(&scene.approval, "approve", "").await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    page.holds("token.scope_missing");
    assert_eq!(
        refusals(&scene.house, &scene.approval).await,
        ["token.scope_missing"]
    );
    assert!(scene.is_pending().await);
}

/// The codes of the refused decisions on record for an approval.
async fn refusals(house: &House, approval: &str) -> Vec<String> {
    let operator = house.person("shop", "auditor", &[Scope::Operator]).await;
    let request = v1::ListAuditEntriesRequest::default();
    let listed = operator.audit().list_audit_entries(request).await.unwrap();
    let entries = listed.into_inner().entries.into_iter();
    let refused = entries.filter(|entry| entry.subject == approval && !entry.code.is_empty());
    refused.map(|entry| entry.code).collect()
}

/// B46: hostile arguments and tool names are text, and what would hide is visible.
#[tokio::test]
async fn b46_hostile_arguments_are_text() {
    let scene = Scene::new().await;
    let person = scene.house.person("shop", "sub2", &[Scope::Submit]).await;
    let run = person.start("Say <script>alert(1)</script> \u{202e}").await;
    scene.house.begin(&run).await;
    let args = format!(
        "{{\"a\":\"<script>\u{202e}\u{200b}\u{e0100}```\",\"b\":\"ls{}rm -r\",\"c\":\"שלום\"}}",
        " ".repeat(400)
    );
    let calls = [("evil.<b>\u{202e}tool", args.as_str())];
    scene.house.answer(&run, "", &calls).await;
    scene.house.ask(&run).await;
    let pending = scene.approver.pending().await;
    let held = pending
        .iter()
        .find(|held| held.run_id == run.as_str())
        .unwrap();
    let browser = Browser::of(&scene.house, &scene.approver).await;
    let approval = browser.get(&format!("/approvals/{}", held.id)).await;
    let timeline = browser.get(&format!("/runs/{run}")).await;
    for page in [&approval, &timeline] {
        page.lacks("<script>")
            .lacks("<b>")
            .lacks("\u{202e}")
            .lacks("\u{200b}");
        page.holds("&lt;script&gt;<span class=\"mark\">⟨U+202E⟩</span>")
            .holds("<span class=\"mark\">⟨U+E0100⟩</span>```")
            .holds("ls<span class=\"mark\">⟨400 blanks⟩</span>rm -r")
            .holds("evil.&lt;b&gt;<span class=\"mark\">⟨U+202E⟩</span>tool")
            .holds("שלום");
    }
    browser.get("/").await.lacks("<b>").lacks("\u{202e}");
    assert_eq!(held.args_json, args, "what would run is unchanged");
}

/// What is large is cut with a mark and a way to all of it.
#[tokio::test]
async fn large_arguments_are_cut_and_can_be_had_whole() {
    let scene = Scene::new().await;
    let person = scene.house.person("shop", "sub2", &[Scope::Submit]).await;
    let run = person.start("big").await;
    scene.house.begin(&run).await;
    let args = format!("{{\"a\":\"{}END\"}}", "x".repeat(20_000));
    scene
        .house
        .answer(&run, "", &[("shop.refund", &args)])
        .await;
    scene.house.ask(&run).await;
    let pending = scene.approver.pending().await;
    let held = pending
        .iter()
        .find(|held| held.run_id == run.as_str())
        .unwrap();
    let browser = Browser::of(&scene.house, &scene.approver).await;
    let path = format!("/approvals/{}", held.id);
    let missing = args.len() - 16 * 1024;
    let page = browser.get(&path).await;
    page.holds(&format!("⟨{missing} bytes more⟩"))
        .holds("?all=yes")
        .lacks("END");
    browser
        .get(&format!("{path}?all=yes"))
        .await
        .holds("END")
        .lacks("bytes more");
}

/// S6.11: a session ends within a second of its token's revocation, its streams included.
#[tokio::test]
async fn s6_11_a_session_ends_with_its_token() {
    let scene = Scene::new().await;
    let admin = scene.house.person("shop", "boss", &[Scope::Admin]).await;
    let browser = Browser::of(&scene.house, &scene.approver).await;
    let mut events = browser.events("/events/inbox", None).await;
    events.until("inbox").await;
    let request = v1::RevokeTokenRequest {
        token: Some(v1::revoke_token_request::Token::Id(
            scene.approver.token.clone(),
        )),
    };
    admin.tokens().revoke_token(request).await.unwrap();
    let over = tokio::time::timeout(Duration::from_secs(1), events.until("over")).await;
    over.expect("within a second");
    assert!(events.next().await.is_none());
    assert!(browser.get("/").await.location().contains("ended"));
}

/// The inbox moves as approvals come and go.
#[tokio::test]
async fn the_inbox_is_live() {
    let scene = Scene::new().await;
    let submitter = scene.house.person("shop", "sub2", &[Scope::Submit]).await;
    let browser = Browser::of(&scene.house, &scene.approver).await;
    let mut events = browser.events("/events/inbox", None).await;
    let list = events.until("inbox").await.data;
    assert!(
        list.contains(&scene.approval) && list.contains("data-count=\"1\""),
        "{list}"
    );
    let (_, second) = scene.house.gated(&submitter).await;
    let mut list = String::new();
    while !list.contains(&second) {
        list = events.until("inbox").await.data;
    }
    assert!(list.contains("data-count=\"2\""), "{list}");
    browser.decide(&scene.approval, "deny", "").await;
    while list.contains(&scene.approval) {
        list = events.until("inbox").await.data;
    }
    assert!(list.contains(&second), "{list}");
}

/// S2.4: a run's page is followed to its end, each step once, over a reconnect.
#[tokio::test]
async fn s2_4_a_timeline_is_live_and_goes_on_after_a_reconnect() {
    let scene = Scene::new().await;
    let browser = Browser::of(&scene.house, &scene.approver).await;
    let page = browser.get(&format!("/runs/{}", scene.run)).await;
    let shown = page.text.matches("class=\"step\"").count() as u64;
    let path = format!("/events/runs/{}?from={}", scene.run, shown + 1);
    page.holds(&format!("data-events=\"{path}\""))
        .holds("awaiting approval");
    let mut events = browser.events(&path, None).await;
    browser.decide(&scene.approval, "approve", "").await;
    let step = events.until("step").await;
    assert_eq!(step.id, Some(shown + 1));
    assert!(
        step.data.contains("approved <code>shop.refund</code>"),
        "{}",
        step.data
    );
    drop(events);
    let mut events = browser.events(&path, step.id).await;
    scene.house.complete(&scene.run).await;
    let mut ids = Vec::new();
    let mut head = String::new();
    loop {
        let event = events.next().await.expect("an end");
        match event.name.as_str() {
            "step" => ids.push(event.id.unwrap()),
            "head" => head = event.data,
            "end" => break,
            other => panic!("{other}"),
        }
    }
    let expected: Vec<u64> = (shown + 2..).take(ids.len()).collect();
    assert_eq!(ids, expected);
    assert!(
        head.contains("badge completed") && head.contains("Done."),
        "{head}"
    );
    assert!(events.next().await.is_none());
    let page = browser.get(&format!("/runs/{}", scene.run)).await;
    page.holds("The run is complete.").lacks("data-events");
}

/// A run is cancelled by whoever may, and the page says what came of it.
#[tokio::test]
async fn a_run_is_cancelled_by_a_form() {
    let scene = Scene::new().await;
    let operator = scene.house.person("shop", "ops", &[Scope::Operator]).await;
    let browser = Browser::of(&scene.house, &operator).await;
    let run = format!("/runs/{}", scene.run);
    browser.get(&run).await.holds(&format!("{run}/cancel"));
    let form = browser.form().await;
    let fields = [("form", form.as_str()), ("reason", "Not today.")];
    let page = browser.post(&format!("{run}/cancel"), &fields).await;
    assert_eq!(page.location(), run);
    browser
        .get(&run)
        .await
        .holds("badge cancelled")
        .holds("Not today.")
        .lacks("/cancel\"");
    let page = browser.post(&format!("{run}/cancel"), &fields).await;
    page.holds("run.ended");
}

/// The script and the style have names that change with their content, so they are kept for good.
#[tokio::test]
async fn assets_are_kept_for_good() {
    let house = House::new().await;
    let browser = Browser::new(&house);
    let page = browser.get("/login").await;
    let names = page
        .text
        .split('"')
        .filter(|part| part.starts_with("/assets/"));
    let names: Vec<&str> = names.collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        let asset = browser.get(name).await;
        assert_eq!(asset.status, StatusCode::OK, "{name}");
        let kept = asset.headers[CACHE_CONTROL].to_str().unwrap();
        assert_eq!(kept, "public, max-age=31536000, immutable");
        assert_eq!(asset.headers["x-content-type-options"], "nosniff");
    }
    let unknown = browser.get("/assets/console-000000000000.js").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert_eq!(unknown.headers[CACHE_CONTROL], "no-store");
}
