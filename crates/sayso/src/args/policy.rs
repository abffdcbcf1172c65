//! What can be typed about policies and roles.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{ArgGroup, Args, Subcommand};
use sayso_sdk::v1;

use super::{Limit, time, words};

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where; made if it is not there. Nothing that exists is overwritten.
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    /// The JSON Schema of a bundle.
    Bundle,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say of one call which rule, setting or floor decides, and why nothing else does.
    Explain(ExplainArgs),
    /// Run the cases that stand beside a bundle.
    ///
    /// Exits with 1 if one fails, and with 2 if bundle or cases cannot be read. Needs no server.
    Test(TestArgs),
    /// Judge recorded runs under a bundle that need not be deployed: which verdicts would change, and
    /// how many asks a day there would be.
    Replay(ReplayArgs),
    /// Judge traces offline, one a line.
    ///
    /// Exits with 2, and prints nothing, if a line is no trace. Needs no server.
    Judge(JudgeArgs),
}

/// A call that somebody thinks of, or one that was made.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("judged_by").required(true).args(["bundle", "agent", "run"])),
    override_usage = "sayso policy explain --bundle FILE TOOL [ARGS] [OPTIONS]\n       sayso policy explain --agent NAME TOOL [ARGS] [OPTIONS]\n       sayso policy explain --run RUN --call CALL",
)]
pub(crate) struct ExplainArgs {
    /// Judged by this bundle; needs no server.
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Judged by what is deployed for this agent, its role included.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// By this revision of the agent.
    #[arg(long, value_name = "ID", requires = "agent")]
    pub(crate) revision: Option<String>,
    /// A call of this run, as it was judged then.
    #[arg(long, requires = "call", conflicts_with_all = ["tool", "args", "prompt", "trust", "own", "secret_read", "annotations"])]
    pub(crate) run: Option<String>,
    /// The call.
    #[arg(long, requires = "run")]
    pub(crate) call: Option<String>,
    /// The tool, as registered or as a model sees it.
    #[arg(required_unless_present = "run")]
    pub(crate) tool: Option<String>,
    /// Its arguments, JSON; none if nothing is said.
    pub(crate) args: Option<String>,
    /// The task: the principal's own words.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) prompt: String,
    /// The run's trust; trusted if nothing is said.
    #[arg(long, value_parser = words(v1::Trust::ALL, v1::Trust::word))]
    pub(crate) trust: Option<v1::Trust>,
    /// One of the principal's own addresses.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) own: Vec<String>,
    /// As if the run had read a secret.
    #[arg(long)]
    pub(crate) secret_read: bool,
    /// What the tool's MCP server says of it, as MCP has it: {"readOnlyHint":true}.
    #[arg(long, value_name = "JSON")]
    pub(crate) annotations: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// The bundle, YAML or JSON.
    pub(crate) bundle: PathBuf,
    /// The cases; those of `agent.yaml` stand in `agent.cases.yaml` if nothing is said.
    #[arg(long, value_name = "FILE")]
    pub(crate) cases: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The bundle, YAML or JSON; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: PathBuf,
    /// Runs of this agent; of the one that the bundle names if nothing is said.
    #[arg(long, conflicts_with = "run")]
    pub(crate) agent: Option<String>,
    /// Runs created at or after this time: 2026-03-01T09:30:00Z, or an age such as 2h; 7 days if
    /// nothing is said.
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "run")]
    pub(crate) since: Option<SystemTime>,
    /// This run, whatever its agent.
    #[arg(long)]
    pub(crate) run: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct JudgeArgs {
    /// The bundle, YAML or JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: PathBuf,
    /// The traces, one JSON object a line; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) traces: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// List roles by name.
    Ls {
        #[command(flatten)]
        limit: Limit,
    },
    /// Show what a role permits, and which agents have it.
    Show {
        /// Its name.
        role: String,
    },
    /// Make a role, or change what it permits: all that is given, and nothing else.
    ///
    /// Live runs of the agents that have it go by it within a second.
    Set {
        /// Its name: 1 to 63 of a-z, 0-9 and -.
        role: String,
        /// Names of operations and tools, or patterns such as `shop.get_*`; none permits nothing.
        #[arg(value_name = "PATTERN")]
        permits: Vec<String>,
    },
    /// Remove a role that no agent has.
    Rm {
        /// Its name.
        role: String,
    },
    /// Give an agent a role in place of the one that it has.
    Attach {
        /// The agent.
        agent: String,
        /// The role.
        role: String,
    },
    /// Take an agent's role away: its runs fail until it has another one.
    Detach {
        /// The agent.
        agent: String,
    },
}
