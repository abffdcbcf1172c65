//! The notifications that an append makes due: rows of its own transaction, so none is lost and none
//! is made for what did not happen (S8.1, S8.2).
//!
//! Where a bundle's notifications go stands in the bundle. The targets of a namespace are asked for
//! only by an append that holds a call, escalates an approval or fails the run, and are known for a
//! second: a target that was just added or removed counts within that time.

use sayso_rules::bundle::Notify;
use sayso_run::{EscalatedTo, RunState, Step};

use crate::journal::{Journal, LoadError, Written};
use crate::rows::{DeliveryRow, Notice, Recipient, Target};

/// What these steps, the last of `after`, make due. `notify` is what the bundle says.
pub(crate) async fn deliveries<J: Journal>(
    journal: &J,
    after: &RunState,
    steps: &[Written],
    notify: Option<&Notify>,
) -> Result<Vec<DeliveryRow>, LoadError> {
    let tells: Vec<&Written> = steps
        .iter()
        .filter(|written| {
            matches!(
                written.recorded.step,
                Step::ToolBlocked(_) | Step::Escalated(_) | Step::Failed(_)
            )
        })
        .collect();
    if tells.is_empty() {
        return Ok(Vec::new());
    }
    let targets = journal.targets_of(&after.trigger().namespace).await?;
    let due = tells
        .into_iter()
        .flat_map(|written| made_by(after, written, &targets, notify));
    Ok(due.collect())
}

fn made_by(
    after: &RunState,
    written: &Written,
    targets: &[Target],
    notify: Option<&Notify>,
) -> Vec<DeliveryRow> {
    let (seq, due_at) = (written.recorded.seq, written.recorded.at);
    let trigger = after.trigger();
    let row = |id: String, notice: Notice, to: Recipient| DeliveryRow {
        id,
        namespace: trigger.namespace.clone(),
        agent: trigger.agent.clone(),
        run: after.run().clone(),
        notice,
        to,
        due_at,
    };
    let target = |target: &Target| Recipient::Target(target.name.clone());
    match &written.recorded.step {
        Step::ToolBlocked(blocked) => {
            let (approval, pending) =
                (&blocked.approval, Notice::Pending(blocked.approval.clone()));
            let bundle = notify.map(|notify| {
                let to = Recipient::Bundle {
                    url: notify.url.clone(),
                    secret: notify.secret.clone(),
                };
                row(format!("{approval}:notify"), pending.clone(), to)
            });
            let takers = targets.iter().filter(|target| target.takes.approvals);
            let takers = takers.map(|taker| {
                let id = format!("{approval}:target:{}", taker.name);
                row(id, pending.clone(), target(taker))
            });
            bundle.into_iter().chain(takers).collect()
        }
        Step::Escalated(escalated) => match &escalated.to {
            EscalatedTo::Target(name) => {
                let approval = &escalated.approval;
                vec![row(
                    format!("{approval}:escalated:{seq}"),
                    Notice::Escalated(approval.clone()),
                    Recipient::Target(name.clone()),
                )]
            }
            EscalatedTo::Group(_) => Vec::new(),
        },
        Step::Failed(_) => {
            let takers = targets.iter().filter(|target| target.takes.failures);
            let takers = takers.map(|taker| {
                let id = format!("{}:failed:{seq}:{}", after.run(), taker.name);
                row(id, Notice::Failed, target(taker))
            });
            takers.collect()
        }
        _ => Vec::new(),
    }
}
