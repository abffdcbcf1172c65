use sayso_store::AuditEntry;
use sayso_wire::time::timestamp;
use sayso_wire::v1;

use crate::audit::Said;

/// An entry of the audit log (S10.8).
pub(crate) fn entry(row: AuditEntry, said: Said) -> v1::AuditEntry {
    v1::AuditEntry {
        sequence: row.seq,
        at: Some(timestamp(row.at)),
        actor: row.actor.to_string(),
        action: row.kind,
        outcome: said.outcome().into(),
        subject: said.subject,
        code: said.code,
        details_json: said.details,
        hash: row.hash.to_hex(),
        seal: None,
    }
}
