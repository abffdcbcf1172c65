//! `sayso mcp`: approvals and runs as an MCP server over standard input and output (S6.13).

use sayso_gateway::mcp;
use tower::ServiceExt;

use super::Context;
use crate::outcome::{Exit, Failure};

/// Serves one MCP client over standard input and output until it closes them.
pub(crate) async fn run(context: &Context) -> Result<Exit, Failure> {
    let api = context.connect().await?.service();
    let api = api.map_response(|response| response.map(tonic::body::Body::new));
    let served = mcp::serve_stdio(api).await;
    served.map_err(|error| Failure::Here(error.into()))?;
    Ok(Exit::Done)
}
