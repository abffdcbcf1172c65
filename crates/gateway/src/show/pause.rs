use sayso_store::PauseRow;
use sayso_wire::time::timestamp;
use sayso_wire::v1;

/// A pause.
pub(crate) fn pause(row: &PauseRow) -> v1::Pause {
    v1::Pause {
        agent: row
            .agent
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        reason: row.reason.clone().unwrap_or_default(),
        paused_by: row.paused_by.to_string(),
        paused_at: Some(timestamp(row.paused_at)),
    }
}
