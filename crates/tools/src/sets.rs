//! Tool sets: put together once for the same tools, stored once, read back through a cache.

use std::sync::{Arc, Mutex, PoisonError};

use sayso_driver::{ListError, ToolDefinition, ToolSet};
use sayso_rules::ToolNames;
use sayso_run::{AgentName, Namespace, RevisionId, ToolSetId};

use crate::mcp::Listing;
use crate::recent::Recent;
use crate::storage::{StorageError, ToolSets};

/// How many sets are kept in memory.
const KEPT: usize = 512;

/// Whose tools they are.
pub(crate) type Owner = (Namespace, AgentName, RevisionId);

/// A set and the listings that it was put together from, one a server.
type Assembled = (Vec<Arc<Listing>>, Arc<ToolSet>);

/// The sets of this process.
pub(crate) struct Sets {
    store: Arc<dyn ToolSets>,
    /// Sets that the store is known to have.
    stored: Mutex<Recent<ToolSetId, Arc<ToolSet>>>,
    assembled: Mutex<Recent<Owner, Assembled>>,
}

impl Sets {
    pub(crate) fn new(store: Arc<dyn ToolSets>) -> Self {
        Self {
            store,
            stored: Mutex::new(Recent::new(KEPT)),
            assembled: Mutex::new(Recent::new(KEPT)),
        }
    }

    /// The set of these tools, stored. The same listings give the same set without work.
    pub(crate) async fn assemble(
        &self,
        owner: Owner,
        own: Vec<ToolDefinition>,
        listings: Vec<Arc<Listing>>,
    ) -> Result<Arc<ToolSet>, ListError> {
        if let Some(set) = self.unchanged(&owner, &listings) {
            return Ok(set);
        }
        let set = Arc::new(named(own, &listings));
        self.store(&set).await?;
        locked(&self.assembled).insert(owner, (listings, set.clone()));
        Ok(set)
    }

    fn unchanged(&self, owner: &Owner, listings: &[Arc<Listing>]) -> Option<Arc<ToolSet>> {
        let assembled = locked(&self.assembled);
        let (known, set) = assembled.get(owner)?;
        let same = known.len() == listings.len()
            && known.iter().zip(listings).all(|(a, b)| Arc::ptr_eq(a, b));
        same.then(|| set.clone())
    }

    async fn store(&self, set: &Arc<ToolSet>) -> Result<(), ListError> {
        if locked(&self.stored).get(&set.id).is_some() {
            return Ok(());
        }
        self.store
            .put(&set.id, &set.to_json())
            .await
            .map_err(|error| away(&error))?;
        locked(&self.stored).insert(set.id.clone(), set.clone());
        Ok(())
    }

    /// A set that was stored, by this process or another.
    pub(crate) async fn stored(&self, id: &ToolSetId) -> Result<Arc<ToolSet>, ListError> {
        if let Some(set) = locked(&self.stored).get(id) {
            return Ok(set.clone());
        }
        let text = self
            .store
            .get(id)
            .await
            .map_err(|error| away(&error))?
            .ok_or_else(|| unlisted(format!("there is no tool set {id}")))?;
        let set = ToolSet::from_json(&text)
            .map_err(|error| unlisted(format!("the tool set {id} cannot be read: {error}")))?;
        if set.id != *id {
            return Err(unlisted(format!(
                "what is stored as the tool set {id} is another one"
            )));
        }
        let set = Arc::new(set);
        locked(&self.stored).insert(id.clone(), set.clone());
        Ok(set)
    }
}

/// Gives every tool its own model name (S3.5, B38).
fn named(own: Vec<ToolDefinition>, listings: &[Arc<Listing>]) -> ToolSet {
    let mut tools = own;
    for listing in listings {
        tools.extend(listing.tools().iter().cloned());
    }
    let names = ToolNames::assign(tools.iter().map(|tool| tool.registered.clone()));
    for tool in &mut tools {
        names
            .model_name(&tool.registered)
            .expect("every registered name was given a model name")
            .clone_into(&mut tool.model_name);
    }
    ToolSet::new(tools)
}

fn unlisted(why: String) -> ListError {
    ListError {
        server: "the run".to_owned(),
        why,
        passes: false,
    }
}

/// What keeps the sets cannot be asked now.
fn away(error: &StorageError) -> ListError {
    ListError {
        passes: true,
        ..unlisted(error.to_string())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
