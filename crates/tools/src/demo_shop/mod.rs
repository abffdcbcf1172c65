//! The shop of `sayso demo`: an MCP server over stdio with three tools on a small state file, so
//! that what an agent did can be seen outside. Nothing of it is special to sayso.
//!
//! | tool | |
//! |---|---|
//! | `list_orders` | all orders, read only |
//! | `get_order` | one order, read only |
//! | `refund_order` | gives money back; never more than was paid, once per idempotency key |

mod money;
mod server;
mod state;

use std::path::PathBuf;

use rmcp::serve_server;
use rmcp::transport::stdio;
use thiserror::Error;

pub use money::{Cents, NotMoney};
pub use state::{Order, Refund, Shop, StateError};

/// The environment variable that names the shop's state file.
pub const STATE_ENV: &str = "SAYSO_DEMO_SHOP_STATE";

/// The shop could not be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Nobody said where the state is.
    #[error("{STATE_ENV} must name the shop's state file")]
    NoState,
    /// The state file cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// No client, or one that does not speak MCP.
    #[error("no MCP client on standard input")]
    Handshake(#[source] Box<rmcp::service::ServerInitializeError>),
    /// The server's task failed.
    #[error("the shop broke off")]
    Broke(#[source] tokio::task::JoinError),
}

/// Serves the shop over standard input and output until the client closes them. Makes the state
/// file with a few orders in it if there is none.
///
/// # Errors
///
/// [`ServeError`] if the state or the client cannot be used.
pub async fn serve_stdio() -> Result<(), ServeError> {
    let path = std::env::var_os(STATE_ENV).ok_or(ServeError::NoState)?;
    let shop = Shop::open(PathBuf::from(path))?;
    let running = serve_server(server::Counter::new(shop), stdio())
        .await
        .map_err(|error| ServeError::Handshake(Box::new(error)))?;
    running.waiting().await.map_err(ServeError::Broke)?;
    Ok(())
}
