//! MCP servers (S3.5): processes and HTTP endpoints that nobody here wrote.
//!
//! A server may hang, die, print noise, change its tools or claim anything. So:
//!
//! * every exchange has a limit of its own, the handshake included;
//! * whether a request's first byte went out is known, not guessed ([`Dispatch`]): a call that failed
//!   before it is unreachable and did nothing, one that failed after it may have acted;
//! * nothing is sent twice: no retries on any layer once a call may be out, no session is silently
//!   made anew beneath one;
//! * text that a server or a transport gives us about a failure is bounded, and the values of the
//!   environment and the headers that the bundle passes are taken out of it.

mod connection;
mod content;
mod dispatch;
mod http;
mod listing;
mod mask;
mod output;
mod pool;
mod process;
mod stdio;

pub(crate) use connection::{CallFailure, ListFailure, ServerSpec};
pub(crate) use content::describe;
pub(crate) use dispatch::Dispatch;
pub(crate) use listing::Listing;
pub(crate) use pool::{ConnectError, Key, Lease, Pool, PoolLimits};

/// The key of `_meta` in `tools/call` under which a server finds the call's idempotency key: the
/// same text however often the call is sent.
pub const IDEMPOTENCY_KEY_META: &str = "sayso/idempotencyKey";
