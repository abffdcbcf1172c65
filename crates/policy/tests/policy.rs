//! The policy service over its gRPC routes, on a real database in a folder of the test.

#![expect(
    clippy::unwrap_used,
    reason = "tests state what they expect; a panic with the place is what a failing one should print"
)]

use sayso_policy::Policy;
use sayso_rules::Bundle;
use sayso_run::{AgentName, Namespace};
use sayso_service::error::{Coded, Kind};
use sayso_store::{Store, StoreConfig};
use sayso_wire::internal::policy_service_client::PolicyServiceClient;
use sayso_wire::internal::{
    Caller, DeployRequest, DeployResponse, GetRevisionRequest, GetRevisionResponse, GetRoleRequest,
    GetRoleResponse, ValidateRequest, ValidateResponse,
};
use sayso_wire::v1::BundleFinding;
use tempfile::TempDir;
use tonic::Status;
use tonic::service::Routes;

const DESK: &str = "name: desk\nrole: unrestricted\ninstructions: Help.\n";

/// A policy service with the namespace `shop` in a database of its own.
struct World {
    folder: TempDir,
    store: Store,
    client: PolicyServiceClient<Routes>,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder).await;
        store.namespaces().ensure(&shop()).await.unwrap();
        let client = PolicyServiceClient::new(Policy::build(store.clone()).routes());
        Self {
            folder,
            store,
            client,
        }
    }

    async fn validate(&mut self, bundle: &str) -> ValidateResponse {
        let request = ValidateRequest {
            namespace: "shop".into(),
            bundle: bundle.into(),
        };
        self.client.validate(request).await.unwrap().into_inner()
    }

    async fn deploy(&mut self, by: &str, bundle: &str) -> Result<DeployResponse, Coded> {
        let caller = Caller {
            namespace: "shop".into(),
            principal: by.into(),
            ..Caller::default()
        };
        let request = DeployRequest {
            caller: Some(caller),
            bundle: bundle.into(),
        };
        answer(self.client.deploy(request).await)
    }

    async fn revision(&mut self, agent: &str, id: &str) -> Result<GetRevisionResponse, Coded> {
        let request = GetRevisionRequest {
            namespace: "shop".into(),
            agent: agent.into(),
            revision_id: id.into(),
        };
        answer(self.client.get_revision(request).await)
    }

    async fn role(&mut self, agent: &str, known_version: u64) -> Result<GetRoleResponse, Coded> {
        let request = GetRoleRequest {
            namespace: "shop".into(),
            agent: agent.into(),
            known_version,
        };
        answer(self.client.get_role(request).await)
    }
}

async fn open(folder: &TempDir) -> Store {
    let url = format!("sqlite://{}", folder.path().join("sayso.db").display());
    Store::open(&url, StoreConfig::default()).await.unwrap()
}

fn shop() -> Namespace {
    Namespace::new("shop").unwrap()
}

fn answer<T>(result: Result<tonic::Response<T>, Status>) -> Result<T, Coded> {
    result
        .map(tonic::Response::into_inner)
        .map_err(|status| Coded::from_status(&status))
}

fn codes(findings: &[BundleFinding]) -> Vec<(&str, &str)> {
    findings
        .iter()
        .map(|finding| (finding.code.as_str(), finding.path.as_str()))
        .collect()
}

/// S1.3: a deploy makes a revision named by the bundle's hash; who made it first, and when, stays.
#[tokio::test]
async fn s1_3_a_deploy_makes_an_immutable_revision() {
    let mut world = World::new().await;
    let first = world.deploy("ann", DESK).await.unwrap();
    let revision = first.revision.unwrap();
    assert!(first.created);
    assert_eq!(first.warnings, []);
    assert_eq!(revision.id, Bundle::parse(DESK).unwrap().revision_hash());
    assert_eq!(
        (revision.agent.as_str(), revision.author.as_str()),
        ("desk", "ann")
    );

    // The same bundle in other words, by somebody else.
    let same = r#"{"role": "unrestricted", "instructions": "Help.", "name": "desk"}"#;
    let second = world.deploy("bob", same).await.unwrap();
    assert!(!second.created);
    assert_eq!(second.revision.unwrap(), revision);

    let read = world.revision("desk", &revision.id).await.unwrap();
    assert_eq!(read.revision.unwrap(), revision);
    let stored = Bundle::parse(&read.bundle_json).unwrap();
    assert_eq!(stored, Bundle::parse(DESK).unwrap());
    assert_eq!(stored.to_canonical_json(), read.bundle_json);
}

/// S1.3: a redeploy moves the current revision; the earlier one can still be read, unchanged, by
/// the runs that pinned it.
#[tokio::test]
async fn s1_3_a_redeploy_leaves_earlier_revisions_alone() {
    let mut world = World::new().await;
    let old = world.deploy("ann", DESK).await.unwrap().revision.unwrap();
    let pinned = world.revision("desk", &old.id).await.unwrap();
    let changed = DESK.replace("Help.", "Help well.");
    let new = world
        .deploy("bob", &changed)
        .await
        .unwrap()
        .revision
        .unwrap();
    assert_ne!(old.id, new.id);
    assert_eq!(
        world.revision("desk", "").await.unwrap().revision.unwrap(),
        new
    );
    assert_eq!(world.revision("desk", &old.id).await.unwrap(), pinned);

    // Going back is a deploy like any other, and makes nothing new.
    let back = world.deploy("bob", DESK).await.unwrap();
    assert!(!back.created);
    assert_eq!(
        world.revision("desk", "").await.unwrap().revision.unwrap(),
        old
    );
}

/// S1.3: deploying the same bundle at the same time makes one revision, said to be new once.
#[tokio::test]
async fn s1_3_simultaneous_deploys_make_one_revision() {
    let world = World::new().await;
    let deploys = ["ann", "bob", "cid", "dan"].map(|by| {
        let mut client = world.client.clone();
        tokio::spawn(async move {
            let caller = Caller {
                namespace: "shop".into(),
                principal: by.into(),
                ..Caller::default()
            };
            let request = DeployRequest {
                caller: Some(caller),
                bundle: DESK.into(),
            };
            client.deploy(request).await.unwrap().into_inner()
        })
    });
    let mut made = Vec::new();
    for deploy in deploys {
        made.push(deploy.await.unwrap());
    }
    assert_eq!(made.iter().filter(|deploy| deploy.created).count(), 1);
    assert!(
        made.windows(2)
            .all(|pair| pair[0].revision == pair[1].revision)
    );
}

/// S5.11, S10.5: every mistake at once, each with its place and its code; nothing is deployed.
#[tokio::test]
async fn s5_11_a_bundle_with_mistakes_is_refused_whole() {
    let mut world = World::new().await;
    let bundle = "name: desk\nrole: unrestricted\ncolour: red\npermissions:\n  \
                  rules: [{ tool: 'a[', action: allow }]\n  approvalTimeout: soon\n";
    let mistakes = [
        ("bundle.bad_glob", "permissions.rules[0].tool"),
        ("bundle.bad_duration", "permissions.approvalTimeout"),
        ("bundle.unknown_field", "colour"),
    ];
    let checked = world.validate(bundle).await;
    assert_eq!(checked.revision_id, "");
    let mut found = codes(&checked.errors);
    found.sort_by_key(|(_, path)| std::cmp::Reverse(path.len()));
    let mut wanted = mistakes.to_vec();
    wanted.sort_by_key(|(_, path)| std::cmp::Reverse(path.len()));
    assert_eq!(found, wanted);

    let refused = world.deploy("ann", bundle).await.unwrap_err();
    assert_eq!(
        (refused.code.as_ref(), refused.kind),
        ("bundle.invalid", Kind::Invalid)
    );
    assert_eq!(refused.metadata["bundle_code"], checked.errors[0].code);
    assert_eq!(refused.fields.len(), 3);
    for (error, (field, problem)) in checked.errors.iter().zip(&refused.fields) {
        assert_eq!(field, &error.path);
        assert_eq!(problem, &format!("{} ({})", error.message, error.code));
    }
    assert_eq!(
        world.revision("desk", "").await.unwrap_err().code,
        "agent.not_found"
    );
}

/// S5.11: what this version does not do is refused by name, not accepted and ignored.
#[tokio::test]
async fn s5_11_what_is_not_supported_is_refused() {
    let mut world = World::new().await;
    let refused = world
        .deploy("ann", &format!("{DESK}docs: []\n"))
        .await
        .unwrap_err();
    assert_eq!(refused.metadata["bundle_code"], "bundle.unsupported");
    assert_eq!(refused.fields[0].0, "docs");
}

/// S5.11, S10.5: more mistakes than an answer holds are counted.
#[tokio::test]
async fn s5_11_mistakes_beyond_the_list_are_counted() {
    let mut world = World::new().await;
    let unknown: String = (0..150).map(|n| format!("unknown{n}: 1\n")).collect();
    let bundle = format!("{DESK}{unknown}");
    let checked = world.validate(&bundle).await;
    assert_eq!((checked.errors.len(), checked.omitted_errors), (100, 50));
    let refused = world.deploy("ann", &bundle).await.unwrap_err();
    assert_eq!(refused.metadata["omitted_errors"], "50");
    assert!(
        refused.message.contains("150 mistakes"),
        "{}",
        refused.message
    );
}

/// S5.11: warnings never refuse, and deploy and validate print the same.
#[tokio::test]
async fn s5_11_warnings_never_refuse() {
    let mut world = World::new().await;
    let bundle = "name: desk\npermissions: { rules: [{ tool: 'ghost.list', action: allow }] }\n";
    let checked = world.validate(bundle).await;
    assert_eq!(checked.errors, []);
    assert_eq!(
        codes(&checked.warnings),
        [
            ("bundle.no_role", "role"),
            ("bundle.unknown_server", "permissions.rules[0]")
        ]
    );
    let deployed = world.deploy("ann", bundle).await.unwrap();
    assert_eq!(deployed.warnings, checked.warnings);
    assert_eq!(deployed.revision.unwrap().id, checked.revision_id);
}

/// S5.11: validating deploys nothing.
#[tokio::test]
async fn s5_11_validating_changes_nothing() {
    let mut world = World::new().await;
    world.validate(DESK).await;
    assert_eq!(
        world.revision("desk", "").await.unwrap_err().code,
        "agent.not_found"
    );
}

/// S3.9: the role that a bundle names becomes the agent's; a bundle without one leaves it.
#[tokio::test]
async fn s3_9_a_deploy_sets_the_role_that_the_bundle_names() {
    let mut world = World::new().await;
    world.deploy("ann", "name: desk\n").await.unwrap();
    let none = world.role("desk", 0).await.unwrap();
    assert_eq!(none.role_json, None);
    assert!(none.version != 0 && !none.unchanged);

    world.deploy("ann", DESK).await.unwrap();
    let all = world.role("desk", none.version).await.unwrap();
    assert_eq!(
        all.role_json.as_deref(),
        Some(r#"{"name":"unrestricted","permits":["*"]}"#)
    );
    assert!(!all.unchanged);
    assert_ne!(all.version, none.version);

    world
        .deploy("ann", "name: desk\ninstructions: Other.\n")
        .await
        .unwrap();
    let kept = world.role("desk", all.version).await.unwrap();
    assert!(kept.unchanged);
    assert_eq!((kept.role_json, kept.version), (None, all.version));
}

/// S3.9: a role that does not exist is refused, and the agent keeps revision and role.
#[tokio::test]
async fn s3_9_a_role_that_does_not_exist_is_refused() {
    let mut world = World::new().await;
    world.deploy("ann", DESK).await.unwrap();
    let before = world.role("desk", 0).await.unwrap();
    let bundle = "name: desk\nrole: clerk\n";
    let checked = world.validate(bundle).await;
    assert_eq!(codes(&checked.errors), [("role.not_found", "role")]);
    assert_eq!(checked.revision_id, "");
    let refused = world.deploy("ann", bundle).await.unwrap_err();
    assert_eq!(
        (refused.code.as_ref(), refused.kind),
        ("role.not_found", Kind::NotFound)
    );
    assert_eq!(refused.fields[0].0, "role");
    let after = world.role("desk", before.version).await.unwrap();
    assert!(after.unchanged);

    // Another namespace's role of that name is none of this one's.
    let other = Namespace::new("other").unwrap();
    world
        .store
        .roles()
        .put(&other, "clerk", &["*".to_owned()])
        .await
        .unwrap();
    assert_eq!(
        world.deploy("ann", bundle).await.unwrap_err().code,
        "role.not_found"
    );
    world
        .store
        .roles()
        .put(&shop(), "clerk", &["shop.*".to_owned()])
        .await
        .unwrap();
    world.deploy("ann", bundle).await.unwrap();
}

/// S3.9, S5.13: attaching, widening, narrowing and taking away are seen by the very next question.
#[tokio::test]
async fn s3_9_a_change_of_the_role_is_seen_at_once() {
    let mut world = World::new().await;
    world.deploy("ann", DESK).await.unwrap();
    let desk = AgentName::new("desk").unwrap();
    let mut known = world.role("desk", 0).await.unwrap().version;
    let narrow = ["shop.get_*".to_owned()];
    let wide = ["shop.*".to_owned(), "create_artifact".to_owned()];
    for permits in [&narrow[..], &wide[..], &narrow[..]] {
        world
            .store
            .roles()
            .put(&shop(), "clerk", permits)
            .await
            .unwrap();
        world
            .store
            .agents()
            .set_role(&shop(), &desk, Some("clerk"))
            .await
            .unwrap();
        let now = world.role("desk", known).await.unwrap();
        let role: sayso_rules::Role = serde_json::from_str(&now.role_json.unwrap()).unwrap();
        assert_eq!(
            role.permits
                .iter()
                .map(|glob| glob.as_str())
                .collect::<Vec<_>>(),
            permits
        );
        assert!(world.role("desk", now.version).await.unwrap().unchanged);
        known = now.version;
    }
    world
        .store
        .agents()
        .set_role(&shop(), &desk, None)
        .await
        .unwrap();
    let none = world.role("desk", known).await.unwrap();
    assert!(!none.unchanged && none.role_json.is_none());
}

/// S3.9: the answer says when the database was asked, by its clock.
#[tokio::test]
async fn s3_9_the_answer_tells_its_age_by_the_databases_clock() {
    let mut world = World::new().await;
    world.deploy("ann", DESK).await.unwrap();
    let before = world.store.sync_clock().await.unwrap();
    let read_at = world.role("desk", 0).await.unwrap().read_at.unwrap();
    let after = world.store.sync_clock().await.unwrap();
    let read_at = sayso_wire::time::from_timestamp(&read_at).unwrap();
    // SQLite's clock ticks in milliseconds.
    assert!(read_at.plus_micros(2_000) >= before && read_at <= after.plus_micros(2_000));
}

/// S10.5: what is not there, and what is malformed, is told apart, each with its code.
#[tokio::test]
async fn s10_5_unknown_and_malformed_names_are_refused() {
    let mut world = World::new().await;
    world.deploy("ann", DESK).await.unwrap();
    let absent = "0".repeat(64);
    assert_eq!(
        world.revision("ghost", "").await.unwrap_err().code,
        "agent.not_found"
    );
    assert_eq!(
        world.revision("ghost", &absent).await.unwrap_err().code,
        "agent.not_found"
    );
    assert_eq!(
        world.role("ghost", 0).await.unwrap_err().code,
        "agent.not_found"
    );
    assert_eq!(
        world.revision("desk", &absent).await.unwrap_err().code,
        "agent.revision_not_found"
    );
    for (agent, id, field) in [
        ("De sk", "", "agent"),
        ("desk", "zz", "revision_id"),
        ("a\0", "", "agent"),
    ] {
        let refused = world.revision(agent, id).await.unwrap_err();
        assert_eq!(
            (refused.code.as_ref(), refused.fields[0].0.as_str()),
            ("request.invalid", field)
        );
    }
    for by in ["", "a b", "a\0"] {
        let refused = world.deploy(by, DESK).await.unwrap_err();
        assert_eq!(refused.fields[0].0, "caller.principal");
    }
    let nobody = DeployRequest {
        caller: None,
        bundle: DESK.into(),
    };
    let refused = answer(world.client.deploy(nobody).await).unwrap_err();
    assert_eq!(
        (refused.code.as_ref(), refused.fields[0].0.as_str()),
        ("request.invalid", "caller")
    );
}

/// S6.11: what another namespace has is not found here.
#[tokio::test]
async fn s6_11_namespaces_do_not_see_each_other() {
    let mut world = World::new().await;
    let revision = world.deploy("ann", DESK).await.unwrap().revision.unwrap();
    world
        .store
        .namespaces()
        .ensure(&Namespace::new("other").unwrap())
        .await
        .unwrap();
    let request = GetRevisionRequest {
        namespace: "other".into(),
        agent: "desk".into(),
        revision_id: revision.id,
    };
    assert_eq!(
        answer(world.client.get_revision(request).await)
            .unwrap_err()
            .code,
        "agent.not_found"
    );
}

/// S10.5: a text that is too large, or holds what cannot be stored, is a mistake like any other.
#[tokio::test]
async fn s10_5_odd_and_oversized_texts_are_refused() {
    let mut world = World::new().await;
    let large = format!("{DESK}description: {}\n", "x".repeat(1024 * 1024));
    let cases = [
        (large.as_str(), "bundle.too_large"),
        ("name: desk\ninstructions: \"a\\0b\"\n", "bundle.bad_text"),
        (
            "{\"name\": \"desk\", \"instructions\": \"a\\u0000b\"}",
            "bundle.bad_text",
        ),
        ("", "bundle.wrong_type"),
        ("{", "bundle.syntax"),
    ];
    for (bundle, code) in cases {
        let refused = world.deploy("ann", bundle).await.unwrap_err();
        assert_eq!(
            (
                refused.code.as_ref(),
                refused.metadata["bundle_code"].as_str()
            ),
            ("bundle.invalid", code)
        );
    }
    let refused = world.deploy("ann", "name: desk\0\n").await.unwrap_err();
    assert_eq!(refused.code, "bundle.invalid");
}

/// S5.13, S10.5: while the database cannot be used every question is answered by saying so, never
/// by what was known before.
#[tokio::test]
async fn s5_13_without_the_database_nothing_is_answered() {
    let mut world = World::new().await;
    let revision = world.deploy("ann", DESK).await.unwrap().revision.unwrap();
    world.role("desk", 0).await.unwrap();
    world.store.close().await;
    let refusals = [
        world.role("desk", 0).await.unwrap_err(),
        world.revision("desk", &revision.id).await.unwrap_err(),
        world.deploy("ann", DESK).await.unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!(
            (refused.code.as_ref(), refused.kind),
            ("database.unavailable", Kind::Unavailable)
        );
    }
}

/// S10.5: a database that takes no writes is said to be away, changes nothing, and recovers by
/// itself. What only reads goes on meanwhile.
#[tokio::test]
async fn s10_5_a_deploy_recovers_with_the_database() {
    let mut world = World::new().await;
    let before = world.deploy("ann", DESK).await.unwrap().revision.unwrap();
    let other = rusqlite::Connection::open(world.folder.path().join("sayso.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let changed = DESK.replace("Help.", "Help well.");
    let refused = world.deploy("ann", &changed).await.unwrap_err();
    assert_eq!(
        (refused.code.as_ref(), refused.kind),
        ("database.unavailable", Kind::Unavailable)
    );
    assert_eq!(
        world.revision("desk", "").await.unwrap().revision.unwrap(),
        before
    );
    assert!(world.role("desk", 0).await.unwrap().role_json.is_some());

    other.execute_batch("ROLLBACK").unwrap();
    assert!(world.deploy("ann", &changed).await.unwrap().created);
}
