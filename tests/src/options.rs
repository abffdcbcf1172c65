use serde_json::Value;

use crate::collector::Collector;

/// How a deployment is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One process on SQLite.
    Embedded,
    /// The six services on Postgres and NATS, with so many executors and gateways.
    Apart {
        /// How many executors.
        executors: usize,
        /// How many gateways.
        gateways: usize,
    },
}

impl Shape {
    /// One of each service.
    pub const APART: Self = Self::Apart {
        executors: 1,
        gateways: 1,
    };
}

/// What keeps its data on a disk of 64 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Small {
    /// The database; where everything is one process, its folder.
    Database,
    /// The broker.
    Broker,
}

/// What a deployment is told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub(crate) scripts: Vec<(String, String)>,
    pub(crate) models: Vec<(String, Value)>,
    pub(crate) tiers: Vec<(String, Vec<String>)>,
    pub(crate) hooks: Option<String>,
    pub(crate) proxied: bool,
    pub(crate) own_server: bool,
    pub(crate) small: Option<Small>,
    pub(crate) secrets: Vec<(String, String)>,
    pub(crate) smtp: Option<u64>,
    pub(crate) schedulers: usize,
    pub(crate) collector: Option<String>,
    pub(crate) tells: bool,
}

impl Options {
    /// Nothing: no models.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scripted model and a tier of this name.
    #[must_use]
    pub fn script(mut self, name: &str, script: &str) -> Self {
        self.scripts.push((name.to_owned(), script.to_owned()));
        self.tiers.push((name.to_owned(), vec![name.to_owned()]));
        self
    }

    /// Any model.
    #[must_use]
    pub fn model(mut self, name: &str, model: Value) -> Self {
        self.models.push((name.to_owned(), model));
        self
    }

    /// A tier.
    #[must_use]
    pub fn tier(mut self, name: &str, models: &[&str]) -> Self {
        let models = models.iter().map(|model| (*model).to_owned()).collect();
        self.tiers.push((name.to_owned(), models));
        self
    }

    /// Crash windows, in the form of `SAYSO_HOOKS`, for the first executor's first start.
    #[must_use]
    pub fn hooks(mut self, hooks: &str) -> Self {
        self.hooks = Some(hooks.to_owned());
        self
    }

    /// A secret of `notify.secrets`.
    #[must_use]
    pub fn secret(mut self, name: &str, value: &str) -> Self {
        self.secrets.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A mail server at this port of this machine.
    #[must_use]
    pub fn smtp(mut self, port: u64) -> Self {
        self.smtp = Some(port);
        self
    }

    /// So many schedulers beside the first, where services run apart: `scheduler-1`, …
    #[must_use]
    pub fn more_schedulers(mut self, count: usize) -> Self {
        self.schedulers = count;
        self
    }

    /// Where all traces go, in full.
    #[must_use]
    pub fn collector(mut self, collector: &Collector) -> Self {
        self.collector = Some(collector.address());
        self
    }

    /// Traces carry what is said and passed.
    #[must_use]
    pub fn telling(mut self) -> Self {
        self.tells = true;
        self
    }

    /// A database server that can be killed; for services that run apart.
    #[must_use]
    pub fn own_server(mut self) -> Self {
        self.own_server = true;
        self
    }

    /// A disk of 64 MiB under something.
    #[must_use]
    pub fn small(mut self, what: Small) -> Self {
        self.small = Some(what);
        self
    }

    /// A database that can be taken away; for services that run apart.
    #[must_use]
    pub fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }
}
