//! How a server's tool is registered: `server.tool`.

use sayso_rules::names::is_tool_name;

/// The registered name of a server's tool; `None` if it breaks the rule for names (S3.5).
pub(crate) fn registered(server: &str, tool: &str) -> Option<String> {
    let name = format!("{server}.{tool}");
    (!tool.is_empty() && is_tool_name(&name)).then_some(name)
}

/// The server and its own name for the tool. Servers' names hold no dot, so this has one answer.
pub(crate) fn split(registered: &str) -> Option<(&str, &str)> {
    registered.split_once('.')
}
