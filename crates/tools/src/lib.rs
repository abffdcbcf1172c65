//! Tools: MCP servers, built-ins, argument validation, limits and the one dispatcher.
