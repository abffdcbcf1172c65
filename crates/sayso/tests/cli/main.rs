//! The program as people and scripts use it (S10.6): the built binary, its output, its exit codes.

#![expect(
    clippy::unwrap_used,
    reason = "a panic with the place is what a failing test should print"
)]

mod policy;
mod world;

use serde_json::Value;
use world::{Answer, World, sayso};

/// The demo: one gated call, decided by another principal, executed once; nothing stays.
#[test]
fn s10_6_the_demo_refunds_once_and_leaves_nothing() {
    let temporary = tempfile::tempdir().unwrap();
    let demo = Answer::of(
        sayso()
            .args(["demo", "--yes"])
            .env("TMPDIR", temporary.path()),
    );
    assert_eq!(demo.code, 0, "{demo}");
    for part in [
        r#"arguments  {"order_id":"A-17","amount":"16.63"}"#,
        "tool       shop.refund_order",
        "shop.get_order (call_1_1) is sent (allowed by rules#0)",
        "is approved by demo-approver",
        "refunded: nothing.",
        "refunded: 16.63 EUR, once.",
        "verified: nobody changed any of the",
    ] {
        assert!(demo.out.contains(part), "{part}: {demo}");
    }
    assert_eq!(
        demo.out
            .matches("shop.refund_order (call_2_1) answered")
            .count(),
        1,
        "{demo}"
    );
    assert_eq!(
        std::fs::read_dir(temporary.path()).unwrap().count(),
        0,
        "its folder is gone"
    );
}

/// Where nobody can be asked, the demo says so and does nothing.
#[test]
fn s10_6_the_demo_asks_a_person_or_needs_yes() {
    let demo = Answer::of(sayso().arg("demo"));
    assert_eq!(demo.code, 2, "{demo}");
    assert!(demo.err.contains("sayso demo --yes"), "{demo}");
}

#[test]
fn s10_6_the_demo_does_not_reach_into_an_installation() {
    let demo = Answer::of(
        sayso()
            .args(["demo", "--yes"])
            .env("SAYSO_DATABASE__URL", "sqlite://x"),
    );
    assert_eq!(demo.code, 2, "{demo}");
    assert!(demo.err.contains("SAYSO_DATABASE__URL"), "{demo}");
}

/// A gated run by hand: deploy, run, look, be refused, make a token, approve, verify.
#[test]
fn s10_1_a_gated_run_by_hand() {
    let world = World::start();
    let deployed = world.admin(&["deploy", &world.bundle()]).ok();
    assert!(
        deployed.out.contains("shop-clerk is deployed: revision "),
        "{deployed}"
    );
    let run = world
        .admin(&["run", "shop-clerk", "Refund the broken cups of A-17."])
        .ok()
        .id();
    let watch = world.watch(&run);
    let approval = watch.until_held();

    let card = world.admin(&["approvals", "show", &approval]).ok();
    assert!(
        card.out
            .contains(r#"arguments  {"order_id":"A-17","amount":"16.63"}"#),
        "{card}"
    );
    let listed = world.admin(&["approvals", "--run", &run]).ok();
    assert!(
        listed
            .out
            .contains(&format!("{approval}\tpending\tshop.refund_order\t")),
        "{listed}"
    );

    let bob = world.token("bob", &["--scope", "approver"]);
    let approved = world
        .by(
            &bob,
            &[
                "approve",
                "--run",
                &run,
                "--tool",
                "shop.refund_order",
                "--reason",
                "fine",
            ],
        )
        .ok();
    assert!(
        approved
            .out
            .starts_with(&format!("approved {approval}  shop.refund_order")),
        "{approved}"
    );
    let (code, steps) = watch.finish();
    assert_eq!(code, 0, "the run completed");
    let executed = steps
        .iter()
        .filter(|step| step.as_str() == "tool_started")
        .count();
    assert_eq!(executed, 2, "one call by rule, one by approval: {steps:?}");

    let again = world.by(&bob, &["approve", &approval]).ok();
    assert!(again.out.contains("on record since"), "S6.4: {again}");
    let second = world.by(&bob, &["deny", &approval]);
    assert_eq!(second.code, 1, "{second}");
    assert!(
        second.err.contains("[approval.already_decided]"),
        "{second}"
    );
    assert!(
        second.err.contains("by bob"),
        "it names the record: {second}"
    );

    let verified = world.admin(&["runs", "verify", &run]).ok();
    assert!(verified.out.starts_with("verified: "), "{verified}");
    let shown = world.admin(&["runs", "show", &run]).ok();
    assert!(shown.out.contains("is approved by bob: fine"), "{shown}");
    assert!(shown.out.contains("ended by   answer"), "{shown}");
    let orders = std::fs::read_to_string(world.shop()).unwrap();
    assert_eq!(orders.matches("\"amount\"").count(), 1, "{orders}");
    world.stop_gently();
}

/// B42: nobody decides their own request on the command line, in either direction, with any token;
/// the refusal says how to make an approver's. Another principal's token works.
#[test]
fn b42_ones_own_request_is_refused_with_a_hint() {
    let world = World::start();
    world.admin(&["deploy", &world.bundle()]).ok();
    let run = world
        .admin(&["run", "shop-clerk", "Refund A-17."])
        .ok()
        .id();
    let watch = world.watch(&run);
    let approval = watch.until_held();
    let own = world.token(
        "admin-approves",
        &["--scope", "approver", "--principal", "local-admin"],
    );
    for (token, arguments) in [
        (None, vec!["approve", &approval]),
        (None, vec!["deny", &approval]),
        (Some(&own), vec!["approve", &approval]),
        (
            Some(&own),
            vec!["deny", "--run", &run, "--tool", "shop.refund_order"],
        ),
        (
            Some(&own),
            vec!["approve", "--run", &run, "--call", "call_2_1"],
        ),
    ] {
        let refused = match token {
            Some(token) => world.by(token, &arguments),
            None => world.admin(&arguments),
        };
        assert_eq!(refused.code, 1, "{arguments:?}: {refused}");
        assert!(refused.err.contains("[approval.own_request]"), "{refused}");
        assert!(
            refused
                .err
                .contains("sayso token create --name NAME --scope approver"),
            "{refused}"
        );
    }
    let carol = world.token("carol", &["--scope", "approver"]);
    let denied = world
        .by(&carol, &["deny", &approval, "--reason", "not today"])
        .ok();
    assert!(denied.out.contains("denied "), "{denied}");
    let (code, steps) = watch.finish();
    assert_eq!(code, 0, "a denied call does not fail its run");
    assert!(steps.iter().any(|step| step == "tool_denied"), "{steps:?}");
    let orders = std::fs::read_to_string(world.shop()).unwrap();
    assert!(
        !orders.contains("\"amount\""),
        "nothing was refunded: {orders}"
    );
}

/// `--json` is the API's own JSON, and exit codes are those of the help.
#[test]
fn s10_6_json_and_exit_codes_are_for_programs() {
    let world = World::start();
    world.admin(&["deploy", &world.bundle()]).ok();
    let started: Value = world
        .admin(&["--json", "run", "shop-clerk", "hello"])
        .ok()
        .json();
    let run = started["run"]["id"].as_str().unwrap().to_owned();
    let watch = world.watch(&run);
    watch.until_held();

    let runs: Value = world
        .admin(&["runs", "ls", "--json", "--agent", "shop-clerk"])
        .ok()
        .json();
    assert_eq!(runs["runs"][0]["id"], run.as_str());
    assert_eq!(runs["runs"][0]["status"], "RUN_STATUS_AWAITING_APPROVAL");
    let approvals: Value = world.admin(&["approvals", "--json"]).ok().json();
    assert_eq!(
        approvals["approvals"][0]["argsJson"],
        r#"{"order_id":"A-17","amount":"16.63"}"#
    );
    let agents: Value = world
        .admin(&["agents", "show", "shop-clerk", "--json"])
        .ok()
        .json();
    assert_eq!(agents["agent"]["role"], "unrestricted");
    let tokens: Value = world.admin(&["token", "ls", "--json"]).ok().json();
    assert_eq!(tokens["tokens"].as_array().unwrap().len(), 1);

    let cancelled = world
        .admin(&["runs", "cancel", &run, "--reason", "enough"])
        .ok();
    assert!(cancelled.out.contains("cancelled"), "{cancelled}");
    assert_eq!(watch.finish().0, 4, "a cancelled run");
    let ended = world.admin(&["runs", "cancel", &run, "--json"]);
    assert_eq!(ended.code, 1, "{ended}");
    let error: Value = serde_json::from_str(&ended.err).unwrap();
    assert_eq!(error["error"]["code"], "run.ended");

    let missing = world.admin(&["runs", "show", "run_none"]);
    assert_eq!(missing.code, 1, "{missing}");
    assert!(missing.err.contains("[run.not_found]"), "{missing}");
    assert_eq!(world.admin(&["runs", "ls", "--status", "done"]).code, 2);
    let stranger = world.by(&format!("sayso_{}", "0".repeat(64)), &["runs", "ls"]);
    assert_eq!(stranger.code, 1, "{stranger}");
    assert!(
        stranger.err.contains("[token.invalid]") && stranger.err.contains("hint: "),
        "{stranger}"
    );
}

/// A namespace that the token does not open is refused before anything is done.
#[test]
fn s6_11_another_namespace_is_refused() {
    let world = World::start();
    let refused = world.admin(&["--namespace", "elsewhere", "deploy", &world.bundle()]);
    assert_eq!(refused.code, 1, "{refused}");
    assert!(refused.err.contains("[token.other_namespace]"), "{refused}");
    let agents = world
        .admin(&["--namespace", "default", "agents", "ls"])
        .ok();
    assert_eq!(
        agents.out.lines().count(),
        1,
        "nothing was deployed: {agents}"
    );
}

/// S10.5: mistakes in a bundle are all told, with their keys, and nothing is deployed.
#[test]
fn s10_5_a_bundle_with_mistakes_is_refused_with_every_key() {
    let world = World::start();
    let file = world.write(
        "bad.yaml",
        "name: Bad Name\ncolour: blue\npermissions: { preset: stern }\n",
    );
    for arguments in [vec!["deploy", &file], vec!["deploy", &file, "--validate"]] {
        let refused = world.admin(&arguments);
        assert_eq!(refused.code, 1, "{refused}");
        let said = format!("{}{}", refused.out, refused.err);
        for key in ["name", "colour", "permissions.preset"] {
            assert!(said.contains(&format!("{key}: ")), "{key}: {said}");
        }
    }
    assert!(
        world
            .admin(&["deploy", &world.bundle(), "--validate"])
            .ok()
            .out
            .contains("is sound")
    );
    assert_eq!(world.admin(&["agents", "ls"]).ok().out.lines().count(), 1);
}

#[test]
fn a_server_that_is_away_is_exit_3_with_a_hint() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let away = Answer::of(sayso().args(["--server", &server, "--token", "sayso_x", "runs", "ls"]));
    assert_eq!(away.code, 3, "{away}");
    assert!(
        away.err.contains("hint: is it running? `sayso up`"),
        "{away}"
    );
}

#[test]
fn without_a_token_it_says_where_one_would_be() {
    let empty = tempfile::tempdir().unwrap();
    let none = Answer::of(sayso().args(["runs", "ls"]).env("SAYSO_DATA", empty.path()));
    assert_eq!(none.code, 2, "{none}");
    assert!(none.err.contains("admin.token"), "{none}");
    let elsewhere = Answer::of(sayso().args(["--server", "http://10.255.255.1:1", "runs", "ls"]));
    assert_eq!(elsewhere.code, 2, "the local token stays here: {elsewhere}");
}

/// S10.4: the doctor says what is well and what is not.
#[test]
fn s10_4_the_doctor_looks_at_everything() {
    let world = World::start();
    let well = world.admin(&["doctor"]);
    assert!(well.out.contains("ok       gateway"), "{well}");
    assert!(well.out.contains("ok       database"), "{well}");
    let file = world.write(
        "sayso.yaml",
        "models: { m: { provider: scripted } }\ncolour: blue\n",
    );
    let wrong = world.admin(&["doctor", "--config", &file]);
    assert_eq!(wrong.code, 1, "{wrong}");
    for key in ["colour", "models.m.script"] {
        assert!(wrong.out.contains(key), "{key}: {wrong}");
    }
}
