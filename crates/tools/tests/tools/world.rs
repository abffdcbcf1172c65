//! A toolbox over memory, and what tests need around it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sayso_driver::{Fence, Revision, ToolReply, ToolRequest, ToolSet, Tools};
use sayso_rules::Bundle;
use sayso_run::{AgentName, CallId, Namespace, RevisionId, RunId, ToolOutcome, ToolSetId};
use sayso_tools::{Artifacts, NewArtifact, StorageError, ToolSets, Toolbox, ToolboxSettings};

/// The test server's executable.
pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_sayso-test-mcp");

/// Stores in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) sets: Mutex<HashMap<String, String>>,
    pub(crate) puts: Mutex<u32>,
    pub(crate) artifacts: Mutex<Vec<NewArtifact>>,
    pub(crate) broken: Mutex<bool>,
}

impl Memory {
    fn works(&self) -> Result<(), StorageError> {
        if *self.broken.lock().unwrap() {
            return Err(StorageError("no disk".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl ToolSets for Memory {
    async fn put(&self, id: &ToolSetId, json: &str) -> Result<(), StorageError> {
        self.works()?;
        *self.puts.lock().unwrap() += 1;
        self.sets
            .lock()
            .unwrap()
            .insert(id.to_string(), json.to_owned());
        Ok(())
    }

    async fn get(&self, id: &ToolSetId) -> Result<Option<String>, StorageError> {
        self.works()?;
        Ok(self.sets.lock().unwrap().get(id.as_str()).cloned())
    }
}

#[async_trait]
impl Artifacts for Memory {
    async fn put(&self, artifact: NewArtifact) -> Result<String, StorageError> {
        self.works()?;
        let mut kept = self.artifacts.lock().unwrap();
        let known = kept
            .iter()
            .position(|one| one.idempotency_key == artifact.idempotency_key);
        let at = known.unwrap_or_else(|| {
            kept.push(artifact);
            kept.len() - 1
        });
        Ok(format!("art_{at}"))
    }
}

/// A toolbox, the revision of its one agent, and a run.
pub(crate) struct World {
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) revision: Arc<Revision>,
    pub(crate) namespace: Namespace,
    pub(crate) run: RunId,
    pub(crate) folder: tempfile::TempDir,
}

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) timeout: Duration,
    pub(crate) bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            bytes: 256 * 1024,
        }
    }
}

pub(crate) fn settings() -> ToolboxSettings {
    ToolboxSettings::default()
}

impl World {
    /// An agent whose bundle has these further lines.
    pub(crate) fn new(lines: &str) -> Self {
        Self::with(lines, &settings())
    }

    pub(crate) fn with(lines: &str, settings: &ToolboxSettings) -> Self {
        let memory = Arc::new(Memory::default());
        let toolbox = Toolbox::new(
            settings,
            memory.clone(),
            memory.clone(),
            Arc::new(sayso_tools::NoSecrets),
        );
        Self {
            toolbox: Arc::new(toolbox),
            memory,
            revision: Arc::new(revision(lines)),
            namespace: Namespace::new("test").unwrap(),
            run: RunId::new("run_1").unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// An agent with the test server under the name `t`, in a mode, with a ledger.
    pub(crate) fn stdio(mode: &str) -> Self {
        Self::stdio_with(mode, "", &settings())
    }

    pub(crate) fn stdio_with(mode: &str, more: &str, settings: &ToolboxSettings) -> Self {
        let mut world = Self::with("", settings);
        let ledger = world.ledger();
        world.revision = Arc::new(revision(&format!(
            "servers:\n  t: {{ command: [{SERVER}, {mode:?}], env: {{ TEST_MCP_LEDGER: {:?} }}{more} }}\n",
            ledger.display().to_string()
        )));
        world
    }

    pub(crate) fn ledger(&self) -> std::path::PathBuf {
        self.folder.path().join("ledger")
    }

    /// The lines of the ledger.
    pub(crate) fn noted(&self) -> Vec<String> {
        lines(&self.ledger())
    }

    /// Waits until the ledger holds a line that starts so, and returns its rest.
    pub(crate) async fn await_note(&self, start: &str) -> String {
        tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                let found = self
                    .noted()
                    .into_iter()
                    .find_map(|line| line.strip_prefix(start).map(str::to_owned));
                if let Some(rest) = found {
                    return rest;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .expect("the line is noted in time")
    }

    pub(crate) async fn list(&self) -> Arc<ToolSet> {
        self.toolbox
            .list(&self.namespace, &self.revision, &self.run)
            .await
            .unwrap()
    }

    pub(crate) async fn list_error(&self) -> String {
        self.toolbox
            .list(&self.namespace, &self.revision, &self.run)
            .await
            .unwrap_err()
            .to_string()
    }

    pub(crate) fn request(
        &self,
        set: &ToolSet,
        tool: &str,
        args: &str,
        limits: Limits,
    ) -> ToolRequest {
        ToolRequest {
            namespace: self.namespace.clone(),
            agent: AgentName::new("a").unwrap(),
            run: self.run.clone(),
            call: CallId::of(1, 1),
            tool: set.find(tool).expect("the tool is listed").clone(),
            args: args.to_owned(),
            idempotency_key: "key-1".to_owned(),
            timeout: limits.timeout,
            max_result_bytes: limits.bytes,
        }
    }

    /// Lists, and calls a tool of what is listed.
    pub(crate) async fn call(&self, tool: &str, args: &str) -> ToolReply {
        self.call_within(tool, args, Limits::default()).await
    }

    pub(crate) async fn call_within(&self, tool: &str, args: &str, limits: Limits) -> ToolReply {
        let set = self.list().await;
        self.send(self.request(&set, tool, args, limits)).await
    }

    pub(crate) async fn send(&self, request: ToolRequest) -> ToolReply {
        self.toolbox
            .call(&self.revision, request, Fence::new(|| true))
            .await
    }
}

pub(crate) fn revision(lines: &str) -> Revision {
    let bundle = Bundle::parse(&format!("name: a\ninstructions: test\n{lines}")).unwrap();
    Revision::new(RevisionId::new(bundle.revision_hash()).unwrap(), bundle)
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[track_caller]
pub(crate) fn assert_ok(reply: &ToolReply, content: &str) {
    assert_eq!(
        (reply.outcome, reply.content.as_str()),
        (ToolOutcome::Ok, content)
    );
}

#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

/// Whether a process of this id runs. A zombie does not, once the last of its threads is gone:
/// until then its pipes are open.
pub(crate) fn runs(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit(") ").next()?.chars().next());
    threads > 1 || state.is_some_and(|state| state != 'Z')
}

/// Waits until a process has ended.
pub(crate) async fn await_end(pid: u32) {
    tokio::time::timeout(Duration::from_secs(20), async {
        while runs(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the process ends in time");
}
