//! Who sets targets, and at the command line (S8.3, S10.6, S10.8, B49).

use std::process::Command;

use sayso_tests::{Case, both, code, program};
use sayso_wire::v1::{
    CreateTargetRequest, DeleteTargetRequest, ListTargetsRequest, Scope, TargetKind,
    TestTargetRequest,
};

use crate::receiver::{Receiver, told};
use crate::{KEY, WORLD, gated, target};

/// A shell that has `sayso` and a token.
fn shell(case: &Case, holder: &str, script: &str) -> String {
    let sayso = program("SAYSO_BIN");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", sayso.parent().unwrap().display());
    let output = Command::new("sh")
        .args(["-euc", script])
        .env("PATH", path)
        .env("SAYSO_SERVER", case.address(0))
        .env("SAYSO_TOKEN", case.token(holder))
        .current_dir(case.folder())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

both! {
    /// S8.3: an address may be internal, so only operators set one: on a target, and in a bundle. Who is
    /// refused and who did it is on record.
    async fn s8_3_only_operators_say_where_notifications_go(case: Case) {
        let internal = || target("internal", TargetKind::Webhook, "http://169.254.169.254/latest");
        for holder in [&case.sub, &case.app, &case.both] {
            let mut targets = holder.targets();
            let name = || "internal".to_owned();
            let refused = [
                targets.create_target(internal()).await.unwrap_err(),
                targets.list_targets(ListTargetsRequest {}).await.unwrap_err(),
                targets.test_target(TestTargetRequest { name: name() }).await.unwrap_err(),
                targets.delete_target(DeleteTargetRequest { name: name() }).await.unwrap_err(),
                holder.try_deploy(&gated("internal").text()).await.unwrap_err(),
            ];
            for refused in refused {
                assert_eq!(code(&refused), "token.scope_missing");
            }
        }
        let secret = case.admin.create_token("ops-of-targets", "", &[Scope::Operator]).await;
        let operator = case.client_with(&secret);
        operator.targets().create_target(internal()).await.unwrap();
        let again = operator.targets().create_target(internal()).await.unwrap_err();
        assert_eq!(code(&again), "target.exists");
        let gone = DeleteTargetRequest { name: "internal".into() };
        operator.targets().delete_target(gone.clone()).await.unwrap();
        assert_eq!(code(&operator.targets().delete_target(gone).await.unwrap_err()), "target.not_found");
        for action in ["target.create", "target.delete"] {
            let audited = case.admin.audited(action, "internal").await;
            assert_eq!(audited.len(), 1, "{audited:?}");
            assert!(audited[0].details_json.contains("http://169.254.169.254"));
            assert!(!audited[0].details_json.contains("latest"), "{audited:?}");
        }
    }

    /// S8.2, S10.6: a target is added, listed without what may be a secret, tried out, and removed; what
    /// comes of a test is said at once, and is the command's exit.
    async fn s10_6_targets_at_the_command_line(case: Case) {
        let receiver = Receiver::http(KEY, &["200", "418"]);
        case.sayso_reading("admin", ["secret", "set", "CLI_RECEIVER"], KEY).expect_success();
        let url = receiver.url();
        let added = case.sayso_as("admin", [
            "target", "add", "cli", "--webhook", &url, "--secret", "CLI_RECEIVER", "--only", "failures",
        ]);
        assert!(added.expect_success().stdout.contains("cli is told of failures"));
        let listed = case.sayso_as("admin", ["target", "ls"]).expect_success();
        assert!(listed.stdout.contains("cli") && !listed.text().contains("secret-path"));
        case.sayso_as("admin", ["target", "test", "cli"]).expect_success();
        let got = receiver.reached(1).await;
        assert_eq!(told(&got[0])["type"], "target.test");
        let failed = case.sayso_as("admin", ["target", "test", "cli"]);
        assert_eq!(failed.code, Some(1), "{}", failed.text());
        assert!(failed.stdout.contains("refused it: it answered 418"), "{}", failed.text());
        case.sayso_as("admin", ["target", "rm", "cli"]).expect_success();
        let unknown = case.sayso_as("admin", ["target", "test", "cli"]);
        assert!(unknown.stderr.contains("target.not_found"), "{}", unknown.text());

        let mail = case.sayso_as("admin", ["target", "add", "mail", "--email", "ops@example.org"]);
        mail.expect_success();
        let untold = case.sayso_as("admin", ["target", "test", "mail"]);
        assert!(untold.stdout.contains("smtp.host"), "{}", untold.text());
        case.sayso_as("admin", ["target", "rm", "mail"]).expect_success();
        let mistaken = CreateTargetRequest {
            secret: "K".into(),
            ..target("A B", TargetKind::Email, "nobody")
        };
        let refused = case.admin.targets().create_target(mistaken).await.unwrap_err();
        assert_eq!(code(&refused), "request.invalid");
    }

    /// B49: set with `printf`, with `echo`, and from a file with CRLF, the secret signs like the bare key.
    async fn b49_line_ends_never_make_another_key(case: Case) {
        std::fs::write(case.folder().join("crlf.key"), format!("{KEY}\r\n")).unwrap();
        let receiver = Receiver::http(KEY, &[]);
        let url = receiver.url();
        let ways = [
            format!("printf %s '{KEY}' | sayso secret set LINE_END"),
            format!("echo '{KEY}' | sayso secret set LINE_END"),
            "sayso secret set LINE_END < crlf.key".to_owned(),
        ];
        shell(&case, "admin", &format!("sayso target add line-end --webhook '{url}' --secret LINE_END"));
        for (count, way) in (1..).zip(ways) {
            shell(&case, "admin", &way);
            shell(&case, "admin", "sayso target test line-end");
            told(receiver.reached(count).await.last().unwrap());
        }
        shell(&case, "admin", "sayso target rm line-end");
    }
}
