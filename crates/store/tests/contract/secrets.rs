//! Stored secrets (S3.10).

use sayso_run::{AgentName, Namespace, PrincipalId};
use sayso_store::testing::TestDatabase;
use sayso_store::{SealError, SecretKeys, SecretsError};

use crate::on_both_databases;
use crate::timeline::namespace;

on_both_databases!(
    s3_10_an_agents_own_secret_counts_first,
    s3_10_secrets_are_sealed_anew_under_another_key,
);

fn ann() -> PrincipalId {
    PrincipalId::new("ann").unwrap()
}

fn agent(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

async fn s3_10_an_agents_own_secret_counts_first(db: &TestDatabase) {
    let (store, ns) = (db.store().await, namespace());
    let secrets = store.secrets();
    let keys = SecretKeys::new(&[1; 32], &[]);
    let (desk, till) = (agent("desk"), agent("till"));
    assert!(
        secrets
            .put(&keys, &ns, None, "K", "shared", &ann())
            .await
            .unwrap()
    );
    assert!(
        secrets
            .put(&keys, &ns, Some(&desk), "K", "desks", &ann())
            .await
            .unwrap()
    );
    assert!(
        !secrets
            .put(&keys, &ns, Some(&desk), "K", "desks again", &ann())
            .await
            .unwrap()
    );

    let find = async |agent: &AgentName, name: &str| {
        secrets
            .find(Some(&keys), &ns, Some(agent), name)
            .await
            .unwrap()
    };
    assert_eq!(find(&desk, "K").await.as_deref(), Some("desks again"));
    assert_eq!(find(&till, "K").await.as_deref(), Some("shared"));
    assert_eq!(find(&till, "L").await, None);
    let elsewhere = Namespace::new("elsewhere").unwrap();
    assert_eq!(
        secrets
            .find(Some(&keys), &elsewhere, Some(&desk), "K")
            .await
            .unwrap(),
        None
    );
    assert_eq!(secrets.list(&elsewhere).await.unwrap(), []);
    assert_eq!(secrets.open(Some(&keys), &ns).await.unwrap().len(), 2);
    assert!(matches!(
        secrets.open(None, &ns).await,
        Err(SecretsError::NoKey)
    ));

    let listed = secrets.list(&ns).await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|row| (row.name.as_str(), row.agent.as_ref()))
        .collect();
    assert_eq!(listed, [("K", None), ("K", Some(&desk))]);
    assert!(secrets.names(&ns, "till").await.unwrap().contains("K"));
    assert!(secrets.delete(&ns, Some(&desk), "K").await.unwrap());
    assert!(!secrets.delete(&ns, Some(&desk), "K").await.unwrap());
    assert_eq!(find(&desk, "K").await.as_deref(), Some("shared"));
}

async fn s3_10_secrets_are_sealed_anew_under_another_key(db: &TestDatabase) {
    let (store, ns) = (db.store().await, namespace());
    let secrets = store.secrets();
    let old = SecretKeys::new(&[1; 32], &[]);
    secrets
        .put(&old, &ns, None, "A", "value-a", &ann())
        .await
        .unwrap();
    let both = SecretKeys::new(&[2; 32], &[[1; 32]]);
    secrets
        .put(&both, &ns, None, "B", "value-b", &ann())
        .await
        .unwrap();
    let new = SecretKeys::new(&[2; 32], &[]);
    let desk = agent("desk");
    let unknown = secrets
        .find(Some(&new), &ns, Some(&desk), "A")
        .await
        .unwrap_err();
    assert!(matches!(
        unknown,
        SecretsError::Seal {
            why: SealError::UnknownKey(_),
            ..
        }
    ));
    assert!(secrets.seal_anew(&new).await.is_err());

    assert_eq!(secrets.seal_anew(&both).await.unwrap(), (1, 2));
    assert_eq!(secrets.seal_anew(&both).await.unwrap(), (0, 2));

    for (name, value) in [("A", "value-a"), ("B", "value-b")] {
        let found = secrets
            .find(Some(&new), &ns, Some(&desk), name)
            .await
            .unwrap();
        assert_eq!(found.as_deref(), Some(value));
    }
}
