use sayso_run::Namespace;
use sayso_store::RoleRow;
use sayso_wire::time::timestamp;
use sayso_wire::v1;

/// A role.
pub(crate) fn role(namespace: &Namespace, row: RoleRow) -> v1::Role {
    v1::Role {
        name: row.name,
        namespace: namespace.to_string(),
        permits: row.permits,
        created_at: Some(timestamp(row.created_at)),
        updated_at: Some(timestamp(row.updated_at)),
    }
}
