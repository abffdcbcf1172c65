//! The protocol's official conformance suite.

use std::path::Path;
use std::process::Command;

use sayso_tests::program;

use crate::WORLD;
use crate::balancer::Balancer;

/// What has to pass, beyond ending as expected: these need no tools of the suite's own.
fn must_pass(revision: &str) -> &'static [&'static str] {
    match revision {
        "2025-11-25" => &[
            "server-initialize",
            "server-session-lifecycle",
            "ping",
            "tools-list",
            "dns-rebinding-protection",
            "server-sse-multiple-streams",
        ],
        _ => &[
            "tools-list",
            "caching",
            "http-header-validation",
            "dns-rebinding-protection",
        ],
    }
}

/// Two gateways in turn, and a token, since the suite cannot send one.
fn suite(revision: &'static str) {
    WORLD.apart(async |case| {
        let token = Some(case.token("app"));
        let balancer = Balancer::start(case.addresses(), token).await;
        let url = balancer.url().to_owned();
        let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!(
            "fixtures/mcp/mcp-server-expected-failures-{revision}.yaml"
        ));
        let run = move || {
            Command::new(program("SAYSO_TEST_NPM").join("conformance"))
                .args(["server", "--url", &url, "--requirements", revision])
                .arg("--expected-failures")
                .arg(expected)
                .output()
                .unwrap()
        };
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let text = format!(
            "{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success(), "{text}");
        for scenario in must_pass(revision) {
            let line = text
                .lines()
                .find(|line| line.contains(&format!("{scenario}:")));
            let line = line.unwrap_or_else(|| panic!("{scenario} did not run: {text}"));
            assert!(line.contains("0 failed"), "{line}\n{text}");
        }
        assert!(balancer.served().iter().all(|count| *count > 5));
    });
}

/// S6.13: the revision with a handshake.
#[test]
fn s6_13_conforms_to_2025_11_25() {
    suite("2025-11-25");
}

/// S6.13: the revision without.
#[test]
fn s6_13_conforms_to_2026_07_28() {
    suite("2026-07-28");
}
