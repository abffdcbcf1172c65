//! Putting an embedded agent together and setting it to work: the parts that an executor, a scheduler
//! and an approval hub are made of, in one process.

use std::sync::Arc;
use std::time::Instant;

use sayso_bus::Bus;
use sayso_bus::local::{LocalBus, LocalConfig};
use sayso_driver::DelegationLimits;
use sayso_engine::{SweepConfig, Sweeper, ToolStorage, Workers, WorkersConfig};
use sayso_models::Registry;
use sayso_rules::warnings::{group_warnings, secret_warnings, warnings};
use sayso_rules::{Bundle, Redaction};
use sayso_run::{AgentName, ChainKey, ChainKeys, Namespace, PrincipalId, RevisionId};
use sayso_store::{Deploy, Store};
use sayso_tools::{KnownSecrets, Toolbox, ToolboxSettings};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agent::{Agent, Inner};
use super::builder::AgentBuilder;
use super::check;
use super::desk::{Desk, Seat};
use super::error::BuildError;
use super::journal::{Holds, OpenJournal};
use super::policy::StoredPolicy;
use super::secrets::Given;
use super::town::Town;
use crate::v1;

/// The namespace of an embedded agent's journal.
const NAMESPACE: &str = "default";
/// Who deploys, for the record.
const DEPLOYER: &str = "embedded";
/// The worker's name: a new start of it ends what an earlier process held.
const WORKER: &str = "embedded";
/// Runs that are driven at once.
const CONCURRENCY: usize = 256;

pub(crate) async fn open(builder: AgentBuilder) -> Result<Agent, BuildError> {
    check::check(&builder)?;
    let AgentBuilder {
        main,
        helpers,
        models,
        approvers,
        roles,
        secrets,
        cap,
        journal,
    } = builder;
    let seats = check::seats(approvers)?;
    let bundles: Vec<&Bundle> = std::iter::once(&main)
        .chain(&helpers)
        .map(|given| &given.bundle)
        .collect();
    bundles
        .iter()
        .try_for_each(|bundle| check::quorum(bundle, &seats))?;
    let tiers: Vec<&str> = bundles.iter().map(|bundle| bundle.tier.as_str()).collect();
    let registry = check::models(&main.bundle.tier, &tiers, models)?;
    let namespace = Namespace::new(NAMESPACE).expect("the word is a valid name");
    let OpenJournal { store, key, holds } = journal.open().await?;
    store.namespaces().ensure(&namespace).await?;
    for (role, permits) in &roles {
        store.roles().put(&namespace, role, permits).await?;
    }
    for bundle in &bundles {
        deploy(&store, &namespace, bundle).await?;
    }
    match cap {
        Some(cap) => {
            store.budgets().set(&namespace, cap, &deployer()).await?;
        }
        None => {
            store.budgets().remove(&namespace).await?;
        }
    }
    let found = found(&main.bundle, &seats, &secrets);
    let bundle = main.bundle.clone();
    let mut tools = toolbox(&store, secrets);
    for given in std::iter::once(main).chain(helpers) {
        let native = given.tools.into_iter().map(|tool| tool.0).collect();
        tools = tools.with_native(agent_of(&given.bundle), native);
    }
    let parts = Parts {
        namespace,
        store,
        key,
        holds: Arc::new(holds),
        seats,
        registry,
        tools: Arc::new(tools),
    };
    Ok(parts.set_to_work(&bundle, found))
}

fn deployer() -> PrincipalId {
    PrincipalId::new(DEPLOYER).expect("the word is a valid name")
}

fn agent_of(bundle: &Bundle) -> AgentName {
    AgentName::new(&bundle.name).expect("a bundle's name was checked by the same rule")
}

fn revision_of(bundle: &Bundle) -> RevisionId {
    RevisionId::new(bundle.revision_hash()).expect("a SHA-256 has 64 hex digits")
}

/// Stores a bundle as the agent's current revision; the same one again changes nothing.
async fn deploy(store: &Store, namespace: &Namespace, bundle: &Bundle) -> Result<(), BuildError> {
    let deploy = Deploy {
        namespace: namespace.clone(),
        agent: agent_of(bundle),
        revision: revision_of(bundle),
        bundle: bundle.to_canonical_json(),
        role: bundle.role.clone(),
        triggers: Vec::new(),
        by: deployer(),
    };
    store.agents().deploy(&deploy).await?;
    Ok(())
}

/// What is allowed but probably not meant.
fn found(bundle: &Bundle, seats: &[Seat], secrets: &[(String, String)]) -> Vec<v1::BundleFinding> {
    let groups = seats.iter().flat_map(|seat| seat.groups.iter().cloned());
    let secrets = secrets.iter().map(|(name, _)| name.clone()).collect();
    let found = warnings(bundle).into_iter();
    let found = found.chain(secret_warnings(bundle, &secrets));
    let found = found.chain(group_warnings(bundle, &groups.collect()));
    let shown = |warning: sayso_rules::BundleWarning| v1::BundleFinding {
        code: warning.code.to_owned(),
        path: warning.path,
        message: warning.message,
    };
    found.map(shown).collect()
}

fn toolbox(store: &Store, secrets: Vec<(String, String)>) -> Toolbox {
    let storage = Arc::new(ToolStorage(store.clone()));
    let secrets = secrets.into_iter().map(|(name, value)| (None, name, value));
    let known = KnownSecrets::new(&Redaction::default(), secrets);
    let settings = ToolboxSettings::default();
    let secrets = Arc::new(Given(Arc::new(known)));
    Toolbox::new(&settings, Arc::clone(&storage) as _, storage, secrets)
}

/// Everything that an agent is made of, before it works.
struct Parts {
    namespace: Namespace,
    store: Store,
    key: ChainKey,
    holds: Arc<Holds>,
    seats: Vec<Seat>,
    registry: Registry,
    tools: Arc<Toolbox>,
}

impl Parts {
    fn set_to_work(self, bundle: &Bundle, found: Vec<v1::BundleFinding>) -> Agent {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let bus: Arc<dyn Bus> = Arc::new(LocalBus::new(LocalConfig::default()));
        let town = Town::new(Arc::clone(&bus), Arc::clone(&self.tools), tasks.clone());
        let town = Arc::new(town);
        let workers = Workers {
            store: self.store.clone(),
            bus,
            herald: Arc::clone(&town),
            policy: Arc::new(StoredPolicy::new(
                self.store.clone(),
                !self.seats.is_empty(),
            )),
            models: Arc::new(self.registry),
            tools: Arc::clone(&self.tools),
            key: self.key.clone(),
            config: WorkersConfig {
                name: WORKER.to_owned(),
                concurrency: CONCURRENCY,
                delegation: DelegationLimits::default(),
                tells_content: false,
            },
        };
        let desk = Arc::new(Desk {
            store: self.store.clone(),
            town: Arc::clone(&town),
            key: self.key.clone(),
            namespace: self.namespace.clone(),
            seats: self.seats,
        });
        let (stop, holds, tools) = (closing.clone(), Arc::clone(&self.holds), self.tools);
        tasks.spawn(async move {
            if let Err(error) = workers.run(stop).await {
                tracing::error!(%error, "the agent cannot work");
            }
            tools.close().await;
            drop(holds);
        });
        tasks.spawn(Arc::clone(&desk).run(closing.clone()));
        let (store, key) = (self.store.clone(), self.key.clone());
        tasks.spawn(sweep(store, Arc::clone(&town), key, closing.clone()));
        let (store, marks, stop) = (self.store.clone(), Arc::clone(&town), closing.clone());
        tasks.spawn(async move { marks.keep_marks(store, stop).await });
        tasks.close();
        Agent(Arc::new(Inner {
            namespace: self.namespace,
            agent: agent_of(bundle),
            revision: revision_of(bundle),
            keys: [self.key.clone()].into_iter().collect::<ChainKeys>(),
            key: self.key,
            store: self.store,
            town,
            desk,
            found,
            closing,
            tasks,
            _holds: self.holds,
        }))
    }
}

/// Looks for what could be forgotten, as the scheduler does.
async fn sweep(store: Store, town: Arc<Town>, key: ChainKey, closing: CancellationToken) {
    let config = SweepConfig::default();
    let mut sweeper = Sweeper::new(&store, &*town, &key, &config);
    let mut ticks = tokio::time::interval(config.every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let start = Instant::now();
    while closing.run_until_cancelled(ticks.tick()).await.is_some() {
        sweeper.round(|| start.elapsed()).await;
    }
}
