//! Clients that no one here wrote, on the public API: gRPC in Python by reflection alone, curl as
//! `docs/api.md` has it, and schemathesis, which reads the description and tries to break it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sayso_tests::{Bundle, Case, Shape, World, both, program};

static WORLD: World = World::new(
    &[(
        "one",
        "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
    )],
    Shape::APART,
);

fn gated(name: &str) -> Bundle {
    Bundle::new(name)
        .tier("one")
        .ledger("ledger", "append")
        .ask("ledger.append")
}

/// A file of the repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Runs to the end, beside the runtime.
async fn output(mut command: Command) -> Output {
    command.stdin(Stdio::null());
    let run = tokio::task::spawn_blocking(move || command.output());
    run.await.unwrap().expect("the program starts")
}

/// Generates Python's stubs as the example says.
async fn stubs_into(folder: &Path) -> Output {
    let mut generate = Command::new(program("SAYSO_TEST_PYTHON"));
    generate.args(["-m", "grpc_tools.protoc", "-I", "proto"]);
    for kind in ["--python_out", "--grpc_python_out"] {
        generate.arg(format!("{kind}={}", folder.display()));
    }
    for package in ["sayso/v1", "google/api"] {
        let files = std::fs::read_dir(file("proto").join(package)).unwrap();
        let names = files.map(|entry| entry.unwrap().file_name());
        generate.args(names.map(|name| Path::new(package).join(name)));
    }
    generate.current_dir(file("."));
    output(generate).await
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

both! {
    /// S6.13: a client that knows nothing but reflection starts a run, watches it, and decides.
    async fn s6_13_reflection_is_enough_for_a_client(case: Case) {
        case.deploy(&gated("reflected")).await;
        let mut python = Command::new(program("SAYSO_TEST_PYTHON"));
        python
            .arg(file("examples/python/reflected.py"))
            .arg(case.address(0).trim_start_matches("http://"))
            .args(["reflected", "go"])
            .env("SUBMIT", case.token("sub"))
            .env("APPROVE", case.token("app"));
        let output = output(python).await;
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("approved ledger.append as app"), "{said}");
        assert!(said.ends_with("output: done\n"), "{said}");
        let run = said.split_whitespace().nth(1).unwrap();
        assert_eq!(case.ledger.numbers(run), [1]);
        let steps: Vec<u64> = said
            .lines()
            .filter_map(|line| line.split(' ').next()?.parse().ok())
            .collect();
        assert_eq!(steps, (1..=case.app.run(run).await.last_sequence).collect::<Vec<_>>());
    }

    /// S6.13: stubs that are generated from `proto/` do the same.
    async fn s6_13_generated_stubs_are_enough_for_a_client(case: Case) {
        case.deploy(&gated("generated")).await;
        let stubs = tempfile::tempdir().unwrap();
        let said_by = stubs_into(stubs.path()).await;
        assert!(said_by.status.success(), "{}", said(&said_by));
        let mut python = Command::new(program("SAYSO_TEST_PYTHON"));
        python
            .arg(file("examples/python/generated.py"))
            .arg(case.address(0).trim_start_matches("http://"))
            .args(["generated", "go"])
            .env("PYTHONPATH", stubs.path())
            .env("SUBMIT", case.token("sub"))
            .env("APPROVE", case.token("app"));
        let output = output(python).await;
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("approved ledger.append as app"), "{said}");
        assert!(said.ends_with("output: done\n"), "{said}");
        let run = said.split_whitespace().nth(1).unwrap();
        assert_eq!(case.ledger.numbers(run), [1]);
    }

    /// Every example of `docs/api.md` runs as it stands.
    async fn the_examples_of_the_reference_run(case: Case) {
        case.deploy(&gated("clerk")).await;
        let reference = std::fs::read_to_string(file("docs/api.md")).unwrap();
        let blocks = reference.split("```sh\n").skip(1);
        let blocks: Vec<&str> = blocks.map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(blocks.len() >= 5, "{blocks:?}");
        let folder = tempfile::tempdir().unwrap();
        let mut bash = Command::new("bash");
        bash.args(["-e", "-o", "pipefail", "-x", "-c", &blocks.join("\necho\n")])
            .current_dir(folder.path())
            .env("SERVER", case.address(0))
            .env("SUBMIT", case.token("sub"))
            .env("APPROVE", case.token("app"));
        let output = output(bash).await;
        assert!(output.status.success(), "{}", said(&output));
        let run = std::fs::read_to_string(folder.path().join("run.json")).unwrap();
        let run: serde_json::Value = serde_json::from_str(&run).unwrap();
        let run = run["run"]["id"].as_str().unwrap();
        case.completed(run).await;
        assert_eq!(case.ledger.numbers(run), [1]);
    }
}

/// S6.13, S10.5: nothing that schemathesis makes of the description brings out a fault of ours, an
/// answer that the description does not know, or a request that it forbids and the server takes.
#[test]
fn s6_13_schemathesis_finds_nothing() {
    WORLD.embedded(async |case: Case| {
        case.deploy(&gated("tried")).await;
        let run = case.sub.start("tried", "go").await;
        case.app.held(&run, 1).await;
        let folder = tempfile::tempdir().unwrap();
        let mut schemathesis = Command::new(program("SAYSO_TEST_SCHEMATHESIS"));
        schemathesis
            .arg("run")
            .arg(format!("{}/openapi.json", case.address(0)))
            .args([
                "--header",
                &format!("Authorization: Bearer {}", case.token("admin")),
            ])
            .args(["--checks", "all"])
            // Whether a text is a bundle, or an id exists, is not for a schema to say.
            .args(["--exclude-checks", "positive_data_acceptance"])
            // Streams do not end.
            .args(["--exclude-path-regex", ":watch$"])
            .args(["--phases", "examples,coverage,fuzzing"])
            .args(["--max-examples", "20", "--seed", "1", "--workers", "2"])
            .args(["--generation-database", "none", "--no-color"])
            .current_dir(folder.path())
            .env("HOME", folder.path());
        let output = output(schemathesis).await;
        assert!(output.status.success(), "{}", said(&output));
    });
}
