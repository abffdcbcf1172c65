//! `sayso target`.

use clap::{ArgGroup, Args, Subcommand};
use sayso_sdk::v1;

use super::words;

#[derive(Debug, Subcommand)]
pub(crate) enum TargetCommand {
    /// Add a target. It gets every pending approval and every failed run of the namespace.
    ///
    /// sayso target add ops --webhook "$HOOK_URL" --secret OPS_KEY
    ///
    /// sayso target add oncall --email oncall@example.org --only approvals
    ///
    /// The address may be internal: whoever may set targets can make sayso send to whatever it reaches.
    Add(TargetAddArgs),
    /// List targets; of URLs the origins.
    Ls,
    /// Send a test message, once, and say what came of it.
    Test {
        /// The target.
        name: String,
    },
    /// Remove a target; what was still to be sent to it is not sent.
    Rm {
        /// The target.
        name: String,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("to").required(true).args(["webhook", "email", "slack"])))]
pub(crate) struct TargetAddArgs {
    /// Its name: a-z, 0-9 and -. Bundles name it in `escalate`.
    pub(crate) name: String,
    /// POST to this URL.
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// Write to this mailbox, through the mail server of the configuration (smtp).
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) email: Option<String>,
    /// POST to this incoming webhook of Slack, or of what takes the same.
    #[arg(long, value_name = "URL")]
    pub(crate) slack: Option<String>,
    /// Sign what the webhook gets with this stored secret.
    #[arg(long, value_name = "NAME", requires = "webhook")]
    pub(crate) secret: Option<String>,
    /// Tell it of these alone: approvals or failures.
    #[arg(long, value_parser = words(v1::TargetEvent::ALL, v1::TargetEvent::word))]
    pub(crate) only: Vec<v1::TargetEvent>,
}
