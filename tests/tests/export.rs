//! Exported runs and their copies (S2.2, S2.3): `runs export`, `runs import`.

use std::path::PathBuf;

use futures::StreamExt;
use sayso_tests::{Bundle, Case, Shape, World, both, code};
use sayso_wire::v1::verify_run_response::Result as Verified;
use sayso_wire::v1::{
    ImportRunRequest, ImportRunResponse, ListAuditEntriesRequest, RunStatus, VerifyRunResponse,
};
use serde_json::Value;
use tonic::Status;

static WORLD: World = World::new(
    &[(
        "one",
        "turns:
  - text: \"Schöne Grüße\"
    calls: [{tool: ledger.append, args_raw: '{\"n\": 1,  \"amount\":1.10}'}]
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

/// A run that was approved and has ended.
async fn ended(case: &Case, agent: &str) -> String {
    let run = case.begin(&gated(agent)).await;
    let held = case.app.held(&run, 1).await.remove(0);
    case.app.approve(&held).await;
    case.completed(&run).await;
    run
}

async fn import(case: &Case, export: &str) -> Result<ImportRunResponse, Status> {
    // In pieces that fit no line.
    let parts: Vec<ImportRunRequest> = export
        .as_bytes()
        .chunks(1000)
        .map(|part| ImportRunRequest {
            part: part.to_vec(),
        })
        .collect();
    let imported = case
        .admin
        .runs()
        .import_run(futures::stream::iter(parts))
        .await?;
    Ok(imported.into_inner())
}

fn is_verified(answer: &VerifyRunResponse) -> bool {
    matches!(answer.result, Some(Verified::Verified(_)))
}

fn file(case: &Case, name: &str, text: &str) -> PathBuf {
    let path = case
        .folder()
        .join(format!("{}-{name}", uuid::Uuid::now_v7().simple()));
    std::fs::write(&path, text).expect("a file can be written");
    path
}

both! {
    /// S2.2: an export is one line a step, with the exact contents; without them it still verifies.
    async fn s2_3_an_export_has_a_line_a_step_and_verifies_redacted_too(case: Case) {
        let run = ended(&case, "export").await;
        let export = case.sayso_as("sub", ["runs", "export", &run]).expect_success().stdout;
        let steps = case.sub.timeline(&run).await.0;
        assert_eq!(export.lines().count(), steps.len());
        for (line, step) in export.lines().zip(&steps) {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let expected = ["seq", "at", "actor", "type", "content", "content_sha256", "hash"];
            for key in expected {
                assert!(!line[key].is_null(), "{key} in {line}");
            }
            let sealed = ["awaiting_approval", "completion"].contains(&step.kind.as_str());
            assert_eq!(line["hmac"].is_string(), sealed, "{line}");
            assert_eq!((&line["seq"], &line["content"]), (&step.sequence.into(), &step.content));
        }
        let redacted = case.sayso_as("sub", ["runs", "export", &run, "--redacted"]);
        let redacted = redacted.expect_success().stdout;
        assert!(!redacted.contains("amount") && !redacted.contains("\"content\""));
        for text in [&export, &redacted] {
            let path = file(&case, "export.jsonl", text);
            let path = path.to_str().expect("a plain name");
            let verified = case.sayso(["runs", "verify", "--file", path]).expect_success();
            assert!(verified.stdout.contains("verified"), "{}", verified.stdout);
            let altered = file(&case, "altered.jsonl", &text.replacen("principal:app", "principal:eve", 1));
            let altered = altered.to_str().expect("a plain name");
            assert_eq!(case.sayso(["runs", "verify", "--file", altered]).code, Some(5));
        }
    }

    /// S2.3: a copy has another id, the original's steps to the byte, and its chain and seals hold.
    async fn s2_3_an_import_is_a_copy_that_verifies(case: Case) {
        let run = ended(&case, "import").await;
        let export = case.sayso_as("sub", ["runs", "export", &run]).expect_success().stdout;
        let path = file(&case, "export.jsonl", &export);
        let path = path.to_str().expect("a plain name");
        let copy = case.sayso_as("admin", ["runs", "import", path]).expect_success();
        let copy = copy.stdout.trim().to_owned();
        assert_ne!(copy, run);
        let (shown, original) = (case.sub.run(&copy).await, case.sub.run(&run).await);
        assert_eq!(shown.imported_from, run);
        assert_eq!(shown.status(), RunStatus::Completed);
        assert_eq!((&shown.output, &shown.input), (&original.output, &original.input));
        assert_eq!(case.sub.timeline(&copy).await.0, case.sub.timeline(&run).await.0);
        assert!(is_verified(&case.sub.verify(&copy).await));
        let actions = case.sub.actions(&copy).await;
        assert_eq!(actions.len(), 1);
        let watched: Vec<_> = case.sub.watch(&copy, 1).await.expect("watched").collect().await;
        assert_eq!(watched.len(), usize::try_from(shown.last_sequence).expect("few"));
        let again = case.sayso_as("sub", ["runs", "export", &copy]).expect_success().stdout;
        assert_eq!(again, export, "an export of the copy is that of the original");
        let printed = case.sayso_as("sub", ["runs", "show", &copy]).expect_success();
        assert!(printed.stdout.contains("read-only"), "{}", printed.stdout);
        let request = ListAuditEntriesRequest { subject: copy, ..ListAuditEntriesRequest::default() };
        let audit = case.admin.audit().list_audit_entries(request).await.expect("listed");
        assert_eq!(audit.into_inner().entries[0].action, "run.import");
    }

    /// Nothing changes a copy, and nothing works on it: also not on one whose original waits.
    async fn s2_3_a_copy_is_read_only(case: Case) {
        let run = case.begin(&gated("copied")).await;
        let held = case.app.held(&run, 1).await.remove(0);
        let export = case.sayso_as("sub", ["runs", "export", &run]).expect_success().stdout;
        let imported = import(&case, &export).await.expect("imported");
        assert!(imported.seals_hold);
        let copy = imported.run.expect("an answer has its run");
        assert_eq!(copy.status(), RunStatus::AwaitingApproval);
        assert_eq!(case.app.pending(&copy.id).await, []);
        for refused in [
            case.admin.cancel(&copy.id).await.unwrap_err(),
            case.admin.retry(&copy.id).await.unwrap_err(),
            case.admin.reply(&copy.id, "hello").await.unwrap_err(),
        ] {
            assert_eq!(code(&refused), "run.read_only", "{refused:?}");
        }
        let watched: Vec<_> = case.sub.watch(&copy.id, 1).await.expect("watched").collect().await;
        assert_eq!(watched.len(), usize::try_from(copy.last_sequence).expect("few"));
        case.app.approve(&held).await;
        case.completed(&run).await;
        assert_eq!(case.sub.run(&copy.id).await.last_sequence, copy.last_sequence);
        assert!(case.ledger.of(&copy.id).is_empty());
    }

    /// What is not a whole export is refused whole, with the line; and who may not import is.
    async fn s10_5_a_bad_file_is_refused_whole(case: Case) {
        let run = ended(&case, "refused").await;
        let export = case.sayso_as("sub", ["runs", "export", &run]).expect_success().stdout;
        let redacted = case.sayso_as("sub", ["runs", "export", &run, "--redacted"]);
        let lines: Vec<&str> = export.lines().collect();
        let swapped = {
            let mut lines = lines.clone();
            lines.swap(1, 2);
            lines.join("\n")
        };
        let bad = [
            String::new(),
            "hello".to_owned(),
            redacted.expect_success().stdout,
            swapped,
            lines[1..].join("\n"),
            export.replacen("1.10", "9.10", 1),
            export.replacen("principal:app", "principal:eve", 1),
            export.replacen(&run, "run_another", 1),
            export.replacen("\"seq\":2", "\"seq\":3", 1),
            export.replacen("\"version\":1", "\"version\":9", 1),
            format!("{export}\nmore"),
        ];
        let before = copies(&case).await;
        for text in &bad {
            let refused = import(&case, text).await.unwrap_err();
            assert_eq!(code(&refused), "import.invalid", "{refused:?}");
        }
        assert_eq!(copies(&case).await, before);
        let parts = futures::stream::iter([ImportRunRequest { part: export.into_bytes() }]);
        let refused = case.sub.runs().import_run(parts).await.unwrap_err();
        assert_eq!(code(&refused), "token.scope_missing");
    }
}

/// How many runs of the agent there are.
async fn copies(case: &Case) -> usize {
    let request = sayso_wire::v1::ListRunsRequest {
        agent: "refused".into(),
        ..sayso_wire::v1::ListRunsRequest::default()
    };
    let listed = case.admin.runs().list_runs(request).await.expect("listed");
    listed.into_inner().runs.len()
}
