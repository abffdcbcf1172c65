//! The one dispatcher.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject, ServerResult};
use sayso_driver::{
    Fence, ListError, Revision, SecretsUnavailable, ToolDefinition, ToolKind, ToolReply,
    ToolRequest, ToolSet, Tools,
};
use sayso_rules::Redaction;
use sayso_run::{AgentName, Namespace, RunId, ToolOutcome, ToolSetId};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::arguments::{self, Numbers};
use crate::check::ArgumentCheck;
use crate::cut::cut;
use crate::mcp::{
    CallFailure, ConnectError, Dispatch, Key, Lease, ListFailure, Listing, Pool, PoolLimits,
    ServerSpec,
};
use crate::native::{NativeTool, Natives};
use crate::secrets::{Secrets, fill};
use crate::sets::Sets;
use crate::storage::{Artifacts, StorageError, ToolSets};
use crate::{artifact, builtin, mcp, name};

/// The limits of a process's tools; those of a single call come with it.
#[derive(Debug, Clone)]
pub struct ToolboxSettings {
    /// How many calls may be in flight at once.
    pub max_calls: usize,
    /// How long an MCP server may take to start and shake hands.
    pub connect_timeout: Duration,
    /// How long an MCP server may take to list its tools.
    pub list_timeout: Duration,
    /// After this long without use a connection is closed and a server's process ended.
    pub idle: Duration,
    /// The same for a server that each run has for itself: longer than a model may think (S4.2).
    pub idle_per_run: Duration,
}

impl Default for ToolboxSettings {
    fn default() -> Self {
        Self {
            max_calls: 64,
            connect_timeout: Duration::from_secs(20),
            list_timeout: Duration::from_secs(20),
            idle: Duration::from_secs(10 * 60),
            idle_per_run: Duration::from_secs(6 * 60),
        }
    }
}

/// The tools of an executor's agents.
pub struct Toolbox {
    pool: Arc<Pool>,
    sets: Sets,
    arguments: ArgumentCheck,
    artifacts: Arc<dyn Artifacts>,
    secrets: Arc<dyn Secrets>,
    natives: Natives,
    calls: Semaphore,
}

impl Toolbox {
    /// A toolbox without connections yet.
    pub fn new(
        settings: &ToolboxSettings,
        sets: Arc<dyn ToolSets>,
        artifacts: Arc<dyn Artifacts>,
        secrets: Arc<dyn Secrets>,
    ) -> Self {
        let limits = PoolLimits {
            connect: settings.connect_timeout,
            list: settings.list_timeout,
            idle: settings.idle,
            idle_per_run: settings.idle_per_run,
        };
        Self {
            pool: Arc::new(Pool::new(limits)),
            sets: Sets::new(sets),
            arguments: ArgumentCheck::default(),
            artifacts,
            secrets,
            natives: Natives::default(),
            calls: Semaphore::new(settings.max_calls.clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    /// Gives an agent tools that are code of this process (S6.14). Those that are named like tools of
    /// a server of its bundle stand for the whole server, which is not started or asked.
    #[must_use]
    pub fn with_native(mut self, agent: AgentName, tools: Vec<NativeTool>) -> Self {
        self.natives.give(agent, tools);
        self
    }

    /// Tells native calls of a run that it was cancelled; what they answer is still recorded.
    pub fn cancel(&self, run: &RunId) {
        self.natives.cancel(run);
    }

    /// Ends the servers that this run had for itself (`perRun: true`). Call it when the run has
    /// ended or leaves this process; they end by themselves after a while if nobody does.
    pub async fn release(&self, run: &RunId) {
        self.pool.release(run).await;
    }

    /// Closes every connection and ends every server's process; calls in flight end with an error
    /// and nothing is called after this.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    async fn lease(
        &self,
        owner: (&Namespace, &AgentName, &Revision),
        run: &RunId,
        spec: ServerSpec<'_>,
    ) -> Result<Lease, ConnectError> {
        let (namespace, agent, revision) = owner;
        let away = |why: String| ConnectError::new(spec.name, &why);
        let unreadable = |error: StorageError| away(error.to_string());
        let known = self.secrets.of(namespace).await.map_err(unreadable)?;
        let filled = match fill(spec.server, agent, &known) {
            Ok(filled) => filled,
            Err(_) => {
                let now = self.secrets.now(namespace).await.map_err(unreadable)?;
                fill(spec.server, agent, &now).map_err(away)?
            }
        };
        let key = Key {
            namespace: namespace.clone(),
            agent: agent.clone(),
            revision: revision.id.clone(),
            server: spec.name.to_owned(),
            run: spec.server.per_run.then(|| run.clone()),
            // A server that a run has for itself keeps its state, and what it was started with.
            secrets: filled.fingerprint.filter(|_| !spec.server.per_run),
        };
        let spec = ServerSpec {
            name: spec.name,
            server: &filled.server,
        };
        self.pool.lease(key, spec).await
    }

    /// A connection and the tools behind it. One that turns out to be dead is made anew, once:
    /// listing acts on nothing.
    async fn listed<F>(
        &self,
        owner: (&Namespace, &AgentName, &Revision),
        run: &RunId,
        spec: ServerSpec<'_>,
        list: impl Fn(Arc<Lease>) -> F,
    ) -> Result<(Arc<Lease>, Arc<Listing>), ConnectError>
    where
        F: Future<Output = Result<Arc<Listing>, ListFailure>>,
    {
        let mut again = true;
        loop {
            let lease = Arc::new(self.lease(owner, run, spec).await?);
            match list(lease.clone()).await {
                Ok(listing) => return Ok((lease, listing)),
                Err(failure) if failure.gone && again => again = false,
                Err(failure) => return Err(failure.error),
            }
        }
    }

    async fn call_mcp(&self, revision: &Revision, request: ToolRequest, fence: Fence) -> ToolReply {
        let arguments = match self.mcp_arguments(&request) {
            Ok(arguments) => arguments,
            Err(why) => return reply(ToolOutcome::InvalidArguments, why),
        };
        let Some((server, tool)) = name::split(&request.tool.registered) else {
            return mismatch(&request, "it belongs to no server");
        };
        let Some(spec) = spec(revision, server) else {
            return mismatch(&request, "the agent's bundle has no such server");
        };
        // Once more if the connection turned out to be dead before the call was out: everything is
        // looked at anew then, the definition and the lease included.
        let mut again = true;
        loop {
            let lease = match self.verified(revision, &request, spec).await {
                Ok(lease) => lease,
                Err(reply) => return reply,
            };
            let answer = lease
                .call(
                    tool,
                    arguments.clone(),
                    &request.idempotency_key,
                    request.timeout,
                    &Dispatch::new(fence.clone()),
                )
                .await;
            match answer {
                Err(CallFailure::NotSent { gone: true, .. }) if again => again = false,
                answer => return answered(server, &request, answer),
            }
        }
    }

    /// A connection to a server that defines the tool as it was listed (S6.1).
    async fn verified(
        &self,
        revision: &Revision,
        request: &ToolRequest,
        spec: ServerSpec<'_>,
    ) -> Result<Arc<Lease>, ToolReply> {
        let owner = (&request.namespace, &request.agent, revision);
        let (lease, listing) = self
            .listed(owner, &request.run, spec, |lease| async move {
                lease.listing_for_call().await
            })
            .await
            .map_err(|error| unreachable(spec.name, &error.why))?;
        match listing.find(&request.tool.registered) {
            None => Err(mismatch(request, "the server does not have it any more")),
            Some(live) if live.digest() != request.tool.digest() => Err(mismatch(
                request,
                "the server defines it otherwise than when the run started",
            )),
            Some(_) => Ok(lease),
        }
    }

    fn mcp_arguments(&self, request: &ToolRequest) -> Result<JsonObject, String> {
        match arguments::read(&request.args, Numbers::MustSurvive) {
            Ok(Value::Object(arguments)) => Ok(arguments),
            Ok(_) => unreachable!("arguments that are no object are refused"),
            Err(problems) => Err(arguments::describe(&problems)),
        }
    }

    async fn call_builtin(&self, request: ToolRequest, fence: &Fence) -> ToolReply {
        match builtin::definition(&request.tool.registered) {
            Some(live) if live.digest() == request.tool.digest() => {
                artifact::create(&self.artifacts, request, fence).await
            }
            Some(_) => mismatch(
                &request,
                "this version of sayso defines it otherwise than when the run started",
            ),
            None => mismatch(&request, "this version of sayso does not have it"),
        }
    }
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolbox")
            .field("free_calls", &self.calls.available_permits())
            .finish_non_exhaustive()
    }
}

impl Tools for Toolbox {
    async fn list(
        &self,
        namespace: &Namespace,
        revision: &Revision,
        run: &RunId,
    ) -> Result<Arc<ToolSet>, ListError> {
        let agent = AgentName::new(&revision.bundle.name).map_err(|error| ListError {
            server: "the run".to_owned(),
            why: error.to_string(),
            passes: false,
        })?;
        let owner = (namespace, &agent, revision);
        let asked = revision.bundle.servers.iter();
        let asked = asked.filter(|(name, _)| !self.natives.play(&agent, name));
        let each = asked.map(|(name, server)| {
            let spec = ServerSpec { name, server };
            self.listed(
                owner,
                run,
                spec,
                |lease| async move { lease.listing().await },
            )
        });
        let listings = futures::future::try_join_all(each)
            .await
            .map_err(|error| ListError {
                server: error.server,
                why: error.why,
                passes: false,
            })?
            .into_iter()
            .map(|(_, listing)| listing)
            .collect();
        let mut own = builtin::granted(&revision.bundle);
        own.extend(self.natives.of(&agent));
        let owner = (namespace.clone(), agent.clone(), revision.id.clone());
        self.sets.assemble(owner, own, listings).await
    }

    async fn stored(&self, set: &ToolSetId) -> Result<Arc<ToolSet>, ListError> {
        self.sets.stored(set).await
    }

    async fn ended(&self, run: &RunId) {
        self.release(run).await;
    }

    fn check(&self, tool: &ToolDefinition, args: &str) -> Result<(), String> {
        self.arguments.check(tool, args)
    }

    async fn call(&self, revision: &Revision, request: ToolRequest, fence: Fence) -> ToolReply {
        let _permit = self
            .calls
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let max = request.max_result_bytes;
        // Before anything is sent: what must not be told has to be known by then.
        let redaction = match self.redaction(&request.namespace).await {
            Ok(redaction) => redaction,
            Err(error) => return unreachable("sayso", &error.to_string()),
        };
        let mut reply = match request.tool.kind {
            ToolKind::Mcp => self.call_mcp(revision, request, fence).await,
            ToolKind::Builtin => self.call_builtin(request, &fence).await,
            ToolKind::Native => self.natives.call(request, &fence).await,
            ToolKind::Control => mismatch(&request, "it acts on nothing and is never sent"),
            ToolKind::Agent => mismatch(&request, "it becomes a run and is never sent"),
        };
        if let Cow::Owned(clean) = redaction.without_values(&reply.content) {
            reply.content = clean;
        }
        (reply.content, reply.cut_bytes) = cut(reply.content, max);
        reply
    }

    async fn redaction(&self, namespace: &Namespace) -> Result<Arc<Redaction>, SecretsUnavailable> {
        let known = self.secrets.of(namespace).await;
        let known = known.map_err(|error| SecretsUnavailable(error.to_string()))?;
        Ok(Arc::clone(known.redaction()))
    }
}

fn spec<'b>(revision: &'b Revision, server: &str) -> Option<ServerSpec<'b>> {
    let (name, server) = revision.bundle.servers.get_key_value(server)?;
    Some(ServerSpec { name, server })
}

/// What the model is told of an answer, or of none.
fn answered(
    server: &str,
    request: &ToolRequest,
    answer: Result<ServerResult, CallFailure>,
) -> ToolReply {
    let tool = &request.tool.registered;
    match answer {
        Ok(ServerResult::CallToolResult(result)) => result_of(&result),
        Ok(ServerResult::EmptyResult(_)) => reply(ToolOutcome::Ok, ""),
        Ok(ServerResult::InputRequiredResult(_)) => reply(
            ToolOutcome::Error,
            format!("`{tool}` asked for more input while it ran, which sayso does not give"),
        ),
        Ok(ServerResult::CreateTaskResult(_)) => reply(
            ToolOutcome::Error,
            format!("`{tool}` went on in the background without a result; it may act later"),
        ),
        Ok(_) => reply(
            ToolOutcome::Error,
            format!(
                "`{server}` answered with something that is no tool result; `{tool}` may have acted"
            ),
        ),
        Err(CallFailure::NotSent { why, .. }) => unreachable(server, &why),
        Err(CallFailure::TimedOut) => reply(
            ToolOutcome::Timeout,
            format!(
                "`{tool}` did not answer within {:?}. It was told to stop, but it may have acted: \
                 look before you call it again.",
                request.timeout
            ),
        ),
        Err(CallFailure::Broke(why)) => reply(
            ToolOutcome::Error,
            format!(
                "the connection broke after `{tool}` was called: {why}. The outcome is unknown and \
                 it may have acted: look before you call it again."
            ),
        ),
        Err(CallFailure::Refused(why)) => reply(
            ToolOutcome::Error,
            format!("`{server}` refused the call of `{tool}`: {why}"),
        ),
    }
}

fn result_of(result: &CallToolResult) -> ToolReply {
    let outcome = if result.is_error == Some(true) {
        ToolOutcome::Error
    } else {
        ToolOutcome::Ok
    };
    reply(outcome, mcp::describe(result))
}

fn unreachable(server: &str, why: &str) -> ToolReply {
    reply(
        ToolOutcome::Unreachable,
        format!("`{server}` was not reached, nothing was sent: {why}"),
    )
}

pub(crate) fn mismatch(request: &ToolRequest, why: &str) -> ToolReply {
    reply(
        ToolOutcome::Mismatch,
        format!("`{}` was not run: {why}", request.tool.registered),
    )
}

pub(crate) fn reply(outcome: ToolOutcome, content: impl Into<String>) -> ToolReply {
    ToolReply {
        outcome,
        content: content.into(),
        cut_bytes: 0,
        artifact: None,
    }
}
