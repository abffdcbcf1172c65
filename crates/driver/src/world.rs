//! What the loop needs of the world outside: models, tools, policy, and somebody to tell.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sayso_rules::{Bundle, Redaction, Role, Rules};
use sayso_run::{
    AgentName, CallId, Currency, Digest, FailureCode, Message, ModelFailover, Namespace, Price,
    PrincipalId, RevisionId, RunId, Thinking, ToolOutcome, ToolSetId, Usage,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::journal::Written;
use crate::resolved::ResolvedTools;
use crate::rows::RunRow;

/// A revision as workers use it.
#[derive(Debug)]
pub struct Revision {
    /// Its id.
    pub id: RevisionId,
    /// The bundle as deployed.
    pub bundle: Bundle,
    /// Who deployed it, where that is known (S6.12).
    pub author: Option<PrincipalId>,
    /// Its rules, compiled.
    pub rules: Rules,
    /// Whether there is somebody to ask; if not, `ask` is `deny` (S6.14).
    pub asks: bool,
    /// The sets that its runs were offered lately.
    resolved: Mutex<Vec<Arc<ResolvedTools>>>,
}

/// How many tool sets a revision keeps resolved. It has one, until a server changes what it offers.
const KEPT_SETS: usize = 4;

impl Revision {
    /// Compiles a bundle's rules.
    pub fn new(id: RevisionId, bundle: Bundle) -> Self {
        Self {
            id,
            rules: Rules::compile(&bundle),
            bundle,
            author: None,
            asks: true,
            resolved: Mutex::default(),
        }
    }

    /// The same, deployed by somebody.
    #[must_use]
    pub fn by(mut self, author: PrincipalId) -> Self {
        self.author = Some(author);
        self
    }

    /// The same where nobody can be asked: `ask` is `deny` (S6.14).
    #[must_use]
    pub fn without_approvers(mut self) -> Self {
        self.asks = false;
        self
    }

    /// A set's tools as this revision's rules see them.
    pub fn resolve(&self, set: &Arc<ToolSet>) -> Arc<ResolvedTools> {
        let mut kept = self
            .resolved
            .lock()
            .expect("no code panics while it holds the sets");
        if let Some(known) = kept.iter().find(|known| known.set.id == set.id) {
            return Arc::clone(known);
        }
        let resolved = Arc::new(ResolvedTools::new(
            &self.bundle,
            &self.rules,
            Arc::clone(set),
        ));
        if kept.len() == KEPT_SETS {
            kept.remove(0);
        }
        kept.push(Arc::clone(&resolved));
        resolved
    }
}

/// Policy cannot be asked: nothing runs, the run waits (S5.13).
#[derive(Debug, Clone, Error)]
#[error("policy cannot be asked: {0}")]
pub struct PolicyUnavailable(pub String);

/// Where revisions and roles come from.
pub trait Policy: Send + Sync + 'static {
    /// A revision by id. Immutable, so it may be kept.
    fn revision(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
        revision: &RevisionId,
    ) -> impl Future<Output = Result<Arc<Revision>, PolicyUnavailable>> + Send;

    /// The agent's role now; `None` if it has none. At most a second old, or an error (S3.9, S5.13).
    fn role(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> impl Future<Output = Result<Option<Arc<Role>>, PolicyUnavailable>> + Send;

    /// The revision with which an agent's runs start now; `None` if there is no such agent.
    fn current(
        &self,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> impl Future<Output = Result<Option<RevisionId>, PolicyUnavailable>> + Send;

    /// Whether the agent or its namespace is paused (S10.6). At most a second old, or an error. A
    /// world without pauses never is.
    fn paused(
        &self,
        _namespace: &Namespace,
        _agent: &AgentName,
    ) -> impl Future<Output = Result<bool, PolicyUnavailable>> + Send {
        std::future::ready(Ok(false))
    }
}

/// Secrets cannot be read: nothing runs, since what they are could be written down unseen.
#[derive(Debug, Clone, Error)]
#[error("secrets cannot be read: {0}")]
pub struct SecretsUnavailable(pub String);

/// What kind of tool it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Part of sayso, such as `create_artifact`.
    Builtin,
    /// Acts on nothing: `ask_person`.
    Control,
    /// Starts another agent: `start_agent` (S3.6).
    Agent,
    /// From an MCP server.
    Mcp,
    /// Code of the process that the agent runs in (S6.14). Policy sees it as a tool of an MCP server
    /// that nobody trusts to describe itself.
    Native,
}

/// What an MCP server says of its tool; absent where it says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolHints {
    /// Only reads.
    pub read_only: Option<bool>,
    /// May destroy.
    pub destructive: Option<bool>,
    /// Repeating it with the same arguments changes nothing more.
    pub idempotent: Option<bool>,
    /// Touches the world outside.
    pub open_world: Option<bool>,
}

/// One tool that a run may offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name as registered: `server.tool`, or a built-in's.
    pub registered: String,
    /// The name as the model sees it: at most 64 of `[A-Za-z0-9_-]`.
    pub model_name: String,
    /// The kind.
    pub kind: ToolKind,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments, as its exact text.
    pub input_schema: String,
    /// The server's hints.
    pub hints: ToolHints,
    /// Where it runs: the server's command line or URL; empty for our own.
    pub origin: String,
}

impl ToolDefinition {
    /// Digest of everything that an approval of a call binds beside the call itself: name, schema
    /// and where it runs (S6.1).
    pub fn digest(&self) -> Digest {
        Digest::of_parts(&[
            b"sayso.tool",
            self.registered.as_bytes(),
            self.input_schema.as_bytes(),
            self.origin.as_bytes(),
        ])
    }
}

/// The tools of a run, stored once under the digest of their definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSet {
    /// Its id.
    pub id: ToolSetId,
    /// The tools, by registered name.
    pub tools: Vec<ToolDefinition>,
}

impl ToolSet {
    /// A set of tools; sorts them, so that the order of listing does not matter.
    pub fn new(mut tools: Vec<ToolDefinition>) -> Self {
        tools.sort_by(|a, b| a.registered.cmp(&b.registered));
        let text =
            serde_json::to_string(&tools).expect("definitions hold only strings and booleans");
        let id = ToolSetId::new(Digest::of(text.as_bytes()).to_hex())
            .expect("a digest is 64 hex digits");
        Self { id, tools }
    }

    /// The stored text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.tools).expect("definitions hold only strings and booleans")
    }

    /// Reads the stored text.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        Ok(Self::new(serde_json::from_str(text)?))
    }

    /// The tool that a model names, by its model form or as registered.
    pub fn find(&self, name: &str) -> Option<&ToolDefinition> {
        self.tools
            .iter()
            .find(|tool| tool.model_name == name)
            .or_else(|| self.tools.iter().find(|tool| tool.registered == name))
    }
}

/// The tools of an agent could not be listed.
#[derive(Debug, Clone, Error)]
#[error("the tools of `{server}` cannot be listed: {why}")]
pub struct ListError {
    /// The server.
    pub server: String,
    /// Why.
    pub why: String,
    /// Whether only what keeps lists was away: the run waits for it and does not fail.
    pub passes: bool,
}

/// A call that is about to be sent.
#[derive(Debug, Clone)]
pub struct ToolRequest {
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The run.
    pub run: RunId,
    /// The call.
    pub call: CallId,
    /// The tool as it was listed; the dispatcher refuses to send to one that is defined otherwise
    /// now.
    pub tool: ToolDefinition,
    /// The exact argument bytes.
    pub args: String,
    /// The same however often the call is sent.
    pub idempotency_key: String,
    /// How long it may take.
    pub timeout: Duration,
    /// How large the result may be, in bytes.
    pub max_result_bytes: usize,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolReply {
    /// How it ended.
    pub outcome: ToolOutcome,
    /// What the model is told, already cut.
    pub content: String,
    /// Bytes that were cut.
    pub cut_bytes: u64,
    /// Id of an artifact that it made.
    pub artifact: Option<String>,
}

/// The tools of agents.
pub trait Tools: Send + Sync + 'static {
    /// Lists what a revision's agent may be offered, model names included.
    fn list(
        &self,
        namespace: &Namespace,
        revision: &Revision,
        run: &RunId,
    ) -> impl Future<Output = Result<Arc<ToolSet>, ListError>> + Send;

    /// The definitions that were listed under an id, as stored.
    fn stored(
        &self,
        set: &ToolSetId,
    ) -> impl Future<Output = Result<Arc<ToolSet>, ListError>> + Send;

    /// Checks exact argument bytes against the schema: what is wrong, for the model (S3.7).
    fn check(&self, tool: &ToolDefinition, args: &str) -> Result<(), String>;

    /// The run has ended: nothing is kept for it any more.
    fn ended(&self, run: &RunId) -> impl Future<Output = ()> + Send;

    /// What readers of an agent's runs are not shown (S3.10): at most a second old, or an error. A
    /// world without secrets redacts by name.
    fn redaction(
        &self,
        _namespace: &Namespace,
    ) -> impl Future<Output = Result<Arc<Redaction>, SecretsUnavailable>> + Send {
        std::future::ready(Ok(Arc::default()))
    }

    /// Sends a call. `fence` is asked right before the first byte goes out: if it says no, nothing
    /// is sent and the outcome is [`ToolOutcome::Unreachable`].
    fn call(
        &self,
        revision: &Revision,
        request: ToolRequest,
        fence: Fence,
    ) -> impl Future<Output = ToolReply> + Send;
}

/// Whether this worker may still act: its lease was renewed within the last two seconds.
#[derive(Clone)]
pub struct Fence(Arc<dyn Fn() -> bool + Send + Sync>);

impl Fence {
    /// A fence that asks `holds`.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    /// Whether the worker may send.
    pub fn holds(&self) -> bool {
        (self.0)()
    }
}

impl std::fmt::Debug for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fence({})", self.holds())
    }
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The run: the scripted model plays its turns per run.
    pub run: RunId,
    /// The cycle, from 1.
    pub cycle: u32,
    /// The tier, whose chain is tried in order.
    pub tier: String,
    /// The agent's instructions.
    pub system: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools to offer.
    pub tools: Vec<ToolDefinition>,
    /// The currency of the namespace's cap: only models with a price in it may be asked (S4.6). None
    /// if there is no cap.
    pub capped_in: Option<Currency>,
    /// What traces are not to show of it (S3.10).
    pub redaction: Arc<Redaction>,
}

impl ModelRequest {
    /// The size of everything that a model is sent, by the size of a text.
    pub fn size(&self, of: impl Fn(&str) -> u64) -> u64 {
        let tools = self.tools.iter();
        let tools =
            tools.map(|tool| of(&tool.model_name) + of(&tool.description) + of(&tool.input_schema));
        of(&self.system) + tools.sum::<u64>() + Self::size_of(&self.messages, of)
    }

    /// The same of messages alone.
    pub fn size_of(messages: &[Message], of: impl Fn(&str) -> u64) -> u64 {
        let sizes = messages.iter().map(|message| match message {
            Message::User(text) => of(text),
            Message::Assistant {
                text,
                thinking,
                calls,
                ..
            } => {
                let thinking = thinking.iter().map(|thinking| of(&thinking.text));
                let calls = calls
                    .iter()
                    .map(|call| of(&call.model_name) + of(&call.args));
                of(text) + thinking.sum::<u64>() + calls.sum::<u64>()
            }
            Message::Results(results) => results.iter().map(|result| of(&result.text)).sum(),
        });
        sizes.sum()
    }
}

/// A call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCall {
    /// The name that it used.
    pub name: String,
    /// The exact argument bytes.
    pub args: String,
}

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelReply {
    /// A whole answer.
    Answer {
        /// The text.
        text: String,
        /// The thinking.
        thinking: Vec<Thinking>,
        /// The calls, in order.
        calls: Vec<ModelCall>,
        /// The model that answered, by its configured name.
        model: String,
        /// Its tokens.
        usage: Usage,
        /// Models that were unavailable on the way.
        failovers: Vec<ModelFailover>,
    },
    /// No answer.
    Failed {
        /// The stable code.
        code: FailureCode,
        /// The underlying message, without secrets.
        message: String,
        /// The provider's name, if it refused for money.
        billing: Option<String>,
        /// Models that were unavailable on the way.
        failovers: Vec<ModelFailover>,
    },
}

/// Takes what a model says while it says it (S2.4). Provisional: it is withdrawn when the answer
/// breaks off.
pub trait Deltas: Send + Sync {
    /// More text.
    fn text(&self, text: &str);
    /// All text of this cycle so far is void.
    fn withdrawn(&self);
}

/// The models.
pub trait Models: Send + Sync + 'static {
    /// Asks the models of the tier's chain until one answers. Keeps the ceiling of S4.2.
    fn ask(
        &self,
        request: ModelRequest,
        deltas: &dyn Deltas,
    ) -> impl Future<Output = ModelReply> + Send;

    /// How many tokens a request to a tier and its answer may have together; `None` if that is not
    /// known, and nothing is compacted (S4.4).
    fn window(&self, _tier: &str) -> Option<u64> {
        None
    }

    /// The tokens of a text, counted here: near enough for any provider.
    fn count(&self, text: &str) -> u64 {
        text.len().div_ceil(4) as u64
    }

    /// What the tokens of a model cost, by its configured name; `None` if it has no price (S4.6).
    fn price(&self, _model: &str) -> Option<Price> {
        None
    }
}

/// Tells the world of steps that were appended.
pub trait Herald: Send + Sync + 'static {
    /// Publishes the events of these steps, in order, after those that it was told of before. Does
    /// not wait: what cannot be published stays behind the mark and goes out with the sweep.
    fn announce(&self, row: &RunRow, steps: Vec<Written>);

    /// The last of the run's steps whose event the broker is known to have.
    fn published(&self, run: &RunId) -> Option<u64>;

    /// Publishes what the stored mark says is missing, whatever this process believes to have
    /// published.
    fn announce_again(&self, row: &RunRow, published: u64, steps: Vec<Written>);

    /// Wakes a worker for a run.
    fn wake(&self, namespace: &Namespace, run: &RunId, cause: &'static str);

    /// Makes a span, not entered yet, part of the trace in which a run was started (S10.3).
    fn trace(&self, span: &tracing::Span, traceparent: &str);

    /// Provisional text of a run's current answer, or its withdrawal (`None`).
    fn delta(&self, run: &RunId, cycle: u32, text: Option<&str>);
}
