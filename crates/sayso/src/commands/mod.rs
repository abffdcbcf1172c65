//! The commands that talk to a server, one file each, and those that are one themselves.

mod agents;
mod approvals;
mod budget;
mod chat;
mod conversations;
mod decide;
mod deploy;
mod doctor;
mod events;
mod export;
mod feedback;
mod groups;
mod init;
pub(crate) mod input;
mod list;
mod logs;
mod mcp;
pub(crate) mod pause;
mod policy;
mod roles;
mod run;
mod runs;
mod schema;
mod secrets;
mod targets;
mod tokens;
mod watch;

use crate::args::{Cli, Command, Global};
use crate::outcome::{Exit, Failure};
use crate::output::Output;
use crate::{client, demo, serve, up};

/// What every command knows.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) output: Output,
}

impl Context {
    pub(crate) async fn connect(&self) -> Result<sayso_sdk::Client, Failure> {
        client::connect(&self.global).await
    }
}

/// Runs a command.
pub(crate) async fn run(cli: Cli, output: Output) -> Result<Exit, Failure> {
    let context = Context {
        global: cli.global,
        output,
    };
    match cli.command {
        Command::Up(args) => {
            let options = up::UpOptions {
                data_dir: client::data_dir(&context.global)?,
                config: args.config.config,
                listen: args.listen,
                models_script: None,
                quiet: false,
            };
            Ok(Exit::Of(up::run(options).await?))
        }
        Command::Serve(args) => Ok(Exit::Of(
            serve::run(args.service, args.config.config).await?,
        )),
        Command::Demo(args) => demo::run(&args, &context.output).await,
        Command::Doctor(args) => doctor::run(&context, args.config.as_deref()).await,
        Command::Mcp => mcp::run(&context).await,
        Command::Deploy(args) => deploy::run(&context, &args).await,
        Command::Run(args) => run::run(&context, &args).await,
        Command::Runs(command) => runs::run(&context, command).await,
        Command::Approvals(args) => approvals::run(&context, args).await,
        Command::Approve(args) => decide::run(&context, decide::Which::Approve, args).await,
        Command::Deny(args) => decide::run(&context, decide::Which::Deny, args).await,
        Command::Token(command) => tokens::run(&context, command).await,
        Command::Events(command) => events::run(&context, command).await,
        Command::Chat(args) => chat::run(&context, args).await,
        Command::Conversations(command) => conversations::run(&context, command).await,
        Command::Logs(args) => logs::run(&context, &args).await,
        Command::Agents(command) => agents::run(&context, command).await,
        Command::Budget(command) => budget::run(&context, command).await,
        Command::Group(command) => groups::run(&context, command).await,
        Command::Feedback(command) => feedback::run(&context, command).await,
        Command::Secret(command) => secrets::run(&context, command).await,
        Command::Target(command) => targets::run(&context, command).await,
        Command::Pause(args) => pause::pause(&context, args).await,
        Command::Resume(args) => pause::resume(&context, args).await,
        Command::Role(command) => roles::run(&context, command).await,
        Command::Policy(command) => policy::run(&context, command).await,
        Command::Init(args) => init::run(&context, &args),
        Command::Schema(command) => schema::run(&context, &command),
        Command::DemoShop => {
            let served = sayso_tools::demo_shop::serve_stdio().await;
            served.map_err(|error| Failure::Here(error.into()))?;
            Ok(Exit::Done)
        }
    }
}
