//! Stored secrets, and what nobody is shown (S3.10).

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit, Mac};
use sayso_tests::{Bundle, Case, Collector, Options, Shape, World, both, code, on_runtime, until};
use sayso_wire::v1::{
    ApprovalStatus, GetApprovalRequest, ListApprovalsRequest, ListSecretsRequest, RunStatus,
    SetSecretRequest,
};
use serde_json::{Value, json};
use sha2::Sha256;

static WORLD: World = World::new(
    &[
        (
            "reveal",
            "turns:
  - calls: [{tool: ledger.reveal, args: {}}]
  - text: 'it said: {{result.ledger.reveal}}'",
        ),
        (
            "gated",
            "turns:
  - calls: [{tool: ledger.note, args: {n: 1}}]
  - text: done",
        ),
    ],
    Shape::APART,
);

/// An agent whose one tool tells the secret that its server was given.
fn revealing(case: &Case, name: &str) -> Bundle {
    let mut server = case.ledger_server("reveal");
    server["env"]["SECRET"] = "Bearer ${secret:REVEALED}".into();
    Bundle::new(name)
        .tier("reveal")
        .server("ledger", server)
        .allow("ledger.reveal")
}

async fn set(case: &Case, name: &str, agent: &str, value: &str) {
    let request = SetSecretRequest {
        name: name.into(),
        agent: agent.into(),
        value: value.into(),
    };
    case.admin.secrets().set_secret(request).await.unwrap();
}

/// A run of this agent whose server was given this value: from a second after it was set, every one.
async fn revealed(case: &Case, agent: &str, value: &str) -> String {
    until("the value to count", async || {
        let run = case.sub.start(agent, "go").await;
        case.completed(&run).await;
        (given(case, &run) == [format!("Bearer {value}")]).then_some(run)
    })
    .await
}

/// What a run's tool wrote down as its secret.
fn given(case: &Case, run: &str) -> Vec<Value> {
    let entries = case.ledger.of(run).into_iter();
    entries.map(|entry| entry.args["secret"].clone()).collect()
}

both! {
    /// S3.10: a server gets the value, an agent's own before its namespace's, and a changed one from
    /// the next run on; whatever the tool says of it, no step, output, approval or log has it.
    async fn s3_10_a_tool_gets_the_value_and_nobody_else_does(case: Case) {
        set(&case, "REVEALED", "", "the-namespaces-value").await;
        case.deploy(&revealing(&case, "reveal-a")).await;
        case.deploy(&revealing(&case, "reveal-b")).await;
        set(&case, "REVEALED", "reveal-b", "b-has-its-own-value").await;

        let shared = case.sub.start("reveal-a", "go").await;
        let output = case.completed(&shared).await.output.unwrap_or_default();
        assert_eq!(given(&case, &shared), ["Bearer the-namespaces-value"]);
        let own = revealed(&case, "reveal-b", "b-has-its-own-value").await;
        assert!(output.contains("[redacted]"), "{output}");

        set(&case, "REVEALED", "", "the-second-value").await;
        let later = revealed(&case, "reveal-a", "the-second-value").await;
        for run in [shared, own, later] {
            let told = format!("{:?}{:?}", case.sub.timeline(&run).await, case.sub.run(&run).await);
            for value in ["the-namespaces-value", "b-has-its-own-value", "the-second-value"] {
                assert!(!told.contains(value), "{told}");
            }
        }
        let logs = case.logs();
        assert!(!logs.contains("the-namespaces-value") && !logs.contains("the-second-value"));
        let audited = case.admin.audited("secret.set", "REVEALED").await;
        assert!(audited.len() >= 3 && !format!("{audited:?}").contains("value\""), "{audited:?}");
    }

    /// S3.10: a run whose bundle names a secret that is not set fails with its name, and deploying
    /// told so before.
    async fn s3_10_a_secret_that_is_not_set_is_named(case: Case) {
        let mut server = case.ledger_server("reveal");
        server["env"]["SECRET"] = "${secret:NOBODY_SET_IT}".into();
        let bundle = Bundle::new("unset").tier("reveal").server("ledger", server);
        let deployed = case.admin.try_deploy(&bundle.text()).await.unwrap();
        let warned: Vec<_> = deployed.warnings.iter().map(|warning| warning.code.as_str()).collect();
        assert_eq!(warned, ["bundle.secret_not_set"]);
        let run = case.sub.start("unset", "go").await;
        let failed = case.sub.until(&run, RunStatus::Failed).await;
        let told = format!("{failed:?}");
        assert!(told.contains("sayso secret set NOBODY_SET_IT"), "{told}");
    }

    /// S3.10: secrets are read from standard input, listed without values and removed; another
    /// namespace has none of them, and who may not set them is refused.
    async fn s3_10_secrets_at_the_command_line(case: Case) {
        let value = "only-from-standard-input";
        let set = case.sayso_reading("admin", ["secret", "set", "CLI_KEY", "--for", "desk"], value);
        assert!(set.expect_success().stdout.contains("CLI_KEY of desk is set"));
        let listed = case.sayso_as("admin", ["secret", "ls"]).expect_success();
        assert!(listed.stdout.contains("CLI_KEY") && !listed.text().contains(value));
        let listed = case.foreigner.secrets().list_secrets(ListSecretsRequest {}).await.unwrap();
        assert_eq!(listed.into_inner().secrets, []);
        for holder in ["sub", "app"] {
            let refused = case.sayso_reading(holder, ["secret", "set", "X_KEY"], value);
            assert!(refused.stderr.contains("token.scope_missing"), "{}", refused.text());
        }
        let short = case.sayso_reading("admin", ["secret", "set", "X_KEY"], "abc");
        assert!(short.stderr.contains("secret.malformed"), "{}", short.text());
        let rotated = case.sayso_as("admin", ["secret", "rotate-key"]).expect_success();
        assert!(rotated.stdout.starts_with("0 of "), "{}", rotated.text());
        case.sayso_as("admin", ["secret", "rm", "CLI_KEY", "--for", "desk"]).expect_success();
        let gone = case.sayso_as("admin", ["secret", "rm", "CLI_KEY", "--for", "desk"]);
        assert!(gone.stderr.contains("secret.not_found"), "{}", gone.text());
    }

    /// B49: a secret that was set with a line end after it signs like the bare key, in and out, or is
    /// refused when it is set; never a mismatch that nobody sees.
    async fn b49_line_ends_never_make_another_key(case: Case) {
        let receiver = Receiver::start().await;
        for (n, given) in ["bare-key-1", "bare-key-2\n", "bare-key-3\r\n"].iter().enumerate() {
            let (key, agent) = (given.trim_end(), format!("b49-{n}"));
            let name = format!("B49_{n}");
            case.sayso_reading("admin", ["secret", "set", &name], given).expect_success();
            let bundle = Bundle::new(&agent)
                .tier("gated")
                .ledger("ledger", "note")
                .ask("ledger.note")
                .permission("notify", json!({"url": receiver.url(), "secret": name}))
                .field("triggers", json!([{"webhook": agent, "secret": name}]));
            case.deploy(&bundle).await;
            let call = reqwest::Client::new()
                .post(format!("{}/hooks/default/{agent}", case.address(0)))
                .header("x-sayso-signature", signature(key, b"go"))
                .body("go")
                .send()
                .await
                .unwrap();
            assert_eq!(call.status(), StatusCode::ACCEPTED, "{given:?}");
            let told = receiver.told(&agent).await;
            assert_eq!(told.0, signature(key, &told.1), "{given:?}");
        }
        for bad in ["two\r\nlines of it", " bare-key", "bare-key \n", "\n"] {
            let refused = case.sayso_reading("admin", ["secret", "set", "B49_BAD"], bad);
            assert!(refused.stderr.contains("secret.malformed"), "{bad:?}: {}", refused.text());
        }
    }
}

const PLATFORM: &str = "platform-secret-0815";
const ARGUMENTS: &str = r#"{"config":{"password":"hunter2"},"items":[{"api_key":"zz-nobody-knows-1"}],"note":"Bearer abc.def","text":"a long text with platform-secret-0815 in the middle of it","n":1.10}"#;
const HIDDEN: [&str; 4] = ["hunter2", "zz-nobody-knows-1", "abc.def", PLATFORM];

#[track_caller]
fn hides(what: &str, told: &str) {
    for value in HIDDEN {
        assert!(!told.contains(value), "{what} tells {value}: {told}");
    }
}

/// B44: what is secret by name, by form or by value appears in no approval, on no route, in no summary,
/// step, event, trace or log; the tool gets the real bytes.
fn b44(shape: Shape) {
    let script = format!(
        "turns:\n  - calls: [{{tool: ledger.note, args_raw: '{ARGUMENTS}'}}]\n  - text: done"
    );
    on_runtime(async {
        let collector = Collector::start().await;
        let options = Options::new().script("b44", &script);
        let case = Case::alone(shape, options.collector(&collector).telling()).await;
        let receiver = Receiver::start().await;
        set(&case, "PLATFORM", "", PLATFORM).await;
        let notify = json!({"url": receiver.url()});
        let bundle = Bundle::new("b44")
            .ledger("ledger", "note")
            .ask("ledger.note")
            .permission("notify", notify);
        case.deploy(&bundle).await;
        let run = case.sub.start("b44", "go").await;
        let held = case.app.held(&run, 1).await.remove(0);

        hides("the list", &format!("{held:?}"));
        assert!(held.args_json.contains("[redacted]"), "{held:?}");
        assert!(held.args_json.contains(r#""n":1.10"#), "{held:?}");
        let request = GetApprovalRequest {
            approval_id: held.id.clone(),
        };
        let got = case.app.approvals().get_approval(request).await.unwrap();
        hides("the approval", &format!("{got:?}"));
        hides("the summary", &held.summary);
        for arguments in [
            ["approvals", "show", &held.id],
            ["runs", "show", &run],
            ["approvals", "--json", ""],
        ] {
            let arguments: Vec<&str> = arguments
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect();
            let said = match arguments[..] {
                [a, b] => case.sayso_as("app", [a, b]),
                [a, b, c] => case.sayso_as("app", [a, b, c]),
                _ => unreachable!("two or three words"),
            };
            hides("the command line", &said.expect_success().text());
        }
        hides(
            "the page",
            &page(&case, &format!("/approvals/{}", held.id)).await,
        );
        hides(
            "the run's page",
            &page(&case, &format!("/runs/{run}")).await,
        );
        let told = receiver.told("b44").await;
        hides("the notification", &String::from_utf8_lossy(&told.1));

        case.app.approve(&held).await;
        case.completed(&run).await;
        let sent: Value = serde_json::from_str(ARGUMENTS).unwrap();
        assert_eq!(case.ledger.of(&run)[0].args, sent);
        hides(
            "the timeline",
            &format!("{:?}", case.sub.timeline(&run).await),
        );
        hides(
            "the actions",
            &format!("{:?}", case.sub.actions(&run).await),
        );
        let exported = case
            .sayso_as("app", ["runs", "export", &run])
            .expect_success();
        hides("the export", &exported.text());
        let verified = case.app.verify(&run).await.result;
        assert!(
            matches!(
                verified,
                Some(sayso_wire::v1::verify_run_response::Result::Verified(_))
            ),
            "{verified:?}"
        );
        until("the traces", async || {
            let traced = collector.text();
            (traced.contains("execute_tool") && traced.contains("[redacted]")).then_some(())
        })
        .await;
        hides("the traces", &collector.text());
        hides("the logs", &case.logs());
    });
}

#[test]
fn b44_redaction_in_depth_embedded() {
    b44(Shape::Embedded);
}

#[test]
fn b44_redaction_in_depth_apart() {
    b44(Shape::APART);
}

/// S3.10: after the key was changed, what the old one has encrypted still opens, and is encrypted
/// anew on demand; without the old key nothing runs that could tell a secret.
#[test]
fn s3_10_the_key_can_be_changed() {
    WORLD.alone(Shape::Embedded, async |case: Case| {
        set(&case, "REVEALED", "", "under-the-old-key").await;
        case.deploy(&revealing(&case, "rekeyed")).await;
        let text = std::fs::read_to_string(case.config()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        let old = case.folder().join("old.key");
        std::fs::write(&old, "33".repeat(32)).unwrap();
        config["secrets"] = json!({
            "key_command": ["echo", "44".repeat(32)], "previous_key_files": [old],
        });
        case.kill_all();
        std::fs::write(case.config(), config.to_string()).unwrap();
        case.start_all().await;
        let run = case.sub.start("rekeyed", "go").await;
        case.completed(&run).await;
        assert_eq!(given(&case, &run), ["Bearer under-the-old-key"]);
        let rotated = case
            .sayso_as("admin", ["secret", "rotate-key"])
            .expect_success();
        assert!(rotated.stdout.starts_with("1 of 1"), "{}", rotated.text());

        config["secrets"] = json!({"key": "44".repeat(32)});
        case.kill_all();
        std::fs::write(case.config(), config.to_string()).unwrap();
        case.start_all().await;
        let run = case.sub.start("rekeyed", "go").await;
        case.completed(&run).await;
        assert_eq!(given(&case, &run), ["Bearer under-the-old-key"]);
    });
}

/// S3.10: what is stored in the database is not the value, and without a key nothing is stored.
#[test]
fn s3_10_without_a_key_nothing_is_stored() {
    WORLD.alone(Shape::APART, async |case: Case| {
        let text = std::fs::read_to_string(case.folder().join("gateway-0.yaml")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config.as_object_mut().unwrap().remove("secrets");
        let gateway = case.process("gateway-0");
        gateway.kill();
        std::fs::write(case.folder().join("gateway-0.yaml"), config.to_string()).unwrap();
        gateway.start();
        case.ready().await;
        let request = SetSecretRequest {
            name: "K".into(),
            agent: String::new(),
            value: "a-value-of-a-secret".into(),
        };
        let refused = case.admin.secrets().set_secret(request).await.unwrap_err();
        assert_eq!(code(&refused), "secret.no_key");
        let pending = ListApprovalsRequest {
            statuses: vec![ApprovalStatus::Pending.into()],
            ..ListApprovalsRequest::default()
        };
        let listed = case.app.approvals().list_approvals(pending).await;
        assert!(listed.is_ok(), "all else goes on");
    });
}

/// A page as `app` sees it.
async fn page(case: &Case, path: &str) -> String {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let base = case.address(0);
    let login = client
        .post(format!("{base}/login"))
        .header("origin", &base)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("token={}&next=%2F", case.app.secret()))
        .send()
        .await
        .unwrap();
    let cookie = login
        .headers()
        .get("set-cookie")
        .expect("a session")
        .to_str()
        .unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let request = client.get(format!("{base}{path}")).header("cookie", cookie);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    answer.text().await.unwrap()
}

fn signature(key: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

type Told = (String, Vec<u8>);

/// Takes notifications.
struct Receiver {
    port: u16,
    told: Arc<Mutex<Vec<Told>>>,
}

impl Receiver {
    async fn start() -> Receiver {
        let told: Arc<Mutex<Vec<Told>>> = Arc::default();
        let kept = Arc::clone(&told);
        let take = move |headers: HeaderMap, body: Bytes| async move {
            let signed = headers.get("x-sayso-signature");
            let signed = signed
                .map_or("", |value| value.to_str().unwrap())
                .to_owned();
            kept.lock().unwrap().push((signed, body.to_vec()));
            StatusCode::OK
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().route("/", post(take));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Receiver { port, told }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// The notification about an agent's call.
    async fn told(&self, agent: &str) -> Told {
        until("a notification", async || {
            let told = self.told.lock().unwrap();
            let about = |told: &&Told| {
                let body: Value = serde_json::from_slice(&told.1).unwrap();
                body["approval"]["agent"] == agent
            };
            told.iter().find(about).cloned()
        })
        .await
    }
}
