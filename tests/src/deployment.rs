use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use sayso_store::testing::TestDatabase;
use sayso_store::{Kind, Store, StoreConfig};
use sayso_wire::v1::Scope;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::broker;
use crate::bundle::Bundle;
use crate::client::Client;
use crate::command::{self, Ran};
use crate::disk::Disk;
use crate::ledger::Ledger;
use crate::options::{Options, Shape, Small};
use crate::process::Process;
use crate::program::{free_port, program};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::wait::until;
use crate::watchdog;

/// The ledger's server, built beside this library.
const LEDGER_SERVER: &str = "sayso-ledger";

/// Secrets of tokens, by what their holders do.
#[derive(Debug, Clone, Default)]
struct Tokens(BTreeMap<&'static str, String>);

/// Who there is, besides the admins: name, principal, scopes.
const PEOPLE: &[(&str, &[Scope])] = &[
    ("sub", &[Scope::Submit, Scope::Read]),
    ("starter", &[Scope::Submit]),
    ("app", &[Scope::Approver, Scope::Read]),
    ("app2", &[Scope::Approver, Scope::Read]),
    ("both", &[Scope::Submit, Scope::Approver, Scope::Read]),
];

/// The product at work.
#[derive(Debug)]
pub struct Deployment {
    shape: Shape,
    folder: PathBuf,
    config: PathBuf,
    database: String,
    gateways: Vec<u16>,
    ports: BTreeMap<String, u16>,
    processes: Vec<Process>,
    nats: Option<Process>,
    nats_port: u16,
    tokens: Mutex<Tokens>,
    proxy: Option<Proxy>,
    /// What its agents' tools did.
    pub ledger: Ledger,
    // Dropped last, in this order: the processes that use them are gone by then.
    kept: Option<TestDatabase>,
    server: Option<Server>,
    disk: Option<Disk>,
}

impl Deployment {
    /// Starts one and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If it does not get ready.
    pub async fn start(shape: Shape, options: Options) -> Self {
        let mut deployment = Self::prepare(shape, &options).await;
        if let Some(nats) = &deployment.nats {
            nats.start();
            accepts(deployment.nats_port).await;
        }
        deployment.first_tokens();
        let hooked = deployment.executor(0);
        hooked.set("SAYSO_HOOKS", options.hooks.as_deref());
        for process in &deployment.processes {
            process.start();
        }
        deployment.executor(0).set("SAYSO_HOOKS", None);
        deployment.ready().await;
        deployment.people().await;
        deployment
    }

    /// Makes everything and starts nothing.
    ///
    /// # Panics
    ///
    /// If a file or the database cannot be made.
    pub async fn prepare(shape: Shape, options: &Options) -> Self {
        let folder = watchdog::folder().join(uuid::Uuid::now_v7().simple().to_string());
        for part in ["data", "nats", "postgres"] {
            std::fs::create_dir_all(folder.join(part)).expect("a folder can be made");
        }
        let disk = options.small.map(|what| {
            let part = match (what, shape) {
                (Small::Broker, _) => "nats",
                (Small::Database, Shape::Embedded) => "data",
                (Small::Database, Shape::Apart { .. }) => "postgres",
            };
            Disk::mount(&folder.join(part))
        });
        let server = options.own_server.then(|| Server::prepare(&folder));
        if let Some(server) = &server {
            server.up().await;
        }
        let kept = match shape {
            Shape::Apart { .. } if server.is_none() => {
                Some(TestDatabase::new(Kind::Postgres).await)
            }
            Shape::Embedded | Shape::Apart { .. } => None,
        };
        let database = match (&server, &kept) {
            (Some(server), _) => server.url().to_owned(),
            (None, Some(database)) => database.url().to_owned(),
            (None, None) => format!("sqlite://{}", folder.join("data/sayso.db").display()),
        };
        let mut deployment = Self {
            shape,
            config: folder.join("config.yaml"),
            ledger: Ledger::new(folder.join("ledger")),
            database,
            gateways: Vec::new(),
            ports: BTreeMap::new(),
            processes: Vec::new(),
            nats: None,
            nats_port: free_port(),
            tokens: Mutex::default(),
            proxy: None,
            kept,
            server,
            disk,
            folder,
        };
        if options.proxied {
            deployment.stand_between().await;
        }
        deployment.lay_out(options);
        deployment
    }

    /// Puts a proxy between the services and the database.
    async fn stand_between(&mut self) {
        let (before, after) = self.database.split_once('@').expect("a URL with a user");
        let (address, rest) = after.split_once('/').expect("a URL with a database");
        let proxy = Proxy::start(address.to_owned()).await;
        self.database = format!("{before}@{}/{rest}", proxy.address());
        self.proxy = Some(proxy);
    }

    fn lay_out(&mut self, options: &Options) {
        let mut base = self.models(options);
        base["database"] = json!({"url": self.database});
        base["cluster"] = json!({"key": "11".repeat(32)});
        base["chain"] = json!({"key": "22".repeat(32)});
        base["secrets"] = json!({"key": "33".repeat(32)});
        base["a2a"] = json!({"agent": "default/a2a-root", "private_receivers": true});
        if let Some(collector) = &options.collector {
            base["telemetry"] = json!({
                "otlp_endpoint": collector, "sampling": 1.0, "content": options.tells,
            });
        }
        let secrets: BTreeMap<_, _> = options.secrets.iter().cloned().collect();
        base["notify"] = json!({"secrets": secrets});
        if let Some(port) = options.smtp {
            base["smtp"] = json!({
                "host": "127.0.0.1", "port": port, "security": "none",
                "from": "sayso <sayso@example.org>",
            });
        }
        match self.shape {
            Shape::Embedded => self.lay_out_embedded(&base),
            Shape::Apart {
                executors,
                gateways,
            } => {
                let copies = [
                    ("executor", 0..executors),
                    ("gateway", 0..gateways),
                    ("scheduler", 1..1 + options.schedulers),
                ];
                self.lay_out_apart(base, copies);
            }
        }
    }

    fn models(&self, options: &Options) -> Value {
        let mut models = serde_json::Map::new();
        for (name, script) in &options.scripts {
            let path = self.folder.join(format!("{name}.script.yaml"));
            std::fs::write(&path, script).expect("a script can be written");
            models.insert(
                name.clone(),
                json!({"provider": "scripted", "script": path}),
            );
        }
        models.extend(options.models.iter().cloned());
        if models.is_empty() {
            let path = self.folder.join("nothing.script.yaml");
            std::fs::write(&path, "turns: [{text: done}]").expect("a script can be written");
            models.insert(
                "nothing".into(),
                json!({"provider": "scripted", "script": path}),
            );
        }
        let mut tiers: BTreeMap<_, _> = options.tiers.iter().cloned().collect();
        let first = models.keys().next().expect("there is a model").clone();
        tiers.entry("balanced".into()).or_insert(vec![first]);
        json!({"models": models, "tiers": tiers})
    }

    fn lay_out_embedded(&mut self, config: &Value) {
        write(&self.config, config);
        let port = free_port();
        self.gateways.push(port);
        self.ports.insert("sayso".into(), port);
        let arguments = vec![
            "up".into(),
            "--data".into(),
            self.folder.join("data").into(),
            "--listen".into(),
            format!("127.0.0.1:{port}").into(),
            "--config".into(),
            self.config.clone().into(),
        ];
        self.add("sayso", arguments);
    }

    fn lay_out_apart(&mut self, mut config: Value, copies: [(&str, Range<usize>); 3]) {
        config["nats"] = json!({"url": format!("nats://127.0.0.1:{}", self.nats_port)});
        let mut services = serde_json::Map::new();
        for service in [
            "gateway",
            "scheduler",
            "executor",
            "policy",
            "approval_hub",
            "notifier",
        ] {
            let port = free_port();
            self.ports.insert(service.to_owned(), port);
            let address = format!("127.0.0.1:{port}");
            let connect = format!("http://{address}");
            services.insert(
                service.into(),
                json!({"listen": address, "connect": connect}),
            );
        }
        config["services"] = services.into();
        write(&self.config, &config);
        for service in ["scheduler", "policy", "approval_hub", "notifier"] {
            self.add_service(service, service, &self.config.clone());
        }
        for (service, numbers) in copies {
            for number in numbers {
                let name = format!("{service}-{number}");
                let port = if number == 0 {
                    self.ports[service]
                } else {
                    free_port()
                };
                config["services"][service]["listen"] = format!("127.0.0.1:{port}").into();
                config["executor"] = json!({"name": format!("executor-{number}")});
                let path = self.folder.join(format!("{name}.yaml"));
                write(&path, &config);
                self.ports.insert(name.clone(), port);
                self.add_service(&name, service, &path);
                if service == "gateway" {
                    self.gateways.push(port);
                }
            }
        }
        let nats = program("SAYSO_NATS_SERVER");
        let arguments: Vec<OsString> = vec![
            "-a".into(),
            "127.0.0.1".into(),
            "-p".into(),
            self.nats_port.to_string().into(),
            "-js".into(),
            "-sd".into(),
            self.nats_store().into(),
        ];
        self.nats = Some(Process::new("nats", nats, arguments, &self.folder));
    }

    fn add_service(&mut self, name: &str, service: &str, config: &Path) {
        let arguments = vec![
            "serve".into(),
            service.replace('_', "-").into(),
            "--config".into(),
            config.into(),
        ];
        self.add(name, arguments);
    }

    fn add(&mut self, name: &str, arguments: Vec<OsString>) {
        let process = Process::new(name, program("SAYSO_BIN"), arguments, &self.folder);
        self.processes.push(process);
    }

    /// Waits until every process that runs says that it is ready.
    ///
    /// # Panics
    ///
    /// If one does not.
    pub async fn ready(&self) {
        for process in self.processes.iter().filter(|process| process.is_running()) {
            let port = self.ports[process.name()];
            until(&format!("{} to be ready", process.name()), async || {
                assert!(
                    process.is_running(),
                    "{} has ended:\n{}",
                    process.name(),
                    process.log()
                );
                matches!(readiness(port).await, Some((200, _))).then_some(())
            })
            .await;
        }
    }

    /// What a process says of its readiness: the HTTP status and the text; none if it does not
    /// answer.
    pub async fn readiness(&self, name: &str) -> Option<(u16, String)> {
        readiness(self.ports[name]).await
    }

    /// The admins' tokens are made in the database: there is nobody to ask yet.
    fn first_tokens(&mut self) {
        for (holder, namespace) in [("admin", "default"), ("other-admin", "other")] {
            let made = self.sayso([
                "token",
                "create",
                "--config",
                self.config_text(),
                "--namespace",
                namespace,
                "--name",
                holder,
                "--scope",
                "admin",
            ]);
            let made = made.expect_success();
            let mut words = made.stdout.split(|c: char| c.is_whitespace() || c == '"');
            let secret = words
                .rfind(|word| word.starts_with("sayso_"))
                .unwrap_or_else(|| panic!("no token in {}", made.text()));
            self.remember(holder, secret.to_owned());
        }
    }

    fn remember(&self, holder: &'static str, secret: String) {
        let mut tokens = self.tokens.lock().expect("nothing panics with the tokens");
        tokens.0.insert(holder, secret);
    }

    async fn people(&self) {
        let admin = self.client("admin");
        for (name, scopes) in PEOPLE {
            self.remember(name, admin.create_token(name, name, scopes).await);
        }
        let other = self.client("other-admin");
        let scopes = [Scope::Approver, Scope::Read, Scope::Submit, Scope::Operator];
        self.remember(
            "foreigner",
            other.create_token("foreigner", "", &scopes).await,
        );
    }

    fn config_text(&self) -> &str {
        self.config
            .to_str()
            .expect("temporary folders have plain names")
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The port on which a service listens.
    ///
    /// # Panics
    ///
    /// If there is no such service.
    pub fn port(&self, service: &str) -> u16 {
        self.ports[service]
    }

    /// The broker's port.
    pub fn nats_port(&self) -> u16 {
        self.nats_port
    }

    /// Its configuration file.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// The URL of its database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Where a gateway is.
    pub fn address(&self, gateway: usize) -> String {
        format!("http://127.0.0.1:{}", self.gateways[gateway])
    }

    /// The secret of somebody's token: `sub`, `app`, `app2`, `both`, `admin`, and of another
    /// namespace `foreigner`, `other-admin`.
    ///
    /// # Panics
    ///
    /// If there is nobody of that name.
    pub fn token(&self, holder: &str) -> String {
        let tokens = self.tokens.lock().expect("nothing panics with the tokens");
        tokens.0[holder].clone()
    }

    /// Where all gateways are.
    pub fn addresses(&self) -> Vec<String> {
        let all = 0..self.gateways.len();
        all.map(|gateway| self.address(gateway)).collect()
    }

    /// Somebody's client.
    ///
    /// # Panics
    ///
    /// If there is nobody of that name.
    pub fn client(&self, holder: &str) -> Client {
        Client::new(&self.address(0), &self.token(holder))
    }

    /// Somebody's client at the last gateway, which is another process where there are several.
    ///
    /// # Panics
    ///
    /// If there is nobody of that name.
    pub fn other_client(&self, holder: &str) -> Client {
        Client::new(&self.address(self.gateways.len() - 1), &self.token(holder))
    }

    /// A client with any token.
    pub fn client_with(&self, secret: &str) -> Client {
        Client::new(&self.address(0), secret)
    }

    /// Its processes, without the broker.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// A process by name: `sayso`, or `scheduler`, `executor-0`, `gateway-0`, …
    ///
    /// # Panics
    ///
    /// If there is none of that name.
    pub fn process(&self, name: &str) -> &Process {
        let found = self.processes.iter().find(|process| process.name() == name);
        found.unwrap_or_else(|| panic!("there is no process {name}"))
    }

    /// An executor; the whole, where everything is one process.
    pub fn executor(&self, number: usize) -> &Process {
        match self.shape {
            Shape::Embedded => self.process("sayso"),
            Shape::Apart { .. } => self.process(&format!("executor-{number}")),
        }
    }

    /// The broker.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn nats(&self) -> &Process {
        self.nats.as_ref().expect("there is a broker")
    }

    /// The database server, where it is the deployment's own.
    pub fn own_server(&self) -> Option<&Process> {
        self.server.as_ref().map(|server| &server.process)
    }

    /// The broker, where there is one.
    pub fn broker(&self) -> Option<&Process> {
        self.nats.as_ref()
    }

    /// Starts the database server if it does not run, and waits until it takes connections.
    ///
    /// # Panics
    ///
    /// If it does not, or is not the deployment's own.
    pub async fn database_up(&self) {
        let server = self.server.as_ref();
        server.expect("it has a server of its own").up().await;
    }

    /// The small disk.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn disk(&self) -> &Disk {
        self.disk.as_ref().expect("something is on a small disk")
    }

    /// Deletes the broker's streams, with all that is in them, as an administrator could.
    ///
    /// # Errors
    ///
    /// If the broker is away meanwhile.
    pub async fn delete_streams(&self) -> std::io::Result<()> {
        for stream in ["SAYSO_WORK", "SAYSO_EVENTS"] {
            broker::ask(self.nats_port, &format!("STREAM.DELETE.{stream}")).await?;
        }
        Ok(())
    }

    /// How many wake-ups the broker holds that no worker has acknowledged.
    ///
    /// # Errors
    ///
    /// If the broker is away, or does not know the stream.
    pub async fn queued_wake_ups(&self) -> std::io::Result<u64> {
        let stream = broker::ask(self.nats_port, "STREAM.INFO.SAYSO_WORK").await?;
        let messages = stream["state"]["messages"].as_u64();
        messages.ok_or_else(|| std::io::Error::other(stream.to_string()))
    }

    /// What stands between the services and the database.
    ///
    /// # Panics
    ///
    /// If nothing does.
    pub fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("the database is proxied")
    }

    /// Where the broker keeps its streams.
    pub fn nats_store(&self) -> PathBuf {
        self.folder.join("nats")
    }

    /// Waits until the broker takes connections.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub async fn nats_accepts(&self) {
        accepts(self.nats_port).await;
    }

    /// Kills every process without warning; the broker stays.
    pub fn kill_all(&self) {
        for process in &self.processes {
            process.kill();
        }
    }

    /// Starts what does not run, and waits until all is ready.
    ///
    /// # Panics
    ///
    /// If it does not get ready.
    pub async fn start_all(&self) {
        for process in &self.processes {
            process.start();
        }
        self.ready().await;
    }

    /// Runs a command of `sayso` to its end.
    pub fn sayso<const N: usize>(&self, arguments: [&str; N]) -> Ran {
        command::sayso(arguments, &[], &self.folder)
    }

    /// Runs a command of `sayso` as somebody, against the gateway.
    pub fn sayso_as<const N: usize>(&self, holder: &str, arguments: [&str; N]) -> Ran {
        let (token, server) = (self.token(holder), self.address(0));
        let environment = [
            ("SAYSO_TOKEN", token.as_str()),
            ("SAYSO_SERVER", server.as_str()),
        ];
        command::sayso(arguments, &environment, &self.folder)
    }

    /// The same with a text on standard input.
    pub fn sayso_reading<const N: usize>(
        &self,
        holder: &str,
        arguments: [&str; N],
        input: &str,
    ) -> Ran {
        let (token, server) = (self.token(holder), self.address(0));
        let environment = [
            ("SAYSO_TOKEN", token.as_str()),
            ("SAYSO_SERVER", server.as_str()),
        ];
        command::sayso_reading(arguments, &environment, &self.folder, input)
    }

    /// Moves the database's clock forward for everybody.
    ///
    /// # Panics
    ///
    /// If it cannot be moved.
    pub async fn advance(&self, by: Duration) {
        let store = Store::open(&self.database, StoreConfig::default()).await;
        let store = store.expect("the database can be opened");
        let micros = i64::try_from(by.as_micros()).expect("tests move it by hours");
        let moved = store.set_clock_offset(micros).await;
        moved.expect("the clock can be moved");
        store.close().await;
    }

    /// A bundle's text, with the ledger's servers filled in.
    pub fn bundle(&self, bundle: &Bundle) -> String {
        let filled = bundle
            .ledgers
            .iter()
            .fold(bundle.clone(), |bundle, (name, tools)| {
                bundle.server(name, self.ledger_server(tools))
            });
        filled.text()
    }

    /// An MCP server that offers these tools, separated by commas, and writes into the ledger.
    pub fn ledger_server(&self, tools: &str) -> Value {
        let beside = std::env::current_exe().expect("this program has a path");
        let built = beside
            .ancestors()
            .nth(2)
            .expect("tests are built into target/…/deps");
        json!({
            "command": [built.join(LEDGER_SERVER)],
            "env": {"LEDGER": self.ledger.path(), "TOOLS": tools},
        })
    }

    /// What everything has logged so far.
    pub fn logs(&self) -> String {
        self.logged().map(Process::log).collect()
    }

    /// Everything that logs.
    fn logged(&self) -> impl Iterator<Item = &Process> {
        self.processes
            .iter()
            .chain(&self.nats)
            .chain(self.own_server())
    }

    /// The lengths of all logs now.
    pub(crate) fn log_marks(&self) -> Vec<usize> {
        self.logged().map(|process| process.log().len()).collect()
    }

    /// What was logged since.
    pub(crate) fn logs_since(&self, marks: &[usize]) -> String {
        let logs = self.logged().zip(marks);
        logs.map(|(process, mark)| {
            let log = process.log();
            let new = log.get(*mark..).unwrap_or(&log);
            format!("--- {}\n{new}", process.name())
        })
        .collect()
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.processes.clear();
        self.nats = None;
        self.kept = None;
        self.server = None;
        self.disk = None;
    }
}

fn write(path: &Path, config: &Value) {
    std::fs::write(path, config.to_string()).expect("a configuration can be written");
}

async fn accepts(port: u16) {
    until("the broker to take connections", async || {
        TcpStream::connect(("127.0.0.1", port)).await.ok()
    })
    .await;
}

async fn readiness(port: u16) -> Option<(u16, String)> {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let request = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let status = answer.split_whitespace().nth(1)?.parse().ok()?;
        Some((status, answer))
    };
    timeout(Duration::from_secs(3), ask).await.ok().flatten()
}
