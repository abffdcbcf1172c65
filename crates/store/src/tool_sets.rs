//! The tools that runs offered to their models, stored once under the digest of their definitions.

use sayso_driver::ToolSet;
use sayso_run::ToolSetId;

use crate::database::{on_both, write_on_both};
use crate::error::{DatabaseError, refuse_nul};
use crate::open::Store;
use crate::record::bad_row;

/// The table of tool sets.
#[derive(Debug, Clone, Copy)]
pub struct ToolSets<'a>(&'a Store);

impl Store {
    /// The table of tool sets.
    pub fn tool_sets(&self) -> ToolSets<'_> {
        ToolSets(self)
    }
}

impl ToolSets<'_> {
    /// Stores a set unless it is there.
    pub async fn put(&self, set: &ToolSet) -> Result<(), DatabaseError> {
        let tools = set.to_json();
        refuse_nul(&[("tools", &tools)])?;
        write_on_both!(&self.0.0.database, |pool| {
            sqlx::query(
                "INSERT INTO tool_sets (id, tools, created_at) VALUES ($1, $2, $3) \
                 ON CONFLICT DO NOTHING",
            )
            .bind(set.id.as_str())
            .bind(tools)
            .bind(self.0.0.clock.now().micros())
            .execute(pool)
            .await
            .map(|_| ())
        })?;
        Ok(())
    }

    /// One set. What is stored is only taken if it still has the digest that it is stored under.
    pub async fn get(&self, id: &ToolSetId) -> Result<Option<ToolSet>, DatabaseError> {
        let tools: Option<String> = on_both!(&self.0.0.database, |pool| {
            sqlx::query_scalar("SELECT tools FROM tool_sets WHERE id = $1")
                .bind(id.as_str())
                .fetch_optional(pool)
                .await
        })?;
        let Some(tools) = tools else { return Ok(None) };
        let bad = bad_row("tool_sets", id.as_str());
        match ToolSet::from_json(&tools) {
            Ok(set) if set.id == *id => Ok(Some(set)),
            Ok(_) => Err(bad("its definitions were changed".into())),
            Err(error) => Err(bad(error.to_string())),
        }
    }
}
