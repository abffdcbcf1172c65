//! Tools: MCP servers, built-ins, code of this process, argument validation, limits and the one dispatcher.
//!
//! [`Toolbox`] is what an executor calls tools with; it implements [`sayso_driver::Tools`]:
//!
//! * **list**: the tools of the bundle's MCP servers (S3.5), the built-ins that it grants (S3.1) and
//!   `ask_person` (S1.8), each under a name that a model can use and no other tool shares (B38).
//! * **check**: the exact argument bytes against the tool's JSON Schema (S3.7), with what `Value`
//!   would hide: duplicate keys and numbers that do not survive.
//! * **call**: the one way out. It sends only to a tool that is still defined as it was listed
//!   (S6.1), only while the worker holds its lease, for a limited time and with a limited result
//!   (S3.8).
//!
//! What it keeps between calls (connections, listings, compiled schemas) can be lost at any moment
//! and costs time only. Tool sets and artifacts are stored through [`ToolSets`] and [`Artifacts`], and
//! secrets come from [`Secrets`]: they go to servers and are taken out of what comes back (S3.10).
//!
//! [`demo_shop`] is a small MCP server for `sayso demo`.

mod arguments;
mod artifact;
mod builtin;
mod check;
mod cut;
pub mod demo_shop;
mod mcp;
mod name;
mod native;
mod recent;
mod schema;
mod secrets;
mod sets;
mod storage;
mod toolbox;

pub use artifact::MAX_ARTIFACT_BYTES;
pub use check::ArgumentCheck;
pub use mcp::IDEMPOTENCY_KEY_META;
pub use native::{NativeCall, NativeHandler, NativeTool};
pub use secrets::{KnownSecrets, NoSecrets, Secrets};
pub use storage::{Artifacts, NewArtifact, StorageError, ToolSets};
pub use toolbox::{Toolbox, ToolboxSettings};
