//! Holding a call's arguments against its tool (S3.7).

use sayso_driver::{ToolDefinition, ToolKind};

use crate::arguments::{self, Numbers};
use crate::artifact;
use crate::schema::Schemas;

/// Checks exact argument bytes. It keeps compiled schemas, and nothing else.
#[derive(Debug)]
pub struct ArgumentCheck {
    schemas: Schemas,
}

impl Default for ArgumentCheck {
    fn default() -> Self {
        Self {
            schemas: Schemas::new(),
        }
    }
}

impl ArgumentCheck {
    /// Checks exact argument bytes against the tool's schema.
    ///
    /// # Errors
    ///
    /// What is wrong, in words.
    pub fn check(&self, tool: &ToolDefinition, args: &str) -> Result<(), String> {
        let numbers = match tool.kind {
            ToolKind::Mcp | ToolKind::Native => Numbers::MustSurvive,
            ToolKind::Builtin | ToolKind::Control | ToolKind::Agent => Numbers::AreKept,
        };
        let problems = match arguments::read(args, numbers) {
            Ok(value) => {
                let mut problems =
                    self.schemas
                        .problems(&tool.registered, &tool.input_schema, &value);
                if problems.is_empty()
                    && tool.registered == artifact::NAME
                    && let Err(problem) = artifact::check(args)
                {
                    problems.push(problem);
                }
                problems
            }
            Err(problems) => problems,
        };
        if problems.is_empty() {
            Ok(())
        } else {
            Err(arguments::describe(&problems))
        }
    }
}
