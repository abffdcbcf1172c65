//! `cargo xtask test`: gets the machine ready, starts what tests need, runs them, stops it.
//!
//! Tests learn where things are from the environment:
//!
//! | variable | what it says |
//! |---|---|
//! | `SAYSO_BIN` | the program `sayso`, built as the tests are, with their hooks |
//! | `SAYSO_TEST_POSTGRES` | URL of a superuser's database; a test makes its own databases |
//! | `SAYSO_TEST_POSTGRES_BIN` | the folder with PostgreSQL's programs; a test that breaks its server starts its own |
//! | `SAYSO_TEST_POSTGRES_ACCOUNT` | `user:group` to run it as, by number; none if this is not root |
//! | `SAYSO_NATS_SERVER` | the program `nats-server`; a test that breaks its broker starts its own |
//! | `SAYSO_TEST_NATS` | URL of a running NATS server with JetStream, shared by tests |
//! | `SAYSO_TEST_PYTHON` | a Python with the third-party packages |
//! | `SAYSO_TEST_GIT_MCP` | the program `mcp-server-git` |
//! | `SAYSO_TEST_SCHEMATHESIS` | the program `schemathesis` |
//! | `SAYSO_TEST_GIT` | the program `git` |
//! | `SAYSO_TEST_NODE_BIN` | the folder that holds `node` |
//! | `SAYSO_TEST_NPM` | the folder with the npm packages' programs |
//! | `SAYSO_TEST_CHROMIUM` | the browser |
//! | `SAYSO_TEST_CHROMEDRIVER` | the program `chromedriver`, which drives it |
//!
//! Node and the npm packages are on the `PATH` too. A variable is missing only if the command
//! line said to do without (`--without`), and the end of the output says so.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::account::Account;
use crate::cargo::Workspace;
use crate::nats::Nats;
use crate::postgres::Postgres;
use crate::process::Processes;
use crate::summary::Summary;
use crate::tools::{Need, Program, Toolbox, before_path};

/// Packages whose tests start the program `sayso`.
const NEED_SAYSO: &[&str] = &["sayso", "sayso-tests"];

/// The command line of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Tests these packages only.
    #[arg(short, long = "package", value_name = "PACKAGE")]
    packages: Vec<String>,
    /// Runs these test files of `tests/` folders only.
    #[arg(long = "test", value_name = "NAME")]
    files: Vec<String>,
    /// Does without something that tests need; the tests that need it cannot pass.
    #[arg(long, value_name = "NEED", value_enum, value_delimiter = ',')]
    without: Vec<Need>,
    /// Goes to the test binaries: filters, `--nocapture`, …
    #[arg(last = true, value_name = "FILTERS")]
    rest: Vec<String>,
}

impl Arguments {
    /// One test file of one package, with what it prints, and nothing that it does not need.
    pub(crate) fn only(package: &str, file: &str, needs: &[Need]) -> Self {
        let without = Need::value_variants().iter();
        Self {
            packages: vec![package.to_owned()],
            files: vec![file.to_owned()],
            without: without
                .filter(|need| !needs.contains(need))
                .copied()
                .collect(),
            rest: vec!["--nocapture".to_owned()],
        }
    }
}

/// Runs the tests. The exit code is theirs.
pub(crate) fn run(processes: &Processes, arguments: &Arguments) -> Result<ExitCode> {
    run_with(processes, arguments, BTreeMap::new())
}

/// The same, and tells the tests these variables too.
pub(crate) fn run_with(
    processes: &Processes,
    arguments: &Arguments,
    told: BTreeMap<&'static str, String>,
) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    workspace.require(&arguments.packages)?;
    let mut environment = tools(processes, &workspace, &arguments.without)?;
    let told = told.into_iter().map(|(name, value)| (name, value.into()));
    environment.variables.extend(told);
    build(processes, &workspace, arguments, &mut environment.variables)?;
    let servers = Servers::start(processes, &mut environment)?;
    let mut summary = Summary::default();
    let mut test = workspace.cargo("test");
    test.args(selection(&workspace, &arguments.packages))
        .arg("--no-fail-fast");
    for file in &arguments.files {
        test.args(["--test", file]);
    }
    test.arg("--").args(&arguments.rest);
    test.envs(&environment.variables);
    let (status, left) = processes.run_by_line(&mut test, |line| {
        println!("{line}");
        summary.read(line);
    })?;
    drop(servers);
    println!();
    if left {
        println!("stopped: processes that tests had left running");
    }
    for need in &arguments.without {
        println!("done without, as asked: {}", need.word());
    }
    println!("{summary}");
    Ok(match status.code().map(u8::try_from) {
        Some(Ok(code)) => ExitCode::from(code),
        Some(Err(_)) | None => ExitCode::FAILURE,
    })
}

/// What the tests are told, and what is needed to start the servers.
struct Environment {
    variables: BTreeMap<&'static str, OsString>,
    postgres: Option<std::path::PathBuf>,
    nats: Option<std::path::PathBuf>,
}

fn tools(processes: &Processes, workspace: &Workspace, without: &[Need]) -> Result<Environment> {
    let needs: BTreeSet<Need> = Need::value_variants()
        .iter()
        .filter(|need| !without.contains(need))
        .copied()
        .collect();
    let toolbox = Toolbox::open(workspace.root(), processes)?;
    toolbox.system(&needs)?;
    let mut environment = Environment {
        variables: BTreeMap::new(),
        postgres: None,
        nats: None,
    };
    for need in needs {
        let variables = &mut environment.variables;
        match need {
            Need::Postgres => {
                let programs = toolbox.postgres()?;
                variables.insert("SAYSO_TEST_POSTGRES_BIN", programs.clone().into());
                if let Some(Account { user, group }) = Account::unprivileged()? {
                    let account = format!("{user}:{group}");
                    variables.insert("SAYSO_TEST_POSTGRES_ACCOUNT", account.into());
                }
                environment.postgres = Some(programs);
            }
            Need::Nats => {
                let server = toolbox.nats_server()?;
                variables.insert("SAYSO_NATS_SERVER", server.clone().into());
                environment.nats = Some(server);
            }
            Need::Python => {
                let bin = toolbox.python()?.join("bin");
                variables.insert("SAYSO_TEST_PYTHON", bin.join("python").into());
                variables.insert("SAYSO_TEST_GIT_MCP", bin.join("mcp-server-git").into());
                variables.insert("SAYSO_TEST_SCHEMATHESIS", bin.join("schemathesis").into());
            }
            Need::Node => {
                let node = toolbox.node()?;
                variables.insert("PATH", before_path(&[&node.bin, &node.packages])?);
                variables.insert("SAYSO_TEST_NODE_BIN", node.bin.into());
                variables.insert("SAYSO_TEST_NPM", node.packages.into());
            }
            Need::Chromium => {
                let browser = toolbox.program(Program::Chromium)?;
                variables.insert("SAYSO_TEST_CHROMIUM", browser.into());
                let driver = toolbox.program(Program::Chromedriver)?;
                variables.insert("SAYSO_TEST_CHROMEDRIVER", driver.into());
            }
            Need::Git => {
                variables.insert("SAYSO_TEST_GIT", toolbox.program(Program::Git)?.into());
            }
        }
    }
    Ok(environment)
}

/// Builds once, with what cargo will ask for again when it runs the tests, and the program.
fn build(
    processes: &Processes,
    workspace: &Workspace,
    arguments: &Arguments,
    variables: &mut BTreeMap<&'static str, OsString>,
) -> Result<()> {
    let mut packages = arguments.packages.clone();
    let wants_sayso = |name: &String| NEED_SAYSO.contains(&name.as_str());
    if packages.iter().any(wants_sayso) && !packages.iter().any(|name| name == "sayso") {
        packages.push("sayso".to_owned());
    }
    let mut build = selection(workspace, &packages);
    for target in ["--bins", "--tests", "--examples"] {
        build.push(target.to_owned());
    }
    if let Some(program) = workspace.build(processes, &build, "sayso")? {
        variables.insert("SAYSO_BIN", program.into());
    }
    Ok(())
}

/// The packages and features of a run, as arguments for cargo.
fn selection(workspace: &Workspace, packages: &[String]) -> Vec<String> {
    let mut arguments = Vec::new();
    if packages.is_empty() {
        arguments.push("--workspace".to_owned());
    }
    for package in packages {
        arguments.extend(["--package".to_owned(), package.clone()]);
    }
    arguments.extend(workspace.hooks(packages));
    arguments
}

/// The servers that tests share.
struct Servers {
    _postgres: Option<Postgres>,
    _nats: Option<Nats>,
}

impl Servers {
    fn start(processes: &Processes, environment: &mut Environment) -> Result<Self> {
        let variables = &mut environment.variables;
        let postgres = match &environment.postgres {
            Some(programs) => {
                let postgres = Postgres::start(processes, programs)?;
                variables.insert("SAYSO_TEST_POSTGRES", postgres.url().into());
                Some(postgres)
            }
            None => None,
        };
        let nats = match &environment.nats {
            Some(program) => {
                let nats = Nats::start(processes, program)?;
                variables.insert("SAYSO_TEST_NATS", nats.url().into());
                Some(nats)
            }
            None => None,
        };
        Ok(Self {
            _postgres: postgres,
            _nats: nats,
        })
    }
}
