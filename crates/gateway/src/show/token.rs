use sayso_store::TokenRow;
use sayso_wire::time::timestamp;
use sayso_wire::v1;

/// A token without its secret (S6.11).
pub(crate) fn token(row: TokenRow) -> v1::Token {
    let scopes = row.scopes.iter();
    let scopes = scopes.filter_map(|word| v1::Scope::from_word(word));
    v1::Token {
        scopes: scopes.map(i32::from).collect(),
        id: row.id,
        name: row.name,
        namespace: row.namespace.into(),
        principal: row.principal.into(),
        trust: v1::Trust::from(row.trust).into(),
        created_by: row.created_by.into(),
        created_at: Some(timestamp(row.created_at)),
        expires_at: row.expires_at.map(timestamp),
        revoked_at: row.revoked_at.map(timestamp),
    }
}
