//! Says once a month that a namespace has spent most of its cap (S4.6): in its audit log and in the
//! log of this process. Several schedulers look; one of them says it.

use sayso_driver::Journal;
use sayso_run::Actor;
use sayso_store::{DatabaseError, NearCap, NewAuditEntry};

use crate::Scheduler;

/// Looks at what was spent, and says what was not said yet.
pub(crate) async fn announce(scheduler: &Scheduler) -> Result<(), DatabaseError> {
    let (store, _, key) = scheduler.pen();
    for near in store.budgets().take_near(store.now()).await? {
        let NearCap {
            namespace,
            cap,
            spent,
        } = near;
        tracing::warn!(%namespace, %spent, %cap, "most of the monthly budget is spent");
        let entry = NewAuditEntry {
            actor: Actor::System,
            kind: "budget.near".to_owned(),
            content: serde_json::json!({
                "subject": namespace.as_str(),
                "details": { "cap": cap.to_string(), "spent": spent.to_string() },
            }),
        };
        let written = store.audit().append(&namespace, &entry, key).await;
        if let Err(error) = written {
            tracing::warn!(%namespace, %error, "that it is near its cap could not be written down");
        }
    }
    Ok(())
}
