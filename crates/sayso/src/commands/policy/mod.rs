//! `sayso policy`: what bundles say (S5.12). What needs no recorded run needs no server.

mod explain;
mod judge;
mod replay;
mod test;

use std::path::Path;

use sayso_rules::Bundle;
use sayso_sdk::v1::PolicyAction;

use super::{Context, input};
use crate::args::PolicyCommand;
use crate::outcome::{Exit, Failure};
use crate::output::style::Tone;

pub(crate) async fn run(context: &Context, command: PolicyCommand) -> Result<Exit, Failure> {
    match command {
        PolicyCommand::Explain(args) => explain::run(context, args).await,
        PolicyCommand::Test(args) => test::run(context, &args),
        PolicyCommand::Replay(args) => replay::run(context, args).await,
        PolicyCommand::Judge(args) => judge::run(context, &args),
    }
}

/// A bundle from its file.
fn bundle(path: &Path) -> Result<Bundle, Failure> {
    let text = input::file(path)?;
    Bundle::parse(&text).map_err(|errors| Failure::Given(sayso_policy::refuse_bundle(&errors)))
}

fn tone(action: PolicyAction) -> Tone {
    match action {
        PolicyAction::Allow => Tone::Good,
        PolicyAction::Ask => Tone::Waits,
        PolicyAction::Deny => Tone::Bad,
        PolicyAction::Unspecified => Tone::Faint,
    }
}
