//! The protocol's side: what the server says of itself, and who answers a call of a tool.

use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, GetPromptRequestParams,
    GetPromptResponse, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use sayso_service::error::{Coded, Kind};
use serde_json::json;

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

    async fn call(
        &self,
        tool: &str,
        given: JsonObject,
        caller: Option<&Parts>,
    ) -> Result<CallToolResult, Coded> {
        match tool {
            name::LIST_APPROVALS => self.list_approvals(given, caller).await,
            name::DECIDE_APPROVAL => self.decide_approval(given, caller).await,
            name::START_RUN => self.start_run(given, caller).await,
            name::GET_RUN => self.get_run(given, caller).await,
            _ => Err(no_tool()),
        }
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
        // Of prompts and resources there are none, and who asks for them is told so with an empty list.
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .build();
        ServerConfig::new(capabilities)
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
        let told = self.call(&request.name, given, caller).await;
        Ok(told.unwrap_or_else(|coded| refused(&coded)).into())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = json!({"uri": request.uri});
        Err(ErrorData::resource_not_found(
            "There are no resources here.",
            Some(uri),
        ))
    }

    async fn get_prompt(
        &self,
        _request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Err(ErrorData::invalid_params(
            "There are no prompts here.",
            None,
        ))
    }
}

/// Models make names up; as an error of a tool they get to read what is wrong.
fn no_tool() -> Coded {
    let names: Vec<&str> = tools::all().iter().map(|tool| tool.name.as_ref()).collect();
    let sentence = format!(
        "There is no such tool here; these are: {}.",
        names.join(", ")
    );
    Coded::new(Kind::NotFound, "tool.not_found", sentence)
}
