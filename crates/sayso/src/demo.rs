//! `sayso demo`: the main job, for somebody who has just cloned. One process, one temporary folder; an
//! agent with a scripted model and a small shop; one call that runs by itself and one that waits for
//! the person at the terminal, who decides as a principal of their own, because nobody decides their
//! own request (S6.10).

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use sayso_sdk::v1::verify_run_response::Result as Verified;
use sayso_sdk::v1::{self, RunStatus};
use sayso_sdk::{Client, RunEvent, WatchOptions};
use sayso_service::config::RESERVED;
use sayso_tools::demo_shop::{Cents, Order, Shop};
use tempfile::TempDir;

use crate::args::DemoArgs;
use crate::commands::input;
use crate::outcome::{Exit, Failure};
use crate::output::style::Tone;
use crate::output::timeline::Timeline;
use crate::output::{Output, card, run, visible};
use crate::up::{self, Running, UpOptions};

const BUNDLE: &str = include_str!("../../../examples/shop/agent.yaml");
const SCRIPT: &str = include_str!("../../../examples/shop/model.yaml");

/// What stands in the bundle for this program and for the shop's file.
const PROGRAM: &str = "[sayso, demo-shop]";
const STATE: &str = "/tmp/sayso-demo-shop.json";

const AGENT: &str = "shop-clerk";
const TASK: &str = "Two of the six cups of order A-17 arrived broken. Refund them.";
const ORDER: &str = "A-17";
const APPROVER: &str = "demo-approver";

pub(crate) async fn run(args: &DemoArgs, output: &Output) -> Result<Exit, Failure> {
    if !args.yes && !input::somebody_is_there() {
        return Err(Failure::usage(
            "the demo asks a person, and there is no terminal",
            "run it in a terminal, or let it approve by itself: sayso demo --yes",
        ));
    }
    keeps_to_itself()?;
    let folder =
        TempDir::with_prefix("sayso-demo-").context("a temporary folder cannot be made")?;
    let script = folder.path().join("model.yaml");
    std::fs::write(&script, SCRIPT).context("the demo's script cannot be written")?;
    let running = up::start(UpOptions {
        data_dir: folder.path().join("data"),
        config: None,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        models_script: Some(script),
        quiet: true,
    })
    .await?;
    let shown = tokio::select! {
        shown = show(args, output, &running, folder.path()) => shown,
        stopped = tokio::signal::ctrl_c() => match stopped {
            Ok(()) => Err(Failure::Here(anyhow::anyhow!("stopped; the demo's folder is gone"))),
            Err(error) => Err(Failure::Output(error)),
        },
    };
    running.stop().await;
    folder
        .close()
        .context("the demo's folder cannot be removed")?;
    shown
}

/// The demo must not reach into an installation that the environment configures.
fn keeps_to_itself() -> Result<(), Failure> {
    let configured = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .find(|name| {
            name.starts_with("SAYSO_")
                && !name.starts_with("SAYSO_TEST_")
                && !RESERVED.contains(&name.as_str())
        });
    match configured {
        None => Ok(()),
        Some(name) => Err(Failure::usage(
            format!("the demo keeps to itself, and {name} configures something else"),
            format!("unset it for the demo: env -u {name} sayso demo"),
        )),
    }
}

async fn show(
    args: &DemoArgs,
    output: &Output,
    running: &Running,
    folder: &Path,
) -> Result<Exit, Failure> {
    let server = format!("http://{}", running.address);
    let admin = Client::connect(&server, &running.admin_token).await?;
    let state = folder.join("shop.json");
    let shop = Shop::open(state.clone()).context("the demo's shop cannot be opened")?;
    let say = |text: String| {
        if output.json {
            Ok(())
        } else {
            output.line(text)
        }
    };

    say("One process, one temporary folder, nothing of it stays.\n".to_owned())?;
    admin.deploy_agent(&bundle(&program()?, &state)).await?;
    say(format!(
        "The agent {AGENT} may look orders up by itself. Refunds wait for a person who did not ask for them.\n  {}",
        described(&order(&shop)?)
    ))?;
    let approver = approver(&admin, &server).await?;

    let started = admin.start_run(AGENT, TASK, None).await?.run;
    say(format!("\n{} asks it: \"{TASK}\"", started.requester))?;
    let id = started.id;
    let mut watch = admin.watch_run(
        &id,
        WatchOptions {
            steps_only: true,
            ..WatchOptions::default()
        },
    );
    while let Some(event) = watch.next().await {
        let RunEvent::Message(message) = event? else {
            continue;
        };
        if message.run_status() == RunStatus::AwaitingApproval {
            decide(args, output, &approver, &id).await?;
        }
    }
    ended(output, &admin, &shop, &id).await
}

/// Another principal, who decides.
async fn approver(admin: &Client, server: &str) -> Result<Client, Failure> {
    let request = v1::CreateTokenRequest {
        name: APPROVER.to_owned(),
        scopes: vec![v1::Scope::Approver.into()],
        ..v1::CreateTokenRequest::default()
    };
    let created = admin.create_token(request).await?;
    Ok(Client::connect(server, &created.secret).await?)
}

/// Shows what waits and asks about it; what is decided meanwhile is not there any more.
async fn decide(
    args: &DemoArgs,
    output: &Output,
    approver: &Client,
    run: &str,
) -> Result<(), Failure> {
    for approval in approver.pending_approvals(run).await? {
        if !output.json {
            output.line("\nIt looked the order up by itself. This it may not do alone:\n")?;
            output.line(card::card(&approval, output))?;
            output.line("")?;
        }
        let answer = if args.yes {
            output.aside(format!(
                "Approve? [y/N/reason] y   (--yes answers, as {APPROVER})"
            ))?;
            "y".to_owned()
        } else {
            input::ask("Approve? [y/N/reason]").await?
        };
        let (verdict, reason) = verdict(&answer);
        let request = v1::DecideApprovalRequest {
            approval_id: approval.id,
            verdict: verdict.into(),
            reason,
            ..v1::DecideApprovalRequest::default()
        };
        approver.decide_approval(request).await?;
    }
    Ok(())
}

/// Yes, no, or no for a reason.
fn verdict(answer: &str) -> (v1::Verdict, String) {
    match answer.to_lowercase().as_str() {
        "y" | "yes" => (v1::Verdict::Approve, String::new()),
        "" | "n" | "no" => (v1::Verdict::Deny, String::new()),
        _ => (v1::Verdict::Deny, answer.to_owned()),
    }
}

/// The timeline, what became of the order, and whether the timeline verifies.
async fn ended(output: &Output, admin: &Client, shop: &Shop, id: &str) -> Result<Exit, Failure> {
    let ended = admin.get_run(id).await?;
    let steps = admin.run_steps(id, 1).await?;
    let verified = admin.verify_run(id).await?;
    let exit = match (ended.status(), &verified.result) {
        (RunStatus::Completed, Some(Verified::Verified(_))) => Exit::Done,
        (RunStatus::Completed, _) => Exit::NotVerified,
        _ => Exit::RunLost,
    };
    if output.json {
        output.message_line(&ended)?;
        steps
            .iter()
            .try_for_each(|step| output.message_line(step))?;
        output.message_line(&verified)?;
        return Ok(exit);
    }
    output.line("\nThe run's timeline:\n")?;
    let mut timeline = Timeline::new(output.style, false);
    steps
        .iter()
        .try_for_each(|step| output.part(&timeline.step(step)))?;
    output.line(format!("\n{}", run::ending(&ended, output)))?;
    if let Some(said) = &ended.output {
        output.line(format!("It says: {}", visible::block(said)))?;
    }
    output.line(format!("  {}", described(&order(shop)?)))?;
    let style = output.style;
    output.line(match &verified.result {
        Some(Verified::Verified(head)) => {
            format!(
                "{}: nobody changed any of the {} steps",
                style.paint(Tone::Good, "verified"),
                head.sequence
            )
        }
        Some(Verified::Broken(broken)) => format!(
            "{}: step {}: {}",
            style.paint(Tone::Bad, "not verified"),
            broken.sequence,
            visible::line(&broken.reason)
        ),
        None => return Err(sayso_sdk::Error::Incomplete("result").into()),
    })?;
    output
        .line("\nNext: `sayso up` keeps everything in a folder and serves the inbox as a page;")?;
    output.line(
        "`sayso deploy examples/shop/agent.yaml` deploys this agent there, for a model of yours.",
    )?;
    Ok(exit)
}

/// The bundle of the examples, with this program as the shop and the demo's own file.
fn bundle(program: &Path, state: &Path) -> String {
    let quoted = |path: &Path| serde_json::Value::from(path.to_string_lossy()).to_string();
    let command = format!("[{}, demo-shop]", quoted(program));
    BUNDLE
        .replace(PROGRAM, &command)
        .replace(STATE, &quoted(state))
}

fn program() -> Result<PathBuf, Failure> {
    Ok(std::env::current_exe().context("this program's own path is not known")?)
}

fn order(shop: &Shop) -> Result<Order, Failure> {
    Ok(shop
        .order(ORDER)
        .context("the demo's order cannot be read")?)
}

fn described(order: &Order) -> String {
    let refunded = Cents(order.refunds.iter().map(|refund| refund.amount.0).sum());
    let times = match order.refunds.len() {
        0 => "nothing".to_owned(),
        1 => format!("{refunded} EUR, once"),
        times => format!("{refunded} EUR, {times} times"),
    };
    format!(
        "Order {}, {} of {}: {} EUR paid, refunded: {times}.",
        order.id, order.item, order.customer, order.paid
    )
}

#[cfg(test)]
mod tests {
    use sayso_rules::bundle::{Bundle, Transport};

    use super::*;

    /// The bundle of the examples is sound, and what the demo puts into it lands where it belongs.
    #[test]
    fn the_demos_bundle_is_sound() {
        assert_eq!(BUNDLE.matches(PROGRAM).count(), 1);
        assert_eq!(BUNDLE.matches(STATE).count(), 1);
        let (program, state) = (Path::new("/a b/sayso"), Path::new("/t: \"x\"/shop.json"));
        let bundle = Bundle::parse(&bundle(program, state)).unwrap();
        assert_eq!(bundle.name, AGENT);
        let Transport::Stdio { command, env } = &bundle.servers["shop"].transport else {
            panic!("the shop is a process")
        };
        assert_eq!(command, &["/a b/sayso", "demo-shop"]);
        assert_eq!(
            env[sayso_tools::demo_shop::STATE_ENV],
            "/t: \"x\"/shop.json"
        );
    }

    /// S5.12: the cases beside the example hold.
    #[test]
    fn s5_12_the_examples_cases_hold() {
        let cases = include_str!("../../../examples/shop/agent.cases.yaml");
        let cases = sayso_policy::cases::Cases::parse(cases).unwrap();
        let tested = cases.run(&Bundle::parse(BUNDLE).unwrap());
        assert_eq!(tested.failed, 0, "{tested:#?}");
    }

    #[test]
    fn the_demos_script_is_sound() {
        sayso_models::Script::parse(SCRIPT).unwrap();
    }

    #[test]
    fn the_other_example_is_sound() {
        Bundle::parse(include_str!("../../../examples/git/agent.yaml")).unwrap();
    }

    #[test]
    fn anything_but_yes_is_no() {
        use v1::Verdict::{Approve, Deny};
        for (answer, means) in [
            ("y", (Approve, "")),
            ("Yes", (Approve, "")),
            ("", (Deny, "")),
            ("N", (Deny, "")),
            ("too much", (Deny, "too much")),
            ("yes please", (Deny, "yes please")),
        ] {
            assert_eq!(verdict(answer), (means.0, means.1.to_owned()), "{answer}");
        }
    }
}
