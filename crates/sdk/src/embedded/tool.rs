//! Tools that are code of this process.

use std::fmt::Display;
use std::sync::Arc;

use sayso_run::{CallId, RunId};
use sayso_tools::{NativeCall, NativeTool};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A tool that is code of this process.
///
/// The name is what bundle, rules and roles know it by; `shop.refund` belongs to the server `shop`, and
/// if the bundle has such a server, the process plays all of it: a bundle that was deployed to the
/// services runs embedded with the same rules.
#[derive(Debug, Clone)]
pub struct Tool(pub(crate) NativeTool);

impl Tool {
    /// A tool whose arguments are a type: its JSON Schema is what the model is told, and what arguments
    /// are held against before anybody is asked (S3.7). What it returns is told to the model as JSON; a
    /// text as it stands.
    pub fn new<A, T, F, Fut>(
        name: impl Into<String>,
        description: impl Into<String>,
        code: F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        T: Serialize,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
    {
        let schema = schemars::schema_for!(A);
        Self::with_schema(name, description, Value::from(schema), code)
    }

    /// The same with a schema that is given: a JSON Schema of one object.
    pub fn with_schema<A, T, F, Fut>(
        name: impl Into<String>,
        description: impl Into<String>,
        schema: Value,
        code: F,
    ) -> Self
    where
        A: DeserializeOwned,
        T: Serialize,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, ToolError>> + Send + 'static,
    {
        let handler = move |args: String,
                            call: NativeCall|
              -> futures::future::BoxFuture<'static, Result<String, String>> {
            match serde_json::from_str(&args) {
                Ok(args) => {
                    let running = code(args, ToolContext(call));
                    Box::pin(async move {
                        running
                            .await
                            .and_then(|said| told(&said))
                            .map_err(|error| error.0)
                    })
                }
                Err(error) => Box::pin(std::future::ready(Err(format!(
                    "the arguments fit the schema and not the tool; nothing ran: {error}"
                )))),
            }
        };
        Self(NativeTool {
            name: name.into(),
            description: description.into(),
            input_schema: schema.to_string(),
            handler: Arc::new(handler),
        })
    }
}

/// What the model is told of what a tool returned.
fn told<T: Serialize>(said: &T) -> Result<String, ToolError> {
    Ok(match serde_json::to_value(said)? {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    })
}

/// What a tool's code is told of its call.
#[derive(Debug, Clone)]
pub struct ToolContext(NativeCall);

impl ToolContext {
    /// The run.
    pub fn run(&self) -> &RunId {
        &self.0.run
    }

    /// The call.
    pub fn call(&self) -> &CallId {
        &self.0.call
    }

    /// The same however often this call is sent, and no other call's: hand it on to whatever acts, and
    /// nothing happens twice.
    pub fn idempotency_key(&self) -> &str {
        &self.0.idempotency_key
    }

    /// Cancelled when the time for the call is up, after which its code is dropped at its next await;
    /// and when the run is cancelled: what it still answers is recorded.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.cancelled
    }
}

/// A tool's own error, told to the model. Every error becomes one with `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError(String);

impl ToolError {
    /// An error in words for the model.
    pub fn new(message: impl Display) -> Self {
        Self(message.to_string())
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            text.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        Self(text)
    }
}
