use std::error::Error;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use super::money::Cents;
use super::state::{Order, Shop};
use crate::mcp::IDEMPOTENCY_KEY_META;

/// The shop as an MCP server.
pub(super) struct Counter {
    shop: Shop,
}

impl Counter {
    pub(super) fn new(shop: Shop) -> Self {
        Self { shop }
    }
}

impl ServerHandler for Counter {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build()).with_server_info(
            Implementation::new("sayso-demo-shop", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let key = context
            .meta
            .get(IDEMPOTENCY_KEY_META)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let (shop, arguments) = (self.shop.clone(), request.arguments.unwrap_or_default());
        let name = request.name.clone();
        let served =
            tokio::task::spawn_blocking(move || serve(&shop, &name, &arguments, &key)).await;
        let result = match served {
            Ok(Some(Ok(value))) => {
                CallToolResult::success(vec![ContentBlock::text(value.to_string())])
            }
            Ok(Some(Err(why))) => CallToolResult::error(vec![ContentBlock::text(why)]),
            Ok(None) => {
                let why = format!("there is no tool `{}`", request.name);
                return Err(ErrorData::invalid_params(why, None));
            }
            Err(error) => return Err(ErrorData::internal_error(error.to_string(), None)),
        };
        Ok(result.into())
    }
}

/// What a tool answers; `None` if there is no such tool.
fn serve(
    shop: &Shop,
    tool: &str,
    arguments: &JsonObject,
    key: &str,
) -> Option<Result<Value, String>> {
    Some(match tool {
        "list_orders" => shop
            .orders()
            .map(|orders| orders.iter().map(view).collect())
            .map_err(|error| said(&error)),
        "get_order" => text(arguments, "order_id")
            .and_then(|id| shop.order(&id).map_err(|error| said(&error)))
            .map(|order| view(&order)),
        "refund_order" => refund(shop, arguments, key),
        _ => return None,
    })
}

fn refund(shop: &Shop, arguments: &JsonObject, key: &str) -> Result<Value, String> {
    let id = text(arguments, "order_id")?;
    let amount: Cents = match arguments.get("amount") {
        Some(Value::String(amount)) => amount.parse(),
        Some(Value::Number(amount)) => amount.to_string().parse(),
        _ => return Err("`amount` is missing".to_owned()),
    }
    .map_err(|error| said(&error))?;
    let order = shop
        .refund(&id, amount, key)
        .map_err(|error| said(&error))?;
    Ok(json!({
        "refunded": amount.to_string(),
        "currency": "EUR",
        "order": view(&order),
    }))
}

fn view(order: &Order) -> Value {
    json!({
        "id": order.id,
        "customer": order.customer,
        "item": order.item,
        "paid": order.paid.to_string(),
        "left": order.left().to_string(),
        "currency": "EUR",
    })
}

fn text(arguments: &JsonObject, name: &str) -> Result<String, String> {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .ok_or_else(|| format!("`{name}` is missing"))
}

fn said(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn tools() -> Vec<Tool> {
    let order_id = json!({"type": "string", "description": "The order's number, such as A-17."});
    let read_only = || ToolAnnotations::new().read_only(true).open_world(false);
    vec![
        tool(
            "list_orders",
            "Lists all orders of the shop.",
            json!({}),
            json!([]),
        )
        .with_annotations(read_only()),
        tool(
            "get_order",
            "Looks an order up.",
            json!({"order_id": order_id}),
            json!(["order_id"]),
        )
        .with_annotations(read_only()),
        tool(
            "refund_order",
            "Gives a customer money back. This cannot be undone.",
            json!({
                "order_id": order_id,
                "amount": {
                    "description": "How much, in euros: \"12.50\" or 12.50.",
                    "anyOf": [
                        {"type": "string", "pattern": "^[0-9]+([.][0-9]{1,2})?$"},
                        {"type": "number", "exclusiveMinimum": 0},
                    ],
                },
            }),
            json!(["order_id", "amount"]),
        )
        .with_annotations(
            ToolAnnotations::new()
                .read_only(false)
                .destructive(true)
                .open_world(false),
        ),
    ]
}

fn tool(name: &'static str, description: &'static str, properties: Value, required: Value) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required);
    schema.insert("additionalProperties".to_owned(), false.into());
    Tool::new(name, description, schema)
}
