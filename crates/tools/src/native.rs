//! Tools that are code of the process in which an agent runs (S6.14).
//!
//! A call of one is sent like any other: only if the tool is still defined as it was listed, only while
//! the worker holds its lease, for a limited time. It runs in a task of its own, so that a panic is an
//! error of the tool and of nothing else. Whoever has run out of time, or whose run was cancelled, is
//! told by a token; what still comes then counts as the result if the time is not up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use sayso_driver::{Fence, ToolDefinition, ToolHints, ToolKind, ToolReply, ToolRequest};
use sayso_run::{AgentName, CallId, RunId, ToolOutcome};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::toolbox::{mismatch, reply};

/// What a native tool's code is given beside its arguments.
#[derive(Debug, Clone)]
pub struct NativeCall {
    /// The run.
    pub run: RunId,
    /// The call.
    pub call: CallId,
    /// The same however often the call is sent, and no other call's.
    pub idempotency_key: String,
    /// Cancelled when the time for the call is up, or its run was cancelled.
    pub cancelled: CancellationToken,
}

/// The code of a tool: the exact argument bytes in, what the model is told out.
pub type NativeHandler =
    Arc<dyn Fn(String, NativeCall) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// A tool that is code of this process.
#[derive(Clone)]
pub struct NativeTool {
    /// The name that bundles, rules and roles know it by: `[A-Za-z0-9_.-]{1,128}`.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of its arguments, an object, as text.
    pub input_schema: String,
    /// What it does.
    pub handler: NativeHandler,
}

impl std::fmt::Debug for NativeTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NativeTool({})", self.name)
    }
}

impl NativeTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            registered: self.name.clone(),
            model_name: self.name.clone(),
            kind: ToolKind::Native,
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            hints: ToolHints::default(),
            origin: String::new(),
        }
    }
}

/// The native tools of a process, by agent, and their calls that are under way.
#[derive(Debug, Default)]
pub(crate) struct Natives {
    tools: BTreeMap<AgentName, BTreeMap<String, NativeTool>>,
    under_way: Mutex<Calls>,
}

/// Calls that are under way.
#[derive(Debug, Default)]
struct Calls {
    next: u64,
    tokens: BTreeMap<u64, (RunId, CancellationToken)>,
}

impl Natives {
    pub(crate) fn give(&mut self, agent: AgentName, tools: Vec<NativeTool>) {
        let named = tools.into_iter().map(|tool| (tool.name.clone(), tool));
        self.tools.entry(agent).or_default().extend(named);
    }

    /// What an agent has of them.
    pub(crate) fn of(&self, agent: &AgentName) -> impl Iterator<Item = ToolDefinition> {
        let tools = self.tools.get(agent).into_iter();
        tools.flat_map(|tools| tools.values().map(NativeTool::definition))
    }

    /// Whether this process plays a server of the agent's bundle: it has tools of that name.
    pub(crate) fn play(&self, agent: &AgentName, server: &str) -> bool {
        let belongs = |name: &String| {
            let split = name.split_once('.');
            split.is_some_and(|(of, _)| of == server)
        };
        let tools = self.tools.get(agent);
        tools.is_some_and(|tools| tools.keys().any(belongs))
    }

    /// Tells the calls of a run that nobody waits for them any more.
    pub(crate) fn cancel(&self, run: &RunId) {
        let under_way = self.under_way();
        for (_, token) in under_way.tokens.values().filter(|(of, _)| of == run) {
            token.cancel();
        }
    }

    fn under_way(&self) -> MutexGuard<'_, Calls> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn call(&self, request: ToolRequest, fence: &Fence) -> ToolReply {
        let tools = self.tools.get(&request.agent);
        let Some(tool) = tools.and_then(|tools| tools.get(&request.tool.registered)) else {
            return mismatch(&request, "this process does not have it");
        };
        if tool.definition().digest() != request.tool.digest() {
            return mismatch(
                &request,
                "this process defines it otherwise than when the run started",
            );
        }
        let cancelled = CancellationToken::new();
        let call = NativeCall {
            run: request.run.clone(),
            call: request.call.clone(),
            idempotency_key: request.idempotency_key.clone(),
            cancelled: cancelled.clone(),
        };
        let _entry = self.enter(request.run.clone(), cancelled.clone());
        if !fence.holds() {
            return reply(
                ToolOutcome::Unreachable,
                "nothing was sent: this worker may no longer act for the run",
            );
        }
        // Dropped with this call: what runs out of time goes no further than its next await.
        let (handler, args) = (Arc::clone(&tool.handler), request.args);
        let running = tokio::spawn(async move { handler(args, call).await });
        let running = AbortOnDropHandle::new(running);
        let name = &request.tool.registered;
        match tokio::time::timeout(request.timeout, running).await {
            Ok(Ok(Ok(content))) => reply(ToolOutcome::Ok, content),
            Ok(Ok(Err(error))) => reply(ToolOutcome::Error, error),
            Ok(Err(broke)) => {
                tracing::error!(run = %request.run, tool = name, %broke, "a native tool panicked");
                reply(
                    ToolOutcome::Error,
                    format!(
                        "`{name}` broke while it ran; it may have acted: look before you call it again."
                    ),
                )
            }
            Err(_) => {
                cancelled.cancel();
                reply(
                    ToolOutcome::Timeout,
                    format!(
                        "`{name}` did not answer within {:?}. It was told to stop, but it may have \
                         acted: look before you call it again.",
                        request.timeout
                    ),
                )
            }
        }
    }

    /// Notes a call as under way for as long as the guard lives.
    fn enter(&self, run: RunId, token: CancellationToken) -> UnderWay<'_> {
        let mut calls = self.under_way();
        let entry = calls.next;
        calls.next += 1;
        calls.tokens.insert(entry, (run, token));
        UnderWay {
            natives: self,
            entry,
        }
    }
}

struct UnderWay<'n> {
    natives: &'n Natives,
    entry: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.natives.under_way().tokens.remove(&self.entry);
    }
}
