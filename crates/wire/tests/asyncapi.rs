//! The catalogue of events is kept as it is (S8.4): `UPDATE_GOLDEN=1` writes it again.

use std::path::Path;

/// S8.4: `docs/asyncapi.json` says what this version publishes.
#[test]
fn s8_4_the_catalogue_is_as_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/asyncapi.json");
    let written = serde_json::to_string_pretty(&sayso_wire::events::catalogue()).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == written,
        "docs/asyncapi.json is not what is published; UPDATE_GOLDEN=1 writes it"
    );
}
