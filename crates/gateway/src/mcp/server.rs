//! The protocol's side: what the server says of itself, and who answers a call of a tool.

use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use sayso_service::error::Coded;

use super::answer::{listed, refused, told};
use super::arguments::{self, DecideApproval, GetRun, ListApprovals, StartRun};
use super::call::Calls;
use super::tools::{self, INSTRUCTIONS, name};

/// The server; it holds no state, so every request may have one of its own.
#[derive(Clone, Debug)]
pub(super) struct Server {
    calls: Calls,
}

impl Server {
    pub(super) fn new(calls: Calls) -> Server {
        Server { calls }
    }

    /// Calls a tool; `None` if there is none of that name.
    async fn call(
        &self,
        tool: &str,
        given: JsonObject,
        caller: Option<&Parts>,
    ) -> Option<Result<CallToolResult, Coded>> {
        Some(match tool {
            name::LIST_APPROVALS => self.list_approvals(given, caller).await,
            name::DECIDE_APPROVAL => self.decide_approval(given, caller).await,
            name::START_RUN => self.start_run(given, caller).await,
            name::GET_RUN => self.get_run(given, caller).await,
            _ => return None,
        })
    }

    async fn list_approvals(
        &self,
        given: JsonObject,
        caller: Option<&Parts>,
    ) -> Result<CallToolResult, Coded> {
        let request = arguments::read::<ListApprovals>(given)?.request()?;
        let answer = self.calls.list_approvals(caller, request).await?;
        Ok(listed(&answer, "approvals"))
    }

    async fn decide_approval(
        &self,
        given: JsonObject,
        caller: Option<&Parts>,
    ) -> Result<CallToolResult, Coded> {
        let request = arguments::read::<DecideApproval>(given)?.request()?;
        Ok(told(&self.calls.decide_approval(caller, request).await?))
    }

    async fn start_run(
        &self,
        given: JsonObject,
        caller: Option<&Parts>,
    ) -> Result<CallToolResult, Coded> {
        let request = arguments::read::<StartRun>(given)?.request();
        Ok(told(&self.calls.start_run(caller, request).await?))
    }

    async fn get_run(
        &self,
        given: JsonObject,
        caller: Option<&Parts>,
    ) -> Result<CallToolResult, Coded> {
        let request = arguments::read::<GetRun>(given)?.request();
        Ok(told(&self.calls.get_run(caller, request).await?))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new("sayso", env!("CARGO_PKG_VERSION")).with_title("sayso"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::all().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = context.extensions.get::<Parts>();
        let given = request.arguments.unwrap_or_default();
        match self.call(&request.name, given, caller).await {
            Some(Ok(result)) => Ok(result.into()),
            Some(Err(coded)) => Ok(refused(&coded).into()),
            None => {
                let sentence = format!("There is no tool {}.", request.name);
                Err(ErrorData::invalid_params(sentence, None))
            }
        }
    }
}
