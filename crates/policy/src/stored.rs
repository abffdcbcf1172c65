//! What is stored of runs and revisions, read back for judging again.

use sayso_driver::ToolSet;
use sayso_rules::Bundle;
use sayso_run::RunState;
use sayso_service::error::Coded;
use sayso_store::{RevisionRow, Store};

use crate::refuse::database;

/// A revision's bundle.
pub(crate) fn bundle(row: &RevisionRow) -> Result<Bundle, Coded> {
    Bundle::parse(&row.bundle).map_err(|errors| Coded::internal("reading a revision", &errors))
}

/// The tools that a run was offered; none if it never listed any.
pub(crate) async fn tools(store: &Store, state: &RunState) -> Result<Option<ToolSet>, Coded> {
    let Some(id) = state.tools() else {
        return Ok(None);
    };
    let set = store.tool_sets().get(id).await;
    set.map_err(|error| database("reading the tools of a run", &error))
}
