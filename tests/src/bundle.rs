use serde_json::{Map, Value, json};

/// An agent's bundle, put together. Its tools come from the ledger's server unless said otherwise;
/// its tier is named like the agent.
#[derive(Debug, Clone)]
pub struct Bundle {
    name: String,
    fields: Map<String, Value>,
    pub(crate) ledgers: Vec<(String, String)>,
    rules: Vec<Value>,
    permissions: Map<String, Value>,
    tools: Map<String, Value>,
}

impl Bundle {
    /// An agent of this name with the role `unrestricted` and the tier of the same name.
    pub fn new(name: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("name".into(), name.into());
        fields.insert("role".into(), "unrestricted".into());
        fields.insert("tier".into(), name.into());
        Self {
            name: name.to_owned(),
            fields,
            ledgers: Vec::new(),
            rules: Vec::new(),
            permissions: Map::new(),
            tools: Map::new(),
        }
    }

    /// The agent's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Another tier.
    #[must_use]
    pub fn tier(self, tier: &str) -> Self {
        self.field("tier", tier.into())
    }

    /// Any field.
    #[must_use]
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.into(), value);
        self
    }

    /// Without a field.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.fields.remove(name);
        self
    }

    /// An MCP server that writes into the ledger, with these tools, separated by commas.
    #[must_use]
    pub fn ledger(mut self, server: &str, tools: &str) -> Self {
        self.ledgers.push((server.to_owned(), tools.to_owned()));
        self
    }

    /// Any MCP server.
    #[must_use]
    pub fn server(mut self, name: &str, server: Value) -> Self {
        let servers = self.fields.entry("servers").or_insert_with(|| json!({}));
        servers[name] = server;
        self
    }

    /// A rule.
    #[must_use]
    pub fn rule(mut self, tool: &str, action: &str) -> Self {
        self.rules.push(json!({"tool": tool, "action": action}));
        self
    }

    /// A rule that asks.
    #[must_use]
    pub fn ask(self, tool: &str) -> Self {
        self.rule(tool, "ask")
    }

    /// A rule that allows.
    #[must_use]
    pub fn allow(self, tool: &str) -> Self {
        self.rule(tool, "allow")
    }

    /// A rule that denies.
    #[must_use]
    pub fn deny(self, tool: &str) -> Self {
        self.rule(tool, "deny")
    }

    /// A field of `permissions`.
    #[must_use]
    pub fn permission(mut self, name: &str, value: Value) -> Self {
        self.permissions.insert(name.into(), value);
        self
    }

    /// What the bundle says of a tool.
    #[must_use]
    pub fn tool(mut self, name: &str, marks: Value) -> Self {
        self.tools.insert(name.into(), marks);
        self
    }

    /// Its text.
    pub fn text(&self) -> String {
        let mut fields = self.fields.clone();
        let mut permissions = self.permissions.clone();
        if !self.rules.is_empty() {
            permissions.insert("rules".into(), self.rules.clone().into());
        }
        if !permissions.is_empty() {
            fields.insert("permissions".into(), permissions.into());
        }
        if !self.tools.is_empty() {
            fields.insert("tools".into(), self.tools.clone().into());
        }
        Value::Object(fields).to_string()
    }
}
