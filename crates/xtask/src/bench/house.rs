//! What is measured, running: the services, and the servers that they need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::bus::Messages;
use super::database::{self, Bookkeeper, Written};
use super::floor::{self, Floor};
use super::procfs::{CpuTimes, resident_mib};
use super::tool::GatedTool;
use crate::nats::Nats;
use crate::postgres::{Postgres, random_word};
use crate::process::{Processes, Server, free_port, server_command};
use crate::tools::{Program, Toolbox};

/// The services, as the command line and the configuration name them.
const SERVICES: [(&str, &str); 6] = [
    ("policy", "policy"),
    ("scheduler", "scheduler"),
    ("approval-hub", "approval_hub"),
    ("notifier", "notifier"),
    ("executor", "executor"),
    ("gateway", "gateway"),
];
/// The executor, and one more that is started only where it is needed.
pub(super) const EXECUTORS: [&str; 2] = ["executor", "executor-2"];
/// The namespace of all runs.
const NAMESPACE: &str = "default";
/// How long a process may take to serve.
const START: Duration = Duration::from_secs(60);
/// How long a process may take to end: more than the services' own grace time.
const END: Duration = Duration::from_secs(15);
/// How many lines of each log are shown after a failure.
const LAST_LINES: usize = 12;

/// Everything that was started. Dropping it stops it all and removes its folder.
pub(super) struct House {
    // Dropped in this order: first what needs the others.
    services: Vec<Service>,
    /// What can be started again, by name.
    launches: BTreeMap<&'static str, Launch>,
    backing: Backing,
    folder: TempDir,
    binary: PathBuf,
    /// The URL of the gateway.
    pub(super) address: String,
    /// A token that may do everything.
    pub(super) admin: String,
    /// The bundles of the agents.
    pub(super) bundles: [String; 2],
}

struct Service {
    name: &'static str,
    server: Server,
}

/// How a service is started.
struct Launch {
    service: &'static str,
    config: PathBuf,
    port: u16,
}

/// What was started for one kind of measurement.
struct Started {
    services: Vec<Service>,
    launches: BTreeMap<&'static str, Launch>,
    port: u16,
    admin: String,
}

/// What the services stand on.
enum Backing {
    Servers(Box<Servers>),
    Sqlite { python: PathBuf },
}

struct Servers {
    postgres: Postgres,
    nats: Nats,
    programs: PathBuf,
    bookkeeper: Bookkeeper,
}

/// Resident memory in MiB, by process.
pub(super) type Memory = Vec<(&'static str, f64)>;

/// CPU seconds so far, by who used them.
pub(super) type Cpu = Vec<(&'static str, f64)>;

/// What database and bus have counted so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) written: Written,
    pub(super) messages: Messages,
}

impl House {
    /// Starts everything and makes the first token.
    pub(super) fn start(
        processes: &Processes,
        toolbox: &Toolbox<'_>,
        binary: &Path,
        embedded: bool,
        tool: GatedTool,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("sayso-bench-")
            .tempdir()
            .context("cannot make a temporary folder")?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let program = program.to_str().context("this program's path is no text")?;
        fs::write(folder.path().join("script.json"), tool.script())?;
        fs::write(folder.path().join("slow.json"), GatedTool::slow_script())?;
        let site = Site {
            processes,
            binary,
            folder: folder.path(),
        };
        let (backing, started) = if embedded {
            let python = toolbox.program(Program::Python)?;
            (Backing::Sqlite { python }, site.up()?)
        } else {
            let servers = site.servers(toolbox)?;
            let started = site.apart(&servers)?;
            (Backing::Servers(Box::new(servers)), started)
        };
        Ok(Self {
            services: started.services,
            launches: started.launches,
            backing,
            folder,
            binary: binary.to_owned(),
            address: format!("http://127.0.0.1:{}", started.port),
            admin: started.admin,
            bundles: [tool.bundle(program), GatedTool::slow_bundle()],
        })
    }

    /// Kills a service without warning.
    pub(super) fn kill(&mut self, name: &str) -> Result<()> {
        let at = self.services.iter().position(|one| one.name == name);
        let at = at.with_context(|| format!("{name} does not run"))?;
        self.services.remove(at).server.kill();
        Ok(())
    }

    /// Starts a service that does not run.
    pub(super) fn start_again(&mut self, processes: &Processes, name: &'static str) -> Result<()> {
        let launch = self.launches.get(name);
        let launch = launch.with_context(|| format!("{name} cannot be started"))?;
        let site = Site {
            processes,
            binary: &self.binary,
            folder: self.folder.path(),
        };
        self.services.push(site.launch(name, launch)?);
        Ok(())
    }

    /// Whether everything is in one process.
    pub(super) fn is_embedded(&self) -> bool {
        matches!(self.backing, Backing::Sqlite { .. })
    }

    /// What the services stand on, for the report.
    pub(super) fn database(&self) -> Result<String> {
        match &self.backing {
            Backing::Servers(servers) => Ok(format!(
                "PostgreSQL {}, fsync on",
                servers.bookkeeper.version()?
            )),
            Backing::Sqlite { .. } => Ok("SQLite, WAL, synchronous FULL".to_owned()),
        }
    }

    /// Measures the floor, on the same disk and the same server.
    pub(super) fn floor(&self, processes: &Processes, seconds: u32) -> Result<Floor> {
        let folder = self.folder.path();
        match &self.backing {
            Backing::Servers(servers) => floor::postgres(
                processes,
                &servers.programs,
                &servers.postgres,
                folder,
                seconds,
            ),
            Backing::Sqlite { python } => floor::sqlite(processes, python, folder, seconds),
        }
    }

    /// CPU seconds so far, of the driver too.
    pub(super) fn cpu(&self) -> Result<Cpu> {
        let times = CpuTimes::now()?;
        let mut cpu = vec![("driver", times.own())];
        for service in &self.services {
            cpu.push((service.name, times.tree(service.server.pid())));
        }
        if let Backing::Servers(servers) = &self.backing {
            cpu.push(("postgres", times.tree(servers.postgres.pid())));
            cpu.push(("nats", times.tree(servers.nats.pid())));
        }
        Ok(cpu)
    }

    /// Resident memory of all services together, in MiB.
    pub(super) fn resident_mib(&self) -> Result<f64> {
        Ok(self.memory()?.iter().map(|(_, mib)| mib).sum())
    }

    /// Resident memory of each service.
    pub(super) fn memory(&self) -> Result<Memory> {
        let each = self.services.iter();
        each.map(|one| Ok((one.name, resident_mib(one.server.pid())?)))
            .collect()
    }

    /// What was counted so far; `None` where nothing counts.
    pub(super) fn counts(&self) -> Result<Option<Counts>> {
        match &self.backing {
            Backing::Servers(servers) => Ok(Some(Counts {
                written: servers.bookkeeper.written()?,
                messages: Messages::now(servers.nats.monitor())?,
            })),
            Backing::Sqlite { .. } => Ok(None),
        }
    }

    /// Who counts statements, if anyone does.
    pub(super) fn bookkeeper(&self) -> Option<&Bookkeeper> {
        match &self.backing {
            Backing::Servers(servers) => Some(&servers.bookkeeper),
            Backing::Sqlite { .. } => None,
        }
    }

    /// The last lines that each process wrote, for a failure's account.
    pub(super) fn last_words(&self) -> String {
        let mut words = String::from("bench: it failed; the last lines of the logs:");
        for service in &self.services {
            let log = fs::read_to_string(log_of(self.folder.path(), service.name));
            let log = log.unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
                words.push_str(&format!("\n  {}: {line}", service.name));
            }
        }
        words
    }
}

/// Where and with what to start.
struct Site<'a> {
    processes: &'a Processes,
    binary: &'a Path,
    folder: &'a Path,
}

impl Site<'_> {
    fn servers(&self, toolbox: &Toolbox<'_>) -> Result<Servers> {
        let programs = toolbox.postgres()?;
        let arguments = Bookkeeper::arguments(&programs);
        let postgres = Postgres::start_with(self.processes, &programs, arguments)?;
        let bookkeeper = Bookkeeper::open(self.processes, &programs, &postgres)?;
        let nats = Nats::start(self.processes, &toolbox.nats_server()?)?;
        Ok(Servers {
            postgres,
            nats,
            programs,
            bookkeeper,
        })
    }

    /// Six processes, and how one more executor is started.
    fn apart(&self, servers: &Servers) -> Result<Started> {
        let mut ports = BTreeSet::new();
        while ports.len() <= SERVICES.len() {
            ports.insert(free_port()?);
        }
        let mut ports = ports.into_iter();
        let spare = ports.next().context("there is one port more")?;
        let mut endpoints = Map::new();
        let mut launches = BTreeMap::new();
        for ((name, key), port) in SERVICES.into_iter().zip(ports) {
            let endpoint = json!({
                "listen": format!("127.0.0.1:{port}"),
                "connect": format!("http://127.0.0.1:{port}"),
            });
            endpoints.insert(key.to_owned(), endpoint);
            launches.insert(name, port);
        }
        let mut config = self.models();
        config["database"] = json!({ "url": servers.postgres.url_of(database::NAME) });
        config["nats"] = json!({ "url": servers.nats.url() });
        config["services"] = Value::Object(endpoints);
        config["cluster"] = json!({ "key": key()? });
        config["chain"] = json!({ "key": key()? });
        let path = self.write("sayso.yaml", &config)?;
        let launch = |service, port| Launch {
            service,
            config: path.clone(),
            port,
        };
        let admin = self.first_token(&path)?;
        let mut services = Vec::new();
        for (name, _) in SERVICES {
            services.push(self.launch(name, &launch(name, launches[name]))?);
        }
        let [first, second] = EXECUTORS;
        config["services"]["executor"]["listen"] = format!("127.0.0.1:{spare}").into();
        config["executor"] = json!({ "name": second });
        let other = Launch {
            service: first,
            config: self.write("executor-2.yaml", &config)?,
            port: spare,
        };
        Ok(Started {
            services,
            port: launches["gateway"],
            launches: BTreeMap::from([(first, launch(first, launches[first])), (second, other)]),
            admin,
        })
    }

    fn launch(&self, name: &'static str, launch: &Launch) -> Result<Service> {
        let mut command = server_command(self.binary, None)?;
        command
            .args(["serve", launch.service, "--config"])
            .arg(&launch.config);
        self.serve(name, &mut command, launch.port)
    }

    /// One process: its port and the token that it made.
    fn up(&self) -> Result<Started> {
        let config = self.write("sayso.yaml", &self.models())?;
        let data = self.folder.join("data");
        let port = free_port()?;
        let mut command = server_command(self.binary, None)?;
        command.arg("--data").arg(&data).arg("up");
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command.arg("--config").arg(&config);
        let service = self.serve("sayso", &mut command, port)?;
        let admin = fs::read_to_string(data.join("admin.token"))
            .context("`sayso up` left no admin token")?;
        Ok(Started {
            services: vec![service],
            launches: BTreeMap::new(),
            port,
            admin: admin.trim().to_owned(),
        })
    }

    fn serve(&self, name: &'static str, command: &mut Command, port: u16) -> Result<Service> {
        let path = log_of(self.folder, name);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.context("cannot make a log")?;
        command
            .current_dir(self.folder)
            .stdout(log.try_clone()?)
            .stderr(log);
        let mut server = Server::start(name, command, Signal::TERM, END)?;
        let serving = server.wait_until(self.processes, START, || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        });
        serving.with_context(|| fs::read_to_string(&path).unwrap_or_default())?;
        Ok(Service { name, server })
    }

    /// A token straight in the database, whose schema that makes.
    fn first_token(&self, config: &Path) -> Result<String> {
        let mut command = Command::new(self.binary);
        command
            .args(["token", "create", "--json", "--namespace", NAMESPACE])
            .args(["--name", "bench-admin", "--scope", "admin", "--config"])
            .arg(config);
        let said = self.processes.capture(&mut command)?;
        ensure!(
            said.status.success(),
            "the first token cannot be made: {}",
            String::from_utf8_lossy(&said.stderr)
        );
        let said: Value = serde_json::from_slice(&said.stdout)
            .context("`sayso token create --json` prints no JSON")?;
        let secret = said["secret"]
            .as_str()
            .context("a new token has a secret")?;
        Ok(secret.to_owned())
    }

    /// The configuration of the model.
    fn models(&self) -> Value {
        json!({
            "models": {
                "acted": { "provider": "scripted", "script": "script.json" },
                "slow": { "provider": "scripted", "script": "slow.json" },
            },
            "tiers": { "balanced": ["acted"], "slow": ["slow"] },
        })
    }

    /// Writes the configuration, for this user's eyes alone. JSON is YAML.
    fn write(&self, name: &str, config: &Value) -> Result<PathBuf> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.folder.join(name);
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .context("cannot write the configuration")?;
        serde_json::to_writer_pretty(file, config)?;
        Ok(path)
    }
}

fn log_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

/// A key of 32 bytes in hexadecimal digits.
fn key() -> Result<String> {
    Ok(random_word()? + &random_word()?)
}
