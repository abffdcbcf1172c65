//! What can be typed. Each command's own page of help is the text beside its arguments.

mod policy;
mod targets;

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand};
use sayso_sdk::v1;

pub(crate) use self::policy::{
    ExplainArgs, InitArgs, JudgeArgs, PolicyCommand, ReplayArgs, RoleCommand, SchemaCommand,
    TestArgs,
};
pub(crate) use self::targets::{TargetAddArgs, TargetCommand};
use crate::serve::Service;

/// The address of `sayso up` if nothing is said.
pub(crate) const LOCAL_SERVER: &str = "http://127.0.0.1:7400";

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  refused or failed; the error names a stable code
  2  the command was not understood, or lacks something
  3  the server cannot be reached
  4  the run that was watched has failed or was cancelled
  5  a timeline does not verify

Where commands go:
  --server or SAYSO_SERVER, else http://127.0.0.1:7400. The token is --token or SAYSO_TOKEN, else
  that of `sayso up` on this machine (admin.token in its data folder).";

/// A control plane for AI agents: what an agent may do alone, what a person decides first, and what
/// was done.
#[derive(Debug, Parser)]
#[command(name = "sayso", version, after_help = EXIT_CODES, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// On how many threads the command runs.
    pub(crate) fn threads(&self) -> usize {
        match &self.command {
            Command::Up(up) => up.runtime.threads().unwrap_or_else(cores),
            // Six processes on two cores only wake each other's threads.
            Command::Serve(serve) => serve.runtime.threads().unwrap_or(match cores() {
                1 | 2 => 1,
                cores => cores,
            }),
            Command::Demo(_) => cores(),
            _ => 1,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RuntimeArgs {
    /// Threads to work on; one a core unless said otherwise, and one for a service where there are
    /// two cores.
    #[arg(long, env = "SAYSO_THREADS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl RuntimeArgs {
    fn threads(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Said before or after any command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The server's address.
    #[arg(long, global = true, env = "SAYSO_SERVER", value_name = "URL", default_value = LOCAL_SERVER, hide_env = true, hide_default_value = true)]
    pub(crate) server: String,
    /// Whom to act as: a token's secret.
    #[arg(
        long,
        global = true,
        env = "SAYSO_TOKEN",
        value_name = "SECRET",
        hide_env = true
    )]
    pub(crate) token: Option<String>,
    /// The namespace that is meant; a token of another one is refused.
    #[arg(
        long,
        global = true,
        env = "SAYSO_NAMESPACE",
        value_name = "NAME",
        hide_env = true
    )]
    pub(crate) namespace: Option<String>,
    /// The folder of `sayso up` on this machine.
    #[arg(
        long,
        global = true,
        env = "SAYSO_DATA",
        value_name = "DIR",
        hide_env = true
    )]
    pub(crate) data: Option<PathBuf>,
    /// Print JSON, as the API has it: one object, or one a line where things happen one by one.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process, with its data in one folder.
    Up(UpArgs),
    /// Run one service, against Postgres and NATS.
    Serve(ServeArgs),
    /// See it work: an agent, a call that runs, a call that waits for you.
    Demo(DemoArgs),
    /// Check the database, the broker, the clock, the models, the secrets and the gateway.
    ///
    /// It does what services do at their start, schema and streams included, and stops.
    Doctor(ConfigArgs),
    /// Serve approvals and runs as an MCP server over standard input and output.
    ///
    /// For an MCP client that starts its servers: `sayso mcp` with SAYSO_SERVER and SAYSO_TOKEN in
    /// its environment. A client that speaks streamable HTTP takes the gateway's /mcp instead.
    Mcp,
    /// Deploy an agent from its bundle.
    Deploy(DeployArgs),
    /// Start a run of an agent.
    Run(RunArgs),
    /// Talk with an agent: one message, or line by line.
    ///
    /// It shows the agent's answers and questions, and says where a call waits for a person. Without a
    /// message it reads lines from standard input until its end.
    Chat(ChatArgs),
    /// List conversations, or show what was said in one.
    #[command(subcommand)]
    Conversations(ConversationsCommand),
    /// Follow what happens in the namespace.
    #[command(subcommand)]
    Events(EventsCommand),
    /// List, show, watch, end and continue runs.
    #[command(subcommand)]
    Runs(RunsCommand),
    /// List approvals, or show one.
    #[command(args_conflicts_with_subcommands = true)]
    Approvals(ApprovalsArgs),
    /// Let calls run that wait for a person.
    Approve(DecideArgs),
    /// Refuse calls that wait for a person.
    Deny(DecideArgs),
    /// Make, list and revoke tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Read an agent's log: failed notifications and the like.
    Logs(LogsArgs),
    /// List agents, or show one.
    #[command(subcommand)]
    Agents(AgentsCommand),
    /// Let an agent, or the whole namespace, start and do nothing for now; nothing is lost.
    ///
    /// Starts are taken and stay pending; what was sent before comes to its end. With --list it says
    /// what is paused.
    Pause(PauseArgs),
    /// End a pause: everything goes on.
    Resume(ResumeArgs),
    /// Say what models may cost in a month, and see what they cost.
    #[command(subcommand)]
    Budget(BudgetCommand),
    /// Say how well a task went, and see what was said.
    #[command(subcommand)]
    Feedback(FeedbackCommand),
    /// Say who is in which group of people who decide.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Keep secrets that tools and signatures need: set, list, remove.
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Say where approvals and failures are told: add, list, test, remove.
    #[command(subcommand)]
    Target(TargetCommand),
    /// Ask what bundles say: explain, test, replay and judge.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Write a first bundle, with comments, and cases beside it.
    Init(InitArgs),
    /// Print a schema for editors.
    #[command(subcommand)]
    Schema(SchemaCommand),
    /// Say what agents may do at most: list, show, change and attach roles.
    #[command(subcommand)]
    Role(RoleCommand),
    /// The demo's shop, an MCP server over standard input and output.
    #[command(hide = true)]
    DemoShop,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7400")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The configuration file, YAML.
    #[arg(long, env = "SAYSO_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Which one.
    pub(crate) service: Service,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Approve without asking.
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeployArgs {
    /// The bundle, YAML or JSON; `-` reads standard input.
    pub(crate) file: PathBuf,
    /// Only say what is wrong with it.
    #[arg(long)]
    pub(crate) validate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The agent.
    pub(crate) agent: String,
    /// What is asked; `-` reads standard input.
    #[arg(allow_hyphen_values = true)]
    pub(crate) input: String,
    /// Show what happens until it ends.
    #[arg(long, short)]
    pub(crate) watch: bool,
    /// Makes it safe to send again: the same key gives the same run.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Print every event from now on, a line each; it ends with Ctrl-C, or after --count.
    ///
    /// With --json each line is a CloudEvent. Over a broken connection it watches again, and says that
    /// events may be missing.
    Tail {
        /// Those of this agent's runs.
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// Those of this type, such as sayso.step.completion.v1 or sayso.approval.*; may be given
        /// several times.
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// Ends after so many.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The agent.
    pub(crate) agent: String,
    /// What to say; `-` reads standard input as one message. Left out, each line is a message.
    #[arg(allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
    /// Go on with this conversation; a new one begins without it.
    #[arg(long, value_name = "ID")]
    pub(crate) conversation: Option<String>,
    /// Makes one message safe to send again: the same key says it once.
    #[arg(long, value_name = "KEY", requires = "message")]
    pub(crate) key: Option<String>,
    /// Who wrote it, if somebody outside did: their words are untrusted.
    #[arg(long, value_name = "NAME")]
    pub(crate) outside: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConversationsCommand {
    /// List conversations, newest first.
    Ls {
        /// Those with this agent.
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show what was said in a conversation.
    Show {
        /// The conversation.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first.
    Ls(ListRunsArgs),
    /// Show a run and its timeline.
    Show(ShowRunArgs),
    /// Show what happens in a run until it ends.
    Watch(WatchRunArgs),
    /// End a run.
    Cancel(CancelArgs),
    /// Let a failed run go on.
    Retry(RunId),
    /// Send a message into a run.
    Reply(ReplyArgs),
    /// Check that nobody changed a run's timeline.
    Verify(VerifyArgs),
    /// Write a run's timeline to standard output: JSON lines, one a step.
    Export(ExportArgs),
    /// Make a read-only copy of an exported run, under a new id.
    Import {
        /// The export; `-` reads standard input.
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("of").required(true).args(["id", "file"])))]
pub(crate) struct VerifyArgs {
    /// The run.
    #[arg(value_name = "RUN")]
    pub(crate) id: Option<String>,
    /// An export, redacted or not, instead; its seals need the keys, and are not checked.
    #[arg(long)]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// Leave the contents out; the chain can be verified all the same.
    #[arg(long)]
    pub(crate) redacted: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunId {
    /// The run.
    #[arg(value_name = "RUN")]
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ListRunsArgs {
    /// Of this agent.
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// In one of these statuses.
    #[arg(long, value_delimiter = ',', value_parser = run_status())]
    pub(crate) status: Vec<v1::RunStatus>,
    /// Ended by one of these.
    #[arg(long, value_delimiter = ',', value_parser = words(v1::EndedBy::ALL, v1::EndedBy::word))]
    pub(crate) ended_by: Vec<v1::EndedBy>,
    /// Asked for by this principal.
    #[arg(long, value_name = "PRINCIPAL")]
    pub(crate) requester: Option<String>,
    /// Of this task.
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// Started by this run.
    #[arg(long, value_name = "RUN")]
    pub(crate) parent: Option<String>,
    /// Created at or after this time: 2026-03-01T09:30:00Z, or an age such as 2h.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) after: Option<SystemTime>,
    /// Created before this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) before: Option<SystemTime>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Limit {
    /// How many at most.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ShowRunArgs {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// Cut nothing.
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchRunArgs {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// The first step wanted.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) from: u64,
    /// Cut nothing.
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// Why, for the record.
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplyArgs {
    #[command(flatten)]
    pub(crate) run: RunId,
    /// The message; `-` reads standard input.
    #[arg(allow_hyphen_values = true)]
    pub(crate) message: String,
    /// Makes it safe to send again.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ApprovalsCommand>,
    #[command(flatten)]
    pub(crate) list: ListApprovalsArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// Show an approval: what would run, exactly, and who asks.
    Show {
        /// The approval.
        #[arg(value_name = "APPROVAL")]
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListApprovalsArgs {
    /// In one of these statuses; those that are pending if nothing is said.
    #[arg(long, value_delimiter = ',', value_parser = words(v1::ApprovalStatus::ALL, v1::ApprovalStatus::word))]
    pub(crate) status: Vec<v1::ApprovalStatus>,
    /// In any status.
    #[arg(long, conflicts_with = "status")]
    pub(crate) all: bool,
    /// Of this agent's runs.
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Of this run.
    #[arg(long)]
    pub(crate) run: Option<String>,
    /// Of this tool.
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Of runs that this principal asked for.
    #[arg(long, value_name = "PRINCIPAL")]
    pub(crate) requester: Option<String>,
    /// That this group may decide as such.
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Decided by this principal.
    #[arg(long, value_name = "PRINCIPAL")]
    pub(crate) decided_by: Option<String>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

/// By approvals, or by calls or tools of a run.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("what").required(true).args(["ids", "run"])),
    group(ArgGroup::new("of_run").multiple(true).args(["call", "tool"])),
    override_usage = "sayso approve|deny [OPTIONS] APPROVAL…\n       sayso approve|deny [OPTIONS] --run RUN --call CALL\n       sayso approve|deny [OPTIONS] --run RUN --tool TOOL",
)]
pub(crate) struct DecideArgs {
    /// Approvals.
    #[arg(value_name = "APPROVAL")]
    pub(crate) ids: Vec<String>,
    /// Decide calls of this run, in one response.
    #[arg(long, requires = "of_run")]
    pub(crate) run: Option<String>,
    /// This call.
    #[arg(long, requires = "run")]
    pub(crate) call: Vec<String>,
    /// Every call of this tool that waits now; none that comes later.
    #[arg(long, requires = "run")]
    pub(crate) tool: Vec<String>,
    /// Why; recorded, and told to the agent if it is a denial.
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// A message to the agent; the run then goes on without what stays undecided.
    #[arg(long)]
    pub(crate) message: Option<String>,
    /// Change a value of the arguments and approve the call as changed. The value is JSON, or else a
    /// text; all other bytes stay as they are.
    #[arg(long, value_name = "POINTER=VALUE", value_parser = setting, conflicts_with = "run")]
    pub(crate) set: Vec<(String, String)>,
    /// The digest of what you saw: needed where somebody else has edited the call.
    #[arg(long, value_name = "DIGEST", conflicts_with = "run")]
    pub(crate) digest: Option<String>,
    /// Do not ask before approving.
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// A pointer and a value; the first `=` parts them.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((pointer, value)) if pointer.is_empty() || pointer.starts_with('/') => {
            Ok((pointer.to_owned(), value.to_owned()))
        }
        Some(_) | None => {
            Err("it is written as /amount=50: a JSON pointer, `=`, a value".to_owned())
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown once.
    Create(CreateTokenArgs),
    /// List tokens, without their secrets.
    Ls {
        /// Of this principal.
        #[arg(long)]
        principal: Option<String>,
        /// Those that were revoked or have expired, too.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        limit: Limit,
    },
    /// End a token at once.
    Revoke {
        /// Its name or id.
        #[arg(value_name = "TOKEN")]
        token: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateTokenArgs {
    /// Its name.
    #[arg(long)]
    pub(crate) name: String,
    /// What it may do; several combine.
    #[arg(long, required = true, value_delimiter = ',', value_parser = words(v1::Scope::ALL, v1::Scope::word))]
    pub(crate) scope: Vec<v1::Scope>,
    /// Whom it acts as; a new principal of the token's name if nothing is said.
    #[arg(long)]
    pub(crate) principal: Option<String>,
    /// How far the tasks that it starts are trusted.
    #[arg(long, value_parser = words(v1::Trust::ALL, v1::Trust::word))]
    pub(crate) trust: Option<v1::Trust>,
    /// How long it lives, such as 12h or 30d; 90 days if nothing is said.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
    /// Make it straight in the database of this configuration: for the first tokens and
    /// namespaces. Needs --namespace.
    #[arg(long, value_name = "FILE", requires = "namespace")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// This agent alone.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Why, for whoever wonders.
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Pause nothing; say what is paused.
    #[arg(long, conflicts_with_all = ["agent", "reason"])]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// This agent, if it was paused by itself.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetCommand {
    /// Set the namespace's cap. Runs that meet it complete; it resets with the calendar month, UTC.
    Set {
        /// The cap: a number and a currency, such as 100 USD.
        #[arg(value_name = "AMOUNT", required = true, num_args = 1..=2)]
        cap: Vec<String>,
    },
    /// Show the cap, and what was spent by month.
    Ls,
    /// Take the cap away.
    Rm,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// Add people to a group; it is made with the first.
    Add {
        /// The group.
        group: String,
        /// The principals.
        #[arg(required = true, value_name = "PRINCIPAL")]
        principals: Vec<String>,
    },
    /// Take people out of a group; it is gone with the last.
    Rm {
        /// The group.
        group: String,
        /// The principals.
        #[arg(required = true, value_name = "PRINCIPAL")]
        principals: Vec<String>,
    },
    /// List groups and who is in them.
    Ls,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FeedbackCommand {
    /// Rate a task. A second rating is one more.
    Record {
        /// The task, or its run.
        task: String,
        /// From 0.0 to 1.0.
        #[arg(long, value_name = "SCORE")]
        score: f64,
        /// What there is to say to it; `-` reads standard input.
        #[arg(long)]
        note: Option<String>,
        /// A label, such as judge=rubric-v1; may be given several times.
        #[arg(long, value_name = "KEY=VALUE")]
        label: Vec<String>,
        /// Where the rating comes from: person, check or judge.
        #[arg(long, value_parser = words(RATERS, v1::FeedbackSource::word), default_value = "person")]
        source: v1::FeedbackSource,
    },
    /// List ratings of an agent's tasks, newest first, and what each source comes to.
    Ls {
        /// The agent; any, if it is left out.
        agent: Option<String>,
        /// With this label; may be given several times, all must fit.
        #[arg(long, value_name = "KEY=VALUE")]
        label: Vec<String>,
        /// From this source.
        #[arg(long, value_parser = words(v1::FeedbackSource::ALL, v1::FeedbackSource::word))]
        source: Option<v1::FeedbackSource>,
        /// At or after this time: 2026-03-01T09:30:00Z, or an age such as 24h.
        #[arg(long, value_name = "TIME", value_parser = time)]
        since: Option<SystemTime>,
        #[command(flatten)]
        limit: Limit,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Store a value under a name; it is read from standard input only.
    ///
    /// printf %s "$KEY" | sayso secret set SHOP_TOKEN
    ///
    /// A bundle refers to it as ${secret:SHOP_TOKEN} in a server's env and headers, and by its name
    /// where something is signed. Nobody can read it back.
    Set {
        /// The name: letters, digits and underscores.
        name: String,
        /// For this agent alone; its own counts before the namespace's.
        #[arg(long = "for", value_name = "AGENT")]
        agent: Option<String>,
    },
    /// List names and dates.
    Ls,
    /// Remove a secret.
    Rm {
        /// The name.
        name: String,
        /// The agent whose own it is.
        #[arg(long = "for", value_name = "AGENT")]
        agent: Option<String>,
    },
    /// Encrypt every secret of the installation with the key that is configured now.
    ///
    /// The key before it has to be among secrets.previous_key_files until this is done.
    RotateKey,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The agent.
    pub(crate) agent: String,
    /// About this run.
    #[arg(long)]
    pub(crate) run: Option<String>,
    /// At or after this time: 2026-03-01T09:30:00Z, or an age such as 2h.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) after: Option<SystemTime>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List agents by name.
    Ls {
        #[command(flatten)]
        limit: Limit,
    },
    /// Show an agent and its bundle.
    Show {
        /// Its name.
        name: String,
        /// This revision's bundle.
        #[arg(long)]
        revision: Option<String>,
    },
}

/// The sources of ratings that somebody gives; decisions rate by themselves.
const RATERS: &[v1::FeedbackSource] = &[
    v1::FeedbackSource::Person,
    v1::FeedbackSource::Check,
    v1::FeedbackSource::Judge,
];

/// Reads one of the words of an enum.
fn words<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let listed = all
        .iter()
        .map(move |value| PossibleValue::new(word(*value)));
    PossibleValuesParser::new(listed).map(move |given| {
        let mut known = all.iter().copied();
        known
            .find(|value| word(*value) == given)
            .expect("only words of the enum are taken")
    })
}

fn run_status() -> impl TypedValueParser<Value = v1::RunStatus> {
    let listed = v1::RunStatus::ALL.iter().map(|status| {
        let value = PossibleValue::new(status.word());
        match status {
            v1::RunStatus::AwaitingApproval => value.alias("waiting_approval"),
            v1::RunStatus::Unspecified
            | v1::RunStatus::Pending
            | v1::RunStatus::Running
            | v1::RunStatus::AwaitingInput
            | v1::RunStatus::Completed
            | v1::RunStatus::Failed
            | v1::RunStatus::Cancelled => value,
        }
    });
    PossibleValuesParser::new(listed)
        .map(|given| v1::RunStatus::from_word(&given).expect("only statuses are taken"))
}

/// A time, or an age counted back from now.
fn time(text: &str) -> Result<SystemTime, String> {
    if let Ok(age) = duration(text) {
        let then = SystemTime::now().checked_sub(age);
        return then.ok_or_else(|| "that is too long ago".to_owned());
    }
    let parsed: Result<prost_types::Timestamp, _> = text.parse();
    parsed
        .ok()
        .and_then(|time| SystemTime::try_from(time).ok())
        .ok_or_else(|| "write 2026-03-01T09:30:00Z, or an age such as 2h".to_owned())
}

/// A duration such as 90s, 30m, 12h, 7d, 1h30m.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a duration such as 90s, 30m, 12h or 7d".to_owned();
    let mut rest = text;
    let mut seconds: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, after) = rest.split_at(digits);
        let unit = after.chars().next().ok_or_else(wrong)?;
        let factor = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let more = number.checked_mul(factor).ok_or_else(wrong)?;
        seconds = seconds.checked_add(more).ok_or_else(wrong)?;
        rest = &after[1..];
    }
    if text.is_empty() {
        Err(wrong())
    } else {
        Ok(Duration::from_secs(seconds))
    }
}

#[cfg(test)]
mod tests;
