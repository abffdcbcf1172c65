//! MCP servers over stdio.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sayso_driver::{Fence, Tools};
use sayso_run::{RunId, ToolOutcome};

use crate::world::{self, Limits, World, assert_ok, assert_says, await_end, settings};

/// S3.5: all pages are listed, names get their model form, bad names are left out.
#[tokio::test]
async fn s3_5_a_server_lists_its_tools() {
    let world = World::stdio("");
    let set = world.list().await;
    assert_eq!(set.tools.len(), 16);
    let echo = set.find("t.echo").unwrap();
    assert_eq!(echo.model_name, "t_echo");
    assert_eq!(echo.description, "The tool echo.");
    assert_eq!(echo.input_schema, r#"{"type":"object"}"#);
    assert_eq!(echo.hints.read_only, Some(true));
    assert_eq!(echo.hints.destructive, None);
    assert!(echo.origin.starts_with(world::SERVER));
    assert!(set.find("t.not a name").is_none());
    // What was listed is stored, and read back.
    let stored = world.toolbox.stored(&set.id).await.unwrap();
    assert_eq!(*stored, *set);
    world.toolbox.close().await;
}

/// B38: two tools whose plain names clash stay apart, whichever name is used.
#[tokio::test]
async fn b38_clashing_tools_are_both_reached_and_never_mixed_up() {
    let world = World::stdio("");
    let set = world.list().await;
    for name in ["update.contact", "update_contact"] {
        let tool = set.find(&format!("t.{name}")).unwrap();
        let reply = world.call(&tool.model_name.clone(), "{}").await;
        assert_ok(&reply, &format!("this is {name}"));
    }
    assert!(set.find("t_update_contact").is_none());
    world.toolbox.close().await;
}

/// S3.7: what the server gets is what was approved.
#[tokio::test]
async fn s3_7_arguments_arrive_whole() {
    let world = World::stdio("");
    let args = r#"{"a":[1,2.5,18446744073709551615,-9223372036854775808],"b":"é😀\\ \"","c":null}"#;
    let reply = world.call("t.echo", args).await;
    assert_ok(&reply, args);
    // A number that would change is refused even if nobody checked before.
    let reply = world
        .call("t.echo", r#"{"n":123456789012345678901234567890}"#)
        .await;
    assert_eq!(reply.outcome, ToolOutcome::InvalidArguments);
    world.toolbox.close().await;
}

/// S3.7: what fails the schema is told to the model with its place.
#[tokio::test]
async fn s3_7_arguments_are_checked_against_the_schema() {
    let world = World::stdio("");
    let set = world.list().await;
    let append = set.find("t.append").unwrap();
    let check = |args: &str| world.toolbox.check(append, args);
    assert_eq!(check(r#"{"line":"x"}"#), Ok(()));
    assert_says(
        &check("{}").unwrap_err(),
        &["nothing was run", "/: ", "line"],
    );
    assert_says(&check(r#"{"line":1}"#).unwrap_err(), &["/line: "]);
    assert_says(
        &check(r#"{"line":"a","line":"b"}"#).unwrap_err(),
        &["twice"],
    );
    assert_says(
        &check(r#"{"line":"a","n":1e400}"#).unwrap_err(),
        &["number"],
    );
    assert_says(&check("[]").unwrap_err(), &["one JSON object"]);
    world.toolbox.close().await;
}

/// S3.8: a large result is cut on a character's boundary and says how much is missing.
#[tokio::test]
async fn s3_8_a_large_result_is_cut() {
    let world = World::stdio("");
    let limits = Limits {
        bytes: 1001,
        ..Limits::default()
    };
    let reply = world
        .call_within("t.big", r#"{"chars":1000000}"#, limits)
        .await;
    assert_eq!(reply.outcome, ToolOutcome::Ok);
    assert_eq!(reply.cut_bytes, 2_000_000 - 1000);
    assert!(reply.content.starts_with(&"é".repeat(500)));
    assert_says(
        &reply.content[1000..],
        &["1999000 of 2000000 bytes are missing"],
    );
    world.toolbox.close().await;
}

/// S3.8: a tool that takes too long is told to stop, and its outcome says that it may have acted.
#[tokio::test]
async fn s3_8_a_slow_tool_times_out_and_is_cancelled() {
    let world = World::stdio("");
    let limits = Limits {
        timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let reply = world
        .call_within("t.sleep", r#"{"ms":600000}"#, limits)
        .await;
    assert_eq!(reply.outcome, ToolOutcome::Timeout);
    assert_says(&reply.content, &["300ms", "may have acted"]);
    world.await_note("cancelled").await;
    // The connection is still good.
    assert_ok(&world.call("t.count", "{}").await, "2");
    world.toolbox.close().await;
}

/// A caller that goes away cancels its call.
#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    let world = World::stdio("");
    let set = world.list().await;
    let request = world.request(&set, "t.sleep", r#"{"ms":600000}"#, Limits::default());
    tokio::select! {
        _ = world.send(request) => panic!("nobody sleeps that long"),
        _ = world.await_note("sleeping") => {}
    }
    world.await_note("cancelled").await;
    world.toolbox.close().await;
}

#[tokio::test]
async fn results_of_all_kinds_become_text() {
    let world = World::stdio("");
    let reply = world.call("t.fail", "{}").await;
    assert_eq!(
        (reply.outcome, reply.content.as_str()),
        (ToolOutcome::Error, "the shelf is empty")
    );
    let reply = world.call("t.refuse", "{}").await;
    assert_eq!(reply.outcome, ToolOutcome::Error);
    assert_says(&reply.content, &["refused", "not like this", "-32602"]);
    assert_ok(&world.call("t.structured", "{}").await, r#"{"left":3}"#);
    assert_ok(
        &world.call("t.picture", "{}").await,
        "a cat\n[image: image/png, 5 bytes]",
    );
    world.toolbox.close().await;
}

/// The key that a server may use to act once, however often it is asked.
#[tokio::test]
async fn the_idempotency_key_travels_with_the_call() {
    let world = World::stdio("");
    assert_ok(
        &world.call("t.append", r#"{"line":"hello"}"#).await,
        "noted",
    );
    assert_eq!(world.noted(), ["key-1 hello"]);
    world.toolbox.close().await;
}

/// S3.5: a server that died is started again; the call in flight says that its outcome is unknown.
#[tokio::test]
async fn s3_5_a_server_that_dies_is_restarted() {
    let world = World::stdio("");
    let first = world.call("t.pid", "{}").await.content;
    let reply = world.call("t.die", "{}").await;
    assert_eq!(reply.outcome, ToolOutcome::Error);
    assert_says(
        &reply.content,
        &["t.die", "exit code 7", "out of memory", "may have acted"],
    );
    let second = world.call("t.pid", "{}").await;
    assert_eq!(second.outcome, ToolOutcome::Ok);
    assert_ne!(second.content, first);
    world.toolbox.close().await;
}

/// A server killed between two calls costs the second nothing but a start.
#[tokio::test]
async fn a_server_killed_while_idle_is_restarted_unnoticed() {
    let world = World::stdio("");
    let pid: u32 = world.call("t.pid", "{}").await.content.parse().unwrap();
    kill(pid);
    await_end(pid).await;
    let reply = world.call("t.pid", "{}").await;
    assert_eq!(reply.outcome, ToolOutcome::Ok);
    assert_ne!(reply.content, pid.to_string());
    world.toolbox.close().await;
}

fn kill(pid: u32) {
    let killed = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(killed.unwrap().success());
}

/// S6.1: a tool that is defined otherwise than when it was listed is not called.
#[tokio::test]
async fn s6_1_a_changed_definition_fails_closed() {
    let world = World::stdio("");
    let set = world.list().await;
    assert_ok(&world.call("t.echo", "{}").await, "{}");
    assert_ok(&world.call("t.redefine", "{}").await, "redefined");
    let old = world.request(&set, "t.echo", "{}", Limits::default());
    let reply = world.send(old).await;
    assert_eq!(reply.outcome, ToolOutcome::Mismatch);
    assert_says(&reply.content, &["t.echo", "otherwise"]);
    // A new listing has the new definition, which runs. Calls so far: echo, redefine; the refused
    // one never arrived.
    let new = world.list().await;
    assert_ne!(new.id, set.id);
    assert_ok(&world.call("t.echo", "{}").await, "{}");
    assert_ok(&world.call("t.count", "{}").await, "4");
    world.toolbox.close().await;
}

/// S6.1: neither is a tool of another command line, nor one that is gone.
#[tokio::test]
async fn s6_1_another_origin_or_no_tool_fails_closed() {
    let world = World::stdio("");
    let set = world.list().await;
    for change in ["origin", "schema", "name", "server"] {
        let mut request = world.request(&set, "t.append", r#"{"line":"x"}"#, Limits::default());
        match change {
            "origin" => request.tool.origin.push('x'),
            "schema" => request.tool.input_schema = r#"{"type":"object"}"#.to_owned(),
            "name" => request.tool.registered = "t.gone".to_owned(),
            _ => request.tool.registered = "elsewhere.append".to_owned(),
        }
        let reply = world.send(request).await;
        assert_eq!(reply.outcome, ToolOutcome::Mismatch, "{change}");
    }
    assert_eq!(world.noted(), [""; 0]);
    world.toolbox.close().await;
}

/// The listing is asked for again only when the server says that it changed.
#[tokio::test]
async fn s3_5_the_listing_holds_until_the_server_says_otherwise() {
    let world = World::stdio("");
    let first = world.list().await;
    assert!(Arc::ptr_eq(&first, &world.list().await));
    assert_eq!(*world.memory.puts.lock().unwrap(), 1);
    assert_ok(&world.call("t.grow", r#"{"name":"more"}"#).await, "grown");
    let grown = world.list().await;
    assert_eq!(grown.tools.len(), first.tools.len() + 1);
    assert!(grown.find("t.more").is_some());
    // The run of the first listing goes on with the tools that are still the same.
    let request = world.request(&first, "t.echo", "{}", Limits::default());
    assert_ok(&world.send(request).await, "{}");
    world.toolbox.close().await;
}

/// The worker's lease: nothing goes out that it does not cover.
#[tokio::test]
async fn a_lost_lease_sends_nothing() {
    let world = World::stdio("");
    let set = world.list().await;
    let request = world.request(&set, "t.append", r#"{"line":"x"}"#, Limits::default());
    let reply = world
        .toolbox
        .call(&world.revision, request.clone(), Fence::new(|| false))
        .await;
    assert_eq!(reply.outcome, ToolOutcome::Unreachable);
    assert_says(&reply.content, &["nothing was sent", "no longer act"]);
    assert_eq!(world.noted(), [""; 0]);
    // The fence is asked when everything else is done: here it holds, and once.
    let asked = Arc::new(AtomicBool::new(false));
    let ask = asked.clone();
    let fence = Fence::new(move || !ask.swap(true, Ordering::SeqCst));
    assert_ok(
        &world.toolbox.call(&world.revision, request, fence).await,
        "noted",
    );
    assert!(asked.load(Ordering::SeqCst));
    world.toolbox.close().await;
}

/// A call waits for its turn before the fence is asked.
#[tokio::test]
async fn calls_in_flight_are_limited() {
    let mut few = settings();
    few.max_calls = 1;
    let world = Arc::new(World::stdio_with("", "", &few));
    let set = world.list().await;
    let slow = world.request(&set, "t.sleep", r#"{"ms":300}"#, Limits::default());
    let append = world.request(&set, "t.append", r#"{"line":"x"}"#, Limits::default());
    let sleeping = tokio::spawn({
        let world = world.clone();
        async move { world.send(slow).await }
    });
    world.await_note("sleeping").await;
    // The server notes the end of its nap before it answers: the fence of the second call is asked
    // after that, or the second call did not wait.
    let waited = Arc::new(AtomicBool::new(false));
    let fence = Fence::new({
        let (waited, ledger) = (waited.clone(), world.ledger());
        move || {
            let rested = world::lines(&ledger).contains(&"rested".to_owned());
            waited.store(rested, Ordering::SeqCst);
            true
        }
    });
    let reply = world.toolbox.call(&world.revision, append, fence).await;
    assert_ok(&reply, "noted");
    assert!(waited.load(Ordering::SeqCst));
    assert_ok(&sleeping.await.unwrap(), "rested");
    world.toolbox.close().await;
}

/// S3.5: a server with state can have a process for each run.
#[tokio::test]
async fn s3_5_per_run_servers_are_apart_and_end_with_the_run() {
    let mut world = World::stdio_with("", ", perRun: true", &settings());
    let mut pids = Vec::new();
    for run in ["run_1", "run_2", "run_1"] {
        world.run = RunId::new(run).unwrap();
        let pid: u32 = world.call("t.pid", "{}").await.content.parse().unwrap();
        pids.push(pid);
    }
    assert_ne!(pids[0], pids[1]);
    assert_eq!(pids[0], pids[2]);
    world.toolbox.release(&RunId::new("run_1").unwrap()).await;
    assert!(!world::runs(pids[0]));
    assert!(world::runs(pids[1]));
    world.toolbox.close().await;
    assert!(!world::runs(pids[1]));
}

/// One process serves all runs of a revision, and a hundred calls at once.
#[tokio::test]
async fn s3_5_runs_share_a_process() {
    let mut world = World::stdio("");
    let first = world.call("t.pid", "{}").await.content;
    world.run = RunId::new("run_2").unwrap();
    let set = world.list().await;
    let calls = (0..100).map(|_| world.send(world.request(&set, "t.pid", "{}", Limits::default())));
    for reply in futures::future::join_all(calls).await {
        assert_ok(&reply, &first);
    }
    world.toolbox.close().await;
}

/// An idle server is ended, and started again when it is needed.
#[tokio::test]
async fn idle_servers_are_ended() {
    let mut impatient = settings();
    impatient.idle = Duration::from_millis(100);
    let world = World::stdio_with("", "", &impatient);
    let pid: u32 = world.call("t.pid", "{}").await.content.parse().unwrap();
    await_end(pid).await;
    // One that is busy for longer than that is not idle.
    assert_ok(&world.call("t.sleep", r#"{"ms":400}"#).await, "rested");
    world.toolbox.close().await;
}

/// Servers do not outlive us, nor do their children; calls in flight end.
#[tokio::test]
async fn closing_ends_every_process() {
    let world = Arc::new(World::stdio("parent"));
    let pid: u32 = world.call("t.pid", "{}").await.content.parse().unwrap();
    let child: u32 = world.await_note("child ").await.parse().unwrap();
    let set = world.list().await;
    let request = world.request(&set, "t.sleep", r#"{"ms":600000}"#, Limits::default());
    let sleeping = tokio::spawn({
        let world = world.clone();
        async move { world.send(request).await }
    });
    world.await_note("sleeping").await;
    world.toolbox.close().await;
    assert!(!world::runs(pid));
    await_end(child).await;
    assert_eq!(sleeping.await.unwrap().outcome, ToolOutcome::Error);
    assert_says(&world.list_error().await, &["shutting down"]);
}

/// Even if nobody closes anything.
#[test]
fn dropping_everything_ends_every_process() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (pid, child) = runtime.block_on(async {
        let world = World::stdio("parent");
        let pid: u32 = world.call("t.pid", "{}").await.content.parse().unwrap();
        let child: u32 = world.await_note("child ").await.parse().unwrap();
        (pid, child)
    });
    drop(runtime);
    let wait = tokio::runtime::Runtime::new().unwrap();
    wait.block_on(async {
        await_end(pid).await;
        await_end(child).await;
    });
}

/// A server that is not there, or is none, is named with what it said.
#[tokio::test]
async fn servers_that_cannot_start_say_why() {
    let world = World::new("servers: { t: { command: [/no/such/program] } }\n");
    assert_says(
        &world.list_error().await,
        &["`t`", "/no/such/program", "No such file"],
    );
    let started = Instant::now();
    let world = World::stdio("noise");
    assert_says(
        &world.list_error().await,
        &[
            "exit code 3",
            "Welcome to the test server!",
            "cannot find my configuration",
        ],
    );
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "not by timeout"
    );
}

/// A server that never answers the handshake is given up and ended.
#[tokio::test]
async fn a_server_that_hangs_in_the_handshake_is_given_up() {
    let mut impatient = settings();
    impatient.connect_timeout = Duration::from_millis(500);
    let world = World::stdio_with("hang", "", &impatient);
    assert_says(
        &world.list_error().await,
        &["`t`", "handshake within 500ms"],
    );
}

/// An endless message breaks the connection instead of filling the memory.
#[tokio::test]
async fn a_server_that_floods_is_cut_off() {
    let world = World::stdio("flood");
    assert_says(&world.list_error().await, &["larger than 16 MiB"]);
}

/// A line that is no message is passed over.
#[tokio::test]
async fn noise_before_the_handshake_is_passed_over() {
    let world = World::stdio("noisy");
    assert_ok(&world.call("t.echo", "{}").await, "{}");
    world.toolbox.close().await;
}

/// S3.10: a server gets the bundle's environment, PATH and HOME, and nothing else of ours; what it
/// got is in no error.
#[tokio::test]
async fn the_environment_is_the_bundles_and_stays_secret() {
    let world = World::new(&format!(
        "servers: {{ t: {{ command: [{}, leak], env: {{ TOKEN: s3cr3t-token }} }} }}\n",
        world::SERVER
    ));
    let error = world.list_error().await;
    assert_says(&error, &["TOKEN=[redacted]", "PATH="]);
    assert!(!error.contains("s3cr3t"), "{error}");
    assert!(!error.contains("CARGO"), "{error}");
}

/// The store is asked when a set is new, and its failure is told.
#[tokio::test]
async fn a_set_that_cannot_be_stored_is_not_listed() {
    let world = World::new("interaction: true\n");
    *world.memory.broken.lock().unwrap() = true;
    assert_says(&world.list_error().await, &["no disk"]);
    *world.memory.broken.lock().unwrap() = false;
    let set = world.list().await;
    // Another process, which has never listed, reads it from the store.
    let mut other = World::new("");
    other.memory = world.memory.clone();
    other.toolbox = Arc::new(sayso_tools::Toolbox::new(
        &settings(),
        world.memory.clone(),
        world.memory.clone(),
        Arc::new(sayso_tools::NoSecrets),
    ));
    assert_eq!(*other.toolbox.stored(&set.id).await.unwrap(), *set);
    // What is stored under a wrong id is refused.
    let text = world.memory.sets.lock().unwrap()[set.id.as_str()].clone();
    let wrong = sayso_run::ToolSetId::new("0".repeat(64)).unwrap();
    let missing = other.toolbox.stored(&wrong).await.unwrap_err();
    assert_says(&missing.to_string(), &["no tool set"]);
    world
        .memory
        .sets
        .lock()
        .unwrap()
        .insert(wrong.to_string(), text);
    let foreign = other.toolbox.stored(&wrong).await.unwrap_err();
    assert_says(&foreign.to_string(), &["another one"]);
}
