//! Events (S8.4) as others read them: NATS and CloudEvents packages of Python, the commands of
//! `docs/events.md`, the catalogue under the schema of AsyncAPI.

#![expect(
    clippy::unwrap_used,
    reason = "tests state what they expect; a panic with the place is what a failing one should print"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use sayso_tests::{Bundle, Case, Shape, World, both, code, on_runtime, program, until};
use sayso_wire::v1::{RunStatus, WatchEventsRequest};

static WORLD: World = World::new(
    &[
        (
            "one",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        ("quick", "turns: [{text: done}]"),
    ],
    Shape::APART,
);

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn python() -> Command {
    Command::new(program("SAYSO_TEST_PYTHON"))
}

async fn output(mut command: Command) -> Output {
    command.stdin(Stdio::null());
    let run = tokio::task::spawn_blocking(move || command.output());
    run.await.unwrap().unwrap()
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

/// What the reader of `examples/events` prints: by run, the numbers and types of its events.
async fn read(url: &str) -> BTreeMap<String, Vec<(u64, String)>> {
    let mut reader = python();
    reader.arg(file("examples/events/reader.py")).arg(url);
    let output = output(reader).await;
    assert!(output.status.success(), "{}", said(&output));
    let mut runs: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let mut words = line.split(' ');
        let (run, number) = (
            words.next().unwrap(),
            words.next().unwrap().parse().unwrap(),
        );
        let kind = words.next().unwrap().to_owned();
        runs.entry(run.to_owned()).or_default().push((number, kind));
    }
    runs
}

/// S8.4: packages that no one here wrote read every event, each once, in order per run, over restarts
/// of a worker and a broker that was away.
#[test]
fn s8_4_others_read_every_event_in_order_over_restarts() {
    WORLD.alone(Shape::APART, async |case: Case| {
        case.deploy(&gated("events")).await;
        let url = format!("nats://127.0.0.1:{}", case.nats_port());
        let mut runs = Vec::new();
        for _ in 0..5 {
            runs.push(case.sub.start("events", "go").await);
        }
        for run in &runs[..3] {
            let held = case.app.held(run, 1).await.remove(0);
            case.app.approve(&held).await;
        }
        case.nats().kill();
        for run in &runs[3..] {
            let held = case.app.held(run, 1).await.remove(0);
            case.app.approve(&held).await;
        }
        case.executor(0).kill();
        case.executor(0).start();
        case.nats().start();
        for run in &runs {
            case.completed(run).await;
        }
        let lasts: BTreeMap<String, u64> = {
            let mut lasts = BTreeMap::new();
            for run in &runs {
                lasts.insert(run.clone(), case.app.run(run).await.last_sequence);
            }
            lasts
        };
        let told = until("every event to be on the stream", async || {
            let told = read(&url).await;
            let whole = |run: &String| {
                let last = told
                    .get(run)
                    .and_then(|events| events.iter().map(|event| event.0).max());
                last == lasts.get(run).copied()
            };
            runs.iter().all(whole).then_some(told)
        })
        .await;
        for run in &runs {
            let steps = told[run]
                .iter()
                .filter(|(_, kind)| kind.starts_with("sayso.step."));
            let numbers: Vec<u64> = steps.map(|(number, _)| *number).collect();
            assert_eq!(numbers, (1..=lasts[run]).collect::<Vec<_>>(), "{run}");
            for change in ["requested", "decided"] {
                let kind = format!("sayso.approval.{change}.v1");
                assert_eq!(
                    told[run].iter().filter(|event| event.1 == kind).count(),
                    1,
                    "{run}"
                );
            }
        }
    });
}

both! {
    /// S8.4: whoever may read a namespace watches its events through the gateway, with a broker and
    /// without; nobody else does, and of no other namespace.
    async fn s8_4_the_gateway_shows_events(case: Case) {
        case.deploy(&Bundle::new("watched").tier("quick")).await;
        let request = WatchEventsRequest {
            agent: "watched".into(),
            types: vec!["sayso.step.*".into()],
        };
        let mut watch = case.app.happenings().watch_events(request.clone()).await.unwrap().into_inner();
        let mut foreign = case.foreigner.happenings().watch_events(WatchEventsRequest::default()).await.unwrap().into_inner();
        let run = case.sub.start("watched", "go").await;
        let mut numbers = Vec::new();
        let last = loop {
            let sent = watch.message().await.unwrap().unwrap();
            let of = sent.events.iter().filter(|event| event.subject == run);
            numbers.extend(of.map(|event| event.sequence));
            if let Some(last) = sent.events.iter().find(|event| event.r#type == "sayso.step.completion.v1") {
                break last.clone();
            }
        };
        assert_eq!(numbers, (1..=last.sequence).collect::<Vec<_>>());
        assert_eq!(last.id, format!("{run}:{}", last.sequence));
        assert!(last.source.ends_with("/agents/watched") && last.data_json.contains("\"content\""), "{last:?}");
        let none = tokio::time::timeout(std::time::Duration::from_millis(300), foreign.message()).await;
        assert!(none.is_err() || none.unwrap().unwrap().unwrap().events.is_empty(), "another namespace's events");
        let wrong = WatchEventsRequest { types: vec!["a b".into()], ..request };
        let refused = case.app.happenings().watch_events(wrong).await.unwrap_err();
        assert_eq!(code(&refused), "request.invalid");
        case.sub.until(&run, RunStatus::Completed).await;
    }
}

/// S8.4, S10.6: every command of `docs/events.md` runs as it stands.
#[test]
fn s8_4_the_commands_of_the_reference_run() {
    WORLD.alone(Shape::APART, async |case: Case| {
        case.deploy(&Bundle::new("clerk").tier("quick")).await;
        let reference = std::fs::read_to_string(file("docs/events.md")).unwrap();
        let blocks = reference.split("```sh\n").skip(1);
        let blocks: Vec<&str> = blocks
            .map(|rest| rest.split("```").next().unwrap())
            .collect();
        assert_eq!(blocks.len(), 3, "{blocks:?}");
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(file("examples"), folder.path().join("examples")).unwrap();
        let bin = Path::new(&program("SAYSO_BIN"))
            .parent()
            .unwrap()
            .to_owned();
        let venv = Path::new(&program("SAYSO_TEST_PYTHON"))
            .parent()
            .unwrap()
            .to_owned();
        let path = std::env::var("PATH").unwrap();
        let mut bash = Command::new("bash");
        bash.args([
            "-e",
            "-o",
            "pipefail",
            "-x",
            "-m",
            "-c",
            &blocks.join("\necho\n"),
        ])
        .current_dir(folder.path())
        .env(
            "PATH",
            format!("{}:{}:{path}", bin.display(), venv.display()),
        )
        .env("SAYSO_SERVER", case.address(0))
        .env("SAYSO_TOKEN", case.token("both"))
        .env("NATS_URL", format!("nats://127.0.0.1:{}", case.nats_port()));
        let output = output(bash).await;
        assert!(output.status.success(), "{}", said(&output));
        let tail = std::fs::read_to_string(folder.path().join("tail.txt")).unwrap();
        assert_eq!(tail.lines().count(), 3, "{tail}");
    });
}

/// Ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().map(drop).unwrap_or_default();
    }
}

/// Makes the streams, with an event of two namespaces.
const OPERATOR: &str = r#"
import asyncio, sys, nats
async def main(url):
    client = await nats.connect(url)
    js = client.jetstream()
    await js.add_stream(name="SAYSO_EVENTS", subjects=["sayso.events.v1.>"])
    await js.add_stream(name="SAYSO_WORK", subjects=["sayso.work.>"])
    headers = {"ce-specversion": "1.0", "ce-id": "run_1:1", "ce-source": "/a", "ce-type": "sayso.step.completion.v1",
               "ce-subject": "run_1", "ce-sequence": "00000000000000000001", "content-type": "application/json"}
    for namespace in ("default", "other"):
        await js.publish(f"sayso.events.v1.{namespace}.desk.completion", b'{"status":"completed"}', headers=headers)
    await client.close()
asyncio.run(main(sys.argv[1]))
"#;

/// Tries what a reader must not do.
const INTRUDER: &str = r#"
import asyncio, sys, nats
from nats.js.api import StreamConfig
async def main(url):
    async def hush(error): pass
    client = await nats.connect(url, inbox_prefix=b"_INBOX_reader", error_cb=hush)
    js = client.jetstream(timeout=1)
    tries = {
        "publish": lambda: js.publish("sayso.events.v1.default.desk.completion", b"forged"),
        "wake": lambda: js.publish("sayso.work.default.run_1", b"forged"),
        "delete": lambda: js.delete_stream("SAYSO_EVENTS"),
        "purge": lambda: js.purge_stream("SAYSO_EVENTS"),
        "change": lambda: js.update_stream(StreamConfig(name="SAYSO_EVENTS", subjects=["x"])),
        "work": lambda: js.stream_info("SAYSO_WORK"),
        "everything": lambda: js.pull_subscribe("sayso.events.v1.>", stream="SAYSO_EVENTS"),
        "another's": lambda: js.pull_subscribe("sayso.events.v1.other.>", stream="SAYSO_EVENTS"),
    }
    for what, attempt in tries.items():
        try:
            await attempt()
            print(what, "was let through")
        except Exception as error:
            print(what, "refused")
    await client.close()
asyncio.run(main(sys.argv[1]))
"#;

/// S8.4: with the account of `docs/events.md` a reader reads its namespace's events, and can do nothing
/// else.
#[test]
fn s8_4_a_reader_can_read_and_nothing_else() {
    on_runtime(async {
        let reference = std::fs::read_to_string(file("docs/events.md")).unwrap();
        let account = reference
            .split("```conf\n")
            .nth(1)
            .unwrap()
            .split("```")
            .next()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("nats.conf"), account).unwrap();
        let port = sayso_tests::free_port();
        let server = Command::new(program("SAYSO_NATS_SERVER"))
            .args([
                "-c",
                "nats.conf",
                "-a",
                "127.0.0.1",
                "-p",
                &port.to_string(),
            ])
            .current_dir(folder.path())
            .env("SAYSO_PASSWORD", "s3same")
            .env("READER_PASSWORD", "0pen")
            .stderr(Stdio::null())
            .spawn();
        let _server = Server(server.unwrap());
        until("the broker to listen", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .ok()
                .map(drop)
        })
        .await;
        let run = async |script: &str, user: &str| {
            let mut command = python();
            command.args(["-c", script, &format!("nats://{user}@127.0.0.1:{port}")]);
            let output = output(command).await;
            assert!(output.status.success(), "{}", said(&output));
            String::from_utf8(output.stdout).unwrap()
        };
        run(OPERATOR, "sayso:s3same").await;
        let told = read(&format!("nats://reader:0pen@127.0.0.1:{port}")).await;
        let wanted = BTreeMap::from([(
            "run_1".to_owned(),
            vec![(1, "sayso.step.completion.v1".to_owned())],
        )]);
        assert_eq!(told, wanted);
        let tried = run(INTRUDER, "reader:0pen").await;
        assert_eq!(tried.lines().count(), 8, "{tried}");
        assert!(
            tried.lines().all(|line| line.ends_with(" refused")),
            "{tried}"
        );
    });
}

/// S8.4: the catalogue is an AsyncAPI document.
#[test]
fn s8_4_the_catalogue_is_valid() {
    const CHECK: &str = "
import json, sys, jsonschema
schema, document = (json.load(open(path)) for path in sys.argv[1:])
jsonschema.Draft7Validator(schema).validate(document)
print(len(document['channels']))
";
    let specs = Path::new(&program("SAYSO_TEST_NPM")).join("../@asyncapi/specs/schemas/3.0.0.json");
    let mut check = python();
    check
        .args(["-c", CHECK])
        .arg(specs)
        .arg(file("docs/asyncapi.json"));
    let output = check.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

/// Transactions of the deployment's database so far.
async fn transactions(case: &Case) -> i64 {
    let mut psql = Command::new(Path::new(&program("SAYSO_TEST_POSTGRES_BIN")).join("psql"));
    let counted = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    psql.args(["-X", "-A", "-t", "-c", counted, case.database()]);
    let output = output(psql).await;
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

/// Transactions of ten quiet seconds: what is counted is what happens in that time.
async fn quiet(case: &Case) -> i64 {
    let before = transactions(case).await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    transactions(case).await - before
}

/// S2.4, S8.4: two hundred idle watchers, of a run that waits and of all events, ask the database no
/// more than none do: one look every five seconds covers them all.
#[test]
fn s2_4_an_idle_watcher_costs_no_query() {
    WORLD.alone(Shape::APART, async |case: Case| {
        case.deploy(&gated("idle")).await;
        let run = case.sub.start("idle", "go").await;
        case.app.held(&run, 1).await;
        let alone = quiet(&case).await;
        let (mut runs, mut events) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            runs.push(case.app.watch(&run, 1).await.unwrap());
            let request = WatchEventsRequest::default();
            events.push(case.app.happenings().watch_events(request).await.unwrap());
        }
        // What they read at their beginning is behind them.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        let watched = quiet(&case).await;
        // A query of each every five seconds would be four hundred.
        assert!(
            watched < alone + 100,
            "{alone} transactions, and {watched} with watchers"
        );
    });
}
